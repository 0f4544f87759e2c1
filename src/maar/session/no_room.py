"""A cheap proof that a job does not fit now, so that thousands of waiting jobs cost little.

Jobs whose tasks all have one shape share the count of that shape over all nodes: if fewer tasks fit than the job lacks
of its minimum, nothing else has to be asked. Limits, locks and domains can only reduce the room.
"""

from __future__ import annotations

import numpy as np

from maar.model.jobs import Job
from maar.session.gangs import missing
from maar.session.session import Session

OWNER = "room"


def lacks_room(session: Session, job: Job) -> bool:
    """Whether there is certainly too little room to start the job; false if this is not known.

    While pods leave or room is nominated or reserved, this is never known.
    """
    shape = one_shape(session, job)
    if session.state.soft or shape < 0 or job.is_elastic:
        return False
    needs = max(missing(session, job, nominated=False).total, 1)
    return session.capacity.total(shape) < needs


def one_shape(session: Session, job: Job) -> int:
    """The shape of all tasks of the job; -1 if they differ, or if it has none."""
    return session.memo.fixed(OWNER, "shapes", lambda: _shapes(session))[job.index]


def shapes_of_jobs(session: Session) -> list[int]:
    """The same for all jobs."""
    return session.memo.fixed(OWNER, "shapes", lambda: _shapes(session))


def _shapes(session: Session) -> list[int]:
    jobs, shapes = session.snapshot.jobs, session.snapshot.tasks.shape
    found = np.full(len(jobs), -1, dtype=np.int64)
    there = np.flatnonzero(jobs.sizes)
    if len(there):
        starts = (np.cumsum(jobs.sizes) - jobs.sizes)[there]
        least, most = np.minimum.reduceat(shapes, starts), np.maximum.reduceat(shapes, starts)
        found[there] = np.where(least == most, least, -1)
    rows: list[int] = found.tolist()
    return rows
