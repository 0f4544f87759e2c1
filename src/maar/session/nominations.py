"""Nominated room: given back exactly, or passed on to a job of higher priority.

Room that is being freed is nominated to a job, and stays its own in later cycles. But it holds only against jobs of the
same or a lower priority in its queue, as a running pod does: a job of higher priority that would fit there gets it, and
nothing else is evicted. The nominations of a gang go together. What is still free after that goes back to the gangs
that had it; the others look for room again.

A gang that runs in part keeps its nominations: without them it would have to be released. So does a job whose room is
free by now: it starts in this cycle, or has begun to, and waits for its volumes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from maar.model.fitting import Mode
from maar.model.jobs import Job
from maar.model.resources import Ints
from maar.model.tasks import Status
from maar.session.gangs import missing
from maar.session.placement import Group, Terms, place_tasks
from maar.session.session import Session
from maar.session.subgroups import WITH_ROOM, subgroups_of

OWNER = "nominations"


def withdraw(session: Session, nominated: Ints) -> None:
    """Cancel nominations."""
    session.state.withdraw(*nominated.tolist())


def redeem(session: Session, job: Job, tasks: Ints, rows: Ints, terms: Terms) -> bool:
    """Place tasks exactly where room was nominated: packed from the start, mixed shapes may no longer fit.

    The tasks may still be nominated there. On False nothing changed.
    """
    if len(tasks) == 0:
        return False
    table = session.snapshot.tasks
    parts: dict[tuple[int, int, int], list[int]] = {}
    for task, row in zip(tasks.tolist(), rows.tolist(), strict=True):
        parts.setdefault((row, int(session.snapshot.jobs.task_role[task]), int(table.shape[task])), []).append(task)
    with session.statement() as statement:
        withdraw(session, session.nominated(job))
        for (row, role, shape), members in parts.items():
            there = np.zeros(len(session.snapshot.nodes), dtype=np.bool_)
            there[row] = terms.within is None or terms.within[row]
            group = Group(role, shape, np.array(members))
            if place_tasks(session, job, group, len(members), terms._replace(within=there)) < len(members):
                return False
        enough = session.hooks.is_nominated(job) if terms.later else session.hooks.is_ready(job)
        if enough and _are_whole(session, job, tasks):
            statement.commit()
            return True
    return False


def _are_whole(session: Session, job: Job, tasks: Ints) -> bool:
    """Whether the subgroups of these tasks are complete: a pod may have gone since its room was nominated."""
    if not job.subgroups:
        return True
    book = subgroups_of(session, job)
    of = book.of(tasks)
    of = of[of >= 0]
    return bool((book.count(WITH_ROOM)[of] >= book.size[of]).all())


def is_begun(session: Session, job: Job) -> bool:
    """Whether the job has a part of its minimum, or of a subgroup: it holds room and cannot work."""
    if not session.state.job_ready[job.index]:
        return False
    return missing(session, job).total > 0 or bool(job.subgroups and subgroups_of(session, job).in_part())


def holds_lower(session: Session, job: Job) -> bool:
    """Whether room is nominated for a job of lower priority in the job's queue."""
    return _lowest(session, job, "nominated", session.state.job_nominated) < job.priority


def runs_lower(session: Session, job: Job) -> bool:
    """Whether a job of lower priority runs in the job's queue; otherwise there are no victims."""
    return _lowest(session, job, "running", session.state.job_ready) < job.priority


def _lowest(session: Session, job: Job, name: str, tasks: Ints) -> float:
    """The lowest priority among the jobs of a queue that have such tasks."""
    jobs = session.snapshot.jobs
    queue = int(jobs.queue[job.index])

    def find() -> float:
        there = (jobs.queue == queue) & (tasks > 0)
        return float(jobs.priority[there].min()) if there.any() else float("inf")

    return session.memo.current(OWNER, (name, queue), find)


def pass_on(session: Session, job: Job, attempt: Callable[[], bool], evicts: bool = False) -> bool:
    """Let an attempt to place a job use the room that is nominated for jobs of lower priority in its queue.

    The lowest priorities give way first. On False nothing changed. `evicts` says that the attempt makes more room.
    """
    if not holds_lower(session, job):
        return False
    jobs = session.snapshot.jobs
    nominated = np.flatnonzero((jobs.queue == jobs.queue[job.index]) & (session.state.job_nominated > 0))
    lower = nominated[jobs.priority[nominated] < job.priority]
    if not evicts and not _could_help(session, job, lower):
        return False
    for level in sorted(set(jobs.priority[lower].tolist())):
        with session.statement() as statement:
            taken = _take(session, [session.job(i) for i in lower[jobs.priority[lower] <= level].tolist()])
            if taken and attempt():
                _give_back(session, taken)
                statement.commit()
                return True
    return False


def _could_help(session: Session, job: Job, lower: Ints) -> bool:
    """Whether the missing minimum might fit with the nominated room of these jobs: a cheap bound, asked first."""
    snapshot, state = session.snapshot, session.state
    waiting = session.tasks_of(job, Status.PENDING)
    shapes = snapshot.tasks.shape[waiting]
    if len(waiting) == 0 or (shapes != shapes[0]).any():
        return len(waiting) > 0
    tasks = np.flatnonzero((state.status == Status.NOMINATED) & np.isin(snapshot.tasks.job, lower))
    fits = np.minimum(session.capacity.fits(int(shapes[0]), Mode.LATER, gone=tasks), len(waiting))
    return int(fits.sum()) >= max(missing(session, job).total, 1)


Taken = list[tuple[Job, Ints, Ints]]
"""Jobs with the tasks that lost their nominations, and the nodes of these."""


def _take(session: Session, jobs: list[Job]) -> Taken:
    """Cancel the nominations of jobs, except those that then run in part, and those that can start now."""
    taken: Taken = []
    for job in jobs:
        nominated = session.nominated(job)
        rows = session.state.node[nominated]
        with session.statement() as statement:
            withdraw(session, nominated)
            if not is_begun(session, job) and not _can_start(session, job, nominated, rows):
                statement.commit()
                taken.append((job, nominated, rows))
    return taken


def _can_start(session: Session, job: Job, tasks: Ints, rows: Ints) -> bool:
    """Whether the room that was nominated for a job is free."""
    with session.statement():  # only tried
        return redeem(session, job, tasks, rows, Terms(within=session.open_to(job)))


def _give_back(session: Session, taken: Taken) -> None:
    """Nominate again what still fits, the first jobs first."""
    for job, tasks, rows in sorted(taken, key=lambda of: session.hooks.job_key(of[0])):
        redeem(session, job, tasks, rows, Terms(later=True, within=session.open_to(job)))
