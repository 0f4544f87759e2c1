"""priority: jobs of higher priority go first, and may take room only from lower priorities.

It orders jobs, and the tasks of a job. The job of a victim must have a strictly lower priority than the claimant
(inside one job: the task). Between queues this plugin abstains, and queue shares decide.
"""

from __future__ import annotations

import numpy as np

from maar.config.config import WithoutArguments
from maar.model.jobs import Job
from maar.model.resources import Ints, Mask
from maar.session.hooks import Claim
from maar.session.register import Register
from maar.session.session import Session

NAME = "priority"


class Priority(WithoutArguments):
    def open(self, session: Session, on: Register) -> None:
        self._session = session
        tasks = session.snapshot.tasks
        on.job_order(lambda job: -job.priority, "higher priority")
        on.task_order(lambda chosen: np.asarray(-tasks.priority[chosen]) if tasks.priorities_differ else None)
        on.preemptable(self._victims, alone=True)
        on.job_starving(self._starving)

    def _victims(self, claim: Claim, tasks: Ints) -> Mask:
        """Tasks of jobs with lower priority; inside the same job, tasks of lower priority than the requested task."""
        snapshot = self._session.snapshot
        jobs = snapshot.tasks.job[tasks]
        lower = snapshot.jobs.priority[jobs] < claim.job.priority
        inside = jobs == claim.job.index
        return np.where(inside, snapshot.tasks.priority[tasks] < claim.priority, lower)

    def _starving(self, job: Job) -> bool:
        """Whether a task has neither a node nor nominated room."""
        state, row = self._session.state, job.index
        return state.job_ready.item(row) + state.job_nominated.item(row) < self._session.snapshot.jobs.sizes.item(row)
