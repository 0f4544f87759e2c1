"""How long a search may take: the limit holds although a decision cannot be interrupted.

The search asks before each decision. None begins that would end too late if it took as long as the longest one so far.
The caller brings the clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(eq=False, slots=True)
class Patience:
    """Whether there is time for one more decision. Called before each of them."""

    seconds: float
    clock: Callable[[], float]
    longest: float | None = None
    """Seconds of a decision; `None`: the one is made between now and the first call."""
    _ends: float = field(init=False)
    _before: float | None = field(init=False)

    def __post_init__(self) -> None:
        now = self.clock()
        self._ends = now + self.seconds
        self._before = now if self.longest is None else None

    def __call__(self) -> bool:
        now = self.clock()
        if self._before is not None:
            self.longest = max(self.longest or 0.0, now - self._before)
        self._before = now
        return now + (self.longest or 0.0) < self._ends
