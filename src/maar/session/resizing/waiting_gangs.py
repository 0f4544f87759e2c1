"""Waiting gangs have priority over the growth of elastic jobs into the same room.

A rigid gang stops the growth of elastic jobs in a pool if its priority is equal or higher, it lacks part of its
minimum, and it would fit the pool's nodes when they are empty. It stops a job that has not started only if it comes
before that job in the job order. A gang that can never fit stops no job, and a gang stops only jobs that can use nodes
on which it may run (node groups). A gang whose queue may have no more stops only
growth in its own queue, since it waits for the room of those jobs.
"""

from __future__ import annotations

import numpy as np

from maar.model.jobs import Job
from maar.model.resources import Mask
from maar.session.eviction.making_room import needs_of
from maar.session.placement import Group, missing
from maar.session.session import Session


class WaitingGangs:
    """The gangs that wait for room on the nodes of a pool. Used while the state does not change."""

    def __init__(self, session: Session, nodes: Mask) -> None:
        self._session = session
        self._nodes = nodes
        self._rigid = session.memo.fixed("waiting_gangs", "rigid", lambda: _rigid(session))
        self._may_have: dict[tuple[int, bytes], bool | None] = {}
        """Gang and nodes of the elastic job, to whether the gang's queue allows the room that it waits for; `None`: it
        does not wait for room here."""

    def ahead_of(self, job: Job) -> Job | None:
        """The first gang that has priority over the growth of an elastic job."""
        ground = self._session.ground_of(job)
        nodes, key = (self._nodes, b"") if ground is None else (self._nodes & ground, ground.tobytes())
        for gang in self._rigid:
            if gang.priority < job.priority:
                continue
            if gang.priority == job.priority and job.elastic and not job.elastic.now and not _comes_first(gang, job):
                continue
            # Computed only for gangs that matter to some job.
            asked = gang.index, key
            if asked not in self._may_have:
                needs = _lacks(self._session, gang, nodes)
                self._may_have[asked] = _allowed(self._session, gang, needs) if needs else None
            may_have = self._may_have[asked]
            if may_have or (may_have is False and gang.queue == job.queue):
                return gang
        return None


def _comes_first(gang: Job, job: Job) -> bool:
    return (gang.created, gang.key) < (job.created, job.key)


def _rigid(session: Session) -> list[Job]:
    """Gangs that wait, including those that rest because nothing changed for them."""
    active = (session.job(i) for i in session.snapshot.jobs.active)
    return [job for job in active if job.elastic is None and session.trouble(job) is None]


def _lacks(session: Session, gang: Job, nodes: Mask) -> list[tuple[Group, int]]:
    """The missing tasks of a gang, if room on these nodes can help; otherwise nothing."""
    if session.is_pending(gang) or not session.state.job_pending[gang.index] or session.hooks.is_valid(gang):
        return []
    if session.hooks.gang is not None and not missing(session, gang)[0]:
        return []
    needs, ground = needs_of(session, gang), session.ground_of(gang)
    for group, count in needs:
        request = session.snapshot.shapes.requests[group.shape]
        dims = np.flatnonzero(request)
        usable = session.view(group.shape).open if ground is None else session.view(group.shape).open & ground
        fits = np.min(session.snapshot.nodes.allocatable[:, dims] // request[dims], axis=1) * usable
        if not (fits * nodes).any() or int(fits.sum()) < count:
            return []
    return needs if could_pay(session, gang, needs) else []


def _allowed(session: Session, gang: Job, needs: list[tuple[Group, int]]) -> bool:
    return all(session.hooks.allowed(gang, group.shape, count) >= count for group, count in needs)


def could_pay(session: Session, gang: Job, needs: list[tuple[Group, int]]) -> bool:
    """Whether the gang's queue could have this much if it had nothing else."""
    state = session.state
    with session.statement():  # not committed
        for q in session.snapshot.queues.path[int(session.snapshot.jobs.queue[gang.index])]:
            state.add(state.queue_allocated, q, -state.queue_allocated[q])
        return _allowed(session, gang, needs)
