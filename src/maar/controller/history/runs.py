"""Runs of finished jobs, for forecasts: who ran what for how long. Elastic jobs, gangs and single pods are all in it.

Beside the accounts of jobs, which say what happened to each. A cycle looks only at jobs that changed. After a restart
of Maar the run time so far comes from the pods and the job's object; a job that ends while no Maar runs is not
recorded.
"""

from __future__ import annotations

import msgspec

from maar.controller.history.accounting import ACCOUNT, accelerator_of
from maar.controller.history.knowledge import stated_category
from maar.controller.snapshots.cycle import Cycle
from maar.forecast.arrivals import Asked, asked_by
from maar.forecast.start import StartState, begin
from maar.history.history import History
from maar.history.records import FinishedRun
from maar.kube.kinds.kind import COMPLETED, DELETED, FAILED
from maar.kube.picture.owners import name_and_uid
from maar.kube.picture.picture import Picture
from maar.lengths.runtimes import Traits
from maar.model.jobs import Job
from maar.model.tasks import Status, Task

LONGEST = 4096
"""The most bytes that are kept of what a job asked for. A gang of many different pods is not kept. Tuned by hand."""


class RunLife(msgspec.Struct):
    """One job that has not ended."""

    job: str
    uid: str
    queue: str
    submitted: float
    owner: tuple[str, str] = ("", "")
    """Name and uid of the object that its owner submitted, if Maar knows the kind."""
    accelerator: str = ""
    traits: Traits = Traits()
    asked: Asked | None = None
    started: float | None = None
    seconds: float = 0.0
    """At the requested size, until `last`."""
    last: float = 0.0
    speed: float = 0.0
    """Relative to the requested size; 0 while it waits."""

    def count(self, until: float) -> None:
        self.seconds += self.speed * max(until - self.last, 0.0)
        self.last = max(self.last, until)


class Runs:
    """Records every job that ran when it ends."""

    def __init__(self, picture: Picture, history: History) -> None:
        self._picture = picture
        self._history = history
        self._lives: dict[str, RunLife] = {}
        """By job."""
        self._left: dict[str, RunLife] = {}
        """Jobs without pods or group whose owner's object is still there, by uid."""
        self._begun = False

    def on_cycle(self, cycle: Cycle) -> None:
        """Look at the changes between the last two snapshots."""
        begins, self._begun = not self._begun, True
        for key, changed in (cycle.everything() if begins else cycle.changed).items():
            if changed is not None and not cycle.own.has_job(key):
                self._lives.pop(key, None)  # another shard records it
                continue
            with self._picture.problems.isolated(ACCOUNT, key):
                if changed is not None and is_ours(*changed):
                    self._see(changed[0], changed[1], cycle.now)
                elif (life := self._lives.pop(key, None)) is not None and life.started is not None:
                    life.count(cycle.now)
                    life.speed = 0.0
                    self._left[life.uid] = life
        for uid, life in list(self._left.items()):
            with self._picture.problems.isolated(ACCOUNT, life.job):
                if self._is_over(life, cycle.now):
                    del self._left[uid]

    def _see(self, job: Job, tasks: tuple[Task, ...], now: float) -> None:
        life = self._lives.get(job.key)
        if life is not None and life.uid != job.uid:
            life.count(now)
            self._end(life, DELETED, now)
            life = None
        is_new = life is None
        if life is None:
            life = self._left.pop(job.uid) if job.uid in self._left else self._life(job, tasks)
            self._lives[job.key] = life
        life.queue = job.queue
        found = begin(job, tasks, now, stated_category(self._picture, job.key))
        life.count(now)
        life.speed = 0.0
        if found.state is StartState.OVER:
            began = [task.started for task in tasks if task.started is not None]
            if life.started is None and began and not is_new:  # it started and ended between two cycles
                life.started, life.traits, life.asked = min(began), found.traits, asked_by(job, tasks)
                life.seconds = now - life.started
            failed = any(task.status is Status.FAILED for task in tasks)
            self._end(life, FAILED if failed else COMPLETED, now)
            self._lives[job.key] = self._life(job, tasks)  # its owner may start it again
        elif found.state is StartState.RUNNING:
            bound = [task for task in tasks if task.status is Status.BOUND]
            if life.started is None:
                life.started = min(min((t.started for t in bound if t.started is not None), default=now), now)
                life.seconds, life.last = found.elapsed, now
            if found.traits.gpus >= life.traits.gpus:  # pods that have ended may be deleted
                life.traits, life.asked = found.traits, asked_by(job, tasks)
            life.speed = found.speeds[found.size] / found.reference

    def _life(self, job: Job, tasks: tuple[Task, ...]) -> RunLife:
        named = name_and_uid(self._picture.owner_of(job.key))
        return RunLife(job.key, job.uid, job.queue, job.created, named, accelerator_of(tasks))

    def _is_over(self, life: RunLife, now: float) -> bool:
        """Whether a job without pods and group has ended. Its owner's object may say it later than its pods."""
        end = self._picture.owners.end_of(life.job.partition("/")[0], *life.owner)
        if end is not None:
            self._end(life, end.how, life.last)
        return end is not None

    def _end(self, life: RunLife, how: str, at: float) -> None:
        if life.started is None or life.seconds <= 0.0:
            return
        namespace, _, name = life.job.partition("/")
        traits = life.traits
        self._history.finished(
            FinishedRun(
                namespace,
                name,
                life.uid,
                owner=traits.owner,
                stem=traits.stem,
                queue=life.queue,
                submitted=life.submitted,
                started=life.started,
                ended=max(at, life.started),
                seconds=life.seconds,
                how=how,
                gpus=traits.gpus,
                category=traits.category,
                accelerator=life.accelerator,
                declared=traits.limit,
                asked=_written(life.asked),
            )
        )


def _written(asked: Asked | None) -> str:
    text = "" if asked is None else msgspec.json.encode(asked).decode()
    return text if len(text) <= LONGEST else ""


def is_ours(job: Job, tasks: tuple[Task, ...]) -> bool:
    """Whether a job is scheduled by Maar: not of another scheduler, and not a pod that belongs to its node."""
    return bool(job.queue) and not (tasks and all(task.resident for task in tasks))
