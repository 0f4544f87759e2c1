"""Sizes on the fewest nodes: only if the pool's configuration asks for it (`pack`).

A job that gets more workers lies on as few nodes as could hold them, or does not get them. It grows where it is if that
is enough; else it moves as a whole to nodes with room for all its workers, worker 0 too, since the change restarts it
anyway. The pool caps a job that does not fit so, and asks its algorithm again. The minimum of a waiting job may be
spread: a job must not wait because others are badly placed. A job that keeps its size or shrinks does not move.
"""

from __future__ import annotations

import numpy as np

from maar.model.fitting import Mode
from maar.model.jobs import Job
from maar.model.plan import Cause
from maar.model.resources import Ints, Mask
from maar.model.tasks import Status
from maar.session.resizing.workers import elastic_of, reserved_for, set_size, worker_shape, workers_of
from maar.session.session import Session


def set_packed(session: Session, job: Job, size: int, nodes: Mask) -> int:
    """Give a job up to `size` workers, new ones only on the fewest nodes; returns how many it can have."""
    now, least = elastic_of(job).now, elastic_of(job).min
    if size <= now:
        return set_size(session, job, size, nodes)
    whole = _whole_nodes(session, job, nodes)
    moves = bool(now) and _can_move(session, job)
    if _lay(session, job, size, nodes, whole, moves):
        return size
    fits, above = max(least - 1, now), size  # if a size fits, so do smaller ones
    while above - fits > 1:
        middle = (fits + above) // 2
        with session.statement():  # not committed
            good = _lay(session, job, middle, nodes, whole, moves)
        fits, above = (middle, above) if good else (fits, middle)
    if fits >= max(least, now + 1) and _lay(session, job, fits, nodes, whole, moves):
        return fits
    return set_size(session, job, max(least, now), nodes)


def _lay(session: Session, job: Job, size: int, nodes: Mask, whole: Ints, moves: bool) -> bool:
    """Give a job all these workers on the fewest nodes, where it is or elsewhere; or change nothing."""
    fewest = int(np.searchsorted(whole, size)) + 1
    for away in (False, True) if moves else (False,):
        with session.statement() as statement:
            if away:
                _leave(session, job)
            if set_size(session, job, size, nodes) == size and _count_nodes(session, job) <= fewest:
                statement.commit()
                return True
    return False


def _whole_nodes(session: Session, job: Job, nodes: Mask) -> Ints:
    """How many workers the largest node holds if it is empty, the two largest together, and so on."""
    usable = session.open_to(job)
    each = session.capacity.fits(worker_shape(session, job), Mode.EMPTY) * nodes
    each = each if usable is None else each * usable
    return np.cumsum(np.sort(each)[::-1])


def _count_nodes(session: Session, job: Job) -> int:
    """The nodes on which its workers run or have room."""
    rows = session.state.node[workers_of(session, job, Status.BOUND, Status.NOMINATED)]
    kept = [held.rows[held.counts > 0] for held in reserved_for(session, job)]
    return len(np.unique(np.concatenate((rows, *kept))))


def _can_move(session: Session, job: Job) -> bool:
    """Whether all its workers may leave at once: the job can be paused, and nothing protects or places them."""
    tasks = session.snapshot.tasks
    workers = workers_of(session, job, Status.BOUND)
    free = tasks.preemptable[workers].all() and not any(tasks.tasks[t].budgets for t in workers.tolist())
    return bool(free) and elastic_of(job).pausable and job.closeness is None


def _leave(session: Session, job: Job) -> None:
    """Evict its workers: their operator creates them again, and they find their room kept."""
    for task in workers_of(session, job, Status.NOMINATED).tolist():
        session.state.withdraw(task)
    for task in workers_of(session, job, Status.BOUND).tolist():
        session.evict(task, job, f"migrated: `{job.key}` grows, and then runs on fewer nodes", Cause.MIGRATED)
