"""Whether a job starts by a plan: its minimum is bound or nominated afterwards.

A group without pods starts when it is admitted, a suspended elastic job when it is resumed.
"""

from __future__ import annotations

import enum

from maar.config.config import Config
from maar.config.gangs import GANG
from maar.model.jobs import Job, Phase
from maar.model.minimum import has_minimum
from maar.model.plan import Plan
from maar.model.snapshot import Snapshot
from maar.model.tasks import READY, Task


class Start(enum.StrEnum):
    """How far a job is after a plan."""

    WAITS = "waits"
    ADMITTED = "admitted"
    """Its operator may create its pods now."""
    NOMINATED = "nominated"
    """Room for its minimum is being freed."""
    STARTS = "starts"
    RUNS = "runs"
    """Already before the plan."""

    @property
    def ok(self) -> bool:
        return self is not Start.WAITS


class PlanOutcome:
    """How far each job is after a plan."""

    def __init__(self, snapshot: Snapshot, config: Config, plan: Plan) -> None:
        self._snapshot = snapshot
        # Without this plugin jobs have no minimum.
        self._gang = any(option.name == GANG for tier in config.tiers for option in tier)
        self._evicted = {evict.task for evict in plan.evict}
        self._bound = {bind.task for bind in plan.bind}
        self._nominated = {nominate.task for nominate in plan.nominate}
        self._admitted = {admit.job for admit in plan.admit}
        self._suspended = {suspend.job for suspend in plan.suspend}
        self._resumed = {resume.job for resume in plan.resume}
        self._reserved = {reserve.job for reserve in plan.reserve}

    def of(self, key: str) -> Start:
        row = self._snapshot.jobs.number[key]
        job = self._snapshot.jobs.jobs[row]
        if key in self._suspended:
            return Start.WAITS
        if key in self._resumed:
            return Start.STARTS
        if job.is_suspended:
            return Start.NOMINATED if key in self._reserved else Start.WAITS
        tasks = self._snapshot.tasks_of(row)
        return self._with_pods(job, tasks) if tasks else self._without(job)

    def _with_pods(self, job: Job, tasks: list[Task]) -> Start:
        runs = [t for t in tasks if t.status in READY and t.key not in self._evicted]
        starts = runs + [t for t in tasks if t.key in self._bound]
        later = starts + [t for t in tasks if t.key in self._nominated]
        for have, start in ((runs, Start.RUNS), (starts, Start.STARTS), (later, Start.NOMINATED)):
            if self._enough(job, have):
                return start
        return Start.WAITS

    def _without(self, job: Job) -> Start:
        admitted = job.phase is not Phase.PENDING and not job.broken
        return Start.ADMITTED if admitted or job.key in self._admitted else Start.WAITS

    def _enough(self, job: Job, have: list[Task]) -> bool:
        return has_minimum(job, have) if self._gang else bool(have)
