"""Estimates of run times, from jobs that ended earlier in the same run, as `maar run` has them from the history."""

from __future__ import annotations

import math

from msgspec.structs import replace

from maar.lengths.runtimes import RunTimes, Sample, Traits
from maar.lengths.traits import traits_of
from maar.model.jobs import Estimate, Job
from maar.model.tasks import Task

LEARN = 3600.0
"""Seconds between two looks at all jobs that wait; new jobs get an estimate at once. Tuned by hand."""


class Lengths:
    def __init__(self) -> None:
        self._run_times = RunTimes()
        self._made: dict[Traits, Estimate | None] = {}
        """Since the last look."""
        self._looked = -math.inf

    def ended(self, job: Job, tasks: tuple[Task, ...], seconds: float) -> None:
        self._run_times.add(Sample(traits_of(job, tasks), seconds))

    def is_time(self, now: float) -> bool:
        """Whether it is time to look at all waiting jobs again."""
        if now < self._looked + LEARN:
            return False
        self._looked = now
        self._made.clear()
        return True

    def with_estimate(self, job: Job, tasks: tuple[Task, ...]) -> Job:
        """The job with an estimate, if enough is known; the same job if nothing has changed. None for elastic jobs."""
        if job.elastic is not None:
            return job
        traits = traits_of(job, tasks)
        if self._made.get(traits) is None:
            self._made[traits] = self._run_times.estimate(traits)
        estimate = self._made[traits]
        return job if estimate == job.estimate else replace(job, estimate=estimate)
