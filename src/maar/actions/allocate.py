"""allocate: place waiting gangs on nodes, the whole minimum or nothing.

Queues take turns in their order. One turn places the missing minimum of one gang, or part of the surplus of a running
gang. A gang that does not fit is skipped for this cycle and blocks no other job. A gang whose room is still releasing
is nominated for it; if there is not enough of it, room of a gang of lower priority is passed on to it. Gangs that
run in part (after a crash or a lost node) are completed first.
"""

from __future__ import annotations

import numpy as np

from maar.config.config import WithoutArguments
from maar.model.jobs import Job
from maar.model.resources import Ints
from maar.model.tasks import NO_TASKS, Status
from maar.session.gangs import missing
from maar.session.no_room import lacks_room
from maar.session.nominations import is_begun, pass_on, redeem, withdraw
from maar.session.placement import Terms, groups_of, place_minimum, place_more_parts, place_tasks
from maar.session.session import Session
from maar.session.subgroups import Part
from maar.session.turns import Turns

NAME = "allocate"


SURPLUS_STEPS = 64
"""The surplus of a job is placed in at most about this many turns. Tuned by hand: small steps share fairly between jobs
(a job of up to 64 pods is placed pod by pod), large steps avoid thousands of turns."""


class Allocate(WithoutArguments):
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
    """Withdraw the nominations of gangs that cannot start at all (pods deleted, queue gone)."""
    with session.statement() as statement:
        for job in map(session.job, np.flatnonzero(session.state.job_nominated).tolist()):
            if any(kept.counts.sum() for kept in session.state.reserved.get(job.index, ())):
                continue  # its other pods are being created
            if session.trouble(job) or session.is_pending(job) or session.hooks.is_valid(job):
                withdraw(session, session.nominated(job))
        statement.commit()


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
    nominated = session.nominated(job)
    # Room made by evictions is for the tasks that may preempt, not for others of the same job.
    first = None if session.snapshot.tasks.all_preempt else nominated
    terms = Terms(within=session.open_to(job), prefer=session.state.node[nominated], first=first)
    if _bind(session, job, nominated, terms) or redeem(session, job, nominated, session.state.node[nominated], terms):
        session.clear_notes(job)
        return True
    if session.state.soft:
        _nominate_again(session, job, nominated, terms)
        lacking = missing(session, job).total > 0
        if lacking and pass_on(session, job, lambda: _bind(session, job, NO_TASKS, terms)):
            session.clear_notes(job)
            return True
        if lacking:
            pass_on(session, job, lambda: nominate(session, job, terms))
    return False


def _bind(session: Session, job: Job, nominated: Ints, terms: Terms) -> bool:
    with session.statement() as statement:
        withdraw(session, nominated)
        # Without a minimum, too, the first pod of a gang that stays close decides its domain.
        begins = job.closeness is not None and not session.state.job_ready[job.index]
        short = begins or missing(session, job).total > 0
        placed = place_minimum(session, job, terms) if short else _place_surplus(session, job, terms, len(nominated))
        if placed and job.is_elastic:
            # The size is already decided and its room is kept: place all of it in one turn.
            for group in groups_of(session, job, bundled=True):
                place_tasks(session, job, group, len(group.tasks), terms)
        if placed and session.hooks.is_ready(job):
            statement.commit()
            return True
    return False


def _place_surplus(session: Session, job: Job, terms: Terms, at_least: int) -> bool:
    if job.subgroups:
        best_effort = session.snapshot.shapes.best_effort

        def is_ours(part: Part) -> bool:
            return not all(best_effort[group.shape] for group, _ in part.needs)

        return place_more_parts(session, job, terms, SURPLUS_STEPS, at_least, is_ours) > 0
    for group in groups_of(session, job, terms.first, bundled=True):
        size = len(group.tasks)
        step = min(size, max(1, at_least, size // SURPLUS_STEPS))
        if not session.snapshot.shapes.best_effort[group.shape] and place_tasks(session, job, group, step, terms):
            return True
    return False


def nominate(session: Session, job: Job, terms: Terms) -> bool:
    """Nominate releasing room for the missing minimum of a gang, or change nothing."""
    with session.statement() as statement:
        if place_minimum(session, job, terms._replace(later=True)) and session.hooks.is_nominated(job):
            statement.commit()
            return True
    return False


def _nominate_again(session: Session, job: Job, nominated: Ints, terms: Terms) -> None:
    """Nominate releasing room for the minimum of a gang; withdraw nominations that are no longer valid."""
    later = terms._replace(later=True)
    with session.statement() as statement:
        rows = session.state.node[nominated]
        withdraw(session, nominated)
        if missing(session, job).total > 0:
            if not nominate(session, job, terms):
                redeem(session, job, nominated, rows, later)
        elif len(nominated):
            _place_surplus(session, job, later, len(nominated))
        statement.commit()
