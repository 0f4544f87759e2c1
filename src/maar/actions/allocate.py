"""allocate: place waiting gangs on nodes, the whole minimum or nothing.

Queues take turns in their order. One turn places the missing minimum of one gang, or part of the surplus of a running
gang. A gang that does not fit is skipped for this cycle and blocks no other job. A gang whose room is still releasing
gets a promise of it. Gangs that run in part (after a crash or a lost node) are completed first.
"""

from __future__ import annotations

import numpy as np

from maar.config.config import NoArguments
from maar.model.jobs import Job
from maar.model.resources import Ints
from maar.model.tasks import Status
from maar.session.placement import Group, Terms, groups_of, grow, missing, place, start
from maar.session.room import lacks_room
from maar.session.session import Session
from maar.session.subgroups import PROMISED, Part, subgroups_of
from maar.session.turns import Turns

NAME = "allocate"
Arguments = NoArguments

SURPLUS_STEPS = 64
"""The surplus of a job is placed in at most about this many turns. Tuned by hand: small steps share fairly between jobs
(a job of up to 64 pods is placed pod by pod), large steps avoid thousands of turns."""


class Allocate:
    def __init__(self, arguments: NoArguments) -> None:
        del arguments

    def execute(self, session: Session) -> None:
        jobs = []
        for job in session.active():
            if session.is_pending(job) and not session.config.has_action("enqueue"):
                session.admit(job)
            if not session.is_pending(job) and _waits(session, job) and session.hooks.is_valid(job) is None:
                jobs.append(job)
        _release(session)
        for job in sorted((j for j in jobs if is_begun(session, j)), key=session.hooks.job_key):
            give(session, job)
        turns = Turns(session, (job for job in jobs if _waits(session, job)), skip=lacks_room)
        while (turn := turns.next()) is not None:
            if give(session, turn) and _waits(session, turn):
                turns.again(turn)


def _release(session: Session) -> None:
    """Withdraw the promises of gangs that cannot start at all (pods deleted, queue gone)."""
    with session.statement() as statement:
        for job in map(session.job, np.flatnonzero(session.state.job_nominated).tolist()):
            if any(kept.counts.sum() for kept in session.state.held.get(job.index, ())):
                continue  # its other pods are being created
            if session.trouble(job) or session.is_pending(job) or session.hooks.is_valid(job):
                _withdraw(session, session.promised(job))
        statement.commit()


def is_begun(session: Session, job: Job) -> bool:
    """Whether the job has a part of its minimum, or of a subgroup: it holds room and cannot work."""
    if not session.state.job_ready[job.index]:
        return False
    return missing(session, job)[0] > 0 or bool(job.subgroups and subgroups_of(session, job).in_part())


def _waits(session: Session, job: Job) -> bool:
    """Whether the job has tasks for allocate; jobs with only best-effort tasks are left to backfill."""
    if not session.waits(job):
        return False
    if not session.snapshot.jobs.best_effort[job.index]:
        return True
    tasks = session.tasks_of(job, Status.PENDING, Status.NOMINATED)
    return not session.snapshot.shapes.best_effort[session.snapshot.tasks.shape[tasks]].all()


def give(session: Session, job: Job) -> bool:
    """Bind the missing minimum of a job, or part of its surplus. Returns False if nothing can be bound now."""
    promised = session.promised(job)
    # Room made by evictions is for the tasks that may preempt, not for others of the same job.
    first = None if session.snapshot.tasks.all_preempt else promised
    terms = Terms(within=session.open_to(job), prefer=session.state.node[promised], first=first)
    if _bind(session, job, promised, terms) or _redeem(session, job, promised, terms):
        session.clear_notes(job)
        return True
    if session.state.soft:
        _promise(session, job, promised, terms)
    return False


def _bind(session: Session, job: Job, promised: Ints, terms: Terms) -> bool:
    with session.statement() as statement:
        _withdraw(session, promised)
        # Without a minimum, too, the first pod of a gang that stays close decides its domain.
        begins = job.closeness is not None and not session.state.job_ready[job.index]
        short = begins or missing(session, job)[0] > 0
        placed = start(session, job, terms) if short else _place_surplus(session, job, terms, len(promised))
        if placed and job.is_elastic:
            # The size is already decided and its room is kept: place all of it in one turn.
            for group in groups_of(session, job, bundled=True):
                place(session, job, group, len(group.tasks), terms)
        if placed and session.hooks.is_ready(job):
            statement.commit()
            return True
    return False


def _place_surplus(session: Session, job: Job, terms: Terms, at_least: int) -> bool:
    if job.subgroups:
        best_effort = session.snapshot.shapes.best_effort

        def is_ours(part: Part) -> bool:
            return not all(best_effort[group.shape] for group, _ in part.needs)

        return grow(session, job, terms, SURPLUS_STEPS, at_least, is_ours) > 0
    for group in groups_of(session, job, terms.first, bundled=True):
        size = len(group.tasks)
        step = min(size, max(1, at_least, size // SURPLUS_STEPS))
        if not session.snapshot.shapes.best_effort[group.shape] and place(session, job, group, step, terms):
            return True
    return False


def _promise(session: Session, job: Job, promised: Ints, terms: Terms) -> None:
    """Promise releasing room for the minimum of a gang; withdraw promises that no longer hold."""
    later = terms._replace(later=True)
    with session.statement() as statement:
        _withdraw(session, promised)
        if missing(session, job)[0] > 0:
            if not start(session, job, later) or not session.hooks.is_nominated(job):
                statement.rollback()
                if not _redeem(session, job, promised, later):
                    _withdraw(session, promised)
        elif len(promised):
            _place_surplus(session, job, later, len(promised))
        statement.commit()


def _redeem(session: Session, job: Job, promised: Ints, terms: Terms) -> bool:
    """Place promised tasks exactly where room was promised: packed from the start, mixed shapes may no longer fit."""
    if len(promised) == 0:
        return False
    table, rows = session.snapshot.tasks, session.state.node[promised].tolist()
    parts: dict[tuple[int, int, int], list[int]] = {}
    for task, row in zip(promised.tolist(), rows, strict=True):
        parts.setdefault((row, int(session.snapshot.jobs.task_role[task]), int(table.shape[task])), []).append(task)
    with session.statement() as statement:
        _withdraw(session, promised)
        for (row, role, shape), tasks in parts.items():
            there = np.zeros(len(session.snapshot.nodes), dtype=np.bool_)
            there[row] = terms.within is None or terms.within[row]
            group = Group(role, shape, np.array(tasks))
            if place(session, job, group, len(tasks), terms._replace(within=there)) < len(tasks):
                return False
        enough = session.hooks.is_nominated(job) if terms.later else session.hooks.is_ready(job)
        if enough and _are_whole(session, job, promised):
            statement.commit()
            return True
    return False


def _are_whole(session: Session, job: Job, tasks: Ints) -> bool:
    """Whether the subgroups of these tasks are complete: a pod may have gone since its room was promised."""
    if not job.subgroups:
        return True
    book = subgroups_of(session, job)
    of = book.of(tasks)
    of = of[of >= 0]
    return bool((book.count(PROMISED)[of] >= book.size[of]).all())


def _withdraw(session: Session, promised: Ints) -> None:
    for task in promised.tolist():
        session.state.withdraw(task)
