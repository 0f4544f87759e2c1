"""Waiting gangs have priority over the growth of elastic jobs into the same room.

A rigid gang stops the growth of elastic jobs in a pool if its priority is equal or higher, it lacks part of its
minimum, and it would fit the pool's nodes when they are empty. It stops a job that has not started only if it comes
before that job in the job order. A gang that can never fit stops no job, and a gang stops only jobs that can use nodes
on which it may run (node groups). A gang whose queue may have no more stops only
growth in its own queue, since it waits for the room of those jobs.
"""

from __future__ import annotations

from maar.model.fitting import Mode
from maar.model.jobs import Job
from maar.model.resources import Mask
from maar.session.eviction.making_room import needs_of
from maar.session.gangs import missing
from maar.session.no_room import one_shape
from maar.session.placement import Group
from maar.session.session import Session


class WaitingGangs:
    """The gangs that wait for room on the nodes of a pool. Used while the state does not change."""

    def __init__(self, session: Session, nodes: Mask) -> None:
        self._session = session
        self._nodes = nodes
        self._rigid = session.memo.fixed("waiting_gangs", "rigid", lambda: _rigid(session))
        self._waits: dict[tuple[int, bytes], bool] = {}
        """Gang and nodes of the elastic job, to whether the gang waits for room there."""
        self._allowed: dict[tuple[int, int, int], bool] = {}
        """Queue, shape and number of tasks, to whether the queue may have them."""
        self._ahead: dict[tuple[int, str, bytes], Job | None] = {}
        """The answer for running jobs, by priority, queue and nodes: it depends on nothing else."""

    def ahead_of(self, job: Job) -> Job | None:
        """The first gang that has priority over the growth of an elastic job."""
        ground = self._session.ground_of(job)
        nodes, key = (self._nodes, b"") if ground is None else (self._nodes & ground, ground.tobytes())
        if job.elastic is None or not job.elastic.now:
            return self._first(job, nodes, key)
        asked = job.priority, job.queue, key
        if asked not in self._ahead:
            self._ahead[asked] = self._first(job, nodes, key)
        return self._ahead[asked]

    def _first(self, job: Job, nodes: Mask, key: bytes) -> Job | None:
        starts = job.elastic is not None and not job.elastic.now
        for gang in self._rigid:
            if gang.priority < job.priority:
                continue
            if starts and gang.priority == job.priority and not _comes_first(gang, job):
                continue
            # Most gangs of another queue are ruled out by the limit of that queue, which is quickly asked.
            if (gang.queue == job.queue or self._may_have(gang)) and self._waits_for(gang, nodes, key):
                return gang
        return None

    def _may_have(self, gang: Job) -> bool:
        """Whether its queue may have what the gang lacks: thousands of gangs wait for the same."""
        state, shape = self._session.state, one_shape(self._session, gang)
        if shape < 0 or gang.subgroups or state.job_ready[gang.index] or state.job_nominated[gang.index]:
            return _allowed(self._session, gang, needs_of(self._session, gang))
        jobs = self._session.snapshot.jobs
        asked = int(jobs.queue[gang.index]), shape, missing(self._session, gang).total
        if asked not in self._allowed:
            self._allowed[asked] = _allowed(self._session, gang, needs_of(self._session, gang))
        return self._allowed[asked]

    def _waits_for(self, gang: Job, nodes: Mask, key: bytes) -> bool:
        asked = gang.index, key
        if asked not in self._waits:
            self._waits[asked] = _waits_for(self._session, gang, nodes)
        return self._waits[asked]


def _comes_first(gang: Job, job: Job) -> bool:
    return (gang.created, gang.key) < (job.created, job.key)


def _rigid(session: Session) -> list[Job]:
    """Gangs that wait, including those that rest because nothing changed for them."""
    active = (session.job(i) for i in session.snapshot.jobs.active)
    return [job for job in active if not job.is_elastic and session.trouble(job) is None]


def _waits_for(session: Session, gang: Job, nodes: Mask) -> bool:
    """Whether a gang lacks tasks of its minimum, and room on these nodes can help."""
    if session.is_pending(gang) or not session.state.job_pending[gang.index] or session.hooks.is_valid(gang):
        return False
    if session.hooks.gang is not None and not missing(session, gang).total:
        return False
    needs, ground = needs_of(session, gang), session.ground_of(gang)
    for group, count in needs:
        fits = session.capacity.fits(group.shape, Mode.EMPTY)
        fits = fits if ground is None else fits * ground
        if not (fits * nodes).any() or int(fits.sum()) < count:
            return False
    return bool(needs) and could_pay(session, gang, needs)


def _allowed(session: Session, gang: Job, needs: list[tuple[Group, int]]) -> bool:
    return all(session.hooks.allowed(gang, group.shape, count) >= count for group, count in needs)


def could_pay(session: Session, gang: Job, needs: list[tuple[Group, int]]) -> bool:
    """Whether the gang's queue could have this much if it had nothing else."""
    with session.statement():  # not committed
        session.state.clear_queue(int(session.snapshot.jobs.queue[gang.index]))
        return _allowed(session, gang, needs)
