"""Admission accounts: what admitted groups lack, and what jobs have in surplus.

Kept as columns of the session (a row per queue, including its children), so that an undone trial eviction restores
them. Nothing is counted unless a group waits for admission.
"""

from __future__ import annotations

import numpy as np

from maar.model.jobs import Job, Phase
from maar.model.minimum import has_minimum
from maar.model.resources import UNLIMITED, Ints
from maar.model.tasks import Gate, Status
from maar.plugins.support.quotas import may_wait_for, minimum_row, own_of
from maar.plugins.support.shares import Row
from maar.session.journal import Array
from maar.session.register import Register
from maar.session.session import Session
from maar.session.state import queue_sums


def is_asked(session: Session) -> bool:
    """Whether a group with declared needs waits for admission."""
    jobs = session.snapshot.jobs
    return any(jobs.jobs[i].phase is Phase.PENDING and jobs.jobs[i].min_resources for i in jobs.active)


class Admission:
    """Lacked and surplus amounts, by queue."""

    def __init__(self, session: Session, on: Register) -> None:
        size = (len(session.snapshot.queues), len(session.snapshot.axes))
        self._session = session
        self._lacked: Array = np.zeros(size, dtype=object)
        self._surplus: Array = np.zeros(size, dtype=object)
        self._waiting: dict[int, tuple[Ints, Ints]] = {}
        """Admitted jobs that lack something: what they need, and what they lacked when counted."""
        if is_asked(session):
            self._count_surplus()
            for i in session.snapshot.jobs.active:
                job = session.job(i)
                if job.min_resources and job.phase in (Phase.INQUEUE, Phase.RUNNING):
                    self._admit(job, checked=False)
            session.state.listen(self._changed)
            on.job_enqueued(self._admit)

    def lacked(self, queue: int, own: bool = False) -> Row:
        """What admitted groups of a queue (and of queues below it, unless `own`) still lack of their minimum."""
        return self._row(self._lacked, queue, own)

    def surplus(self, queue: int, own: bool = False) -> Row:
        """What the jobs of a queue have above their minimum."""
        return self._row(self._surplus, queue, own)

    def _row(self, column: Array, queue: int, own: bool) -> Row:
        if own:
            return own_of(self._session, column, queue)
        row: Row = column[queue].tolist()
        return row

    def _count_surplus(self) -> None:
        jobs = self._session.snapshot.jobs
        self._minimums: Ints = np.full(jobs.allocated.shape, UNLIMITED, dtype=np.int64)
        for job in jobs.jobs:
            if job.min_resources:
                # A resource that a group does not name has no minimum, so it has no surplus.
                self._minimums[job.index] = self._session.snapshot.axes.row(job.min_resources, missing=UNLIMITED)
        self._surplus += queue_sums(
            self._session.snapshot, np.maximum(self._session.state.job_allocated - self._minimums, 0)
        )

    def _admit(self, job: Job, checked: bool = True) -> None:
        """Count what a group lacks; `checked` if this session admitted it."""
        if not job.min_resources or self._session.snapshot.jobs.refused[job.index]:
            return
        needs = np.array(minimum_row(self._session, job), dtype=np.int64)
        lacks = np.minimum(np.maximum(needs - self._session.state.job_allocated[job.index], 0), self._askable(job))
        if not checked and not may_wait_for(
            self._session,
            job,
            lacks.tolist(),
            self.lacked(int(self._session.snapshot.jobs.queue[job.index]), own=True),
        ):
            return
        if lacks.any():
            self._waiting[job.index] = needs, lacks
            self._add(self._lacked, job.index, lacks)

    def _askable(self, job: Job) -> Ints:
        """What its pods may still request: anything while some are not created, then what the pending pods request.

        So a group with blocked or finished pods keeps no room from others (as in Volcano). Pods with only the gate of
        their queue count as pending.
        """
        snapshot = self._session.snapshot
        if not has_minimum(job, [t for t in snapshot.tasks_of(job.index) if t.status is not Status.FAILED]):
            return np.full(len(snapshot.axes), UNLIMITED, dtype=np.int64)
        waiting = self._session.tasks_of(job, Status.PENDING)
        if snapshot.jobs.blocked[job.index]:
            blocked = self._session.tasks_of(job, Status.BLOCKED)
            waiting = np.concatenate([waiting, blocked[snapshot.tasks.gate[blocked] == Gate.CLOSED]])
        return np.asarray(snapshot.shapes.requests[snapshot.tasks.shape[waiting]].sum(axis=0, dtype=np.int64))

    def _changed(self, job: int, shape: int, rows: Ints, counts: Ints, sign: int) -> None:
        """Update missing and surplus amounts after a job got or lost tasks."""
        after = self._session.state.job_allocated[job]
        before = after - sign * counts.sum() * self._session.snapshot.shapes.requests[shape]
        minimum = self._minimums[job]
        self._add(self._surplus, job, np.maximum(after - minimum, 0) - np.maximum(before - minimum, 0))
        if job in self._waiting:
            needs, lacked = self._waiting[job]
            now, then = (np.minimum(lacked, np.maximum(needs - has, 0)) for has in (after, before))
            self._add(self._lacked, job, now - then)

    def _add(self, column: Array, job: int, amounts: Ints) -> None:
        queue = int(self._session.snapshot.jobs.queue[job])
        if queue >= 0 and amounts.any():
            exact = amounts.astype(object)
            for q in self._session.snapshot.queues.path[queue]:
                self._session.state.add(column, q, exact)
