"""The search for the smallest change that works: the least number, and a set of which no part works.

Whether a change works is asked by decisions, so every search asks little: a few numbers are tried one by one, many by
bisection, and sets are halved (QuickXplain, Junker 2004). Bisection assumes that more of a change does not undo it.
That is almost always so. Where it is not, a smaller change may be missed, but what is found works.

The more jobs a decision is about, the more it costs. So a change is first tried *alone*: only the job itself is looked
at, on the cluster as it is, or after the plan without the change, where others may leave room. What does not work
even so does not work at all. Then a change of the job itself is tried beside the jobs that start without it. All others
rest, as in the scheduler, which looks at a waiting job again only when something that could help it has changed. Any
other change may help jobs that go before this one too, so it is tried by a whole decision.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import combinations
from typing import Generic, TypeVar

import msgspec
from msgspec.structs import replace

from maar.model.jobs import Job
from maar.model.queues import QueueTree
from maar.model.snapshot import Changed, Cluster, Snapshot
from maar.model.tasks import Status, Task
from maar.whatif.answer import Decided, decided, decided_on, started
from maar.whatif.edit import Edit, EditError, Scene
from maar.whatif.edits import applied
from maar.whatif.job_edits import EndJobs, Release, SetMinimum, SetPriority, SetQueue, SetRequest
from maar.whatif.patience import Effort, GoOn

MOST_DECISIONS = 400
"""Decisions in one search. Tuned by hand: each kind of change needs between 1 and about 40."""
FEW = 16
"""Numbers that are all tried, the smallest first; more are bisected. Tuned by hand."""
SMALL = 4
"""Sets of up to this many members have all their parts tried: at most 14. Larger ones are tried without each member."""
OF_ONE_JOB = (Release, SetMinimum, SetPriority, SetQueue, SetRequest)

T = TypeVar("T")


class Beside(enum.Enum):
    """Which other waiting jobs a decision is about, with its effort."""

    NO_ONE = Effort.ONE, False
    NO_ONE_LATER = Effort.ONE, True
    """No job, on the cluster after the plan without edits."""
    STARTING = Effort.SOME, False
    """The jobs that start without edits."""
    ALL = Effort.ALL, False

    @property
    def effort(self) -> Effort:
        return self.value[0]


class OutOfBudget(Exception):
    """The search may begin no more decisions of this kind."""


class EditSearch:
    """Asks whether edits start a job, and counts the decisions."""

    def __init__(self, scene: Scene, now: float, job: str, go_on: GoOn, before: Decided | None = None) -> None:
        self.scene = scene
        self.cluster = scene.cluster
        self.decisions = 0 if before else 1
        self._now = now
        self._go_on = go_on
        self._known: dict[tuple[bytes, Beside], bool] = {}
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

    @cached_property
    def _later(self) -> Snapshot | None:
        return assumed(self.before, self._around, self._now)

    def decide(self, edits: Sequence[Edit]) -> Decided:
        """The plan with edits that work, by the decision that has shown it."""
        asked = msgspec.msgpack.encode(edits)
        if self._worked is None or self._worked[0] != asked:
            self._known.pop((asked, self._enough(edits)), None)
            assert self.works(edits)
        assert self._worked is not None
        return self._worked[1]

    def alone(self, edits: Sequence[Edit]) -> bool:
        """Whether the job starts with these edits if no other waiting job is looked at."""
        return self._asked(edits, Beside.NO_ONE_LATER) or self._asked(edits, Beside.NO_ONE)

    def works(self, edits: Sequence[Edit]) -> bool:
        """Whether the job starts with these edits."""
        return self.alone(edits) and self._asked(edits, self._enough(edits))

    def _enough(self, edits: Sequence[Edit]) -> Beside:
        """The decision that shows whether edits work."""
        if not self._is_own(edits):
            return Beside.ALL
        return Beside.STARTING if self.starts else Beside.NO_ONE

    def _asked(self, edits: Sequence[Edit], beside: Beside) -> bool:
        if beside is Beside.NO_ONE_LATER and (self._later is None or not _of_jobs(edits)):
            return False
        asked = msgspec.msgpack.encode(edits)
        if (asked, beside) not in self._known:
            if self.decisions >= MOST_DECISIONS or not self._go_on(beside.effort):
                raise OutOfBudget
            self._known[asked, beside] = self._tries(edits, asked, beside)
        return self._known[asked, beside]

    def _tries(self, edits: Sequence[Edit], asked: bytes, beside: Beside) -> bool:
        self.decisions += 1
        try:
            after = self._decided(edits, beside)
        except EditError:
            return False  # what cannot be done does not help: objects may have values that no edit may set
        works = after.outcome.of(self.job.key).ok
        if works and beside is self._enough(edits):
            self._worked = (asked, after)
        return works

    def _decided(self, edits: Sequence[Edit], beside: Beside) -> Decided:
        scene, snapshot = self._with(edits, self._later if beside is Beside.NO_ONE_LATER else self.snapshot)
        snapshot.is_read = False
        if beside is not Beside.ALL:
            jobs, awake = snapshot.jobs, {self.job.key}
            awake |= self.starts if beside is Beside.STARTING else frozenset()
            snapshot.resting = frozenset(row for row in jobs.active if jobs.jobs[row].key not in awake)
        return decided_on(snapshot, scene, self._now)

    def _with(self, edits: Sequence[Edit], base: Snapshot | None) -> tuple[Scene, Snapshot]:
        """The scene and the snapshot with these edits. If only some jobs change, not all tables are made again."""
        changed: dict[str, Changed] = {}
        if self._is_own(edits):
            after = applied(self._mine, edits).cluster
            changed[self.job.key] = after.jobs[0], after.tasks
        elif _of_jobs(edits):
            changed.update((key, None) for edit in edits if isinstance(edit, EndJobs) for key in edit.jobs)
        if (
            changed
            and base is not None
            and (snapshot := base.after(replace(base.cluster, jobs=(), tasks=()), changed)) is not None
        ):
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
        found = least_set(items, lambda chosen: self.alone(to(chosen)), largest)
        if found is None or self.works(to(found)):
            return found
        return least_set(items, lambda chosen: self.works(to(chosen)), largest)

    def least_set(self, items: Sequence[T], to: Callable[[Sequence[T]], list[Edit]]) -> list[Edit] | None:
        """The edits of these items."""
        found = self.smallest(items, to)
        return None if found is None else to(found)


def assumed(of: Decided, around: Cluster, now: float) -> Snapshot | None:
    """The snapshot while a plan is carried out: binds are there, evicted pods leave.

    `None` if it moves no pod, or does more than that.
    """
    plan, snapshot = of.plan, of.snapshot
    if plan.resize or plan.resume or plan.suspend or plan.reserve or plan.admit or plan.ungate:
        return None
    states: dict[str, dict[str, object]] = {e.task: {"status": Status.RELEASING} for e in plan.evict}
    states |= {n.task: {"status": Status.NOMINATED, "node": n.node} for n in plan.nominate}
    states |= {b.task: {"status": Status.BOUND, "node": b.node, "started": now, "chosen": b.chosen} for b in plan.bind}
    if not states:
        return None
    tasks = snapshot.tasks
    changed: dict[str, Changed] = {}
    for row in {int(tasks.job[tasks.number[key]]) for key in states}:
        members = (replace(task, **states.get(task.key, {})) for task in snapshot.tasks_of(row))
        job = snapshot.jobs.jobs[row]
        changed[job.key] = job, tuple(members)
    return snapshot.after(replace(around, elect=plan.elect, locks=plan.locks, facts=plan.facts), changed)


def _of_jobs(edits: Sequence[Edit]) -> bool:
    """Whether edits change or end jobs, and nothing else."""
    return all(isinstance(edit, (*OF_ONE_JOB, EndJobs)) for edit in edits)


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


def least_set(items: Sequence[T], works: Callable[[Sequence[T]], bool], largest: int | None = None) -> list[T] | None:
    """Some of the items that work together, of which no part works; `None` if all together do not work.

    Earlier items are preferred. `None` too if more than `largest` are needed.
    """
    if not items or not works(items):
        return None
    found = _Needed(works, len(items) if largest is None else largest)
    try:
        chosen = found.among([], False, list(items))
    except TooMany:
        return None
    if not works(chosen):
        chosen = list(items)
    chosen = _reduced(chosen, works)
    return chosen if largest is None or len(chosen) <= largest else None


class TooMany(Exception):
    """More items would be needed than are permitted."""


class _Needed(Generic[T]):
    """QuickXplain: the items that are needed; gives up if there are more than `most`."""

    def __init__(self, works: Callable[[Sequence[T]], bool], most: int) -> None:
        self._works = works
        self._left = most

    def among(self, kept: list[T], new: bool, items: list[T]) -> list[T]:
        """The items that are needed beside the kept ones."""
        if new and self._works(kept):
            return []
        if len(items) == 1:
            self._left -= 1
            if self._left < 0:
                raise TooMany
            return items
        half = len(items) // 2
        first, second = items[:half], items[half:]
        of_second = self.among(kept + first, True, second)
        of_first = self.among(kept + of_second, bool(of_second), first)
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
