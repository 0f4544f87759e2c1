"""proportion: queues share the cluster by weight, each up to its request.

When a session opens, every resource is divided between the queues by weight (water-filling). No queue gets less than
its guarantee, nor more than its limit or the request of its jobs. The result is what the queue *deserves*. A queue may
not have more, reclaims from queues that have more, and the queue with the smallest part of its deserved share goes
first.

Queues are flat here: only a queue's own jobs count, not those of its children, and `root` is not a queue.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from maar.config.config import WithoutArguments
from maar.model.codes import QUEUE_SHARE, Code
from maar.model.fitting import how_many
from maar.model.jobs import Job
from maar.model.minimum import has_minimum
from maar.model.queues import Queue, closed
from maar.model.reasons import Reason
from maar.model.resources import UNLIMITED, Ints, Mask
from maar.model.tasks import Gate, Status, among
from maar.plugins.support.admission import Admission
from maar.plugins.support.quotas import (
    OVER_CAPABILITY,
    compared,
    excess,
    flat_limits,
    guarantees,
    has_own,
    limit_row,
    minimum_row,
    over_limit,
    vote_by_kind,
    wanted_row,
)
from maar.plugins.support.shares import Row, at_least, divide, less, plus, share_of
from maar.session.hooks import Claim, Vote
from maar.session.long_deletions import without_stuck
from maar.session.no_room import one_shape
from maar.session.register import Register
from maar.session.resizing.workers import elastic_of
from maar.session.session import Session

NAME = "proportion"

OVER_DESERVED = Code("OverDeserved", QUEUE_SHARE)
OVERUSED = Code("QueueOverused", QUEUE_SHARE)
CODES = (OVER_CAPABILITY, OVER_DESERVED, OVERUSED)
PRESENT = (Status.PENDING, Status.NOMINATED, Status.BOUND, Status.BLOCKED)
"""Pods that have or want room; leaving and finished pods do neither."""


class Proportion(WithoutArguments):
    def open(self, session: Session, on: Register) -> None:
        self._session = session
        self._axes = session.snapshot.axes
        self._dims = compared(self._axes)
        self._whole = Whole.of(session)
        self._request = requested(session, self._whole)
        self._guarantee = guarantees(session)
        self._limit = flat_limits(session, self._guarantee)
        self._deserved = deserved_by(session, self._request, self._guarantee, self._limit)
        self._admission = Admission(session, on)
        on.deserved(lambda queue: self._deserved[queue])
        on.queue_order(self._order, "uses less of its share")
        on.overused(self._overused, self._why_overused)
        on.allocatable(self._allowed, self._why_not)
        on.excess(lambda queue, _: excess(queue, has_own(session, queue), self._deserved[queue], self._dims))
        on.preemptive(self._may_take)
        on.reclaimable(self._victims, alike=True)
        on.job_enqueueable(self._enqueueable)

    def _number(self, queue: Queue) -> int:
        return self._session.snapshot.queues.number[queue.name]

    def _of(self, job: Job) -> int:
        return int(self._session.snapshot.jobs.queue[job.index])

    def _order(self, queue: Queue) -> tuple[Any, ...]:
        q = self._number(queue)

        def ask() -> tuple[Any, ...]:
            share = share_of(has_own(self._session, q), self._deserved[q], self._dims)
            return -queue.priority, share.rounded, share

        return self._session.memo.current(NAME, ("order", q), ask)

    # -- what a queue may have

    def _overused(self, queue: Queue) -> bool:
        """Whether the queue has all that it deserves of every resource that it deserves or requests.

        Nominated room counts as used, so a queue that has some is not overused: it may still use it.
        """
        q = self._number(queue)
        if self._session.state.soft and q in self._session.memo.current(NAME, "nominated", self._with_nominated):
            return False
        deserved, request, has = self._deserved[q], self._request[q], has_own(self._session, q)
        cares = [d for d in self._dims if deserved[d] > 0 or request[d] > 0]
        return bool(cares) and all(has[d] >= deserved[d] for d in cares)

    def _with_nominated(self) -> set[int]:
        """The queues with nominated room."""
        jobs = self._session.state.job_nominated.nonzero()[0]
        return set(self._session.snapshot.jobs.queue[jobs].tolist())

    def _why_overused(self, queue: Queue) -> Reason:
        q = self._number(queue)
        has_all = f"queue `{queue.name}` already has all it deserves"
        short = less(self._request[q], has_own(self._session, q))
        reason = self._over(q, at_least(short, [0] * len(short)))
        if reason is not None:
            declared = limit_row(self._axes, queue)[self._axes.index[reason.resource]]
            hard = reason.limit is not None and declared <= reason.limit
            lasting = f"queue `{queue.name}` has reached its limit (capability)" if hard else has_all
            return replace(reason, code=(OVER_CAPABILITY if hard else OVERUSED).name, lasting=lasting)
        return Reason(NAME, OVERUSED.name, has_all, queue=queue.name)

    def _over(self, q: int, asks: Row) -> Reason | None:
        queue, has = self._session.snapshot.queues.queues[q], has_own(self._session, q)
        return over_limit(NAME, OVER_DESERVED, queue, self._axes, "deserved", self._deserved[q], has, asks)

    def _allowed(self, job: Job, shape: int, wanted: int) -> int:
        q = self._of(job)
        if not self._session.snapshot.queues.queues[q].open:
            return 0
        if shape < 0:  # the declared needs of this group
            return self._how_many(q, wanted_row(self._session, job, shape), wanted)
        asked = ("allowed", q, shape, wanted)
        return self._session.memo.current(
            NAME, asked, lambda: self._how_many(q, wanted_row(self._session, job, shape), wanted)
        )

    def _how_many(self, q: int, request: Row, wanted: int) -> int:
        left = self._session.memo.current(NAME, ("left", q), lambda: less(self._deserved[q], has_own(self._session, q)))
        return how_many(left, request, wanted)

    def _why_not(self, job: Job, shape: int, wanted: int) -> Reason:
        if shape < 0 or one_shape(self._session, job) < 0:
            return self._refusal(job, shape, wanted)
        # Thousands of jobs wait for the same: the answer depends on nothing else of the job.
        jobs = self._session.snapshot.jobs
        lacking = int(jobs.minimum[job.index] - jobs.ready[job.index])
        asked = ("why", self._of(job), shape, wanted, lacking)
        return self._session.memo.current(NAME, asked, lambda: self._refusal(job, shape, wanted))

    def _refusal(self, job: Job, shape: int, wanted: int) -> Reason:
        q = self._of(job)
        queue = self._session.snapshot.queues.queues[q]
        asks = [n * wanted for n in wanted_row(self._session, job, shape)]
        if not queue.open:
            return closed(NAME, queue.name)
        declared, has = limit_row(self._axes, queue), has_own(self._session, q)
        hard = over_limit(NAME, OVER_CAPABILITY, queue, self._axes, "capability", declared, has, asks)
        if hard is not None:
            return hard  # no node would help
        reason = self._over(q, asks) or self._why_overused(queue)
        if self._whole.is_too_small_for(job):
            # The cluster is too small, not the queue's share: the share was computed without this job.
            return replace(reason, limit=UNLIMITED)
        return reason

    def _enqueueable(self, job: Job) -> Vote | Reason:
        """Permit if the minimum, what the queue has (without surplus) and what admitted groups lack fit the limit."""
        q = self._of(job)
        queue, asks = self._session.snapshot.queues.queues[q], minimum_row(self._session, job)
        has = less(has_own(self._session, q), self._admission.surplus(q, own=True))
        lacked = self._admission.lacked(q, own=True)
        refusal = over_limit(NAME, OVER_CAPABILITY, queue, self._axes, "capability", self._limit[q], has, asks, lacked)
        return Vote.PERMIT if refusal is None else refusal

    # -- what it may take from others

    def _may_take(self, job: Job, shape: int, count: int) -> bool:
        return self._allowed(job, shape, count) >= count

    def _victims(self, claim: Claim, tasks: Ints) -> Mask:
        """Evict tasks as long as their queue has more than it deserves of a requested resource that they hold."""
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
            now = has_own(self._session, q) if claim.whole else has[q]
            over = any(holds[d] > 0 and now[d] > self._deserved[q][d] for d in dims)
            if over:
                over = all(has[q][d] - holds[d] >= self._guarantee[q][d] for d in dims if holds[d] > 0)
            if over and going:
                has[q] = less(has[q], holds)
            return over

        return vote_by_kind(claim, tasks, queues * len(snapshot.shapes) + shapes, judge)


def requested(session: Session, whole: Whole) -> list[Row]:
    """What the own jobs of each queue have, wait for, and will request when their pods are created or they grow.

    Closed queues and invalid jobs request nothing new, so that no room is held for them.
    """
    snapshot = session.snapshot
    rows = [has_own(session, q) for q in range(len(snapshot.queues))]
    asking = _asking(session)
    # Pods with only the gate of their queue wait for its quota: without their requests it would have none.
    pending = ((session.state.status == int(Status.PENDING)) | (snapshot.tasks.gate == int(Gate.CLOSED))).nonzero()[0]
    pending = pending[asking[snapshot.tasks.job[pending]]]
    pending = pending[~whole.too_small_for(pending)[snapshot.tasks.job[pending]]]
    queues, shapes = snapshot.jobs.queue[snapshot.tasks.job[pending]], snapshot.tasks.shape[pending]
    kinds, counts = np.unique(queues * len(snapshot.shapes) + shapes, return_counts=True)
    asked = Counter(dict(zip(kinds.tolist(), counts.tolist(), strict=True)))
    asked.update(_to_come(session, asking))
    for kind, count in asked.items():
        q, shape = divmod(kind, len(snapshot.shapes))
        rows[q] = plus(rows[q], snapshot.shapes.requests[shape].tolist(), count)
    for i in snapshot.jobs.active:
        job = session.job(i)
        if job.min_resources and asking[i] and not has_minimum(job, snapshot.tasks_of(i)):
            members, q = snapshot.jobs.members[i], int(snapshot.jobs.queue[i])
            known = snapshot.shapes.requests[snapshot.tasks.shape[members]].sum(axis=0).tolist()
            rows[q] = plus(rows[q], at_least(less(minimum_row(session, job), known), [0] * len(known)))
    return rows


def _to_come(session: Session, asking: Mask) -> Counter[int]:
    """The pods that elastic jobs may still get, by queue and shape: workers up to the maximum, and pods beside them."""
    jobs, shapes, found = session.snapshot.jobs, session.snapshot.shapes, Counter[int]()
    elastic = [i for i in jobs.elastic if asking[i] and session.job(i).is_elastic]
    if not elastic:
        return found
    there = among(PRESENT).take(session.state.status)
    pods = np.bincount(session.snapshot.tasks.job[there], minlength=len(jobs)).tolist()
    by_role = np.bincount(jobs.task_role[there], minlength=len(jobs.role_min)).tolist()
    for i in elastic:
        spec, names, workers = elastic_of(session.job(i)), jobs.role_names[i], pods[i]
        if spec.role:
            workers = by_role[jobs.roles.starts[i] + names.index(spec.role)] if spec.role in names else 0
        kind = int(jobs.queue[i]) * len(shapes)
        found[kind + shapes.number[spec.shape]] += max(spec.max - workers, 0)
        for shape in spec.beside[pods[i] - workers :]:
            found[kind + shapes.number[shape]] += 1
    return found


class Whole(NamedTuple):
    """The empty cluster. A job that does not fit even there is hopeless: room kept for it would stay idle forever."""

    session: Session
    total: Ints
    largest: Ints
    """The largest amount of each resource on any node."""

    @classmethod
    def of(cls, session: Session) -> Whole:
        capped = np.array([min(amount, UNLIMITED) for amount in session.total], dtype=np.int64)
        return cls(session, capped, session.snapshot.nodes.largest)

    def too_small_for(self, pending: Ints) -> Mask:
        """The jobs of these tasks that do not fit the empty cluster."""
        snapshot = self.session.snapshot
        hopeless = np.zeros(len(snapshot.jobs), dtype=np.bool_)
        if len(pending):
            jobs, first = np.unique(snapshot.tasks.job[pending], return_index=True)
            least = np.minimum.reduceat(snapshot.shapes.requests[snapshot.tasks.shape[pending]], first)
            hopeless[jobs] = self._lacks(jobs, least)
        return hopeless

    def is_too_small_for(self, job: Job) -> bool:
        """Whether a job with pending tasks does not fit the empty cluster."""
        snapshot, shape = self.session.snapshot, one_shape(self.session, job)
        if not self.session.state.job_pending.item(job.index):
            return False

        if shape < 0:
            shapes = snapshot.tasks.shape[self.session.tasks_of(job, Status.PENDING)]
            least = snapshot.shapes.requests[shapes].min(axis=0)
            return bool(self._lacks(np.array([job.index]), least[None])[0])
        most = self.session.memo.fixed(NAME, ("most", shape), lambda: self._most(shape))
        lacking = max(snapshot.jobs.minimum.item(job.index) - snapshot.jobs.ready.item(job.index), 0)
        return any(each * lacking > total for each, total in most)

    def _most(self, shape: int) -> list[tuple[float, float]]:
        """What one pod of a shape takes of each resource, and what there is of it; nothing, if no node takes a pod."""
        request = self.session.snapshot.shapes.requests[shape]
        if (request > self.largest).any():
            return [(0.0, -1.0)]
        return [(float(each), float(total)) for each, total in zip(request.tolist(), self.total.tolist(), strict=True)]

    def _lacks(self, jobs: Ints, least: Ints) -> Mask:
        """Whether the cluster is too small for each job, whose smallest pods request `least`."""
        table = self.session.snapshot.jobs
        lacking = np.maximum(table.minimum[jobs] - table.ready[jobs], 0)
        # As floats: the product may exceed 64-bit integers.
        too_many = (least.astype(np.float64) * lacking[:, None] > self.total).any(axis=1)
        return np.asarray(too_many | (least > self.largest).any(axis=1))


def _asking(session: Session) -> Mask:
    snapshot = session.snapshot
    open_queues = [
        q.open and not broken for q, broken in zip(snapshot.queues.queues, snapshot.queues.broken, strict=True)
    ]
    asking = np.array([*open_queues, False], dtype=np.bool_)[snapshot.jobs.queue]  # no queue is -1, the last entry
    asking[[i for i in snapshot.jobs.active if session.job(i).broken or session.is_held(session.job(i))]] = False
    return np.asarray(asking & ~snapshot.jobs.refused)


def deserved_by(session: Session, request: list[Row], guarantee: list[Row], limit: list[Row]) -> list[Row]:
    """The division of every resource between the queues."""
    axes, queues = session.snapshot.axes, session.snapshot.queues
    sharing = [q for q in range(len(queues)) if q != queues.root]
    weights = [max(queues.queues[q].weight, 1) for q in sharing]
    rows = [[0] * len(axes) for _ in queues.queues]
    shared = without_stuck(session)
    for d in range(len(axes)):
        if d == axes.pods:
            parts = [limit[q][d] for q in sharing]
        else:
            low = [guarantee[q][d] for q in sharing]
            parts = divide(shared[d], weights, low, [min(limit[q][d], request[q][d]) for q in sharing])
        for q, part in zip(sharing, parts, strict=True):
            rows[q][d] = part
    rows[queues.root][axes.pods] = UNLIMITED
    return rows
