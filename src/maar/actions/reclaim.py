"""reclaim: a queue with less than its deserved share takes room back from queues with more.

Plugins decide which queue may take room (preemptive) and which tasks may be taken (reclaimable). Gangs and costs are as
in preempt: nothing is evicted unless the whole missing minimum then fits.
"""

from __future__ import annotations

from maar.actions.preempt import may_claim
from maar.config.config import NoArguments
from maar.model.jobs import Job
from maar.session.eviction.making_room import make_room, needs_of
from maar.session.eviction.victims import CandidateBook, Unit
from maar.session.hooks import Claim
from maar.session.session import Session
from maar.session.turns import Turns

NAME = "reclaim"

Arguments = NoArguments
"""Volcano's arguments have no effect: they tune its search, and Maar searches differently."""


class Reclaim:
    def __init__(self, arguments: Arguments) -> None:
        del arguments

    def execute(self, session: Session) -> None:
        book = CandidateBook(session)
        claiming = [job for job in session.active() if others_run(session, job) and may_claim(session, job)]
        turns = Turns(session, claiming)
        while (job := turns.next()) is not None:
            if session.hooks.is_starving(job) and take_back(session, job, book) and session.hooks.is_starving(job):
                turns.again(job)


def others_run(session: Session, job: Job) -> bool:
    """Whether a job of another queue runs; otherwise there are no victims, also later in this cycle."""
    jobs = session.snapshot.jobs
    queue = int(jobs.queue[job.index])
    return session.memo.current(
        NAME, queue, lambda: bool(((jobs.queue != queue) & (session.state.job_ready > 0)).any())
    )


def take_back(session: Session, job: Job, book: CandidateBook) -> bool:
    """Make room in other queues for the missing minimum of a job."""
    needs = needs_of(session, job, claims=True)
    if not needs or all(session.snapshot.shapes.best_effort[group.shape] for group, _ in needs):
        return False
    if not all(session.hooks.may_take(job, group.shape, count) for group, count in needs):
        return False
    claim = Claim(job, needs[0][0].shape, across_queues=True, priority=job.priority)
    candidates = book.others(claim)

    def why(unit: Unit) -> str:
        victim = session.job(unit.job)
        of = f"{unit.words} of `{victim.key}` (queue `{victim.queue}`)"
        return f"reclaimed: {of} for `{job.key}` (queue `{job.queue}`)"

    return len(candidates.tasks) > 0 and make_room(session, NAME, claim, candidates, needs, why)
