"""The search for the smallest change that works: the least number, and a set of which no part works.

Whether a change works is asked by a whole decision, so every search asks little: a few numbers are tried one by one,
many by bisection, and sets are halved (QuickXplain, Junker 2004). Bisection assumes that more of a change does not
undo it. That is almost always so. Where it is not, a smaller change may be missed, but what is found works.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TypeVar

import msgspec

from maar.model.jobs import Job
from maar.model.queues import QueueTree
from maar.model.tasks import Task
from maar.whatif.answer import Decided, decided
from maar.whatif.edit import Edit, EditError, Scene
from maar.whatif.edits import applied

MOST_DECISIONS = 400
"""Decisions in one search. Tuned by hand: each kind of change needs between 1 and about 40."""
FEW = 16
"""Numbers that are all tried, the smallest first; more are bisected. Tuned by hand."""
SMALL = 4
"""Sets of up to this many members have all their parts tried: at most 14. Larger ones are tried without each member."""

T = TypeVar("T")


class OutOfBudget(Exception):
    """The search must end."""


class Search:
    """Asks whether edits start a job, and counts the decisions."""

    def __init__(
        self, scene: Scene, now: float, job: str, go_on: Callable[[], bool], before: Decided | None = None
    ) -> None:
        self.scene = scene
        self.cluster = scene.cluster
        self.decisions = 0
        self._now = now
        self._go_on = go_on
        self._known: dict[bytes, bool] = {}
        self._worked: tuple[bytes, Decided] | None = None
        """The plan with the last edits that worked: mostly those that are the answer."""
        self.before = before or self.decide(())
        self.snapshot = self.before.snapshot
        self.queues: QueueTree = self.snapshot.queues
        self.start = self.before.outcome.of(job)
        self.job: Job = next(other for other in scene.cluster.jobs if other.key == job)
        self.tasks: list[Task] = [task for task in scene.cluster.tasks if task.job == job]

    def decide(self, edits: Sequence[Edit]) -> Decided:
        """The plan with these edits."""
        if self._worked is not None and self._worked[0] == msgspec.msgpack.encode(edits):
            return self._worked[1]
        self.decisions += 1
        return decided(applied(self.scene, edits), self._now, reasons=False)

    def works(self, edits: Sequence[Edit]) -> bool:
        """Whether the job starts with these edits."""
        asked = msgspec.msgpack.encode(edits)
        if asked not in self._known:
            if self.decisions >= MOST_DECISIONS or not self._go_on():
                raise OutOfBudget
            self._known[asked] = self._tries(edits, asked)
        return self._known[asked]

    def _tries(self, edits: Sequence[Edit], asked: bytes) -> bool:
        try:
            after = self.decide(edits)
        except EditError:
            return False  # what cannot be done does not help: objects may have values that no edit may set
        works = after.outcome.of(self.job.key).ok
        if works:
            self._worked = (asked, after)
        return works

    def tried(self, edits: list[Edit]) -> list[Edit] | None:
        """The edits, if they work."""
        return edits if self.works(edits) else None

    def least(self, most: int, to: Callable[[int], list[Edit]]) -> list[Edit] | None:
        """The edits of the smallest number from 1 to `most` that work; `None` if those of `most` do not."""
        found = least(most, lambda n: self.works(to(n)))
        return None if found is None else to(found)

    def smallest(self, items: Sequence[T], to: Callable[[Sequence[T]], list[Edit]]) -> list[T] | None:
        """Some of the items whose edits work, and those of no part of them; `None` if those of all do not."""
        return least_set(items, lambda chosen: self.works(to(chosen)))

    def least_set(self, items: Sequence[T], to: Callable[[Sequence[T]], list[Edit]]) -> list[Edit] | None:
        """The edits of these items."""
        found = self.smallest(items, to)
        return None if found is None else to(found)


def least(most: int, works: Callable[[int], bool]) -> int | None:
    """The smallest number from 1 to `most` that works; `None` if `most` does not."""
    if most < 1 or not works(most):
        return None
    if most <= FEW:
        return next((n for n in range(1, most) if works(n)), most)
    high = 1
    while high < most and not works(high):
        high = min(high * 2, most)
    return bisected(high // 2, high, works)


def bisected(low: int, high: int, works: Callable[[int], bool]) -> int:
    """The smallest number above `low`, which does not work, up to `high`, which does."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if works(middle) else (middle, high)
    return high


def least_set(items: Sequence[T], works: Callable[[Sequence[T]], bool]) -> list[T] | None:
    """Some of the items that work together, of which no part works; `None` if all together do not work.

    Earlier items are preferred.
    """
    if not items or not works(items):
        return None
    found = _explained([], False, list(items), works)
    if not works(found):
        found = list(items)
    return _reduced(found, works)


def _explained(kept: list[T], new: bool, items: list[T], works: Callable[[Sequence[T]], bool]) -> list[T]:
    """The items that are needed beside the kept ones."""
    if new and works(kept):
        return []
    if len(items) == 1:
        return items
    half = len(items) // 2
    first, second = items[:half], items[half:]
    of_second = _explained(kept + first, True, second, works)
    of_first = _explained(kept + of_second, bool(of_second), first, works)
    return of_first + of_second


def _reduced(found: list[T], works: Callable[[Sequence[T]], bool]) -> list[T]:
    """The set, or a part of it that works too."""
    while len(found) > SMALL:
        smaller = next((part for i in range(len(found)) if works(part := found[:i] + found[i + 1 :])), None)
        if smaller is None:
            return found
        found = smaller
    for size in range(1, len(found)):
        for some in combinations(found, size):
            if works(list(some)):
                return list(some)
    return found
