"""Room for future workers, and room of leaving workers: both are restored at the beginning of a session.

Workers that an earlier plan removed may still exist until their operator deletes them. They count as leaving and their
room as releasing; otherwise the same decision would be made again.

A plan that grows a job names the nodes on which room is reserved. The job object stores this, and the snapshot returns
it. Workers that exist by now are nominated for it, and so are those of a suspended gang for which room is being freed;
the rest stays reserved until its time is over. The job's owner can write the object, so no more is reserved than the
job's largest size and the limits of its queue allow.
"""

from __future__ import annotations

from maar.model.jobs import Job
from maar.model.plan import Reserve
from maar.model.resources import Ints
from maar.model.tasks import Status
from maar.session.reserving import take_up, take_up_reserved
from maar.session.resizing.workers import (
    above,
    beside_of,
    elastic_of,
    have,
    last_change,
    send_away,
    worker_shape,
    workers_of,
)
from maar.session.session import Session

PRESENT = (Status.BOUND, Status.NOMINATED, Status.SUCCEEDED)


def restore_room(session: Session) -> None:
    """Restore in the state the reserved room that the snapshot reports."""
    with session.statement() as statement:
        for job in session.elastic():
            send_away(session, _surplus(session, job))
        for job in session.elastic():
            if elastic_of(job).reserved and not (job.is_suspended and job.is_elastic) and not session.is_held(job):
                _take_up(session, job)
        take_up_reserved(session)
        statement.commit()


def _surplus(session: Session, job: Job) -> Ints:
    """The workers that the job's object no longer asks for: all of them while it is suspended."""
    if elastic_of(job).suspended:
        return session.tasks_of(job, Status.BOUND)
    return above(session, job, elastic_of(job).size)


def _take_up(session: Session, job: Job) -> None:
    elastic = elastic_of(job)
    reserves = [Reserve.at(job.key, place, count) for place, count in elastic.reserved]
    wanted = min(elastic.size, elastic.max) - have(session, job)
    shape, waiting = worker_shape(session, job), workers_of(session, job, Status.PENDING)
    _take(session, job, [reserve for reserve in reserves if not reserve.beside], shape, waiting, wanted)
    there, pending = session.tasks_of(job, *PRESENT), session.tasks_of(job, Status.PENDING)
    for number, beside in enumerate(elastic.shapes_beside, 1):
        room = [reserve for reserve in reserves if reserve.beside == number]
        if room:
            wanted = elastic.beside.count(beside) - len(beside_of(session, job, number, there))
            waiting, shape = beside_of(session, job, number, pending), session.snapshot.shapes.number[beside]
            _take(session, job, room, shape, waiting, wanted)


def _take(session: Session, job: Job, reserves: list[Reserve], shape: int, waiting: Ints, wanted: int) -> None:
    """Take up room for pods of one kind, at most for `wanted` pods."""

    def keeps() -> bool:
        return not job.is_suspended and not _is_over(session, job)

    for reserve in reserves:
        # The object of the job is its owner's: what it says must not exceed what her queue may have.
        count, beside = min(reserve.count, wanted), reserve.beside > 0
        if count > 0:
            waiting, had = take_up(session, job, reserve.node, shape, count, waiting, beside, keeps)
            wanted -= had


def _is_over(session: Session, job: Job) -> bool:
    """Whether the time for its workers to appear is over."""
    last = last_change(session, job)
    ends = None if last is None else last + max((pool.hold for pool in session.config.pools), default=0.0)
    if ends is None or session.now >= ends:
        return True
    session.wake(ends)
    return False
