"""The search for the smallest change that works: the least number, and a set of which no part works.

Whether a change works is asked by decisions, so every search asks little: a few numbers are tried one by one, many by
bisection, and sets are halved (QuickXplain, Junker 2004). Bisection assumes that more of a change does not undo it.
That is almost always so. Where it is not, a smaller change may be missed, but what is found works.

A decision costs as much as jobs wait. So a change is first tried *alone*: the jobs that wait without it rest, as in the
scheduler, which looks at a waiting job again only when something that could help it has changed. For a change of the
job itself this is the answer. Any other change may help jobs that go before it too. What works alone is then tried by a
whole decision; what does not even work alone is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from maar.model.jobs import Job
from maar.model.queues import QueueTree
from maar.model.snapshot import Changed, Snapshot
from maar.model.tasks import Task
from maar.whatif.answer import Decided, decided, decided_on, started
from maar.whatif.edit import Edit, EditError, Scene
from maar.whatif.edits import applied
from maar.whatif.job_edits import EndJobs, Release, SetMinimum, SetPriority, SetQueue, SetRequest
from maar.whatif.patience import GoOn

MOST_DECISIONS = 400
"""Decisions in one search. Tuned by hand: each kind of change needs between 1 and about 40."""
FEW = 16
"""Numbers that are all tried, the smallest first; more are bisected. Tuned by hand."""
SMALL = 4
"""Sets of up to this many members have all their parts tried: at most 14. Larger ones are tried without each member."""
OF_ONE_JOB = (Release, SetMinimum, SetPriority, SetQueue, SetRequest)

T = TypeVar("T")


class OutOfBudget(Exception):
    """No decision of this kind may begin any more."""


class Search:
    """Asks whether edits start a job, and counts the decisions."""

    def __init__(self, scene: Scene, now: float, job: str, go_on: GoOn, before: Decided | None = None) -> None:
        self.scene = scene
        self.cluster = scene.cluster
        self.decisions = 0 if before else 1
        self._now = now
        self._go_on = go_on
        self._known: dict[tuple[bytes, bool], bool] = {}
        self._worked: tuple[bytes, Decided] | None = None
        """The plan with the last edits that worked: mostly those that are the answer."""
        self.before = before or decided(scene, now)
        self.snapshot = self.before.snapshot
        self.queues: QueueTree = self.snapshot.queues
        self.start = self.before.outcome.of(job)
        self.job: Job = next(other for other in scene.cluster.jobs if other.key == job)
        self.tasks: list[Task] = [task for task in scene.cluster.tasks if task.job == job]
        self.starts = started(self.before)
        """Jobs that start without any change."""
        self._around = replace(scene.cluster, jobs=(), tasks=())
        self._mine = replace(scene, cluster=replace(self._around, jobs=(self.job,), tasks=tuple(self.tasks)))

    def decide(self, edits: Sequence[Edit]) -> Decided:
        """The plan with edits that work, by the decision that has shown it."""
        if self._worked is None or self._worked[0] != msgspec.msgpack.encode(edits):
            self._worked = None
            whole = not self._is_own(edits)
            self.decisions += 1
            return self._decided(edits, whole)
        return self._worked[1]

    def alone(self, edits: Sequence[Edit]) -> bool:
        """Whether the job starts with these edits while all jobs that wait without them rest."""
        return self._asked(edits, whole=False)

    def works(self, edits: Sequence[Edit]) -> bool:
        """Whether the job starts with these edits."""
        return self.alone(edits) and (self._is_own(edits) or self._asked(edits, whole=True))

    def _asked(self, edits: Sequence[Edit], whole: bool) -> bool:
        asked = msgspec.msgpack.encode(edits)
        if (asked, whole) not in self._known:
            if self.decisions >= MOST_DECISIONS or not self._go_on(whole):
                raise OutOfBudget
            self._known[asked, whole] = self._tries(edits, asked, whole)
        return self._known[asked, whole]

    def _tries(self, edits: Sequence[Edit], asked: bytes, whole: bool) -> bool:
        self.decisions += 1
        try:
            after = self._decided(edits, whole)
        except EditError:
            return False  # what cannot be done does not help: objects may have values that no edit may set
        works = after.outcome.of(self.job.key).ok
        if works and (whole or self._is_own(edits)):
            self._worked = (asked, after)
        return works

    def _decided(self, edits: Sequence[Edit], whole: bool) -> Decided:
        scene, snapshot = self._with(edits)
        snapshot.is_read = False
        if not whole:
            jobs = snapshot.jobs
            waiting = ((row, jobs.jobs[row].key) for row in jobs.active)
            snapshot.resting = frozenset(r for r, key in waiting if key != self.job.key and key not in self.starts)
        return decided_on(snapshot, scene, self._now)

    def _with(self, edits: Sequence[Edit]) -> tuple[Scene, Snapshot]:
        """The scene and the snapshot with these edits. If only some jobs change, not all tables are made again."""
        changed: dict[str, Changed] = {}
        if self._is_own(edits):
            after = applied(self._mine, edits).cluster
            changed[self.job.key] = after.jobs[0], after.tasks
        elif all(isinstance(edit, EndJobs) for edit in edits):
            changed.update((key, None) for edit in edits for key in edit.jobs)
        if changed and (snapshot := self.snapshot.after(self._around, changed)) is not None:
            return self.scene, snapshot
        scene = applied(self.scene, edits)
        return scene, Snapshot(scene.cluster)

    def _is_own(self, edits: Sequence[Edit]) -> bool:
        """Whether edits change nothing but the job."""
        return all(isinstance(edit, OF_ONE_JOB) and edit.job == self.job.key for edit in edits)

    def tried(self, edits: list[Edit]) -> list[Edit] | None:
        """The edits, if they work."""
        return edits if self.works(edits) else None

    def least(self, most: int, to: Callable[[int], list[Edit]], alone: int | None = None) -> list[Edit] | None:
        """The edits of the smallest number from 1 to `most` that work; `None` if those of `most` do not.

        `alone`: more is never needed while other jobs rest.
        """
        found = self.lowest(most, to, alone)
        return None if found is None else to(found)

    def lowest(self, most: int, to: Callable[[int], list[Edit]], alone: int | None = None) -> int | None:
        """The number itself. It is at least the one that works alone, which is tried first."""

        def works(n: int) -> bool:
            return self.works(to(n))

        low = least(most if alone is None else min(most, alone), lambda n: self.alone(to(n)))
        if low is None or works(low):
            return low
        if low == most or not works(most):
            return None
        if most <= FEW:
            return next((n for n in range(low + 1, most) if works(n)), most)
        step = 1
        while low + step < most and not works(low + step):
            low, step = low + step, 2 * step
        return bisected(low, min(low + step, most), works)

    def smallest(
        self, items: Sequence[T], to: Callable[[Sequence[T]], list[Edit]], largest: int | None = None
    ) -> list[T] | None:
        """Some of the items whose edits work, and those of no part of them; `None` if those of all do not.

        `largest`: more items are no answer.
        """
        found = least_set(items, lambda chosen: self.alone(to(chosen)))
        if found is None or (largest is not None and len(found) > largest) or self.works(to(found)):
            return found
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
