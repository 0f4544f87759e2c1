"""Positions of values on an axis, its ticks, and durations as text: plain arithmetic, without drawing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))

STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
"""Seconds between ticks: round times."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values from `low` to `high` to positions from `start` to `end`, logarithmically if `log`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The position of a value, clamped to the ends."""
        low, high, at = self.low, self.high, min(max(value, self.low), self.high)
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(at)
        part = (at - low) / (high - low) if high > low else 0.0
        return self.start + part * (self.end - self.start)


def duration(seconds: float) -> str:
    """Seconds in the largest unit of which there is at least one.

    >>> duration(0), duration(45), duration(90), duration(5400), duration(86400 * 2.5), duration(86400 * 120.4)
    ('0', '45 s', '1.5 min', '1.5 h', '2.5 d', '120 d')
    """
    for size, unit in UNITS:
        if abs(seconds) >= size:
            amount = seconds / size
            return f"{amount:,.0f} {unit}" if abs(amount) >= 100 else f"{amount:.3g} {unit}"
    return f"{seconds:.3g} s" if seconds else "0"


def time_ticks(high: float, most: int = 8) -> list[float]:
    """Ticks from 0 to `high`, a round time apart: at most `most` after 0."""
    step = next((float(s) for s in STEPS if high / s <= most), 0.0)
    if not step:
        days = high / 86400 / most
        scale = 10 ** math.floor(math.log10(days))
        step = 86400.0 * next(m * scale for m in (1, 2, 5, 10) if m * scale >= days)
    return [i * step for i in range(int(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Round durations from `low` to `high`, about evenly spaced on a logarithmic axis."""
    candidates = [1.0, 10.0, 60.0, 600.0, 3600.0, 6 * 3600.0, 86400.0]
    candidates += [86400.0 * 10**k for k in range(1, 9)]
    candidates = [10.0**k for k in range(-6, 0)] + candidates
    return [t for t in candidates if low <= t <= high]


def thinned(count: int, most: int) -> Sequence[int]:
    """At most `most` of the numbers below `count`, evenly spaced, including the first and the last."""
    if count <= most:
        return range(count)
    return [i * (count - 1) // (most - 1) for i in range(most)]


def percent(part: float) -> str:
    """A share as text.

    >>> percent(0.123)
    '12 %'
    """
    return f"{100 * part:.0f} %"
