"""What a simulated run has learned about how long its jobs take, from jobs that ended earlier in the same run.

As `maar run` learns it from its history. The estimate of a gang stays from its start on; that of an elastic job may
change until it ends.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec.structs import replace

from maar.elastic.speedup import curve
from maar.lengths.left import NO_KIND, left
from maar.lengths.runtimes import RunSample, RunTimes, Traits, WorkOnOne
from maar.lengths.traits import gpus_of, traits_of
from maar.model.elastic import Elastic
from maar.model.jobs import Job
from maar.model.lengths import Estimate
from maar.model.name_stems import stem_of
from maar.model.resources import Floats, Ints
from maar.model.tasks import Task
from maar.sim.trace import TraceJob

LEARN = 3600.0
"""Seconds between two looks at all jobs that wait; new jobs get an estimate at once. Tuned by hand."""


class Lengths:
    """At cluster depth: estimates of gangs, for elections, and with `elastic` also those of elastic jobs."""

    def __init__(self, elastic: bool = False) -> None:
        self._elastic = elastic
        self._run_times = RunTimes()
        self._made: dict[Traits, Estimate | None] = {}
        """Since the last look."""
        self._looked = -math.inf

    def ended(self, job: Job, tasks: tuple[Task, ...], seconds: float) -> None:
        self._run_times.add(RunSample(traits_of(job, tasks), seconds))

    def is_time(self, now: float) -> bool:
        """Whether it is time to look at all jobs again."""
        if now < self._looked + LEARN:
            return False
        self._looked = now
        self._made.clear()
        return True

    def with_estimate(self, job: Job, tasks: tuple[Task, ...]) -> Job:
        """The job with what is known of its length; the same job if nothing has changed."""
        if job.elastic is not None:
            return self._with_length(job, job.elastic) if self._elastic else job
        traits = traits_of(job, tasks)
        if self._made.get(traits) is None:
            self._made[traits] = self._run_times.estimate(traits)
        estimate = self._made[traits]
        return job if estimate == job.estimate else replace(job, estimate=estimate)

    def _with_length(self, job: Job, elastic: Elastic) -> Job:
        traits = traits_of(job, ())
        speeds: list[float] = curve(dict(elastic.speedup)).values(elastic.max).tolist()
        length = self._run_times.estimate(traits, WorkOnOne(tuple(speeds), gpus_of(elastic.shape), elastic.requested))
        known = replace(elastic, length=length, kind=self._run_times.kind(traits))
        return job if known == elastic else replace(job, elastic=known)


class Learnt:
    """The work of jobs at pool depth, in a unit that all jobs share."""

    def __init__(self, jobs: list[TraceJob], work: Floats) -> None:
        """`work` is all the work of each job; it is used only when the job has ended."""
        self._traits = [Traits(stem=stem_of(job.name), gpus=job.gpus) for job in jobs]
        numbers: dict[str, int] = {}
        self._kind: Ints = np.array([numbers.setdefault(t.stem, len(numbers)) for t in self._traits], dtype=np.int64)
        self._work = work
        self._run_times = RunTimes()
        self._made: dict[Traits, Estimate | None] = {}
        """Since the last end of a job."""

    def ended(self, numbers: list[int]) -> None:
        for number in numbers:
            self._run_times.add(RunSample(self._traits[number], float(self._work[number])))
        if numbers:
            self._made.clear()

    def left(self, numbers: Ints, done: Floats) -> Floats:
        """The work left of some jobs, of which so much is done; infinite where nothing is known."""
        found = [self._estimate(self._traits[number]) for number in numbers.tolist()]
        half = np.array([math.inf if e is None else e.half for e in found])
        most = np.array([math.inf if e is None else e.most for e in found])
        tells = bool(self._run_times.kind(Traits()))
        kind = self._kind[numbers] if tells else np.full(len(numbers), NO_KIND)
        return left(done, half, most, kind)

    def _estimate(self, traits: Traits) -> Estimate | None:
        if traits not in self._made:
            self._made[traits] = self._run_times.estimate(traits)
        return self._made[traits]
