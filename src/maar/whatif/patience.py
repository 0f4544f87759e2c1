"""How long a search may take: the limit holds although a decision cannot be interrupted.

The search asks before each decision. None begins that would end too late if it took as long as the longest one of the
same effort so far. The caller brings the clock.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field


class Effort(enum.Enum):
    """How many waiting jobs a decision is about."""

    ONE = enum.auto()
    SOME = enum.auto()
    ALL = enum.auto()


GoOn = Callable[[Effort], bool]
"""Whether there is time for one more decision."""
PART = 0.3
"""A first decision about some jobs is expected to take this part of a whole one. Tuned by hand."""
USUAL = 0.5
"""Seconds for a search, if nobody says how many. Tuned by hand."""
OF_DECISION = 0.5
"""The same where decisions take long, as a part of one. Tuned by hand."""


def always(effort: Effort) -> bool:
    """Go on without a limit."""
    return True


def never(effort: Effort) -> bool:
    """Do not search."""
    return False


def usual(decision: float) -> float:
    """Seconds for a search, where a whole decision takes this long."""
    return max(USUAL, OF_DECISION * decision)


@dataclass(eq=False, slots=True)
class Patience:
    """Whether there is time for one more decision. Called before each of them."""

    seconds: float
    clock: Callable[[], float]
    longest: float | None = None
    """Seconds of a whole decision; `None`: the one is made between now and the first call."""
    _ends: float = field(init=False)
    _last: tuple[float, Effort] | None = field(init=False)
    """When the last decision began, and its effort."""
    _longest: dict[Effort, float] = field(init=False)

    def __post_init__(self) -> None:
        now = self.clock()
        self._ends = now + self.seconds
        self._last = (now, Effort.ALL) if self.longest is None else None
        self._longest = {} if self.longest is None else {Effort.ALL: self.longest}

    def __call__(self, effort: Effort = Effort.ALL) -> bool:
        now, known = self.clock(), self._longest
        if self._last is not None:
            begun, last = self._last
            known[last] = max(known.get(last, 0.0), now - begun)
        whole = known.get(Effort.ALL, 0.0)
        unknown = {Effort.ONE: 0.0, Effort.SOME: whole * PART, Effort.ALL: whole}
        goes_on = now + known.get(effort, unknown[effort]) < self._ends
        self._last = (now, effort) if goes_on else None
        return goes_on
