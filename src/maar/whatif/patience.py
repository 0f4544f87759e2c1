"""How long a search may take: the limit holds although a decision cannot be interrupted.

The search asks before each decision. None begins that would end too late if it took as long as the longest one of its
kind so far: decisions about all waiting jobs take much longer than those about one. The caller brings the clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

GoOn = Callable[[bool], bool]
"""Whether there is time for one more decision; it is told whether that is a whole one."""


def always(whole: bool) -> bool:
    """No limit."""
    return True


@dataclass(eq=False, slots=True)
class Patience:
    """Whether there is time for one more decision. Called before each of them."""

    seconds: float
    clock: Callable[[], float]
    longest: float | None = None
    """Seconds of a whole decision; `None`: the one is made between now and the first call."""
    _ends: float = field(init=False)
    _last: tuple[float, bool] | None = field(init=False)
    """When the last decision began, and whether it is a whole one."""
    _longest: dict[bool, float] = field(init=False)

    def __post_init__(self) -> None:
        now = self.clock()
        self._ends = now + self.seconds
        self._last = (now, True) if self.longest is None else None
        self._longest = {True: self.longest or 0.0, False: 0.0}

    def __call__(self, whole: bool = True) -> bool:
        now = self.clock()
        if self._last is not None:
            begun, kind = self._last
            self._longest[kind] = max(self._longest[kind], now - begun)
            self._last = None
        goes_on = now + self._longest[whole] < self._ends
        if goes_on:
            self._last = (now, whole)
        return goes_on
