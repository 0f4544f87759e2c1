"""preempt: take room from jobs of lower priority in the same queue; then, inside a job, from its less important tasks.

Only starving jobs preempt, and only for their missing minimum. Nothing is evicted for pods of preemptionPolicy Never:
if the minimum needs them, the job does not preempt. `session.eviction` chooses the victims. Nothing is evicted unless
the whole missing minimum then fits; the freed room is nominated to the job. Room that is being freed for a job of lower
priority is passed on to the job first (`session.nominations`). Inside a job with subgroups nothing is
evicted: its pods depend on each other.

At the end, as in Volcano, pods leave that a plugin wants to leave whatever waits (`tdm` at the end of its window).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from maar.actions import patience
from maar.actions.allocate import nominate
from maar.actions.shuffle import evict_named
from maar.model.fitting import Mode
from maar.model.jobs import Job
from maar.model.tasks import Status, Task
from maar.session.eviction.making_room import RoomSearch, needs_of, refusal
from maar.session.eviction.units import Unit
from maar.session.eviction.verdicts import kind_of
from maar.session.eviction.victims import CandidateBook, inside
from maar.session.gangs import missing
from maar.session.hooks import Claim
from maar.session.nominations import holds_lower, pass_on, runs_lower
from maar.session.placement import Group, Terms, groups_of, place_exactly
from maar.session.session import Session
from maar.session.turns import Turns

NAME = "preempt"

Arguments = patience.Arguments


class Preempt:
    def __init__(self, arguments: Arguments) -> None:
        self._after = arguments.seconds()

    def execute(self, session: Session) -> None:
        waiting = [job for job in session.active() if may_claim(session, job)]
        # Who has no victims now has none later: evictions only make them fewer.
        claiming = [job for job in waiting if runs_lower(session, job) or holds_lower(session, job)]
        book = CandidateBook(session)

        def is_refused(session: Session, job: Job) -> bool:
            return not session.hooks.is_starving(job) or is_refused_with_others(session, job, book, self._after)

        at_once = not session.hooks.queues_by_job  # a queue keeps its turn while its jobs are refused
        turns = Turns(session, claiming, skip_overused=False, skip=is_refused if at_once else None)
        while (job := turns.next()) is not None:
            if (at_once or not is_refused(session, job)) and take(session, job, book, self._after):
                book.verdicts.clear()
                if session.hooks.is_starving(job):
                    turns.again(job)
        for job in waiting:
            if session.state.job_ready[job.index] and not job.subgroups:
                take_inside(session, job)
        evict_named(session, session.hooks.victim_tasks_of_preempt)


def may_claim(session: Session, job: Job) -> bool:
    """Whether a job may ask for the room of others: admitted, valid, with pending tasks, and allowed to preempt."""
    return (
        not session.is_pending(job)
        and job.preempts
        and session.state.job_pending[job.index] > 0
        and session.hooks.is_valid(job) is None
    )


def take(session: Session, job: Job, book: CandidateBook, after: float = 0.0) -> bool:
    """Make room for the missing minimum of a job, with evictions if it has waited long enough.

    No equal job may have been refused since the last change (`is_refused_with_others`).
    """
    kind, pods = kind_of(session, job, lambda: needs_of(session, job, claims=True))
    needs = needs_of(session, job, claims=True)
    if not needs or has_slots(session, job, needs):
        return False
    is_hopeless = book.verdicts.is_hopeless(kind, pods)
    terms = Terms(later=True, within=session.open_to(job))

    def fits() -> bool:
        if missing(session, job).total:
            return nominate(session, job, terms)
        return place_exactly(session, job, needs, terms) and session.hooks.is_nominated(job)

    if not is_hopeless and pass_on(session, job, fits):
        session.clear_notes(job)
        return True
    if not runs_lower(session, job) or not patience.may_evict(session, NAME, job, after):
        return False
    if is_hopeless and not session.snapshot.is_read:
        return False
    claim = Claim(job, needs[0][0].shape, across_queues=False, priority=job.priority)
    candidates = book.others(claim)

    def why(unit: Unit) -> str:
        victim = session.job(unit.job)
        of = f"{unit.words} of `{victim.key}` (priority {victim.priority})"
        return f"preempted: {of} for `{job.key}` (priority {job.priority})"

    if len(candidates.tasks) and not is_hopeless:
        search = RoomSearch(session, claim, candidates, why)
        if _evicts_fewer(session, job, search, needs) or search.run(needs):
            session.clear_notes(job)
            return True
    reason = refusal(session, NAME, claim, candidates, needs)
    book.verdicts.refuse(kind, pods, reason)
    session.note(job, reason)
    return False


def is_refused_with_others(session: Session, job: Job, book: CandidateBook, after: float) -> bool:
    """Whether a job gets no room without a search: no job is in its way, or an equal one has just been refused."""
    may_evict = runs_lower(session, job)
    if not may_evict and not holds_lower(session, job):
        return True
    kind, pods = kind_of(session, job, lambda: needs_of(session, job, claims=True))
    reason = book.verdicts.reason(kind, pods)
    if reason is not None and may_evict and patience.may_evict(session, NAME, job, after):
        session.note(job, reason)
    return reason is not None


def _evicts_fewer(session: Session, job: Job, search: RoomSearch, needs: list[tuple[Group, int]]) -> bool:
    """Make room with the nominated room of lower priorities passed on, if fewer tasks are then evicted than without."""
    if not holds_lower(session, job):
        return False
    before = len(session.evictions)
    with session.statement():  # not committed
        most = len(session.evictions) - before if search.run(needs) else math.inf
    return pass_on(session, job, lambda: search.run(needs) and len(session.evictions) - before < most, evicts=True)


def has_slots(session: Session, job: Job, needs: list[tuple[Group, int]]) -> bool:
    """Whether a job needs only pod slots and nodes have them, so that `backfill` places it without an eviction."""
    if not all(session.snapshot.shapes.best_effort[group.shape] for group, _ in needs):
        return False
    usable = session.open_to(job)
    free = [int(session.capacity.room(job, group.shape, Mode.LATER, usable).sum()) for group, _ in needs]
    return min(free) >= sum(count for _, count in needs)


def take_inside(session: Session, job: Job) -> None:
    """Evict surplus tasks of a job for its own tasks of higher priority, one at a time."""
    table = session.snapshot.tasks
    for group in groups_of(session, job):
        running = session.tasks_of(job, Status.BOUND)
        for task in group.tasks[table.preempts[group.tasks]].tolist():
            priority = int(table.priority[task])
            if not len(running) or np.min(table.priority[running]) >= priority:
                break
            claim = Claim(job, group.shape, across_queues=False, priority=priority)
            candidates = inside(session, claim)
            one = group._replace(tasks=np.array([task]))
            why = _for_own(job, table.tasks[task])
            if not len(candidates.tasks) or not RoomSearch(session, claim, candidates, why).run([(one, 1)]):
                break
            running = session.tasks_of(job, Status.BOUND)


def _for_own(job: Job, task: Task) -> Callable[[Unit], str]:
    reason = f"preempted: surplus pod of `{job.key}` for its pod `{task.key}` (priority {task.priority})"
    return lambda _: reason
