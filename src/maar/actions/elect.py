"""elect: choose the one job for which nodes are locked.

An election holds until its job has started, is gone, or has used up its time (an argument of the reservation plugin).
Only jobs that lack part of their minimum and have no promise for it can be elected.
"""

from __future__ import annotations

from maar.config.config import NoArguments
from maar.model.jobs import Job
from maar.session.placement import missing
from maar.session.session import Session

NAME = "elect"
Arguments = NoArguments


class Elect:
    """Keeps the elected job, or chooses a new one."""

    def __init__(self, arguments: NoArguments) -> None:
        del arguments

    def execute(self, session: Session) -> None:
        if not session.hooks.target_job or target_of(session) is not None:
            return
        session.clear_target()
        waiting = [job for job in session.active() if is_waiting(session, job)]
        target = session.hooks.target_job[0].call(waiting)
        if target is not None:
            session.set_target(target.key)


def is_waiting(session: Session, job: Job) -> bool:
    """Whether the job lacks part of its minimum: its pods do not run, or are not created yet."""
    if session.is_pending(job):
        return bool(job.min_resources)
    return session.hooks.is_valid(job) is None and missing(session, job)[0] > 0


def target_of(session: Session) -> Job | None:
    """The elected job, if it still waits."""
    number = None if session.elect is None else session.snapshot.jobs.number.get(session.elect.job)
    if number is None:
        return None
    job = session.job(number)
    return job if session.trouble(job) is None and is_waiting(session, job) else None
