"""Departures: which tasks must leave together, if a plugin wants some of them to leave without a beneficiary.

A gang leaves whole, or keeps its minimum and the minimums of its roles. An elastic job shrinks: its workers leave from
the highest index on. Nothing leaves if one of these tasks is protected, or has only been placed in this cycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from maar.model.jobs import Job
from maar.model.tasks import Status
from maar.session.eviction.protection import unprotected
from maar.session.resizing.workers import workers_of
from maar.session.session import Session

BOUND = int(Status.BOUND)


def unit_for(session: Session, tasks: Sequence[int]) -> tuple[int, ...]:
    """The fewest running tasks that leave with these tasks of one job, by number; empty if they may not leave."""
    table = session.snapshot.tasks
    job = session.job(int(table.job[tasks[0]]))
    running = session.tasks_of(job, Status.BOUND)
    if (table.status[running] != BOUND).any():
        return ()  # It got pods in this cycle, which do not run yet.
    there = set(running.tolist())
    going = _with_higher_workers(session, job, {t for t in tasks if t in there})
    if _breaks(session, job, going):
        going = there
    return tuple(sorted(going)) if going and may_leave(session, sorted(going)) else ()


def may_leave(session: Session, tasks: Sequence[int]) -> bool:
    """Whether none of these tasks is protected, and their disruption budgets allow that all of them leave."""
    table, rows = session.snapshot.tasks, np.array(tasks, dtype=np.int64)
    free = unprotected(session, rows)
    may = (table.preemptable[rows] & ~table.resident[rows] & ~table.critical[rows]) | free
    if not (may & ~table.foreign[rows] & (session.state.node[rows] >= 0)).all():
        return False
    wants = Counter(key for t in rows[~free].tolist() for key in set(table.tasks[t].budgets))
    if not wants:
        return True
    spent = Counter(key for t in session.evictions for key in set(table.tasks[t].budgets))
    budgets = session.snapshot.budgets
    return all(key not in budgets or budgets[key].allowed - spent[key] >= count for key, count in wants.items())


def _with_higher_workers(session: Session, job: Job, tasks: set[int]) -> set[int]:
    if job.elastic is None or not tasks:
        return tasks
    table, workers = session.snapshot.tasks.tasks, workers_of(session, job, Status.BOUND).tolist()
    going = tasks.intersection(workers)
    if going != tasks:
        return set(session.tasks_of(job, Status.BOUND).tolist())  # a pod beside the workers, without which none works
    first = min(table[t].index for t in going)
    return {t for t in workers if table[t].index >= first}


def _breaks(session: Session, job: Job, going: set[int]) -> bool:
    """Whether the job would have less than its minimum, or than the minimum of a role."""
    gang, state = session.hooks.gang, session.state
    if gang is None or not going:
        return False
    if int(state.job_ready[job.index]) - len(going) < gang.minimum(job):
        return True
    roles = Counter(session.snapshot.jobs.task_role[list(going)].tolist())
    minimums = gang.role_minimums(job)
    return any(int(state.role_ready[role]) - n < minimums.get(role, 0) for role, n in roles.items())
