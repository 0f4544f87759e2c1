"""Room kept for workers to come, and room that workers leave: taken up again at the beginning of a session.

Workers that an earlier plan sent away may still be there, since their operator takes its time: they are going, and
their room is coming. Else nothing would fit where it was just made to fit, and all would be decided anew.

A plan that lets a job grow names the nodes on which room is kept; that is written on the job and comes back with the
snapshot. Workers that exist by now are promised the room that was kept for them; the rest of it is kept on, until its
time is over.
"""

from __future__ import annotations

import numpy as np

from maar.model.jobs import Job
from maar.model.resources import Ints
from maar.model.tasks import Status
from maar.session.placement import Group
from maar.session.resizing.workers import above, elastic_of, have, last_change, send_away, worker_shape, workers_of
from maar.session.session import Session


def take_up_holds(session: Session) -> None:
    """Promise or keep, in the state, what the snapshot says is kept."""
    with session.statement() as statement:
        for job in session.elastic():
            send_away(session, _surplus(session, job))
        for job in session.elastic():
            if elastic_of(job).holds and not elastic_of(job).suspended:
                _take_up(session, job)
        statement.commit()


def _surplus(session: Session, job: Job) -> Ints:
    """Those of a job that its object does not ask for any more: all of them while it is suspended."""
    if elastic_of(job).suspended:
        return session.tasks_of(job, Status.BOUND)
    return above(session, job, elastic_of(job).size)


def _take_up(session: Session, job: Job) -> None:
    elastic, nodes = elastic_of(job), session.snapshot.nodes
    wanted = elastic.size - have(session, job)
    waiting = workers_of(session, job, Status.PENDING).tolist()
    shape = worker_shape(session, job)
    for name, count in elastic.holds:
        row = nodes.row.get(name)
        if row is None or wanted <= 0:
            continue
        task = waiting[0] if waiting else None
        of = shape if task is None else int(session.snapshot.tasks.shape[task])
        room = min(count, wanted, int(session.view(of, later=True).fits[row]))
        if room <= 0:
            continue
        wanted -= room
        given = min(room, len(waiting))
        rows = np.array([row])
        if given:
            tasks, waiting = waiting[:given], waiting[given:]
            group = Group(int(session.snapshot.jobs.task_role[tasks[0]]), of, np.array(tasks))
            session.state.nominate(job.index, of, group.tasks, rows, np.array([given]))
        if room > given and not _is_over(session, job):
            session.state.hold(job.index, shape, rows, np.array([room - given]))


def _is_over(session: Session, job: Job) -> bool:
    """Whether its workers have had their time to come."""
    last = last_change(session, job)
    ends = None if last is None else last + max((pool.hold for pool in session.config.pools), default=0.0)
    if ends is None or session.now >= ends:
        return True
    session.wake(ends)
    return False
