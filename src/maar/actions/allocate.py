"""allocate: give waiting gangs nodes, all of a minimum or nothing.

Queues take turns by their order; a queue's turn places one gang's missing minimum, or some of the surplus of a gang
that runs. A gang that does not fit is put aside for this cycle and blocks nobody. A gang whose room is still releasing
is promised it. Gangs that run in part (a crash, a lost node) are finished first, before anything else.
"""

from __future__ import annotations

import numpy as np

from maar.config.config import NoArguments
from maar.model.jobs import Job
from maar.model.resources import Ints
from maar.model.tasks import Status
from maar.session.placement import Group, Terms, groups_of, missing, place, start
from maar.session.session import Session
from maar.session.turns import Turns

NAME = "allocate"
Arguments = NoArguments

SURPLUS_STEPS = 64
"""A job's surplus is placed in at most about this many turns: small enough a step to share fairly between jobs
(a job of up to 64 pods goes pod by pod), large enough not to take a turn for each of thousands. By taste."""


class Allocate:
    """Places whole gangs on room that is there or coming."""

    def __init__(self, arguments: NoArguments) -> None:
        del arguments

    def execute(self, session: Session) -> None:
        """Act."""
        jobs = []
        for job in session.active():
            if session.is_pending(job) and not session.config.has_action("enqueue"):
                session.admit(job)
            if not session.is_pending(job) and _waits(session, job) and session.hooks.is_valid(job) is None:
                jobs.append(job)
        _release(session)
        for job in sorted((j for j in jobs if is_begun(session, j)), key=session.hooks.job_key):
            give(session, job)
        turns = Turns(session, (job for job in jobs if _waits(session, job)))
        while (turn := turns.next()) is not None:
            if give(session, turn) and _waits(session, turn):
                turns.again(turn)


def _release(session: Session) -> None:
    """A gang that cannot start whatever room it has (pods deleted, queue gone) loses what was promised to it."""
    with session.statement() as statement:
        for job in map(session.job, np.flatnonzero(session.state.job_nominated).tolist()):
            if session.trouble(job) or session.is_pending(job) or session.hooks.is_valid(job):
                _withdraw(session, session.promised(job))
        statement.commit()


def is_begun(session: Session, job: Job) -> bool:
    """It has some of its minimum, not all: it holds room and cannot work."""
    return session.state.job_ready[job.index] > 0 and missing(session, job)[0] > 0


def _waits(session: Session, job: Job) -> bool:
    """It has tasks that allocate places: a job of nothing but best-effort tasks is left to backfill."""
    if not session.waits(job):
        return False
    if not session.snapshot.jobs.best_effort[job.index]:
        return True
    tasks = session.tasks_of(job, Status.PENDING, Status.NOMINATED)
    return not session.snapshot.shapes.best_effort[session.snapshot.tasks.shape[tasks]].all()


def give(session: Session, job: Job) -> bool:
    """Give a job its next room: its missing minimum, or part of its surplus. False if none can be bound now."""
    promised = session.promised(job)
    terms = Terms(within=session.open_to(job), prefer=session.state.node[promised])
    if _bind(session, job, promised, terms) or _redeem(session, job, promised, terms):
        session.clear_notes(job)
        return True
    if session.state.soft:
        _promise(session, job, promised, terms)
    return False


def _bind(session: Session, job: Job, promised: Ints, terms: Terms) -> bool:
    with session.statement() as statement:
        _withdraw(session, promised)
        short = missing(session, job)[0] > 0
        placed = start(session, job, terms) if short else _place_surplus(session, job, terms, len(promised))
        if placed and job.elastic is not None:
            # Its size was decided and its room kept: all of it is placed in one turn.
            for group in groups_of(session, job):
                place(session, job, group, len(group.tasks), terms)
        if placed and session.hooks.is_ready(job):
            statement.commit()
            return True
    return False


def _place_surplus(session: Session, job: Job, terms: Terms, at_least: int) -> bool:
    for group in groups_of(session, job):
        size = len(group.tasks)
        step = min(size, max(1, at_least, size // SURPLUS_STEPS))
        if not session.snapshot.shapes.best_effort[group.shape] and place(session, job, group, step, terms):
            return True
    return False


def _promise(session: Session, job: Job, promised: Ints, terms: Terms) -> None:
    """Keep room that is coming for a gang's minimum; promises that can no longer be kept are withdrawn."""
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
    """Place promised tasks exactly where they were promised room: shapes that were packed once might not be again."""
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
        if enough:
            statement.commit()
            return True
    return False


def _withdraw(session: Session, promised: Ints) -> None:
    for task in promised.tolist():
        session.state.withdraw(task)
