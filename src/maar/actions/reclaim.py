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
        turns = Turns(session, claiming)
        while (job := turns.next()) is not None:
            if session.hooks.is_starving(job) and take_back(session, job, book, self._after):
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
    """Make room in other queues for the missing minimum of a job, if it has waited long enough."""
    needs = needs_of(session, job, claims=True)
    if not needs or all(session.snapshot.shapes.best_effort[group.shape] for group, _ in needs):
        return False
    if not all(session.hooks.may_take(job, group.shape, count) for group, count in needs):
        return False
    if not patience.may_evict(session, NAME, job, after):
        return False
    kind, pods = kind_of(session, job, needs), sum(count for _, count in needs)
    if (reason := book.verdicts.reason(kind, pods)) is not None:
        session.note(job, reason)
        return False
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
