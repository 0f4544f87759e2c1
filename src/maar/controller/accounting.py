"""Accounting: what happened to elastic jobs, told to the history.

Fed with what each cycle saw and with writes that have arrived, never with what is only planned; gives events, and
writes nothing. Times are those of the cluster where it says them (a job's creation, a resize as kept on the job), so
that two Maars one after the other say the same and the store keeps it once. What a Maar that was killed did not get to
say, the next one does: it compares what the history last heard of a job with how the job stands, once the database
has answered for the first time.

Only elastic jobs, and those that Maar starts and pauses, have accounts: pods alone and rigid gangs cost nothing here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import msgspec

from maar.controller.cache import Cache
from maar.controller.loop import Cycle
from maar.controller.resizes import Change
from maar.history.history import History
from maar.history.records import Event, EventKind
from maar.kube.kinds.kind import DELETED, End
from maar.kube.picture.elastic_jobs import ElasticJob
from maar.kube.read.knowledge import who_is
from maar.kube.write.resize import ChangeJob
from maar.model.elastic import Elastic, Past
from maar.model.jobs import Job
from maar.model.snapshot import Changed
from maar.model.tasks import Status, Task

RUNS = (EventKind.STARTED, EventKind.RESIZED)


class Life(msgspec.Struct):
    """One job, as far as it has been told."""

    namespace: str
    name: str
    uid: str
    key: str
    """Of the gang that stands for it."""
    category: str
    accelerator: str
    gpus: int
    workers: int = 0
    """0: it waits."""
    attained: float = 0.0
    """GPU seconds that it had had at `last`."""
    last: float = 0.0

    def count(self, until: float) -> None:
        """Add what it has had since."""
        self.attained += self.workers * self.gpus * max(until - self.last, 0.0)
        self.last = max(self.last, until)

    def know(self, past: Past) -> None:
        """What is kept on the job is exact: it was counted by pods that run."""
        if past.counted is not None and past.counted >= self.last:
            self.attained, self.last = past.attained, past.counted


class Accounting:
    """Keeps the accounts of all elastic jobs."""

    def __init__(self, cache: Cache, history: History, clock: Callable[[], float] = time.time) -> None:
        self._cache = cache
        self._history = history
        self._clock = clock
        self._lives: dict[str, Life] = {}
        """By UID."""
        self._keys: dict[str, str] = {}
        """A gang's key to the UID of its job."""
        self._left: set[str] = set()
        """Jobs that are not ours now and have not ended: their owner has paused them, or taken their bounds away."""
        self._begun = False

    # -- what is seen

    def on_cycle(self, cycle: Cycle) -> None:
        """Take in what has changed between the last two snapshots."""
        begins = not self._begun
        if begins and self._history.problem:
            return  # Nobody knows yet what was told before.
        self._begun = True
        now, doubtful = cycle.now, self._left
        for key, changed in (self._everybody() if begins else self._cache.changed).items():
            if changed is not None and changed[0].elastic is not None:
                found = self._cache.picture.elastic_job(key)
                if found is not None:
                    self._see(found, changed[0], changed[0].elastic, changed[1], now, doubtful)
            elif key in self._keys:
                doubtful.add(self._keys.pop(key))
        self._left = {uid for uid in doubtful if uid in self._lives and not self._is_over(self._lives[uid], now)}
        if begins:
            self._catch_up(now)

    def _everybody(self) -> dict[str, Changed]:
        """All elastic jobs of the last snapshot."""
        jobs, tasks = self._cache.latest.jobs, self._cache.latest.tasks.tasks
        return {jobs.jobs[i].key: (jobs.jobs[i], tuple(tasks[t] for t in jobs.members[i])) for i in jobs.elastic}

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
        life.key = job.key
        doubtful.discard(uid)
        if found.identity in self._cache.picture.elastic.assumed:
            return  # on its way: it counts when it has arrived
        workers = elastic.now if running or life.workers else 0
        at, resized = now, elastic.past.last_resize
        if resized is not None and resized > life.last:  # not told by whoever did it
            at = resized
            life.know(elastic.past)
        if is_new and not life.workers:
            at = min((t.started for t in running if t.started is not None), default=now)
            at = max(at, elastic.past.counted or at)  # what it had before is in what it has attained
        self._turn(life, workers, at)

    def _begin(self, found: ElasticJob, job: Job, elastic: Elastic) -> Life:
        """A job that was not seen before, by this Maar."""
        who, shapes = who_is(found.spec, elastic), self._cache.latest.shapes
        life = Life(
            who.namespace,
            who.name,
            found.item.metadata.uid,
            job.key,
            who.category,
            who.accelerator,
            max(int(shapes.gpus[shapes.number[elastic.shape]]), 1),
        )
        told = self._history.last(f"{who.namespace}/{who.name}")
        if told is not None and told.uid == life.uid:
            life.workers = told.after if told.kind in RUNS else 0
            life.attained, life.last = told.attained or 0.0, told.at
            return life
        life.last = job.created
        self._tell(life, EventKind.SUBMITTED, job.created)
        life.attained = elastic.past.attained
        return life

    def _turn(self, life: Life, workers: int, at: float) -> None:
        """So many workers from then on."""
        before = life.workers
        if workers == before:
            return
        at = max(at, life.last)
        life.count(at)
        life.workers = workers
        kind = EventKind.STARTED if not before else EventKind.RESIZED if workers else EventKind.SUSPENDED
        self._tell(life, kind, at, before=before, after=workers)

    def _is_over(self, life: Life, now: float) -> bool:
        """Whether a job that is not among the elastic ones has ended, or is among them by another gang."""
        if self._keys.get(life.key) == life.uid:
            return True
        owner = self._cache.picture.job(life.namespace, life.name, life.uid)
        end = End(DELETED) if owner is None else owner.kind.end_of(owner.item)
        if end is None:
            if owner is not None and owner.kind.is_suspended(owner.item):
                self._turn(life, 0, now)
            return False
        at = max(life.last, now if end.at is None else end.at)
        life.count(at)
        self._tell(life, EventKind.ENDED, at, before=life.workers, how=end.how)
        del self._lives[life.uid]
        return True

    def _catch_up(self, now: float) -> None:
        """Jobs that have ended while nobody looked."""
        for told in self._history.unfinished():
            if told.uid in self._lives:
                continue
            owner = self._cache.picture.job(told.namespace, told.name, told.uid)
            end = End(DELETED) if owner is None else owner.kind.end_of(owner.item)
            if end is None:
                continue
            at = max(told.at, now if end.at is None else end.at)
            workers = told.after if told.kind in RUNS else 0
            self._history.record(
                msgspec.structs.replace(
                    told, kind=EventKind.ENDED, at=at, before=workers, after=0, attained=None, how=end.how, id=0
                )
            )

    # -- what has arrived

    def wrote(self, found: ElasticJob, change: Change, work: ChangeJob) -> None:
        """A new size, or a suspension, is on the job's object."""
        life, past = self._lives.get(found.item.metadata.uid), change.past
        if life is None or not life.workers:
            return  # one that starts does so when its pods have nodes
        at = past.last_resize if past.last_resize is not None else self._clock()
        life.know(past)
        self._turn(life, 0 if change.suspended else work.wanted.size, at)

    def given(self, job: str) -> None:
        """Pods of a gang have been given their nodes."""
        uid = self._keys.get(job)
        found = self._cache.picture.elastic_job(job) if uid is not None else None
        if uid is None or found is None or uid != found.item.metadata.uid or self._lives[uid].workers:
            return
        if not found.standing.suspended:
            self._turn(self._lives[uid], found.standing.size, self._clock())

    def _tell(self, life: Life, kind: EventKind, at: float, before: int = 0, after: int = 0, how: str = "") -> None:
        self._history.record(
            Event(
                namespace=life.namespace,
                name=life.name,
                kind=kind,
                at=at,
                uid=life.uid,
                category=life.category,
                accelerator=life.accelerator,
                before=before,
                after=after,
                gpus_per_worker=life.gpus,
                attained=life.attained,
                how=how,
            )
        )
