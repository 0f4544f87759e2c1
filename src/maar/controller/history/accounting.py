"""Accounting: records in the history what happens to elastic jobs and gangs, and tells it where their workers run.

A listener of lives. Single pods have no accounts. A job has a few events, not some for each pod.
Times come from the cluster where possible (the creation of a job, the resize time on its object), so that two
successive Maars record the same event and the store keeps it once. If a Maar is killed before it records an event, the
next one catches up: once the database answers for the first time, it compares the last event of each job with the
job's current state.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from weakref import WeakKeyDictionary

import msgspec

from maar.controller.history.lives import ACCOUNT, FINISHED, WAITING, Life, LifeMoment, Lives
from maar.controller.snapshots.cycle import Cycle
from maar.history.history import History
from maar.history.records import RUNS, Event, EventKind
from maar.kube.picture.picture import Picture
from maar.kube.read.knowledge import who_is
from maar.lengths.traits import gpus_of
from maar.model.elastic import Past
from maar.model.resources import is_accelerator
from maar.model.tasks import Status, Task

GONE = {*FINISHED, Status.RELEASING}
STOPS = (LifeMoment.EVICTED, LifeMoment.LEFT)


class JobAccount(msgspec.Struct):
    """One job, up to its last recorded event."""

    first: Event
    """That it was submitted: what all its events say about it."""
    last: float
    """Until when `attained` is counted."""
    workers: int = 0
    """0 if it waits."""
    gpus: int = 0
    """Of all its workers. In a gang without any each worker counts as one."""
    attained: float = 0.0
    """GPU seconds."""
    over: bool = False

    def count(self, until: float) -> None:
        self.attained += self.gpus * max(until - self.last, 0.0)
        self.last = max(self.last, until)

    def know(self, past: Past) -> None:
        """Take the value on the job's object, which is exact: it counts running pods."""
        if past.counted is not None and past.counted >= self.last:
            self.attained, self.last = past.attained, past.counted


class Accounting:
    """Keeps the accounts of all elastic jobs and gangs."""

    def __init__(self, lives: Lives, picture: Picture, history: History) -> None:
        self._lives = lives
        self._picture = picture
        self._history = history
        self._accounts: WeakKeyDictionary[Life, JobAccount] = WeakKeyDictionary()
        self._begun = False

    def on_cycle(self, cycle: Cycle) -> None:
        """Begin, once the last recorded events are known."""
        if self._begun or self._history.problem:
            return
        self._begun = True
        uids = {life.uid for life in self._lives.there.values()}
        for last in self._history.unfinished():  # first, because a later job may have the same name
            if last.uid not in uids and not _is_there(last, cycle):
                with self._picture.problems.isolated(ACCOUNT, last.job):
                    self._catch_up(last, cycle.now)
        for key, life in self._lives.there.items():
            with self._picture.problems.isolated(ACCOUNT, key):
                self.on_moment(LifeMoment.BEGUN, life, cycle.now)

    def _catch_up(self, last: Event, now: float) -> None:
        """Record the end of a job, if it ended while no Maar ran."""
        end = self._picture.owners.end_of(last.namespace, last.name, last.uid)
        if end is not None:
            at = max(last.at, now if end.at is None else end.at)
            before = last.after if last.kind in RUNS else 0
            happened = {"kind": EventKind.ENDED, "at": at, "before": before, "after": 0, "attained": None}
            self._history.record(msgspec.structs.replace(last, **happened, how=end.how, id=0))

    def on_moment(self, moment: LifeMoment, life: Life, now: float) -> None:
        account = self._accounts.get(life)
        if account is None:
            if not self._begun or not _has_account(life):
                return
            account = self._accounts[life] = self._begin(life)
        kind = self._event_of(account, life, moment)
        if kind is not None:
            known = life.workers or life.how or moment in STOPS
            self._record(account, life, kind, life.since if known else _stopped_at(account, life, now))
        elif life.sized is None and account.gpus:
            account.count(now)
        if life.sized is None:
            account.gpus = _gpus(life.bound) if life.workers else 0
        else:
            account.gpus = account.workers * account.first.gpus_per_worker
            self._history.runs_on(account.first.job, [task.node for task in life.bound])

    def _begin(self, life: Life) -> JobAccount:
        """The account of a job that this Maar sees for the first time."""
        job, past = life.job, Past()
        namespace, _, name = job.key.partition("/")
        first = Event(namespace, name, EventKind.SUBMITTED, job.created, life.uid)
        if life.sized is not None and life.elastic is not None:
            about, past, gpus = who_is(life.sized.spec, life.elastic), life.elastic.past, gpus_of(life.elastic.shape)
            of_job = {"name": about.name, "category": about.category, "accelerator": about.accelerator}
            first = msgspec.structs.replace(first, **of_job, gpus_per_worker=max(gpus, 1))
        else:
            first = msgspec.structs.replace(first, accelerator=accelerator_of(life.tasks))
        account, last = JobAccount(first, job.created), self._history.last(first.job)
        if last is not None and last.uid == first.uid:
            account.workers = last.after if last.kind in RUNS else 0
            account.gpus = account.workers * last.gpus_per_worker  # until now
            account.attained, account.last = last.attained or 0.0, last.at
        elif life.sized is None and life.tasks and all(task.status in GONE for task in life.tasks):
            account.over = True  # It ended before Maar began to record it.
        else:
            self._history.record(msgspec.structs.replace(first, attained=0.0))
            account.attained = past.attained
        return account

    def _event_of(self, account: JobAccount, life: Life, moment: LifeMoment) -> EventKind | None:
        """What is to be recorded: how a job differs from its last recorded event."""
        before, after, is_elastic = account.workers, life.workers, life.sized is not None
        if life.how:
            return None if account.over else EventKind.ENDED
        if after and not before:
            return EventKind.STARTED
        if before and not after and (moment in STOPS or self._has_stopped(life)):
            was_evicted = moment is LifeMoment.EVICTED
            return EventKind.SUSPENDED if is_elastic else EventKind.EVICTED if was_evicted else EventKind.STOPPED
        return EventKind.RESIZED if after and after != before and is_elastic else None

    def _has_stopped(self, life: Life) -> bool:
        """Whether a job whose last event says that it runs waits now: it stopped while no Maar ran."""
        if life.elastic is not None:
            return life.elastic.now == 0
        waits = not life.tasks or any(task.status in WAITING for task in life.tasks)
        return waits and self._lives.there.get(life.job.key) is life

    def _record(self, account: JobAccount, life: Life, kind: EventKind, at: float) -> None:
        before, gpus, at = account.workers, account.first.gpus_per_worker, max(at, account.last)
        if life.elastic is not None:
            account.know(life.elastic.past)
        account.count(at)
        account.workers, account.over = life.workers, kind is EventKind.ENDED
        if life.sized is None and life.workers:
            gpus = max(math.ceil(_gpus(life.bound) / life.workers), 1)
        happened = {"kind": kind, "at": at, "before": before, "after": life.workers, "attained": account.attained}
        self._history.record(msgspec.structs.replace(account.first, **happened, gpus_per_worker=gpus, how=life.how))


def _stopped_at(account: JobAccount, life: Life, now: float) -> float:
    resized = None if life.elastic is None else life.elastic.past.last_resize
    return resized if resized is not None and account.last < resized <= now else now


def _has_account(life: Life) -> bool:
    return life.sized is not None or life.job.declared or life.job.min_member > 1 or len(life.tasks) > 1


def _is_there(last: Event, cycle: Cycle) -> bool:
    """Whether a gang still exists: then it has not ended, and perhaps another shard has its account."""
    jobs = cycle.snapshot.jobs
    number = jobs.number.get(last.job)
    return number is not None and jobs.jobs[number].uid == last.uid


def _gpus(tasks: list[Task]) -> int:
    return sum(gpus_of(task.shape) for task in tasks) or len(tasks)


def accelerator_of(tasks: Iterable[Task]) -> str:
    """The resource of the accelerators that tasks request; the first by name, empty without any."""
    used = {name for task in tasks for name, amount in task.shape.requests if amount and is_accelerator(name)}
    return min(used, default="")
