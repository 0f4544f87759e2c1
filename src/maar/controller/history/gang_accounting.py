"""Accounting of rigid gangs: records in the history when they wait, start, lose their pods and end.

Beside `accounting`, which has the elastic jobs. A gang has a few events in its life, not some for each
pod, and a cycle looks only at gangs that changed. Single pods and pods of other schedulers have no accounts. The GPU
seconds of an event are exact: they count the pods that had a node at each moment.
"""

from __future__ import annotations

import math

import msgspec

from maar.controller.history.accounting import ACCOUNT, accelerator_of
from maar.controller.snapshots.cycle import Cycle
from maar.history.history import History
from maar.history.records import RUNS, Event, EventKind
from maar.kube.kinds.kind import COMPLETED, DELETED, FAILED
from maar.kube.picture.owners import name_and_uid
from maar.kube.picture.picture import Picture
from maar.model.jobs import Job
from maar.model.shapes import ShapeTable
from maar.model.snapshot import Changed
from maar.model.tasks import Status, Task

WAITING = (Status.PENDING, Status.NOMINATED, Status.BLOCKED)
FINISHED = (Status.SUCCEEDED, Status.FAILED)
GONE = (*FINISHED, Status.RELEASING)


class GangLife(msgspec.Struct):
    """One gang, up to now."""

    first: Event
    """That it was submitted: what all its events say about it."""
    owner: tuple[str, str] = ("", "")
    """Name and uid of the object that its owner submitted, if Maar knows the kind."""
    told: int = 0
    """Workers of the last recorded event; 0 if the gang waits."""
    workers: int = 0
    gpus: int = 0
    """Of all its workers; their number if they have none."""
    attained: float = 0.0
    last: float = 0.0
    over: bool = False

    def count(self, until: float) -> None:
        self.attained += self.gpus * max(until - self.last, 0.0)
        self.last = max(self.last, until)


class GangAccounting:
    """Keeps the accounts of all rigid gangs."""

    def __init__(self, picture: Picture, history: History) -> None:
        self._picture = picture
        self._history = history
        self._lives: dict[str, GangLife] = {}
        """By job."""
        self._left: dict[str, GangLife] = {}
        """Gangs without pods or group whose owner's object is still there, by uid."""
        self._elastic: set[str] = set()
        self._evicted: set[str] = set()
        self._begun = False

    def on_cycle(self, cycle: Cycle) -> None:
        """Account for the changes between the last two snapshots."""
        begins = not self._begun
        if begins and self._history.problem:
            return  # The last recorded events are not known yet.
        self._begun = True
        for key, changed in (cycle.everything() if begins else cycle.changed).items():
            if self._is_elastic(key, changed):
                continue
            if changed is not None and not cycle.own.has_job(key):
                self._lives.pop(key, None)  # another shard accounts for it
                continue
            if changed is not None and _is_gang(*changed):
                with self._picture.problems.isolated(ACCOUNT, key):
                    self._see(changed[0], changed[1], cycle)
            elif (life := self._lives.pop(key, None)) is not None and not life.over:
                self._left[life.first.uid] = life
                life.count(cycle.now)
                life.workers = life.gpus = 0
        self._left = {uid: life for uid, life in self._left.items() if not self._is_over_now(life, cycle.now)}
        for evict in cycle.plan.evict:
            if (job := cycle.pods[evict.task].job) in self._lives:
                self._evicted.add(job)

    def _is_elastic(self, key: str, changed: Changed) -> bool:
        """Whether a job has its account elsewhere, also after it was elastic: then its pods may still be there."""
        if changed is None:
            self._elastic.discard(key)
        elif changed[0].elastic is not None or self._picture.elastic_job(key) is not None:
            self._elastic.add(key)
        return key in self._elastic and key not in self._lives

    def _see(self, job: Job, tasks: tuple[Task, ...], cycle: Cycle) -> None:
        now = cycle.now
        life = self._lives.get(job.key)
        if life is not None and life.first.uid != job.uid:
            self._end(life, DELETED, now)
            life = None
        if life is None:
            life = self._left.pop(job.uid) if job.uid in self._left else self._begin(job, tasks)
            self._lives[job.key] = life
        bound = [task for task in tasks if task.status is Status.BOUND]
        if not life.workers and bound and not life.over:
            now = max(min((t.started for t in bound if t.started is not None), default=now), life.last)
        life.count(now)
        life.workers, life.gpus = len(bound), _gpus(bound, cycle.snapshot.shapes)
        if bound:
            self._evicted.discard(job.key)
            if not life.told:
                self._record(life, EventKind.STARTED, now, len(bound))
        elif not tasks or any(task.status in WAITING for task in tasks):
            if life.told:
                was_evicted = job.key in self._evicted
                self._record(life, EventKind.EVICTED if was_evicted else EventKind.STOPPED, now)
            self._evicted.discard(job.key)
        elif all(task.status in FINISHED for task in tasks):
            failed = any(task.status is Status.FAILED for task in tasks)
            self._end(life, FAILED if failed else COMPLETED, now)

    def _begin(self, job: Job, tasks: tuple[Task, ...]) -> GangLife:
        """The account of a gang that this Maar sees for the first time."""
        named = name_and_uid(self._picture.owner_of(job.key))
        namespace, _, name = job.key.partition("/")
        accelerator = accelerator_of(tasks)
        first = Event(namespace, name, EventKind.SUBMITTED, job.created, job.uid, accelerator=accelerator)
        life = GangLife(first, named, last=job.created)
        last = self._history.last(job.key)
        if last is not None and last.uid == job.uid:
            life.told = last.after if last.kind in RUNS else 0
            life.gpus = life.told * last.gpus_per_worker  # until now
            life.workers = life.told
            life.attained, life.last = last.attained or 0.0, last.at
        elif tasks and all(task.status in GONE for task in tasks):
            life.over = True  # It ended before Maar began to record it.
        else:
            self._record(life, EventKind.SUBMITTED, job.created)
        return life

    def _is_over_now(self, life: GangLife, now: float) -> bool:
        over = True
        with self._picture.problems.isolated(ACCOUNT, life.first.job):
            over = self._is_over(life, now)
        return over

    def _is_over(self, life: GangLife, now: float) -> bool:
        """Whether a gang without pods and group has ended. Its owner's object may say it later than its pods."""
        end = self._picture.owners.end_of(life.first.namespace, *life.owner)
        if end is not None:
            self._end(life, end.how, max(life.last, now if end.at is None else end.at))
        elif life.told:
            self._record(life, EventKind.STOPPED, now)
        return end is not None

    def _end(self, life: GangLife, how: str, at: float) -> None:
        if not life.over:
            life.over = True
            self._record(life, EventKind.ENDED, at, how=how)

    def _record(self, life: GangLife, kind: EventKind, at: float, after: int = 0, how: str = "") -> None:
        before, life.told = life.told, after
        if kind is EventKind.STARTED:
            life.over = False
        gpus = max(math.ceil(life.gpus / after), 1) if after else 1
        happened = {"kind": kind, "at": at, "before": before, "after": after, "attained": life.attained, "how": how}
        self._history.record(msgspec.structs.replace(life.first, gpus_per_worker=gpus, **happened))


def _gpus(tasks: list[Task], shapes: ShapeTable) -> int:
    return sum(int(shapes.gpus[shapes.number[task.shape]]) for task in tasks) or len(tasks)


def _is_gang(job: Job, tasks: tuple[Task, ...]) -> bool:
    """Whether a job is a rigid gang of ours: not elastic, not a single pod, not of another scheduler."""
    return job.elastic is None and bool(job.queue) and (job.declared or job.min_member > 1 or len(tasks) > 1)
