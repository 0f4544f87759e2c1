"""Accounting of elastic jobs: records what happens to them in the history.

It sees each cycle and each completed write, never what is only planned. It records events and writes nothing else.
Times come from the cluster where possible (the creation of a job, the resize time on its object), so that two
successive Maars record the same event and the store keeps it once. If a Maar is killed before it records an event, the
next one catches up: once the database answers for the first time, it compares the last event of each job with the
job's current state.

These are the elastic jobs and the jobs that Maar starts and suspends; `gang_accounting` has the rigid
gangs, and single pods have no accounts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import msgspec

from maar.controller.snapshots.cycle import Cycle
from maar.controller.writing.resizes import SizeChange
from maar.history.history import History
from maar.history.records import RUNS, Event, EventKind
from maar.kube.picture.elastic_jobs import ElasticJob
from maar.kube.picture.picture import Picture
from maar.kube.read.knowledge import who_is
from maar.kube.write.resize import ChangeJob
from maar.model.elastic import Elastic, Past
from maar.model.jobs import Job
from maar.model.resources import is_accelerator
from maar.model.tasks import Status, Task

ACCOUNT = "account"
"""In the table of problems: a job whose account could not be kept."""


class ElasticLife(msgspec.Struct):
    """One job, up to its last recorded event."""

    first: Event
    """That it was submitted: what all its events say about it."""
    key: str
    """The key of its gang."""
    workers: int = 0
    """0 if it waits."""
    attained: float = 0.0
    """GPU seconds attained until `last`."""
    last: float = 0.0

    def count(self, until: float) -> None:
        self.attained += self.workers * self.first.gpus_per_worker * max(until - self.last, 0.0)
        self.last = max(self.last, until)

    def know(self, past: Past) -> None:
        """Take the value on the job's object, which is exact: it counts running pods."""
        if past.counted is not None and past.counted >= self.last:
            self.attained, self.last = past.attained, past.counted


class Accounting:
    """Keeps the accounts of all elastic jobs."""

    def __init__(self, picture: Picture, history: History, clock: Callable[[], float] = time.time) -> None:
        self._picture = picture
        self._last: Cycle | None = None
        self._history = history
        self._clock = clock
        self._lives: dict[str, ElasticLife] = {}
        """By UID of the job."""
        self._keys: dict[str, str] = {}
        """From the key of a gang to the UID of its job."""
        self._named: dict[str, str] = {}
        """From the name of a job (`namespace/name`) to its UID."""
        self._left: set[str] = set()
        """Jobs that are no longer Maar's and have not ended: their owner suspended them, or removed their bounds."""
        self._begun = False

    # -- observed state

    def on_cycle(self, cycle: Cycle) -> None:
        """Account for the changes between the last two snapshots."""
        begins = not self._begun
        if begins and self._history.problem:
            return  # The last recorded events are not known yet.
        self._begun, self._last = True, cycle
        now, doubtful = cycle.now, self._left
        for key, changed in (cycle.everything() if begins else cycle.changed).items():
            if changed is not None and not cycle.own.has_job(key):
                self._keys.pop(key, None)  # another shard accounts for it
                continue
            with self._picture.problems.isolated(ACCOUNT, key):
                if changed is not None and changed[0].elastic is not None:
                    found = self._picture.elastic_job(key)
                    if found is not None:
                        self._see(found, changed[0], changed[0].elastic, changed[1], now, doubtful)
                elif key in self._keys:
                    doubtful.add(self._keys.pop(key))
        self._left = {uid for uid in doubtful if uid in self._lives and not self._is_over_now(uid, now)}
        if begins:
            self._catch_up(now)

    def _see(
        self, found: ElasticJob, job: Job, elastic: Elastic, tasks: Iterable[Task], now: float, doubtful: set[str]
    ) -> None:
        uid = found.item.metadata.uid
        before = self._keys.get(job.key)
        if before is not None and before != uid:
            doubtful.add(before)
        self._keys[job.key] = uid
        life = self._lives.get(uid)
        running = [t for t in tasks if t.status is Status.BOUND and t.role == elastic.role]
        is_new = life is None
        if life is None:
            life = self._lives[uid] = self._begin(found, job, elastic)
            self._named[life.first.job] = uid
        life.key = job.key
        doubtful.discard(uid)
        if found.identity in self._picture.elastic.assumed:
            return  # A write is in flight: it counts once it is done.
        workers = elastic.now if running or life.workers else 0
        at, resized = now, elastic.past.last_resize
        if resized is not None and life.last < resized <= now:  # a resize that nothing has recorded yet
            at = resized
            life.know(elastic.past)
        if is_new and not life.workers:
            at = min((t.started for t in running if t.started is not None), default=now)
            at = min(
                max(at, elastic.past.counted or at), now
            )  # Earlier seconds are already part of its attained value.
        self._turn(life, workers, at)

    def _begin(self, found: ElasticJob, job: Job, elastic: Elastic) -> ElasticLife:
        """The account of a job that this Maar sees for the first time."""
        assert self._last is not None, "a job is seen in a cycle"
        about, shapes = who_is(found.spec, elastic), self._last.snapshot.shapes
        first = Event(
            about.namespace,
            about.name,
            EventKind.SUBMITTED,
            job.created,
            found.item.metadata.uid,
            about.category,
            about.accelerator,
            gpus_per_worker=max(int(shapes.gpus[shapes.number[elastic.shape]]), 1),
        )
        life, last = ElasticLife(first, job.key), self._history.last(first.job)
        if last is not None and last.uid == first.uid:
            life.workers = last.after if last.kind in RUNS else 0
            life.attained, life.last = last.attained or 0.0, last.at
            return life
        life.last = job.created
        self._record(life, EventKind.SUBMITTED, job.created)
        life.attained = elastic.past.attained
        return life

    def _turn(self, life: ElasticLife, workers: int, at: float) -> None:
        before = life.workers
        if workers == before:
            return
        at = max(at, life.last)
        life.count(at)
        life.workers = workers
        kind = EventKind.STARTED if not before else EventKind.RESIZED if workers else EventKind.SUSPENDED
        self._record(life, kind, at, before=before, after=workers)

    def _is_over_now(self, uid: str, now: float) -> bool:
        over = False
        with self._picture.problems.isolated(ACCOUNT, self._lives[uid].key):
            over = self._is_over(self._lives[uid], now)
        return over

    def _is_over(self, life: ElasticLife, now: float) -> bool:
        """Whether a job that is no longer elastic has ended, or belongs to another gang now."""
        first = life.first
        if self._keys.get(life.key) == first.uid:
            return True
        end = self._picture.owners.end_of(first.namespace, first.name, first.uid)
        if end is None:
            owner = self._picture.owners.job(first.namespace, first.name, first.uid)
            if owner is not None and owner.kind.is_suspended(owner.item):
                self._turn(life, 0, now)
            return False
        at = max(life.last, now if end.at is None else end.at)
        life.count(at)
        self._record(life, EventKind.ENDED, at, before=life.workers, how=end.how)
        del self._lives[first.uid]
        if self._named.get(first.job) == first.uid:
            del self._named[first.job]
        return True

    def _catch_up(self, now: float) -> None:
        """Record the end of jobs that ended while no Maar ran."""
        for last in self._history.unfinished():
            if last.uid not in self._lives and not self._is_there(last):
                with self._picture.problems.isolated(ACCOUNT, last.job):
                    self._catch_up_with(last, now)

    def _catch_up_with(self, last: Event, now: float) -> None:
        end = self._picture.owners.end_of(last.namespace, last.name, last.uid)
        if end is None:
            return
        at = max(last.at, now if end.at is None else end.at)
        workers = last.after if last.kind in RUNS else 0
        self._history.record(
            msgspec.structs.replace(
                last, kind=EventKind.ENDED, at=at, before=workers, after=0, attained=None, how=end.how, id=0
            )
        )

    def _is_there(self, last: Event) -> bool:
        """Whether a rigid gang still exists: then it has not ended, and has its account elsewhere."""
        assert self._last is not None, "a job is looked for in a cycle"
        jobs = self._last.snapshot.jobs
        number = jobs.number.get(last.job)
        return number is not None and jobs.jobs[number].uid == last.uid

    # -- questions

    def nodes_of(self, name: str, workers: int) -> int | None:
        """On how many nodes the workers of a job (`namespace/name`) run, if it has this many; None if not."""
        life = self._lives.get(self._named.get(name, ""))
        if life is None or self._last is None:
            return None
        latest = self._last.snapshot
        number = latest.jobs.number.get(life.key)
        elastic = None if number is None else latest.jobs.jobs[number].elastic
        if number is None or elastic is None:
            return None
        tasks = (latest.tasks.tasks[t] for t in latest.jobs.members[number])
        nodes = [task.node for task in tasks if task.status is Status.BOUND and task.role == elastic.role]
        return len(set(nodes)) if len(nodes) == workers else None

    # -- completed writes

    def wrote(self, found: ElasticJob, change: SizeChange, work: ChangeJob) -> None:
        """A new size or a suspension was written to the job's object."""
        life, past = self._lives.get(found.item.metadata.uid), change.past
        if life is None or not life.workers:
            return  # A job starts when its pods have nodes.
        at = past.last_resize if past.last_resize is not None else self._clock()
        life.know(past)
        self._turn(life, 0 if change.suspended else work.wanted.size, at)

    def given(self, job: str) -> None:
        uid = self._keys.get(job)
        found = self._picture.elastic_job(job) if uid is not None else None
        if uid is None or found is None or uid != found.item.metadata.uid or self._lives[uid].workers:
            return
        if not found.standing.suspended:
            self._turn(self._lives[uid], found.standing.size, self._clock())

    def _record(
        self, life: ElasticLife, kind: EventKind, at: float, before: int = 0, after: int = 0, how: str = ""
    ) -> None:
        happened = {"kind": kind, "at": at, "before": before, "after": after, "attained": life.attained, "how": how}
        self._history.record(msgspec.structs.replace(life.first, **happened))


def accelerator_of(tasks: Iterable[Task]) -> str:
    """The resource of the accelerators that tasks request; the first by name, empty without any."""
    used = {name for task in tasks for name, amount in task.shape.requests if amount and is_accelerator(name)}
    return min(used, default="")
