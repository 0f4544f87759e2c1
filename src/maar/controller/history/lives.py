"""Follows the lives of jobs: what happened to each since the last cycle, for accounts, runs and measurements.

Every job of this Maar has a life: elastic jobs, gangs and single pods. Each cycle looks only at jobs that changed; it
sees what is in the cluster, never what is only planned. Completed writes are told at once, because a watch may show
them late. Nothing is stored here, and listeners must not change a life.

    begun ──► started ──► resized ──► evicted, left ──► started ──► ended
                             │                             ▲
                             └──────── again and again ────┘
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable

import msgspec

from maar.controller.snapshots.cycle import Cycle
from maar.controller.writing.resizes import SizeChange
from maar.kube.kinds.kind import COMPLETED, DELETED, FAILED
from maar.kube.picture.elastic_jobs import ElasticJob
from maar.kube.picture.owners import name_and_uid
from maar.kube.picture.picture import Picture
from maar.kube.write.resize import ChangeJob
from maar.model.elastic import Elastic
from maar.model.jobs import Job, Phase
from maar.model.tasks import Status, Task

ACCOUNT = "account"
"""In the table of problems: a job whose life could not be followed."""
WAITING = {Status.PENDING, Status.NOMINATED, Status.BLOCKED}
FINISHED = {Status.SUCCEEDED, Status.FAILED}


class LifeMoment(enum.Enum):
    """What happens to a job."""

    BEGUN = enum.auto()
    """It is seen for the first time."""
    STARTED = enum.auto()
    """It has pods on nodes, at first or again."""
    RESIZED = enum.auto()
    """It has another size, or other pods of it run, perhaps none."""
    EVICTED = enum.auto()
    """It waits again, because Maar evicted it."""
    LEFT = enum.auto()
    """It waits again for another reason, for example because it was suspended."""
    ENDED = enum.auto()


class Life(msgspec.Struct, eq=False, weakref=True):
    """One job, as last seen."""

    job: Job
    tasks: tuple[Task, ...]
    """None once it is gone."""
    owner: tuple[str, str]
    """Name and uid of the object that its owner submitted, if Maar knows the kind."""
    since: float
    """When it last started, stopped, ended or got another size."""
    sized: ElasticJob | None = None
    """If it is elastic, or was."""
    elastic: Elastic | None = None
    workers: int = 0
    """0 if it waits."""
    how: str = ""
    """How it ended; empty while it has not."""
    evicted: bool = False

    @property
    def uid(self) -> str:
        return self.job.uid if self.sized is None else str(self.sized.item.metadata.uid)

    @property
    def bound(self) -> list[Task]:
        """Its workers on nodes."""
        role = None if self.elastic is None else self.elastic.role
        return [t for t in self.tasks if t.status is Status.BOUND and role in (None, t.role)]

    def is_of(self, job: Job, sized: ElasticJob | None) -> bool:
        """Whether a job is this one, or what is left of it, and not a later one with its name."""
        if sized is not None:
            return bool(self.uid == sized.item.metadata.uid)
        return self.job.uid == job.uid or (self.sized is not None and not job.declared)


Listener = Callable[[LifeMoment, Life, float], None]
"""Takes a moment of a life, and the time at which it became known."""


class Lives:
    """Follows all jobs of this Maar."""

    def __init__(self, picture: Picture, clock: Callable[[], float] = time.time) -> None:
        self._picture = picture
        self._clock = clock
        self.listeners: list[Listener] = []
        self.there: dict[str, Life] = {}
        """Jobs in the cluster, by key."""
        self._left: dict[tuple[str, str], Life] = {}
        """Jobs that have gone, or are not elastic any more, and may have ended, by uid and, if rigid, key."""
        self._begun = False

    # -- observed state

    def on_cycle(self, cycle: Cycle) -> None:
        """Follow the changes between the last two snapshots."""
        begins, self._begun = not self._begun, True
        isolated = self._picture.problems.isolated
        seen: list[tuple[Job, tuple[Task, ...], ElasticJob | None]] = []
        for key, changed in (cycle.everything() if begins else cycle.changed).items():
            with isolated(ACCOUNT, key):
                mine = changed is None or cycle.own.has_job(key)
                if changed is None or not mine or not is_ours(*changed):
                    self._leave(key, cycle.now, follow=mine)  # another shard follows its own
                    continue
                job, tasks = changed
                sized = None if job.elastic is None else self._picture.elastic_job(key)
                if key in self.there and not self.there[key].is_of(job, sized):
                    self._leave(key, cycle.now, replaced=sized is None)
                seen.append((job, tasks, sized))
        for job, tasks, sized in seen:
            with isolated(ACCOUNT, job.key):
                self._see(job, tasks, sized, cycle.now)
        for place, life in list(self._left.items()):
            with isolated(ACCOUNT, life.job.key):
                if self._has_ended(life, cycle.now):
                    del self._left[place]
        for evict in cycle.plan.evict:
            if (of := self.there.get(cycle.pods[evict.task].job)) is not None:
                of.evicted = True

    def _see(self, job: Job, tasks: tuple[Task, ...], sized: ElasticJob | None, now: float) -> None:
        left = self._left.pop(_place(job, sized), None)
        life = self.there.get(job.key) or left
        is_new = life is None
        if life is None:
            life = Life(job, tasks, name_and_uid(self._picture.owner_of(job.key)), job.created)
        self.there[job.key] = life
        life.tasks, life.elastic = tasks, job.elastic or life.elastic
        if life.job.uid == job.uid or sized is not None:  # else these pods are left of it
            life.job = job
        if sized is not None:
            life.sized, life.owner = sized, (sized.item.metadata.name, sized.item.metadata.uid)
        if is_new:
            self._tell(LifeMoment.BEGUN, life, now)
        if sized is not None and job.elastic is not None:
            self._see_size(life, sized, job.elastic, now, is_new)
        elif life.sized is None:
            self._see_gang(life, now)
        else:
            if not life.how:
                self._left[_place(life.job, life.sized)] = life
            self._tell(LifeMoment.RESIZED, life, now)

    def _see_size(self, life: Life, sized: ElasticJob, elastic: Elastic, now: float, is_new: bool) -> None:
        at, workers, bound, past = now, life.workers, life.bound, elastic.past
        if sized.identity not in self._picture.elastic.assumed:  # else a write is in flight: it counts once it is done
            workers = elastic.now if bound or workers else 0
        if is_new:
            # Earlier seconds are already part of its attained value.
            at = min(max(_start(bound, now), past.counted or 0.0), now)
        elif past.last_resize is not None and life.since < past.last_resize <= now:
            at = past.last_resize  # nothing has told of this resize yet
        self._turn(life, workers, at, now)

    def _see_gang(self, life: Life, now: float) -> None:
        bound, has = life.bound, {task.status for task in life.tasks}
        is_over = not bound and (life.job.phase is Phase.COMPLETED or bool(has and has <= FINISHED))
        waits = not bound and not is_over and (not has or bool(has & WAITING))
        at = now if life.workers or not bound else max(_start(bound, now), life.since)
        self._turn(life, 0 if waits else len(bound) or life.workers, at, now)
        life.evicted = life.evicted and not bound and not waits
        if is_over:
            self._end(life, FAILED if Status.FAILED in has else COMPLETED, now, now)

    def _leave(self, key: str, now: float, *, replaced: bool = False, follow: bool = True) -> None:
        """A job has gone from the snapshot. Its owner's object may say later than its pods how it ended."""
        if (life := self.there.pop(key, None)) is None:
            return
        life.tasks = ()
        self._tell(LifeMoment.RESIZED, life, now)
        if replaced and life.sized is None:
            self._end(life, DELETED, now, now)
        elif follow and not life.how:
            self._left[_place(life.job, life.sized)] = life

    def _has_ended(self, life: Life, now: float) -> bool:
        """Whether a job that is gone, or not elastic any more, has ended; until then it may be suspended."""
        namespace = life.job.namespace
        end = self._picture.owners.end_of(namespace, *life.owner)
        if end is not None:
            self._end(life, end.how, max(life.since, now if end.at is None else end.at), now)
            return True
        owner = None if life.sized is None else self._picture.owners.job(namespace, *life.owner)
        if life.workers and (life.sized is None or (owner is not None and owner.kind.is_suspended(owner.item))):
            self._turn(life, 0, now, now)
        return False

    # -- completed writes

    def resized(self, found: ElasticJob, change: SizeChange, work: ChangeJob) -> None:
        """A new size or a suspension was written to the job's object."""
        life, now, past = self.there.get(change.job), self._clock(), change.past
        if life is None or life.elastic is None or life.uid != found.item.metadata.uid or not life.workers:
            return  # A job starts when its pods have nodes.
        life.elastic = msgspec.structs.replace(life.elastic, past=past)
        at = past.last_resize if past.last_resize is not None else now
        self._turn(life, 0 if change.suspended else work.wanted.size, at, now)

    def bound(self, key: str) -> None:
        """Pods of a job have nodes."""
        life = self.there.get(key)
        if life is None or life.sized is None or life.workers:
            return
        found, now = self._picture.elastic_job(key), self._clock()
        if found is not None and life.uid == found.item.metadata.uid and not found.standing.suspended:
            self._turn(life, found.standing.size, now, now)

    # -- telling

    def _turn(self, life: Life, workers: int, at: float, now: float) -> None:
        before, life.workers = life.workers, workers
        if bool(workers) != bool(before) or (workers != before and life.sized is not None):
            life.since = max(at, life.since)
        if workers and not before:
            life.how, life.evicted = "", False
            self._tell(LifeMoment.STARTED, life, now)
        elif before and not workers:
            self._tell(LifeMoment.EVICTED if life.evicted else LifeMoment.LEFT, life, now)
        else:
            self._tell(LifeMoment.RESIZED, life, now)

    def _end(self, life: Life, how: str, at: float, now: float) -> None:
        if not life.how:
            life.how, life.workers, life.since = how, 0, at
            self._tell(LifeMoment.ENDED, life, now)

    def _tell(self, moment: LifeMoment, life: Life, now: float) -> None:
        for listener in self.listeners:
            listener(moment, life, now)


def is_ours(job: Job, tasks: tuple[Task, ...]) -> bool:
    """Whether a job is scheduled by Maar: not of another scheduler, and not a pod that belongs to its node."""
    return bool(job.queue) and not (tasks and all(task.resident for task in tasks))


def _place(job: Job, sized: ElasticJob | None) -> tuple[str, str]:
    """What stays the same of a job that is gone and comes back; an elastic job may come back under another key."""
    return (job.uid, job.key) if sized is None else (sized.item.metadata.uid, "")


def _start(bound: list[Task], now: float) -> float:
    return min((task.started for task in bound if task.started is not None), default=now)
