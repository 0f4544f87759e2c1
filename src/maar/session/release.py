"""Release gangs and subgroups that run in part and cannot be completed.

Each pod is bound by its own request, so a crash can leave a gang half bound, and a lost node can leave it half running.
Such a gang holds room and cannot work. `allocate` tries to complete it first. If, after all actions, the missing pods
neither fit nor have nominated room, the running pods are evicted. This requires that a controller recreates every
member and that no member is protected. A subgroup that its gang can do without is released alone.

If the gang plugin has a grace period for it, a gang that lacks part of its minimum because a pod failed leaves after
that time, counted from the cycle that first saw it so. It cannot work, whether or not a controller recreates its pods.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from maar.model.facts import About
from maar.model.jobs import Job, Phase
from maar.model.plan import Cause
from maar.model.resources import Ints
from maar.model.tasks import Status
from maar.session.eviction.departures import may_leave, within_budgets
from maar.session.gangs import missing
from maar.session.memory import Moment, Remember, later
from maar.session.session import Session
from maar.session.subgroups import USABLE, subgroups_of

GANG = "gang"
BROKEN = Remember("broken", About.JOB, Moment, later)
"""Since when a gang lacks part of its minimum because a pod failed."""


def release(session: Session) -> None:
    """Evict the running pods of gangs that cannot be completed."""
    if session.hooks.gang is None:
        return
    for job in session.active():
        if _is_stuck(session, job) and _may_go(session, job, session.tasks_of(job, Status.BOUND)):
            why = f"released: the missing pods of gang `{job.key}` no longer fit, and it cannot run without them"
            for task in session.tasks_of(job, Status.BOUND).tolist():
                session.evict(task, job, why, Cause.RELEASED)
        elif job.subgroups and not missing(session, job).total:
            _release_subgroups(session, job)
    if session.hooks.gang.grace is not None:
        _release_broken(session, session.hooks.gang.grace)


def _release_broken(session: Session, grace: Callable[[Job], float]) -> None:
    """Evict the running pods of gangs that a failed pod broke, if they did not get their minimum again in time."""
    seen, broken = session.memory.of(GANG, BROKEN), _broken(session)
    for key in [key for key, _ in seen.items() if key not in {job.key for job in broken}]:
        seen.forget(key)
    for job in broken:
        since = seen.get(job.key)
        if since is None or since.at > session.now:
            since = Moment(session.now)
            seen.set(since, job.key)
        seconds, running = grace(job), session.tasks_of(job, Status.BOUND).tolist()
        if seconds >= 0:
            session.wake(since.at + seconds)
        if 0 <= seconds <= session.now - since.at and may_leave(session, running):
            why = f"released: gang `{job.key}` lacks part of its minimum because a pod failed"
            for task in running:
                session.evict(task, job, why, Cause.RELEASED)


def _broken(session: Session) -> list[Job]:
    """Gangs with running and failed pods that lack part of their minimum. Elastic jobs change their size instead."""
    table, scope = session.snapshot.tasks, session.snapshot.scope
    jobs = [session.job(i) for i in np.unique(table.job[session.state.status == int(Status.FAILED)]).tolist()]
    return [
        job
        for job in jobs
        if session.state.job_ready[job.index]
        and (scope is None or scope.jobs[job.index])
        and not job.is_elastic
        and job.phase is not Phase.COMPLETED
        and len(session.tasks_of(job, Status.BOUND))
        and missing(session, job).total
    ]


def _release_subgroups(session: Session, job: Job) -> None:
    """Evict the running pods of subgroups in part that have all their pods, and room for no more of them."""
    book = subgroups_of(session, job)
    there, nominated = book.count(USABLE), book.count((Status.NOMINATED,))
    for subgroup in book.in_part():
        running = book.tasks(subgroup, Status.BOUND)
        if there[subgroup] >= book.size[subgroup] and not nominated[subgroup] and _may_go(session, job, running):
            name = book.names[subgroup]
            why = f"released: the missing pods of subgroup `{name}` of `{job.key}` no longer fit"
            for task in running.tolist():
                session.evict(task, job, f"{why}, and it cannot run without them", Cause.RELEASED)


def _is_stuck(session: Session, job: Job) -> bool:
    """Whether the gang runs in part, has all its pods, and has neither nodes nor nominated room for the others."""
    ready = int(session.state.job_ready[job.index])
    if not ready or session.is_pending(job) or not missing(session, job).total:
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
    return within_budgets(session, running)
