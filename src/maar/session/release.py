"""Gangs in part: finished first (allocate sees to that), and released if they can no longer be.

Binding is one request a pod, so a crash can leave a gang half bound, and a lost node can leave one half running: it
holds room and cannot work. If, after all actions, the rest of it neither fits nor is promised room, its pods are sent
away, so that others can use the room; but only if every member has a controller that makes it anew, and none is
protected.
"""

from __future__ import annotations

from maar.model.jobs import Job
from maar.model.plan import Cause
from maar.model.tasks import Status
from maar.session.placement import missing
from maar.session.session import Session


def release(session: Session) -> None:
    """Send away what is left of gangs that cannot be finished."""
    if session.hooks.gang is None:
        return
    for job in session.active():
        if _is_stuck(session, job) and _may_go(session, job):
            why = f"released: the rest of the gang `{job.key}` does not fit any more, and part of it cannot work"
            for task in session.tasks_of(job, Status.BOUND).tolist():
                session.evict(task, job, why, Cause.RELEASED)


def _is_stuck(session: Session, job: Job) -> bool:
    """It runs in part, all its pods are there, and what it lacks was neither placed nor promised in this cycle."""
    ready = int(session.state.job_ready[job.index])
    if not ready or session.is_pending(job) or not missing(session, job)[0]:
        return False
    return session.state.job_pending[job.index] > 0 and session.hooks.is_valid(job) is None


def _may_go(session: Session, job: Job) -> bool:
    """Every member is made anew by a controller, and nobody protects one of them."""
    table = session.snapshot.tasks
    running = session.tasks_of(job, Status.BOUND)
    members = session.snapshot.jobs.members[job.index].tolist()
    if not len(running) or not all(table.tasks[t].controlled for t in members):
        return False
    if not table.preemptable[running].all() or table.critical[running].any():
        return False
    return all(_budget_left(session, t, running.tolist()) for t in running.tolist())


def _budget_left(session: Session, task: int, going: list[int]) -> bool:
    """Whether each of a task's disruption budgets allows all of the gang's members under it."""
    tasks = session.snapshot.tasks.tasks
    for key in tasks[task].budgets:
        budget = session.snapshot.budgets.get(key)
        if budget is not None and budget.allowed < sum(key in tasks[t].budgets for t in going):
            return False
    return True
