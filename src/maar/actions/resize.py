"""resize: decide how many workers each elastic job has, pool by pool.

It runs after allocate, so that gangs that fit get their room before elastic jobs grow, and before preempt and reclaim,
which see the room of shrinking jobs as releasing. Sizes go into the plan as resize, suspend and resume; room for
future workers is kept (`hold`).
"""

from __future__ import annotations

import numpy as np

from maar.config.config import WithoutArguments
from maar.model.jobs import Job, OnHold
from maar.session.resizing.pool_sizes import PoolSizes
from maar.session.resizing.pools import pools_of
from maar.session.resizing.workers import elastic_of, is_ending, set_size
from maar.session.session import Decision, Session

NAME = "resize"


class ResizeAction(WithoutArguments):
    def execute(self, session: Session) -> None:
        for job in session.elastic():
            if session.is_held(job):
                _hold(session, job)
        for pool in pools_of(session):
            PoolSizes(session, pool).run()


def _hold(session: Session, job: Job) -> None:
    """A job that its owner holds is in no pool: it stays suspended, and with `stop` it is suspended now."""
    now = elastic_of(job).now
    stops = job.on_hold is OnHold.STOP and session.can_stop(job) and not is_ending(session, job)
    size = 0 if stops else now
    if size != now:
        with session.statement() as statement:
            set_size(session, job, 0, np.zeros(len(session.snapshot.nodes), dtype=np.bool_))
            statement.commit()
    session.size(job, Decision(size, size, "held by its owner"))
