"""Durations as people write them in configurations and annotations: `90s`, `1h30m`, `250ms`, `2d`, or plain seconds."""

from __future__ import annotations

import re

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h|d)")


def parse_duration(value: str | int | float) -> float:
    """Seconds. A number without a unit is seconds; negative durations make no sense anywhere and are refused.

    >>> parse_duration("1h30m"), parse_duration("250ms"), parse_duration(5)
    (5400.0, 0.25, 5.0)
    """
    text = str(value).strip()
    try:
        seconds = float(text)
    except ValueError:
        parts = list(_PART.finditer(text))
        if not parts or "".join(p.group(0) for p in parts) != text:
            raise ValueError(f"not a duration: `{value}` (expected e.g. `90s`, `1h30m`)") from None
        seconds = sum(float(p.group(1)) * _UNITS[p.group(2)] for p in parts)
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"not a duration: `{value}` (must not be negative)")
    return seconds
