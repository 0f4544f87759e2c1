"""Runs of finished jobs, for forecasts: who ran what for how long. Elastic jobs, gangs and single pods are all in it.

A listener of lives, beside the accounts of jobs, which say what happened to each. After a restart
of Maar the run time so far comes from the pods and the job's object; a job that ends while no Maar runs is not
recorded.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import msgspec

from maar.controller.history.accounting import accelerator_of
from maar.controller.history.knowledge import stated_category
from maar.controller.history.lives import Life, LifeMoment
from maar.forecast.arrivals import Asked, asked_by
from maar.forecast.start import StartState, begin
from maar.history.history import History
from maar.history.records import FinishedRun
from maar.kube.picture.picture import Picture
from maar.lengths.runtimes import Traits
from maar.model.tasks import Status

LONGEST = 4096
"""The most bytes that are kept of what a job asked for. A gang of many different pods is not kept. Tuned by hand."""


class Run(msgspec.Struct):
    """What a job has run since it first started, or since it last ended."""

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
        self._runs: WeakKeyDictionary[Life, Run] = WeakKeyDictionary()

    def on_moment(self, moment: LifeMoment, life: Life, now: float) -> None:
        job, tasks, run = life.job, life.tasks, self._runs.get(life)
        if moment is LifeMoment.ENDED:
            if run is not None:
                self._end(self._runs.pop(life), life, now)
            return
        found = begin(job, tasks, now, stated_category(self._picture, job.key))
        if run is None:
            if life.how or found.state is StartState.OVER:  # it ended before Maar began to record it
                return
            run = self._runs[life] = Run(accelerator_of(tasks))
        run.count(now)
        run.speed = 0.0
        if found.state is not StartState.RUNNING:
            return
        run.speed = found.speeds[found.size] / found.reference
        if run.started is None:
            bound = [task.started for task in tasks if task.status is Status.BOUND and task.started is not None]
            run.started = min((*bound, now))
            run.seconds, run.last = found.elapsed, now
        if found.traits.gpus >= run.traits.gpus:  # pods that have ended may be deleted
            run.traits, run.asked = found.traits, asked_by(job, tasks)

    def _end(self, run: Run, life: Life, now: float) -> None:
        job, tasks = life.job, life.tasks
        began = [task.started for task in tasks if task.started is not None]
        if run.started is None and began:  # it started and ended between two cycles
            category = stated_category(self._picture, job.key)
            run.traits, run.asked = begin(job, tasks, now, category).traits, asked_by(job, tasks)
            run.started, run.last = min(began), now
            run.seconds = now - run.started
        if run.speed:
            run.count(life.since)
        if run.started is None or run.seconds <= 0.0:
            return
        namespace, _, name = job.key.partition("/")
        traits = run.traits
        self._history.finished(
            FinishedRun(
                namespace,
                name,
                job.uid,
                owner=traits.owner,
                stem=traits.stem,
                queue=job.queue,
                submitted=job.created,
                started=run.started,
                ended=max(run.last, run.started),
                seconds=run.seconds,
                how=life.how,
                gpus=traits.gpus,
                category=traits.category,
                accelerator=run.accelerator,
                declared=traits.limit,
                asked=_written(run.asked),
            )
        )


def _written(asked: Asked | None) -> str:
    text = "" if asked is None else msgspec.json.encode(asked).decode()
    return text if len(text) <= LONGEST else ""
