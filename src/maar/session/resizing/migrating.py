"""Moving workers so that jobs use fewer nodes: only if the pool's configuration allows it, and only if it pays.

If sizes are decided and unchanged, `elastic.placement.reshuffle` computes a new layout of all settled elastic jobs of a
pool. Its cost (restarts) is compared with its gain within the horizon: a job on fewer nodes trains a little faster. A
worker moves by eviction; its operator recreates it, and room is kept for it on the new node. Worker 0 never moves, nor
a worker under a disruption budget, nor more workers than a job can spare above its minimum.
"""

from __future__ import annotations

import numpy as np

from maar.elastic.jobs import Jobs
from maar.elastic.placement import reshuffle
from maar.model.jobs import Job
from maar.model.plan import Cause
from maar.model.resources import Floats, Ints
from maar.model.tasks import NO_TASKS, Status
from maar.session.placement import Group, Terms, both, place_tasks
from maar.session.resizing.pools import SharedPool
from maar.session.resizing.workers import NO_ROLE, elastic_of, worker_shape, workers_of
from maar.session.session import Session

NODE_LESS = 0.05
"""The relative speed gain of a job on one node less. Tuned by hand: gradients within a node are nearly free."""

Move = tuple[int, int]
"""A worker, and the row of its new node."""


def migrate(session: Session, pool: SharedPool, table: Jobs, restart: Floats) -> int:
    """Move workers of a pool's jobs, if it pays; returns how many."""
    rows = [row for row, job in enumerate(pool.jobs) if _is_settled(session, job)]
    rows = [row for row in rows if _could_pay(session, pool, table, restart, row)]
    if not rows:
        return 0
    jobs = [pool.jobs[row] for row in rows]
    now = np.array([session.on_nodes(workers_of(session, job, Status.BOUND)) for job in jobs], dtype=np.int64)
    gpus = table.gpus[rows]
    anchors = np.array([session.state.node[workers_of(session, job, Status.BOUND)[0]] for job in jobs])
    then = reshuffle(now, gpus, _room(session, pool, jobs, now, gpus), anchors)
    touched = (now != then).any(axis=1)
    if not touched.any():
        return 0
    size = now.sum(axis=1)
    speed = table.only(rows).speed(size)
    saved = (now > 0).sum(axis=1) - (then > 0).sum(axis=1)
    gain = float((NODE_LESS * speed * saved).sum()) * pool.option.horizon
    cost = float((restart[rows] * size)[touched].sum())
    moves = _moves(session, jobs, now, then)
    if moves is None or gain <= cost:
        return 0
    return len(moves) if _make(session, moves) else 0


def _is_settled(session: Session, job: Job) -> bool:
    """Whether the job has exactly its decided workers, all on nodes, and does not change in this session."""
    elastic, decided = elastic_of(job), session.sizes.get(job.index)
    runs = len(workers_of(session, job, Status.BOUND))
    return decided is not None and decided.size == elastic.now == runs > 0 and job.closeness is None


def _could_pay(session: Session, pool: SharedPool, table: Jobs, restart: Floats, row: int) -> bool:
    """Whether a move could pay for the job itself. What its owner states as its restart must not stop other jobs."""
    workers = len(workers_of(session, pool.jobs[row], Status.BOUND))
    speed = float(table.only([row]).speed(np.array([workers]))[0])
    return NODE_LESS * speed * max(workers - 1, 1) * pool.option.horizon > float(restart[row]) * workers


def _room(session: Session, pool: SharedPool, jobs: list[Job], now: Ints, gpus: Ints) -> Ints:
    """GPUs (or slots) on each node for these workers: those they have, and what is free for any of them."""
    free = np.zeros(len(session.snapshot.nodes), dtype=np.int64)
    for job, each in zip(jobs, gpus.tolist(), strict=True):
        usable = both(pool.nodes, session.open_to(job))
        np.maximum(free, session.capacity.room(job, worker_shape(session, job), within=usable) * each, out=free)
    return np.asarray((now * gpus[:, None]).sum(axis=0) + free)


def _moves(session: Session, jobs: list[Job], now: Ints, then: Ints) -> list[Move] | None:
    """Which workers move where, the highest index on a node first; `None` if worker 0 or too many would move."""
    table = session.snapshot.tasks.tasks
    moves: list[Move] = []
    for i, job in enumerate(jobs):
        leave: list[int] = []
        workers = sorted(workers_of(session, job, Status.BOUND).tolist(), key=lambda t: -table[t].index)
        for row in np.flatnonzero(now[i] > then[i]).tolist():
            here = [t for t in workers if session.state.node[t] == row]
            leave.extend(here[: int(now[i, row] - then[i, row])])
        if any(table[t].index == 0 for t in leave) or len(workers) - len(leave) < elastic_of(job).min:
            return None
        targets = np.repeat(np.arange(now.shape[1]), np.maximum(then[i] - now[i], 0)).tolist()
        moves.extend(zip(leave, targets, strict=True))
    return moves


def _make(session: Session, moves: list[Move]) -> bool:
    with session.statement() as statement:
        for task, _ in moves:
            job = session.job(int(session.snapshot.tasks.job[task]))
            if not session.snapshot.tasks.preemptable[task] or session.snapshot.tasks.tasks[task].budgets:
                return False
            session.evict(task, job, f"migrated: `{job.key}` then runs on fewer nodes", Cause.MIGRATED)
        for task, row in moves:
            job = session.job(int(session.snapshot.tasks.job[task]))
            there = np.arange(len(session.snapshot.nodes)) == row
            terms = Terms(later=True, within=both(there, session.open_to(job)), reserve=True)
            if place_tasks(session, job, Group(NO_ROLE, worker_shape(session, job), NO_TASKS), 1, terms) != 1:
                return False
        statement.commit()
        return True
