"""Release gangs and subgroups that run in part and cannot be completed.

Each pod is bound by its own request, so a crash can leave a gang half bound, and a lost node can leave it half running.
Such a gang holds room and cannot work. `allocate` tries to complete it first. If, after all actions, the missing pods
neither fit nor have promised room, the running pods are evicted. This requires that a controller recreates every member
and that no member is protected. A subgroup that its gang can do without is released alone.
"""

from __future__ import annotations

from maar.model.jobs import Job
from maar.model.plan import Cause
from maar.model.resources import Ints
from maar.model.tasks import Status
from maar.session.placement import missing
from maar.session.session import Session
from maar.session.subgroups import USABLE, subgroups_of


def release(session: Session) -> None:
    """Evict the running pods of gangs that cannot be completed."""
    if session.hooks.gang is None:
        return
    for job in session.active():
        if _is_stuck(session, job) and _may_go(session, job, session.tasks_of(job, Status.BOUND)):
            why = f"released: the missing pods of gang `{job.key}` no longer fit, and it cannot run without them"
            for task in session.tasks_of(job, Status.BOUND).tolist():
                session.evict(task, job, why, Cause.RELEASED)
        elif job.subgroups and not missing(session, job)[0]:
            _release_subgroups(session, job)


def _release_subgroups(session: Session, job: Job) -> None:
    """Evict the running pods of subgroups in part that have all their pods, and room for no more of them."""
    book = subgroups_of(session, job)
    there, promised = book.count(USABLE), book.count((Status.NOMINATED,))
    for subgroup in book.in_part():
        running = book.tasks(subgroup, Status.BOUND)
        if there[subgroup] >= book.size[subgroup] and not promised[subgroup] and _may_go(session, job, running):
            name = book.names[subgroup]
            why = f"released: the missing pods of subgroup `{name}` of `{job.key}` no longer fit"
            for task in running.tolist():
                session.evict(task, job, f"{why}, and it cannot run without them", Cause.RELEASED)


def _is_stuck(session: Session, job: Job) -> bool:
    """Whether the gang runs in part, has all its pods, and got neither nodes nor promises for the missing ones."""
    ready = int(session.state.job_ready[job.index])
    if not ready or session.is_pending(job) or not missing(session, job)[0]:
        return False
    return session.state.job_pending[job.index] > 0 and session.hooks.is_valid(job) is None


def _may_go(session: Session, job: Job, running: Ints) -> bool:
    """Whether a controller recreates every member, and none of the running tasks that go is protected."""
    table = session.snapshot.tasks
    members = session.snapshot.jobs.members[job.index].tolist()
    if not len(running) or not all(table.tasks[t].controlled for t in members):
        return False
    if not table.preemptable[running].all() or table.critical[running].any():
        return False
    return all(_budget_left(session, t, running.tolist()) for t in running.tolist())


def _budget_left(session: Session, task: int, going: list[int]) -> bool:
    """Whether each disruption budget of a task allows the eviction of all gang members under it."""
    tasks = session.snapshot.tasks.tasks
    for key in tasks[task].budgets:
        budget = session.snapshot.budgets.get(key)
        if budget is not None and budget.allowed < sum(key in tasks[t].budgets for t in going):
            return False
    return True
