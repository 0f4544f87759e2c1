"""Departures: which tasks must leave together, if a plugin wants some of them to leave without a beneficiary.

A gang leaves whole, or keeps its minimum and the minimums of its roles. An elastic job shrinks: its workers leave from
the highest index on. Nothing leaves if one of these tasks is protected, or has only been placed in this cycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from maar.model.jobs import Job
from maar.model.resources import Ints, Mask
from maar.model.tasks import Status
from maar.session.eviction.protection import unprotected
from maar.session.eviction.victims import Surplus
from maar.session.gangs import spare
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
    if _breaks(session, job, going) or (job.subgroups and not _take_subgroups(session, job, going)):
        going = there
    return tuple(sorted(going)) if going and may_leave(session, sorted(going)) else ()


def surplus_for(session: Session, tasks: Sequence[int], most: int) -> tuple[int, ...]:
    """Up to `most` of these running tasks of one job, the first ones, that may leave while the job keeps its minimum.

    Empty for an elastic job, which shrinks by `unit_for`.
    """
    table, roles = session.snapshot.tasks, session.snapshot.jobs.task_role
    job = session.job(int(table.job[tasks[0]]))
    if job.is_elastic or (table.status[session.tasks_of(job, Status.BOUND)] != BOUND).any():
        return ()
    left, divided = spare(session, job), Surplus(session, job) if job.subgroups else None
    budgets, rows = _budgets_left(session), np.array(tasks, dtype=np.int64)
    free, may = unprotected(session, rows).tolist(), _may_leave(session, rows).tolist()
    going: list[int] = []
    for i, task in enumerate(tasks):
        if len(going) >= most:
            break
        covered = set(table.tasks[task].budgets) & budgets.keys()
        if not may[i] or (not free[i] and any(budgets[key] <= 0 for key in covered)):
            continue
        if divided.take(task, alone=True) is None if divided else not left.take({int(roles[task]): 1}):
            continue
        for key in covered:
            budgets[key] -= 1
        going.append(task)
    return tuple(sorted(going))


def may_leave(session: Session, tasks: Sequence[int]) -> bool:
    """Whether none of these tasks is protected, and their disruption budgets allow that all of them leave."""
    rows = np.array(tasks, dtype=np.int64)
    if not _may_leave(session, rows).all():
        return False
    return within_budgets(session, rows[~unprotected(session, rows)])


def within_budgets(session: Session, tasks: Ints) -> bool:
    """Whether the disruption budgets of tasks allow that all of them leave."""
    table = session.snapshot.tasks.tasks
    wants = Counter(key for t in tasks.tolist() for key in set(table[t].budgets))
    budgets = _budgets_left(session) if wants else {}
    return all(key not in budgets or budgets[key] >= count for key, count in wants.items())


def _may_leave(session: Session, rows: Ints) -> Mask:
    """Which tasks are not protected, apart from disruption budgets."""
    table = session.snapshot.tasks
    may = (table.preemptable[rows] & ~table.resident[rows] & ~table.critical[rows]) | unprotected(session, rows)
    return np.asarray(may & ~table.foreign[rows] & (session.state.node[rows] >= 0))


def _budgets_left(session: Session) -> dict[str, int]:
    """How many more pods of each disruption budget may leave; the evictions of this session count."""
    table = session.snapshot.tasks.tasks
    spent = Counter(key for t in session.evictions for key in set(table[t].budgets))
    return {key: budget.allowed - spent[key] for key, budget in session.snapshot.budgets.items()}


def _with_higher_workers(session: Session, job: Job, tasks: set[int]) -> set[int]:
    if not job.is_elastic or not tasks:
        return tasks
    table, workers = session.snapshot.tasks.tasks, workers_of(session, job, Status.BOUND).tolist()
    going = tasks.intersection(workers)
    if going != tasks:
        return set(session.tasks_of(job, Status.BOUND).tolist())  # a pod beside the workers, without which none works
    first = min(table[t].index for t in going)
    return {t for t in workers if table[t].index >= first}


def _take_subgroups(session: Session, job: Job, going: set[int]) -> bool:
    """Add the subgroups that cannot stay without these tasks; false if the job would lack subgroups or tasks then."""
    surplus = Surplus(session, job)
    for task in sorted(going):
        unit = surplus.take(task)
        if unit is not None:
            going.update(unit.tasks)
        elif not surplus.has_taken(task):
            return False
    return True


def _breaks(session: Session, job: Job, going: set[int]) -> bool:
    """Whether the job would have less than its minimum, or than the minimum of a role."""
    if not going:
        return False
    roles = Counter(session.snapshot.jobs.task_role[list(going)].tolist())
    return not spare(session, job).covers(roles)
