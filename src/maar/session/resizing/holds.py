"""Room for future workers, and room of leaving workers: both are restored at the beginning of a session.

Workers that an earlier plan removed may still exist until their operator deletes them. They count as leaving and their
room as releasing; otherwise the same decision would be made again.

A plan that grows a job names the nodes on which room is kept. The job object stores this, and the snapshot returns it.
Workers that exist by now get a promise of that room, and so do those of a suspended gang for which room is being freed;
the rest stays kept until its time is over. The job's owner can
write the object, so no more is kept than the job's largest size and the limits of its queue allow.
"""

from __future__ import annotations

import numpy as np

from maar.model.jobs import Job
from maar.model.plan import Hold
from maar.model.resources import Ints
from maar.model.tasks import Status
from maar.session.placement import Group, capped
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


def take_up_holds(session: Session) -> None:
    """Restore in the state the held room that the snapshot reports."""
    with session.statement() as statement:
        for job in session.elastic():
            send_away(session, _surplus(session, job))
        for job in session.elastic():
            if elastic_of(job).holds and not (job.is_suspended and job.is_elastic) and not session.is_held(job):
                _take_up(session, job)
        statement.commit()


def _surplus(session: Session, job: Job) -> Ints:
    """The workers that the job's object no longer asks for: all of them while it is suspended."""
    if elastic_of(job).suspended:
        return session.tasks_of(job, Status.BOUND)
    return above(session, job, elastic_of(job).size)


def _take_up(session: Session, job: Job) -> None:
    elastic = elastic_of(job)
    holds = [Hold.at(job.key, place, count) for place, count in elastic.holds]
    wanted = min(elastic.size, elastic.max) - have(session, job)
    shape, waiting = worker_shape(session, job), workers_of(session, job, Status.PENDING)
    _take(session, job, [hold for hold in holds if not hold.beside], shape, waiting, wanted)
    there, pending = session.tasks_of(job, *PRESENT), session.tasks_of(job, Status.PENDING)
    for number, beside in enumerate(elastic.shapes_beside, 1):
        kept = [hold for hold in holds if hold.beside == number]
        if kept:
            wanted = elastic.beside.count(beside) - len(beside_of(session, job, number, there))
            waiting, shape = beside_of(session, job, number, pending), session.snapshot.shapes.number[beside]
            _take(session, job, kept, shape, waiting, wanted)


def _take(session: Session, job: Job, holds: list[Hold], shape: int, pending: Ints, wanted: int) -> None:
    """Promise room to pods of one kind that exist, and keep the rest; at most for `wanted` pods."""
    nodes, waiting, ground = session.snapshot.nodes, pending.tolist(), session.ground_of(job)
    for hold in holds:
        row = nodes.row.get(hold.node)
        # A node may have changed its group, or the queue its groups, since the room was promised.
        if row is None or wanted <= 0 or (ground is not None and not ground[row]):
            continue
        task = waiting[0] if waiting else None
        wanted_shape = shape if task is None else int(session.snapshot.tasks.shape[task])
        here = session.view(wanted_shape, later=True).fits * (np.arange(len(nodes)) == row)
        here = capped(here, session.shared_rooms(job, wanted_shape))
        room = min(hold.count, wanted, int(here[row]))
        # The object of the job is its owner's: what it says must not exceed what her queue may have.
        room = session.hooks.allowed(job, wanted_shape, room) if room > 0 else 0
        if room <= 0:
            continue
        wanted -= room
        given = min(room, len(waiting))
        rows = np.array([row])
        if given:
            tasks, waiting = waiting[:given], waiting[given:]
            group = Group(int(session.snapshot.jobs.task_role[tasks[0]]), wanted_shape, np.array(tasks))
            session.state.nominate(job.index, wanted_shape, group.tasks, rows, np.array([given]))
        if room > given and not job.is_suspended and not _is_over(session, job):
            session.state.hold(job.index, shape, rows, np.array([room - given]), hold.beside > 0)


def _is_over(session: Session, job: Job) -> bool:
    """Whether the time for its workers to appear is over."""
    last = last_change(session, job)
    ends = None if last is None else last + max((pool.hold for pool in session.config.pools), default=0.0)
    if ends is None or session.now >= ends:
        return True
    session.wake(ends)
    return False
