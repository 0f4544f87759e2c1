"""reclaim: a queue with less than its deserved share takes room back from queues with more.

Plugins decide which queue may take room (preemptive) and which tasks may be taken (reclaimable). Gangs and costs are as
in preempt: nothing is evicted unless the whole missing minimum then fits.
"""

from __future__ import annotations

from maar.actions import patience
from maar.actions.preempt import may_claim
from maar.model.jobs import Job
from maar.session.eviction.making_room import RoomSearch, needs_of, refusal
from maar.session.eviction.units import Unit
from maar.session.eviction.verdicts import kind_of
from maar.session.eviction.victims import CandidateBook
from maar.session.hooks import Claim
from maar.session.plain import plain_kind
from maar.session.session import Session
from maar.session.turns import Turns

NAME = "reclaim"

Arguments = patience.Arguments


class Reclaim:
    def __init__(self, arguments: Arguments) -> None:
        self._after = arguments.seconds()

    def execute(self, session: Session) -> None:
        book = CandidateBook(session)
        claiming = [job for job in session.active() if others_run(session, job) and may_claim(session, job)]

        def is_refused(session: Session, job: Job) -> bool:
            return not session.hooks.is_starving(job) or is_refused_with_others(session, job, book, self._after)

        at_once = not session.hooks.queues_by_job  # a queue keeps its turn while its jobs are refused
        turns = Turns(session, claiming, skip=is_refused if at_once else None)
        while (job := turns.next()) is not None:
            if (at_once or not is_refused(session, job)) and take_back(session, job, book, self._after):
                book.verdicts.clear()
                if session.hooks.is_starving(job):
                    turns.again(job)


def others_run(session: Session, job: Job) -> bool:
    """Whether a job of another queue runs; otherwise there are no victims, also later in this cycle."""
    jobs = session.snapshot.jobs
    queue = int(jobs.queue[job.index])
    return session.memo.current(
        NAME, queue, lambda: bool(((jobs.queue != queue) & (session.state.job_ready > 0)).any())
    )


def take_back(session: Session, job: Job, book: CandidateBook, after: float = 0.0) -> bool:
    """Make room in other queues for the missing minimum of a job, if it has waited long enough.

    No equal job may have been refused since the last change (`is_refused_with_others`).
    """
    if not patience.may_evict(session, NAME, job, after):
        return False
    needs = needs_of(session, job, claims=True)
    kind, pods = kind_of(session, job, lambda: needs)
    claim = Claim(job, needs[0][0].shape, across_queues=True, priority=job.priority)
    candidates = book.others(claim)

    def why(unit: Unit) -> str:
        victim = session.job(unit.job)
        of = f"{unit.words} of `{victim.key}` (queue `{victim.queue}`)"
        return f"reclaimed: {of} for `{job.key}` (queue `{job.queue}`)"

    if not len(candidates.tasks):
        return False
    if RoomSearch(session, claim, candidates, why).run(needs):
        session.clear_notes(job)
        return True
    reason = refusal(session, NAME, claim, candidates, needs)
    book.verdicts.refuse(kind, pods, reason)
    session.note(job, reason)
    return False


def is_refused_with_others(session: Session, job: Job, book: CandidateBook, after: float) -> bool:
    """Whether a job gets no room without a search: its queue may not take any, or an equal job was refused just now."""
    kind, pods = kind_of(session, job, lambda: needs_of(session, job, claims=True))
    if not book.verdicts.may_take(kind, pods, lambda: _may_take(session, job)):
        return True
    reason = book.verdicts.reason(kind, pods)
    if reason is not None and patience.may_evict(session, NAME, job, after):
        session.note(job, reason)
    return reason is not None


def _may_take(session: Session, job: Job) -> bool:
    """Whether the queue of a job may take room from others for its missing minimum."""
    if (plain := plain_kind(session, job)) is not None:
        return session.hooks.may_take(job, plain.shape, plain.needs)
    needs = needs_of(session, job, claims=True)
    if all(session.snapshot.shapes.best_effort[group.shape] for group, _ in needs):
        return False
    return all(session.hooks.may_take(job, group.shape, count) for group, count in needs)
