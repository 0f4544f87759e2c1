"""Gangs that wait for room which elastic jobs could grow into: they go first.

A rigid gang of equal or higher priority that lacks some of its minimum and would fit the pool's nodes once they are
empty, stops the growth of elastic jobs there; a job that has not started yet it stops only where it comes before it in
the order of jobs. One that could never fit stops nobody, and one whose queue may have no more stops only the growth of
its own queue's jobs, since what these have is what it waits for.
"""

from __future__ import annotations

import numpy as np

from maar.model.jobs import Job
from maar.model.resources import Mask
from maar.session.eviction.making_room import needs_of
from maar.session.placement import Group, missing
from maar.session.session import Session


class WaitingGangs:
    """The gangs that wait for room on the nodes of a pool.

    Made for one question about all jobs of the pool, during which the state does not change.
    """

    def __init__(self, session: Session, nodes: Mask) -> None:
        self._session = session
        self._nodes = nodes
        self._rigid = session.memo.fixed("waiting_gangs", "rigid", lambda: _rigid(session))
        self._may_have: dict[int, bool | None] = {}
        """Gang to whether its queue may have the room that it waits for; None: it waits for none here."""

    def ahead_of(self, job: Job) -> Job | None:
        """The first gang that comes before growth of an elastic job."""
        for gang in self._rigid:
            if gang.priority < job.priority:
                continue
            if gang.priority == job.priority and job.elastic and not job.elastic.now and not _comes_first(gang, job):
                continue
            # Looked for only of gangs that matter to some job.
            if gang.index not in self._may_have:
                needs = _lacks(self._session, gang, self._nodes)
                self._may_have[gang.index] = _allowed(self._session, gang, needs) if needs else None
            may_have = self._may_have[gang.index]
            if may_have or (may_have is False and gang.queue == job.queue):
                return gang
        return None


def _comes_first(gang: Job, job: Job) -> bool:
    return (gang.created, gang.key) < (job.created, job.key)


def _rigid(session: Session) -> list[Job]:
    """Gangs that ask for something; those that rest because nothing has changed for them wait all the same."""
    active = (session.job(i) for i in session.snapshot.jobs.active)
    return [job for job in active if job.elastic is None and session.trouble(job) is None]


def _lacks(session: Session, gang: Job, nodes: Mask) -> list[tuple[Group, int]]:
    """What it lacks, if that is room on those nodes; else nothing."""
    if session.is_pending(gang) or not session.state.job_pending[gang.index] or session.hooks.is_valid(gang):
        return []
    if session.hooks.gang is not None and not missing(session, gang)[0]:
        return []
    needs = needs_of(session, gang)
    for group, count in needs:
        request = session.snapshot.shapes.requests[group.shape]
        dims = np.flatnonzero(request)
        usable = session.view(group.shape).open
        fits = np.min(session.snapshot.nodes.allocatable[:, dims] // request[dims], axis=1) * usable
        if not (fits * nodes).any() or int(fits.sum()) < count:
            return []
    return needs if could_pay(session, gang, needs) else []


def _allowed(session: Session, gang: Job, needs: list[tuple[Group, int]]) -> bool:
    return all(session.hooks.allowed(gang, group.shape, count) >= count for group, count in needs)


def could_pay(session: Session, gang: Job, needs: list[tuple[Group, int]]) -> bool:
    """Whether its queue could have so much if it had nothing else."""
    state = session.state
    with session.statement():  # not committed
        for q in session.snapshot.queues.path[int(session.snapshot.jobs.queue[gang.index])]:
            state.add(state.queue_allocated, q, -state.queue_allocated[q])
        return _allowed(session, gang, needs)
