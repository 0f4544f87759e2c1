"""The elastic part of the plan: size changes and room for future workers, read from the session.

The size of a job is the decision of `resize`, reduced by later actions (preempt, reclaim, the release of a partial
gang). Workers leave from the highest index on, so the lowest index that leaves is the new size. If no worker stays, the
job is suspended.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from maar.model.jobs import Job
from maar.model.plan import Cause, Reserve, Resize, Resume, Suspend, Target
from maar.model.resources import Ints
from maar.model.tasks import Status
from maar.session.resizing.elastic_columns import past_after, past_of
from maar.session.resizing.workers import beside_of, coming, elastic_of, have, reserved_for, starts, workers_of
from maar.session.session import Decision, Session
from maar.session.state import ReservedRoom


class Taken(NamedTuple):
    """The size of a job after all actions, and why."""

    size: int
    why: str
    cause: Cause


class SizeChanges:
    """The changes of elastic jobs in one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.resizes: list[Resize] = []
        self.suspends: list[Suspend] = []
        self.resumes: list[Resume] = []
        self.targets: list[Target] = []
        self.changed: set[int] = set()
        """Rows of jobs whose size changes: their workers leave through the resize, not by eviction."""
        self._after: dict[int, int] = {}
        self._limited = {pool.name for pool in session.config.pools if pool.rate_limit}
        """Pools for which it matters when their sizes change."""
        for job in session.elastic():
            self._read(job)

    def _read(self, job: Job) -> None:
        before = elastic_of(job).now
        decided = self._session.sizes.get(job.index)
        size, why, cause = self._taken(job, decided)
        self._after[job.index] = size
        if decided is not None:
            self.targets.append(Target(job.key, size, decided.planned, why, decided.pool))
        elif self._is_own(job) and (job.is_suspended or not job.is_elastic):
            self.targets.append(Target(job.key, size, size, why))
        if size == before:
            return
        self.changed.add(job.index)
        forgive = decided is not None and decided.forgive
        pool = decided.pool if decided is not None and decided.pool in self._limited else ""
        past = past_after(past_of(self._session, job), job.created, self._session.now, before, size, forgive)
        if size == 0:
            self.suspends.append(Suspend(job.key, why, past, cause, pool))
        elif before == 0:
            self.resumes.append(Resume(job.key, size, why, past, pool))
        else:
            self.resizes.append(Resize(job.key, before, size, why, past, cause, pool))

    def _is_own(self, job: Job) -> bool:
        """Whether this shard decides about the job."""
        scope = self._session.snapshot.scope
        return scope is None or bool(scope.jobs[job.index])

    def _taken(self, job: Job, decided: Decision | None) -> Taken:
        elastic = elastic_of(job)
        size, why = (elastic.now, "") if decided is None else (decided.size, decided.why)
        session, table = self._session, self._session.snapshot.tasks
        if starts(session, job):
            return Taken(elastic.size, "there is room for its pods", Cause.RESIZED)
        gone = [
            t
            for t in workers_of(session, job, Status.RELEASING).tolist()
            if t in session.evictions and session.evictions[t].cause is not Cause.MIGRATED
        ]
        gone = [t for t in gone if table.status[t] == Status.BOUND]
        if not gone:
            return Taken(size, why, Cause.RESIZED)
        _, why, cause = session.evictions[gone[0]]
        if len(workers_of(session, job, Status.BOUND, Status.NOMINATED)):
            if not job.is_elastic:
                return Taken(size, "", Cause.RESIZED)  # the pods above its minimum are evicted, and created again
            size = min(size, min(table.tasks[t].index for t in gone))
        elif elastic.pausable:
            size = 0
        return Taken(size, why, cause)

    def reserves(self) -> tuple[Reserve, ...]:
        """Room reserved for pods that do not exist: at most what each job still lacks."""
        session, kept = self._session, list[Reserve]()
        for job in session.elastic():
            unborn = coming(session, job)
            if job.index not in session.state.reserved and not len(unborn):
                continue
            workers = unborn[np.isin(unborn, workers_of(session, job, Status.BOUND, Status.NOMINATED))]
            lacks = len(workers) if len(unborn) else self._after[job.index] - have(session, job)
            kept.extend(self._kept(job, reserved_for(session, job), workers, lacks))
            if job.is_elastic:
                continue
            there, elastic = session.tasks_of(job, Status.BOUND, Status.NOMINATED, Status.SUCCEEDED), elastic_of(job)
            for number, shape in enumerate(elastic.shapes_beside, 1):
                row = session.snapshot.shapes.number[shape]
                parts = [r for r in session.state.reserved.get(job.index, ()) if r.shape == row and r.beside]
                beside = beside_of(session, job, number, unborn)
                lacks = elastic.beside.count(shape) - len(beside_of(session, job, number, there))
                kept.extend(self._kept(job, parts, beside, len(beside) if len(unborn) else lacks, number))
        return tuple(kept)

    def _kept(self, job: Job, of: list[ReservedRoom], unborn: Ints, lacks: int, beside: int = 0) -> Iterator[Reserve]:
        nodes = self._session.snapshot.nodes.names
        room = np.bincount(self._session.state.node[unborn], minlength=len(nodes))
        for part in of:
            np.add.at(room, part.rows, part.counts)
        for row in np.flatnonzero(room > 0).tolist():
            count = min(int(room[row]), lacks)
            if count > 0:
                yield Reserve(job.key, nodes[row], count, beside)
                lacks -= count
