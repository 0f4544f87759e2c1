"""sla: a job waits at most a stated time before it is admitted.

The time is that of the job (`sla-waiting-time` on its group) or of the configuration. Jobs are ordered by deadline.
After the deadline the job is admitted whatever later tiers vote, and the pods it has are enough to justify evictions.
With `tenants: untrusted`, the time of a job counts only while its queue has less than it deserves.
"""

from __future__ import annotations

import math

import msgspec

from maar.config.config import OpenArguments
from maar.model.durations import duration
from maar.model.jobs import Job
from maar.model.minimum import has_minimum
from maar.model.tasks import READY
from maar.session.eviction.protection import has_all_it_deserves
from maar.session.hooks import Vote
from maar.session.register import Register
from maar.session.session import Session

NAME = "sla"
ARGUMENT = "sla-waiting-time"


class Arguments(OpenArguments, frozen=True, forbid_unknown_fields=True):
    """`sla-waiting-time`: a duration such as `1h30m`, here in seconds. Without it only the times of jobs count."""

    waiting_time: float | None = msgspec.field(name=ARGUMENT, default=None)

    @classmethod
    def normalise(cls, raw: dict[str, object]) -> dict[str, object]:
        text = raw.get(ARGUMENT)
        if text is None:
            return raw
        try:
            seconds = duration(text.strip()) if isinstance(text, str) else 0.0
        except ValueError:
            seconds = 0.0
        if seconds <= 0:
            raise ValueError(f"{ARGUMENT}: expected a duration such as `1h30m`, got `{text}`")
        return {**raw, ARGUMENT: seconds}


class Sla:
    def __init__(self, arguments: Arguments) -> None:
        self._default = arguments.waiting_time

    def open(self, session: Session, on: Register) -> None:
        """Register the hooks, and wake at the next deadline."""
        self._session = session
        on.job_order(self._believed, "its waiting time ends first")
        on.job_enqueueable(self._vote)
        on.job_nominated(self._vote)
        waiting = (session.job(i) for i in session.snapshot.jobs.active)
        ahead = [at for job in waiting if session.now < (at := self._deadline(job)) < math.inf and self._lacks(job)]
        if ahead:
            session.wake(min(ahead))

    def _lacks(self, job: Job) -> bool:
        """Whether the job has not started: a deadline does not matter to running jobs."""
        tables = self._session.snapshot
        ready = [t for t in tables.tasks_of(job.index) if t.status in READY]
        return self._session.is_pending(job) or not has_minimum(job, ready)

    def _deadline(self, job: Job) -> float:
        wait = job.sla if job.sla is not None else self._default
        return math.inf if wait is None else job.created + wait

    def _believed(self, job: Job) -> float:
        """The deadline; with `tenants: untrusted`, a queue that has its share only has the configured one."""
        if job.sla is not None and has_all_it_deserves(
            self._session, int(self._session.snapshot.jobs.queue[job.index])
        ):
            return math.inf if self._default is None else job.created + self._default
        return self._deadline(job)

    def _vote(self, job: Job) -> Vote:
        return Vote.PERMIT if self._session.now >= self._believed(job) else Vote.ABSTAIN
