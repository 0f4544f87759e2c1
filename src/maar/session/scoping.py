"""What the scope of a shard changes in a session: nodes kept for earlier jobs, own nodes first, evictions for others.

Jobs outside of the scope are not active (`Session.active`). Nothing here is called without a scope.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

import numpy as np

from maar.model.codes import GANG_WAITS
from maar.model.jobs import Job
from maar.model.plan import Evict
from maar.model.reasons import Refusal
from maar.model.resources import Floats
from maar.model.scope import Scope, place_of
from maar.model.tasks import Status
from maar.session.eviction.departures import unit_for
from maar.session.eviction.units import Unit
from maar.session.eviction.victims import CandidateBook
from maar.session.gangs import missing
from maar.session.hooks import Claim
from maar.session.register import Register
from maar.session.session import Session

NAME = "shards"

KEPT = "kept for jobs that come first"
OWN_FIRST = 1e6
"""Subtracted from the score of nodes of other shards: more than all plugins add, less than `placement.PREFERRED`."""


def confine(session: Session) -> None:
    """Register what the scope of the snapshot means for nodes. Plugins register later."""
    scope = session.snapshot.scope
    if scope is not None:
        borders = _Borders(session, scope)
        on = Register(session.hooks, NAME, 0, {})
        on.job_nodes(borders.closed_to, fixed=True)
        on.job_nodes(borders.kept_for_own)
        on.job_score(borders.score)


class _Borders:
    """The nodes of other shards, and nodes kept for jobs of other shards, as the jobs of a scope see them."""

    def __init__(self, session: Session, scope: Scope) -> None:
        self._session = session
        self._scope = scope
        others = [kept for kept in scope.kept if kept.own is None]
        self._places = [kept.place for kept in others]
        masks = list(accumulate((kept.nodes for kept in others), np.logical_or))
        self._kept = [Refusal(NAME, GANG_WAITS, KEPT, mask) for mask in masks]
        self._own = [(kept, session.job(kept.own)) for kept in scope.kept if kept.own is not None]
        self._score: Floats | None = np.where(scope.foreign, -OWN_FIRST, 0.0) if scope.foreign.any() else None

    def closed_to(self, job: Job) -> Refusal | None:
        """The nodes that are kept for jobs of others before this one; for some jobs all nodes of other shards."""
        if not self._scope.jobs[job.index]:
            return None
        before = bisect_left(self._places, place_of(job))
        kept = self._kept[before - 1] if before else None
        if job.index not in self._scope.confined:
            return kept
        foreign = self._scope.foreign if kept is None else self._scope.foreign | kept.nodes
        return Refusal(NAME, GANG_WAITS, "of other shards, which could not lend them in time", foreign)

    def kept_for_own(self, job: Job) -> Refusal | None:
        """The nodes that are kept for own jobs before this one, as long as those lack a part of their minimum."""
        if not self._own:
            return None
        place = place_of(job)
        masks = [kept.nodes for kept, first in self._own if kept.place < place and missing(self._session, first).total]
        return Refusal(NAME, GANG_WAITS, KEPT, np.logical_or.reduce(masks)) if masks else None

    def score(self, job: Job) -> Floats | None:
        return self._score if self._scope.jobs[job.index] else None


def grant(session: Session) -> None:
    """Evict what other shards ask for, job by job, as far as all plugins agree to it now."""
    scope = session.snapshot.scope
    for evictions in () if scope is None else scope.asked:
        row = session.snapshot.jobs.number.get(evictions[0].beneficiary)
        if row is not None:
            with session.statement() as statement:
                if _grant(session, session.job(row), evictions):
                    statement.commit()


def _grant(session: Session, job: Job, evictions: tuple[Evict, ...]) -> bool:
    """Evict the tasks, each job whole or above its minimum; False if a plugin refuses, or a task has left meanwhile."""
    tasks = session.snapshot.tasks
    by_job: dict[int, list[int]] = {}
    why = {tasks.number[e.task]: e for e in evictions if e.task in tasks.number}
    for task in why:
        if session.state.status[task] != Status.BOUND:
            return False
        by_job.setdefault(int(tasks.job[task]), []).append(task)
    waiting = session.tasks_of(job, Status.PENDING, Status.NOMINATED)
    if not len(waiting) or not by_job:
        return False
    shape = int(tasks.shape[waiting[0]])
    for row, leaving in by_job.items():
        victim = session.job(row)
        whole = len(leaving) == len(session.tasks_of(victim, Status.BOUND))
        if set(unit_for(session, leaving)) != set(leaving) or (victim.subgroups and not whole):
            return False
        claim = Claim(job, shape, across_queues=job.queue != victim.queue, priority=job.priority)
        if not CandidateBook(session).others(claim).agreed(Unit(row, tuple(sorted(leaving)), whole)):
            return False
        for task in sorted(leaving):
            session.evict(task, job, why[task].reason, why[task].cause)
    return True
