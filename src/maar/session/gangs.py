"""The minimum of a job in this session: what it needs, has, lacks and may lose, under the rules of the gang plugin.

Binds the arithmetic of `model.minimum` to the state of the session. Without the gang plugin no job has a minimum.
"""

from __future__ import annotations

from collections import Counter

from maar.model.jobs import Job
from maar.model.minimum import NO_ROLES, NONE, NOTHING, Have, Lack, Minimum, Spare, lack_of_pods
from maar.model.tasks import READY
from maar.session.session import Session
from maar.session.subgroups import USABLE, WITH_ROOM, subgroups_of

NO_MINIMUM: Minimum[int] = Minimum(0, NO_ROLES)


def minimum_of(session: Session, job: Job) -> Minimum[int]:
    """What a job needs to start, with roles by their rows."""
    gang = session.hooks.gang
    if gang is None:
        return NO_MINIMUM
    roles = gang.role_minimums(job) if job.role_min else NO_ROLES
    return Minimum(gang.minimum(job), roles, subgroups_of(session, job).division if job.subgroups else None)


def missing(session: Session, job: Job, *, nominated: bool = True) -> Lack[int]:
    """What a job lacks of its minimum, beside its tasks that run or have run and, by default, nominated tasks."""
    gang, state = session.hooks.gang, session.state
    if gang is None:
        return NOTHING
    if not job.role_min and not job.subgroups:  # asked many times for thousands of jobs
        lacks = gang.minimum(job) - state.job_ready.item(job.index)
        if lacks > 0 and nominated:
            lacks -= state.job_nominated.item(job.index)
        return lack_of_pods(lacks) if lacks > 0 else NOTHING
    minimum = minimum_of(session, job)
    return minimum.lack(_have(session, job, minimum, nominated))


def lacking_at_best(session: Session, job: Job) -> Lack[int]:
    """What a job lacks of its minimum even if all its tasks that can be placed run."""
    state, row = session.state, job.index
    pods = state.job_ready.item(row) + state.job_nominated.item(row) + state.job_pending.item(row)
    if not job.role_min and not job.subgroups:
        gang = session.hooks.gang
        return NOTHING if gang is None else lack_of_pods(gang.minimum(job) - pods)
    minimum = minimum_of(session, job)
    roles = Counter(session.snapshot.jobs.task_role[session.tasks_of(job, *USABLE)].tolist())
    return minimum.lack(Have(pods, roles, subgroups_of(session, job).count(USABLE) if minimum.division else NONE))


def spare(session: Session, job: Job) -> Spare[int]:
    """What a job may lose without falling below its minimum and those of its roles."""
    minimum = minimum_of(session, job)
    return minimum.spare(_have(session, job, minimum, nominated=False))


def _have(session: Session, job: Job, minimum: Minimum[int], nominated: bool) -> Have[int]:
    state = session.state
    pods, roles = state.job_ready.item(job.index), {role: state.role_ready.item(role) for role in minimum.roles}
    if nominated:
        pods += state.job_nominated.item(job.index)
        roles = {role: count + state.role_nominated.item(role) for role, count in roles.items()}
    if minimum.division is None:
        return Have(pods, roles)
    return Have(pods, roles, subgroups_of(session, job).count(WITH_ROOM if nominated else READY))
