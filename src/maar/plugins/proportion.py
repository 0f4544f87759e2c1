"""proportion: queues share the cluster by weight, each up to what it asks for.

When a session opens, every resource is divided between the queues like water: by weight, no queue below its guarantee,
none above its limit or what its jobs ask for. What a queue is given so is what it *deserves*. It may have no more while
others want the rest, takes back from those who have more, and the one that has least of its part goes first.

Queues are flat here: a queue's own jobs count, those of queues below it do not, and `root` is no queue.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from maar.config.config import NoArguments
from maar.model.jobs import Job
from maar.model.queues import Queue
from maar.model.reasons import Reason
from maar.model.resources import UNLIMITED, Ints, Mask
from maar.model.tasks import Status, among
from maar.plugins.support.admission import Admission
from maar.plugins.support.quotas import (
    closed,
    compared,
    has_own,
    limit_row,
    minimum_row,
    over_limit,
    vote_by_kind,
    wanted_row,
)
from maar.plugins.support.shares import Row, at_least, divide, how_many, less, plus, real_capability, share_of
from maar.session.hooks import Claim, Vote
from maar.session.register import Register
from maar.session.resizing.workers import elastic_of
from maar.session.session import Session

NAME = "proportion"
Arguments = NoArguments
THERE = (Status.PENDING, Status.NOMINATED, Status.BOUND, Status.BLOCKED)
"""Pods that have or want room; whoever goes or has ended does neither."""


class Proportion:
    """Wires what queues deserve to orders, allowances and victims."""

    def __init__(self, arguments: NoArguments) -> None:
        del arguments

    def open(self, session: Session, on: Register) -> None:
        """Register."""
        self._session = session
        self._axes = session.snapshot.axes
        self._dims = compared(self._axes)
        self._whole = Whole.of(session)
        self._request = requested(session)
        self._limit = real_capabilities(session)
        self._deserved = deserved_by(session, self._request, self._limit)
        self._admission = Admission(session, on)
        on.queue_order(self._order)
        on.overused(self._overused, self._why_overused)
        on.allocatable(self._allowed, self._why_not)
        on.preemptive(self._may_take)
        on.reclaimable(self._victims)
        on.job_enqueueable(self._enqueueable)

    def _number(self, queue: Queue) -> int:
        return self._session.snapshot.queues.number[queue.name]

    def _of(self, job: Job) -> int:
        return int(self._session.snapshot.jobs.queue[job.index])

    def _order(self, queue: Queue) -> tuple[Any, ...]:
        q = self._number(queue)
        return -queue.priority, share_of(has_own(self._session, q), self._deserved[q], self._dims)

    # -- what a queue may have

    def _overused(self, queue: Queue) -> bool:
        """It has all that it deserves of everything that it deserves or asks for.

        What is promised counts as had, so a queue with promises is let through to redeem them.
        """
        q = self._number(queue)
        if self._session.state.soft:
            promised = self._session.state.job_nominated > 0
            if (self._session.snapshot.jobs.queue[promised] == q).any():
                return False
        deserved, request, has = self._deserved[q], self._request[q], has_own(self._session, q)
        cares = [d for d in self._dims if deserved[d] > 0 or request[d] > 0]
        return bool(cares) and all(has[d] >= deserved[d] for d in cares)

    def _why_overused(self, queue: Queue) -> Reason:
        q = self._number(queue)
        short = less(self._request[q], has_own(self._session, q))
        reason = self._over(q, at_least(short, [0] * len(short)))
        if reason is not None:
            return replace(reason, code="QueueOverused")
        return Reason(NAME, "QueueOverused", f"queue `{queue.name}` has all that it deserves", queue=queue.name)

    def _over(self, q: int, asks: Row) -> Reason | None:
        queue, has = self._session.snapshot.queues.queues[q], has_own(self._session, q)
        return over_limit(NAME, "OverDeserved", queue, self._axes, "deserved", self._deserved[q], has, asks)

    def _allowed(self, job: Job, shape: int, wanted: int) -> int:
        q = self._of(job)
        if not self._session.snapshot.queues.queues[q].open:
            return 0
        room = less(self._deserved[q], has_own(self._session, q))
        return how_many(room, wanted_row(self._session, job, shape), wanted)

    def _why_not(self, job: Job, shape: int, wanted: int) -> Reason:
        q = self._of(job)
        queue = self._session.snapshot.queues.queues[q]
        asks = [n * wanted for n in wanted_row(self._session, job, shape)]
        if not queue.open:
            return closed(NAME, queue)
        reason = self._over(q, asks) or self._why_overused(queue)
        pending = self._session.tasks_of(job, Status.PENDING)
        if len(pending) and self._whole.is_too_small_for(job, pending):
            # Not the queue stops it, the cluster does: its share was made without this job.
            return replace(reason, limit=UNLIMITED)
        return reason

    def _enqueueable(self, job: Job) -> Vote | Reason:
        """What it needs at least, with what its queue has and has promised, surplus aside, is within the limit."""
        q = self._of(job)
        queue, asks = self._session.snapshot.queues.queues[q], minimum_row(self._session, job)
        has = less(has_own(self._session, q), self._admission.surplus(q, own=True))
        promised = self._admission.promised(q, own=True)
        refusal = over_limit(
            NAME, "OverCapability", queue, self._axes, "capability", self._limit[q], has, asks, promised
        )
        return Vote.PERMIT if refusal is None else refusal

    # -- what it may take from others

    def _may_take(self, job: Job, shape: int, count: int) -> bool:
        return self._allowed(job, shape, count) >= count

    def _victims(self, claim: Claim, tasks: Ints) -> Mask:
        """Tasks go while their queue has more than it deserves of something that is wanted and that they hold."""
        snapshot = self._session.snapshot
        wanted = wanted_row(self._session, claim.job, claim.shape)
        queues, shapes = snapshot.jobs.queue[snapshot.tasks.job[tasks]], snapshot.tasks.shape[tasks]
        dims = [d for d in self._dims if wanted[d] > 0]
        has: dict[int, Row] = {}

        def judge(task: int, going: bool) -> bool:
            q = int(snapshot.jobs.queue[snapshot.tasks.job[task]])
            if q < 0 or not snapshot.queues.queues[q].reclaimable:
                return False
            if q not in has:
                has[q] = has_own(self._session, q)
            holds: Row = snapshot.shapes.requests[snapshot.tasks.shape[task]].tolist()
            over = any(holds[d] > 0 and has[q][d] > self._deserved[q][d] for d in dims)
            if over and going:
                has[q] = less(has[q], holds)
            return over

        return vote_by_kind(claim, tasks, queues * len(snapshot.shapes) + shapes, judge)


def requested(session: Session) -> list[Row]:
    """What each queue's own jobs have, wait for, and will ask for once their pods are created or as they grow.

    A closed queue and a job that makes no sense ask for nothing new: nobody is to hold room for them.
    """
    snapshot = session.snapshot
    rows = [has_own(session, q) for q in range(len(snapshot.queues))]
    asking = _asking(session)
    pending = (session.state.status == int(Status.PENDING)).nonzero()[0]
    pending = pending[asking[snapshot.tasks.job[pending]]]
    pending = pending[~Whole.of(session).too_small_for(pending)[snapshot.tasks.job[pending]]]
    queues, shapes = snapshot.jobs.queue[snapshot.tasks.job[pending]], snapshot.tasks.shape[pending]
    kinds, counts = np.unique(queues * len(snapshot.shapes) + shapes, return_counts=True)
    asked = Counter(dict(zip(kinds.tolist(), counts.tolist(), strict=True)))
    asked.update(_to_come(session, asking))
    for kind, count in asked.items():
        q, shape = divmod(kind, len(snapshot.shapes))
        rows[q] = plus(rows[q], snapshot.shapes.requests[shape].tolist(), count)
    for i in snapshot.jobs.active:
        job = session.job(i)
        if job.min_resources and asking[i] and snapshot.jobs.sizes[i] < job.min_member:
            members, q = snapshot.jobs.members[i], int(snapshot.jobs.queue[i])
            known = snapshot.shapes.requests[snapshot.tasks.shape[members]].sum(axis=0).tolist()
            rows[q] = plus(rows[q], at_least(less(minimum_row(session, job), known), [0] * len(known)))
    return rows


def _to_come(session: Session, asking: Mask) -> Counter[int]:
    """The pods that elastic jobs could still have, by queue and shape: workers up to a job's maximum, and those beside
    them."""
    jobs, shapes, found = session.snapshot.jobs, session.snapshot.shapes, Counter[int]()
    elastic = [i for i in jobs.elastic if asking[i]]
    if not elastic:
        return found
    there = among(THERE).take(session.state.status)
    pods = np.bincount(session.snapshot.tasks.job[there], minlength=len(jobs)).tolist()
    of_roles = np.bincount(jobs.task_role[there], minlength=len(jobs.role_min)).tolist()
    for i in elastic:
        said, names, workers = elastic_of(session.job(i)), jobs.role_names[i], pods[i]
        if said.role:
            workers = of_roles[jobs.roles.starts[i] + names.index(said.role)] if said.role in names else 0
        kind = int(jobs.queue[i]) * len(shapes)
        found[kind + shapes.number[said.shape]] += max(said.max - workers, 0)
        for of in said.beside[pods[i] - workers :]:
            found[kind + shapes.number[of]] += 1
    return found


class Whole(NamedTuple):
    """The empty cluster: what it could not hold is hopeless, and to keep room for that would leave it idle for ever."""

    session: Session
    total: Ints
    largest: Ints
    """The most of each resource that any node has."""

    @classmethod
    def of(cls, session: Session) -> Whole:
        """That of a session."""
        nodes = session.snapshot.nodes
        capped = np.array([min(amount, UNLIMITED) for amount in session.total], dtype=np.int64)
        return cls(session, capped, nodes.allocatable.max(axis=0) if len(nodes) else np.zeros_like(capped))

    def too_small_for(self, pending: Ints) -> Mask:
        """Jobs that it could not hold, of those to which these tasks belong."""
        snapshot = self.session.snapshot
        hopeless = np.zeros(len(snapshot.jobs), dtype=np.bool_)
        if len(pending):
            jobs, first = np.unique(snapshot.tasks.job[pending], return_index=True)
            least = np.minimum.reduceat(snapshot.shapes.requests[snapshot.tasks.shape[pending]], first)
            hopeless[jobs] = self._lacks(jobs, least)
        return hopeless

    def is_too_small_for(self, job: Job, pending: Ints) -> bool:
        """Whether it could not hold the job of these tasks."""
        snapshot = self.session.snapshot
        least = snapshot.shapes.requests[snapshot.tasks.shape[pending]].min(axis=0)
        return bool(self._lacks(np.array([job.index]), least[None])[0])

    def _lacks(self, jobs: Ints, least: Ints) -> Mask:
        """Whether there is too little for each job, whose smallest pods ask for `least`."""
        table = self.session.snapshot.jobs
        lacking = np.maximum(table.minimum[jobs] - table.ready[jobs], 0)
        # As floats: least times lacking may be more than an integer of 64 bits holds.
        too_many = (least.astype(np.float64) * lacking[:, None] > self.total).any(axis=1)
        return np.asarray(too_many | (least > self.largest).any(axis=1))


def _asking(session: Session) -> Mask:
    """Jobs that may be given something: whole ones, in open queues."""
    snapshot = session.snapshot
    open_queues = [
        q.open and not broken for q, broken in zip(snapshot.queues.queues, snapshot.queues.broken, strict=True)
    ]
    asking = np.array([*open_queues, False], dtype=np.bool_)[snapshot.jobs.queue]  # -1, no queue, is the last
    asking[[i for i in snapshot.jobs.active if session.job(i).broken]] = False
    return np.asarray(asking)


def real_capabilities(session: Session) -> list[Row]:
    """What each queue can have at most. Pod slots count only where a limit names them."""
    axes, queues = session.snapshot.axes, session.snapshot.queues
    guarantees = [axes.row(q.guarantee or {}) for q in queues.queues]
    promised = [0] * len(axes)
    for q, row in enumerate(guarantees):
        if q != queues.root:
            promised = plus(promised, row)
    limits = []
    for queue, own in zip(queues.queues, guarantees, strict=True):
        limit = limit_row(axes, queue)
        real = real_capability(session.total, promised, own, limit)
        real[axes.pods] = limit[axes.pods]
        limits.append(real)
    return limits


def deserved_by(session: Session, request: list[Row], limit: list[Row]) -> list[Row]:
    """The division of every resource between the queues."""
    axes, queues = session.snapshot.axes, session.snapshot.queues
    who = [q for q in range(len(queues)) if q != queues.root]
    weights = [max(queues.queues[q].weight, 1) for q in who]
    rows = [[0] * len(axes) for _ in queues.queues]
    guarantees = {q: axes.row(queues.queues[q].guarantee or {}) for q in who}
    for d in range(len(axes)):
        if d == axes.pods:
            parts = [limit[q][d] for q in who]
        else:
            low = [guarantees[q][d] for q in who]
            parts = divide(session.total[d], weights, low, [min(limit[q][d], request[q][d]) for q in who])
        for q, part in zip(who, parts, strict=True):
            rows[q][d] = part
    rows[queues.root][axes.pods] = UNLIMITED
    return rows
