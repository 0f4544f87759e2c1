"""backfill: place pods that request no resources wherever a pod slot is free.

It places only best-effort pods, in the order of queues, jobs and tasks. A gang of best-effort pods still starts whole.
(Backfill as in HPC, short work in a reserved gap, is a rule of `reserve` for locked nodes.)
"""

from __future__ import annotations

from maar.actions.allocate import give
from maar.config.config import WithoutArguments
from maar.model.jobs import Job
from maar.model.tasks import Status
from maar.session.gangs import missing
from maar.session.placement import Terms, groups_of, place_more_parts, place_tasks
from maar.session.session import Session
from maar.session.subgroups import Part
from maar.session.turns import Turns

NAME = "backfill"


class Backfill(WithoutArguments):
    def execute(self, session: Session) -> None:
        waiting = [job for job in session.active() if _waits(session, job) and session.hooks.is_valid(job) is None]
        turns = Turns(session, waiting, skip_overused=False)
        while (job := turns.next()) is not None:
            fill(session, job)


def _waits(session: Session, job: Job) -> bool:
    if not session.snapshot.jobs.best_effort[job.index]:
        return False
    tasks = session.tasks_of(job, Status.PENDING, Status.NOMINATED)
    return (
        not session.is_pending(job)
        and len(tasks) > 0
        and bool(session.snapshot.shapes.best_effort[session.snapshot.tasks.shape[tasks]].any())
    )


def fill(session: Session, job: Job) -> None:
    """Place the best-effort tasks of a job: first its missing minimum, if they complete it, then all that fit."""
    nominated = session.tasks_of(job, Status.NOMINATED)
    free = session.snapshot.shapes.best_effort[session.snapshot.tasks.shape[nominated]]
    if not session.hooks.is_ready(job):
        waits_for_room = not missing(session, job).total and not free.all()
        if waits_for_room or not give(session, job):
            return
    else:
        for task in nominated[free].tolist():
            session.state.withdraw(task)
    terms = Terms(within=session.open_to(job))
    if job.subgroups:
        best_effort = session.snapshot.shapes.best_effort

        def is_free(part: Part) -> bool:
            return all(best_effort[group.shape] for group, _ in part.needs)

        waiting = int(session.state.job_pending[job.index])
        place_more_parts(session, job, terms, 1, waiting, is_free)
        return
    for group in groups_of(session, job):
        if session.snapshot.shapes.best_effort[group.shape]:
            place_tasks(session, job, group, len(group.tasks), terms)
