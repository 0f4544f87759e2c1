"""elect: choose the one job for which nodes are locked.

An election holds until its job has started, is gone, or has used up its time (an argument of the reservation plugin).
Only jobs that lack part of their minimum and no nominated room for it can be elected. In every cycle the elected job is
checked as a candidate is: a job that empty nodes no longer help loses the election and its locks at once. So does a job
that asks for more than at its election, and others have their turn first. A job of higher priority that still waits
at the end of a cycle takes the election (`reserve`): locks for the present target would not keep others away from it.

Of several shards each elects among its own jobs, and only a job that comes before the elected job of every other shard
(docs/shards.md). So there is one elected job in the cluster.
"""

from __future__ import annotations

import math

from maar.config.config import WithoutArguments
from maar.model.jobs import Job
from maar.model.resources import PODS
from maar.model.scope import place_of
from maar.model.tasks import Status
from maar.session.eviction.making_room import needs_of
from maar.session.gangs import missing
from maar.session.session import Session

NAME = "elect"
RESERVE = "reserve"
"""The action that locks nodes for the elected job."""


TARGET = "target"


class ElectAction(WithoutArguments):
    """Keeps the elected job, or chooses a new one."""

    def execute(self, session: Session) -> None:
        if session.hooks.target_job:
            self._elect(session)
            session.memo.current(NAME, TARGET, lambda: None if session.target_is_foreign else session.target)

    def _elect(self, session: Session) -> None:
        if (standing := target_of(session)) is not None:
            if session.config.has_action(RESERVE):
                lock_for(session, standing)  # before others get what has become free there
            return
        foreign = session.target if session.target_is_foreign else None
        # After a lost election also jobs that rest: they were skipped only because nothing has changed for them.
        lost = foreign is None and session.elect_before is not None
        jobs = session.active(resting=lost)
        if foreign is not None:
            jobs = [job for job in jobs if place_of(job) < place_of(foreign)]
        target = session.hooks.target_job[0].call([job for job in jobs if is_waiting(session, job)])
        if target is not None:
            session.clear_target()
            session.set_target(target, demand_of(session, target))


def lock_for(session: Session, target: Job) -> None:
    """Lock one more node for the elected job, and unlock those that do not help it."""
    for entry in session.hooks.lock_nodes:
        entry.call(target)


def outranking(session: Session, target: Job) -> Job | None:
    """The job of higher priority than the target that would be elected instead of it. None without `elect`."""
    if not session.hooks.target_job or not session.config.has_action(NAME):
        return None
    higher = [job for job in session.active() if job.priority > target.priority and is_waiting(session, job)]
    return session.hooks.target_job[0].call(higher) if higher else None


def is_waiting(session: Session, job: Job) -> bool:
    """Whether the job lacks part of its minimum: its pods do not run, or are not created yet."""
    if session.is_pending(job):
        return bool(job.min_resources)
    return session.hooks.is_valid(job) is None and missing(session, job).total > 0


def target_of(session: Session) -> Job | None:
    """The elected job, if it would be a candidate now; otherwise its election ends. None for a job of another shard."""
    if session.target_is_foreign:
        return None
    job, elect = session.target, session.elect
    if job is None or elect is None or session.trouble(job) is not None or not is_waiting(session, job):
        session.clear_target()
        return None
    demand = demand_of(session, job)
    if asks_for_more(elect.demand, demand):
        session.expire_target()
        return None
    if session.hooks.target_job and session.hooks.target_job[0].call([job]) is None:
        session.clear_target()
        return None
    if is_whole(demand) and not is_whole(elect.demand):
        session.set_target(job, demand, elect.since)  # from now on every resource counts
    return job


def checked_target(session: Session) -> Job | None:
    """The same, checked again only if something has changed since the last check."""
    return session.memo.current(NAME, TARGET, lambda: target_of(session))


def demand_of(session: Session, job: Job) -> tuple[tuple[str, int], ...]:
    """The resources of a job's minimum: of its pods or, before they exist, what its group declares of them."""
    snapshot = session.snapshot
    if session.is_pending(job) or not snapshot.jobs.sizes[job.index]:
        return tuple(sorted((name, amount) for name, amount in (job.min_resources or {}).items() if amount))
    there = session.tasks_of(job, Status.BOUND, Status.NOMINATED, Status.SUCCEEDED)
    total = snapshot.shapes.requests[snapshot.tasks.shape[there]].sum(axis=0)
    for group, count in needs_of(session, job):
        total = total + count * snapshot.shapes.requests[group.shape]
    return tuple(sorted((name, amount) for name, amount in snapshot.axes.amounts(total.tolist()).items() if amount))


def is_whole(demand: tuple[tuple[str, int], ...]) -> bool:
    """Whether it states every resource: each pod counts as one of `pods`."""
    return PODS in dict(demand)


def asks_for_more(before: tuple[tuple[str, int], ...], now: tuple[tuple[str, int], ...]) -> bool:
    """Whether a demand is above an earlier one.

    A group may leave resources open that its pods then request; these are not compared. Nor is an unknown demand.
    """
    is_open = not before or (is_whole(now) and not is_whole(before))
    stated, left_out = dict(before), math.inf if is_open else 0
    return any(amount > stated.get(name, left_out) for name, amount in now)
