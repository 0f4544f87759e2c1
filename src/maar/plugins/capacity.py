"""capacity: each queue declares what it deserves, for every resource. 0 written out means none of it.

A queue may use room up to its limit (`capability`, less the guarantees of others) while no other queue wants it. It
keeps what it is guaranteed and reclaims what it deserves. With `enableHierarchy` queues form a tree: the limits of a
queue and of all its ancestors hold, only leaves take jobs, and shares are compared from the root down. The queues of a
victim are judged up to the ancestor that it shares with the claimant.

`ancestorReclaimLevel` counts levels above a leaf. The ancestors of a claimant up to this level may claim what they
deserve on its behalf. If it is set, the ancestors of a victim are judged up to this level (0: none, Volcano's default),
otherwise all of them.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from maar.model.codes import QUEUE_SHARE, WRONG_QUEUE, Code
from maar.model.fitting import how_many
from maar.model.jobs import Job
from maar.model.queues import Queue, closed
from maar.model.reasons import Reason
from maar.model.resources import UNLIMITED, Ints, Mask
from maar.plugins.support.admission import Admission
from maar.plugins.support.quotas import (
    OVER_CAPABILITY,
    compared,
    excess,
    flat_limits,
    guarantees,
    has_all,
    has_own,
    limit_row,
    minimum_row,
    next_row,
    over_limit,
    own_of,
    real_limit,
    vote_by_kind,
    wanted_row,
)
from maar.plugins.support.shares import Ratio, Row, at_least, at_most, less, plus, share_of
from maar.session.hooks import Claim, Excess, Share, Vote
from maar.session.journal import Array
from maar.session.register import Register
from maar.session.session import Session
from maar.session.state import queue_sums

NAME = "capacity"

NOT_LEAF = Code("QueueNotLeaf", WRONG_QUEUE)
GUARANTEED = Code("GuaranteedToOthers", QUEUE_SHARE)
PROTECTED = Code("ProtectedOverDeserved", QUEUE_SHARE)
CODES = (NOT_LEAF, OVER_CAPABILITY, GUARANTEED, PROTECTED)


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`ancestorReclaimLevel`: see the module.

    `protectOnlyDeserved`: jobs that may not be evicted start only within what their queue deserves, at every level.
    """

    ancestor_reclaim_level: int | None = msgspec.field(name="ancestorReclaimLevel", default=None)
    protect_only_deserved: bool = msgspec.field(name="protectOnlyDeserved", default=False)

    def notes(self) -> list[str]:
        if not self.protect_only_deserved:
            return []
        return ["`protectOnlyDeserved`: jobs that may not be evicted start only within what their queues deserve"]


class Capacity:
    def __init__(self, arguments: Arguments) -> None:
        self._claim_levels = max(arguments.ancestor_reclaim_level or 0, 0)
        self._judge_levels = arguments.ancestor_reclaim_level
        self._limits_protected = arguments.protect_only_deserved

    def open(self, session: Session, on: Register) -> None:
        self._session = session
        self._axes = session.snapshot.axes
        self._queues = session.snapshot.queues
        self._dims = compared(self._axes)
        self._tree = on.flags.get("hierarchy") is True
        self._guarantee = guarantees(session)
        self._limit = tree_limits(session, self._guarantee) if self._tree else flat_limits(session, self._guarantee)
        self._quota = [quota_of(row, session.total) for row in self._limit]
        self._deserved = deserved_by(session, self._guarantee, self._limit)
        self._named = named_by(session, self._deserved)
        self._admission = Admission(session, on)
        self._protected = Protected(session) if self._limits_protected else None
        on.deserved(self._due)
        on.queue_order_by_job(self._order, "higher priority, stays within its share, or uses less of it")
        on.victim_queue_order(self._victim_order)
        on.job_valid(self._valid)
        on.allocatable(self._allowed, self._why_not)
        on.excess(self._excess)
        on.preemptive(self._may_take)
        on.reclaimable(self._victims, alike=True)
        on.job_enqueueable(self._enqueueable)

    # -- queues

    def _of(self, job: Job) -> int:
        return int(self._session.snapshot.jobs.queue[job.index])

    def _path(self, q: int) -> tuple[int, ...]:
        """The queues whose limits hold for the jobs of a queue, itself first."""
        return self._queues.path[q] if self._tree else (q,)

    def _has(self, q: int) -> Row:
        return has_all(self._session, q) if self._tree else has_own(self._session, q)

    def _meeting(self, q: int, other: int) -> int:
        """How many steps above a queue its path meets the path of another."""
        theirs = set(self._queues.path[other])
        return next((steps for steps, above in enumerate(self._queues.path[q]) if above in theirs), 0)

    def _due(self, q: int) -> Share:
        """What a queue deserves: only what it declares counts, unless it deserves nothing at all."""
        deserved, named = self._deserved[q], self._named[q]
        return [amount if d in named else None for d, amount in enumerate(deserved)] if any(deserved) else deserved

    # -- orders

    def _share(self, q: int) -> tuple[Any, bool]:
        """Its share, and whether it deserves nothing: it then has share 1 and comes after equal shares."""
        deserves = any(self._deserved[q][d] > 0 for d in self._dims)
        due = [d for d in self._dims if d in self._named[q]]
        return (share_of(self._has(q), self._deserved[q], due), False) if deserves else (Ratio(1, 1), True)

    def _order(self, queue: Queue, job: Job | None) -> tuple[Any, ...]:
        path = self._path(self._queues.number[queue.name])
        below_root = [q for q in reversed(path) if q != self._queues.root or not self._tree]
        asks = None if job is None else next_row(self._session, job)
        return -queue.priority, tuple(
            (asks is not None and self._exceeds(q, asks), *self._share(q)) for q in below_root
        )

    def _exceeds(self, q: int, asks: Row) -> bool:
        """Whether a queue would have more than it deserves if it got these amounts."""
        due, has = self._due(q), self._has(q)
        return any(asks[d] > 0 and (most := due[d]) is not None and has[d] + asks[d] > most for d in self._dims)

    def _victim_order(self, queue: Queue, claimant: Job) -> int:
        return self._meeting(self._of(claimant), self._queues.number[queue.name]) if self._tree else 0

    # -- what a queue may have

    def _refused(self, job: Job) -> Reason | None:
        """Why a queue takes no job at all, or `None`."""
        q = self._of(job)
        if not self._tree:
            return None if self._queues.queues[q].open else closed(NAME, self._queues.queues[q].name)
        shut = next((above for above in self._path(q) if not self._queues.queues[above].open), None)
        return closed(NAME, self._queues.queues[shut].name) if shut is not None else self._valid(job)

    def _valid(self, job: Job) -> Reason | None:
        q = self._of(job)
        if not self._tree or (self._queues.is_leaf(q) and q != self._queues.root):
            return None
        what = f"queue `{job.queue}` has child queues: with `enableHierarchy` only queues without children take jobs"
        return Reason(NAME, NOT_LEAF.name, what, queue=job.queue)

    def _allowed(self, job: Job, shape: int, wanted: int) -> int:
        if self._refused(job) is not None:
            return 0
        request = wanted_row(self._session, job, shape)
        for q in self._path(self._of(job)):
            wanted = how_many(less(self._quota[q], self._has(q)), request, wanted)
        if self._protected is not None and self._protected.jobs[job.index]:
            for q in self._entitling(job):
                wanted = how_many(less(self._entitled(q), self._protected.has(q, own=not self._tree)), request, wanted)
        return wanted

    def _entitling(self, job: Job) -> list[int]:
        """The queue of a job, and those above it that declare what they deserve."""
        own, *above = self._path(self._of(job))
        return [own, *(q for q in above if any(self._deserved[q]))]

    def _entitled(self, q: int) -> Row:
        """What the protected jobs of a queue may have."""
        row = [UNLIMITED if due is None else due for due in self._due(q)]
        row[self._axes.pods] = UNLIMITED
        return row

    def _why_not(self, job: Job, shape: int, wanted: int) -> Reason:
        asks = [n * wanted for n in wanted_row(self._session, job, shape)]
        refusal = self._refused(job)
        path = self._path(self._of(job))
        for q in path:
            refusal = refusal or self._over(q, limit_row(self._axes, self._queues.queues[q]), self._has(q), asks)
        for q in path:
            # The rest of the cluster is guaranteed to other queues.
            rest = self._over(q, self._quota[q], self._has(q), asks) if refusal is None else None
            refusal = refusal or (rest and replace(rest, code=GUARANTEED.name))
        if refusal is None and self._protected is not None and self._protected.jobs[job.index]:
            refusal = self._why_protected(job, asks)
        return refusal or Reason(
            NAME, OVER_CAPABILITY.name, f"queue `{job.queue}` has reached its limit", queue=job.queue
        )

    def _why_protected(self, job: Job, asks: Row) -> Reason | None:
        assert self._protected is not None
        which = "deserved, for jobs that may not be evicted"
        for q in self._entitling(job):
            has, queue = self._protected.has(q, own=not self._tree), self._queues.queues[q]
            over = over_limit(NAME, PROTECTED, queue, self._axes, which, self._entitled(q), has, asks)
            if over is not None:
                return over
        return None

    def _over(self, q: int, limit: Row, has: Row, asks: Row, lacked: Row | None = None) -> Reason | None:
        queue = self._queues.queues[q]
        return over_limit(NAME, OVER_CAPABILITY, queue, self._axes, "capability", limit, has, asks, lacked)

    def _enqueueable(self, job: Job) -> Vote | Reason:
        refusal, asks = self._refused(job), minimum_row(self._session, job)
        for q in self._path(self._of(job)):
            own = not self._tree
            has = less(self._has(q), self._admission.surplus(q, own))
            refusal = refusal or self._over(q, self._limit[q], has, asks, self._admission.lacked(q, own))
        return Vote.PERMIT if refusal is None else refusal

    # -- what it may take from others

    def _may_take(self, job: Job, shape: int, count: int) -> bool:
        """Whether the request is within the limit, and the queue or a claiming ancestor deserves a part of it."""
        q = self._of(job)
        wanted = [n * count for n in wanted_row(self._session, job, shape)]
        if self._refused(job) is not None or how_many(less(self._limit[q], self._has(q)), wanted, 1) < 1:
            return False
        levels = self._claim_levels if self._tree else 0
        claimants = [above for above in self._path(q)[: levels + 1] if above != self._queues.root or above == q]
        return any(self._deserves(above, wanted) for above in claimants)

    def _deserves(self, q: int, wanted: Row) -> bool:
        has, deserved = self._has(q), self._deserved[q]
        return any(wanted[d] > 0 and 0 < deserved[d] >= has[d] + wanted[d] for d in self._dims)

    def _excess(self, queue: int, claimant: Job) -> list[Excess]:
        """Of the queue and those above it, below the ancestor that it shares with the claimant."""
        path = self._path(queue)
        judged = path[: self._meeting(queue, self._of(claimant))] if self._tree else path
        return [over for q in judged for over in excess(q, self._has(q), self._deserved[q], self._dims)]

    def _victims(self, claim: Claim, tasks: Ints) -> Mask:
        snapshot = self._session.snapshot
        mine, wanted = self._of(claim.job), wanted_row(self._session, claim.job, claim.shape)
        queues, shapes = snapshot.jobs.queue[snapshot.tasks.job[tasks]], snapshot.tasks.shape[tasks]
        has: dict[int, Row] = {}

        def judge(task: int, going: bool) -> bool:
            q = int(snapshot.jobs.queue[snapshot.tasks.job[task]])
            if q < 0 or not self._queues.queues[q].reclaimable:
                return False
            holds: Row = snapshot.shapes.requests[snapshot.tasks.shape[task]].tolist()
            path = self._path(q)
            for above in path:
                if above not in has:
                    has[above] = self._has(above)
            guilty = self._may_go(mine, wanted, path, holds, has, claim.whole)
            if guilty and going:
                for above in path:
                    has[above] = less(has[above], holds)
            return guilty

        return vote_by_kind(claim, tasks, queues * len(snapshot.shapes) + shapes, judge)

    def _may_go(
        self, mine: int, wanted: Row, path: tuple[int, ...], holds: Row, has: dict[int, Row], whole: bool
    ) -> bool:
        """Whether a task that holds these resources may leave its queue (`path[0]`) for a claim of queue `mine`."""
        held = [d for d in self._dims if holds[d] > 0]
        if not any(wanted[d] > 0 for d in held):
            return False
        steps = self._meeting(path[0], mine) if self._tree else 1
        now = {q: self._has(q) for q in path} if whole else has
        if not self._judged(path[0], wanted, held, now[path[0]]) or not self._keeps(path[:steps], holds, has):
            return False
        if self._claim_levels and self._tree and path[steps] != self._queues.root:
            # The claimant may claim for a common ancestor: a queue that deserves nothing takes nothing from its kin.
            own = any(self._deserved[mine][d] > 0 for d in self._dims if wanted[d] > 0)
            if not own and not any(self._deserved[path[0]][d] > 0 for d in held):
                return False
        above = path[1:steps] if self._judge_levels is None else path[1 : min(steps, self._judge_levels + 1)]
        return all(self._judged(q, wanted, held, now[q]) for q in above)

    def _judged(self, q: int, wanted: Row, held: list[int], has: Row) -> bool:
        """Whether a queue has more than it deserves of the task's resources, or declares none of them."""
        deserved = self._deserved[q]
        due = [d for d in held if d in self._named[q]]
        relevant = [d for d in due if wanted[d] > 0] or due
        return not due or any(has[d] > deserved[d] for d in relevant)

    def _keeps(self, queues: tuple[int, ...], holds: Row, has: dict[int, Row]) -> bool:
        """Whether all guarantees still hold without the task."""
        return all(
            has[q][d] - holds[d] >= self._guarantee[q][d]
            for q in queues
            for d in self._dims
            if holds[d] > 0 and self._guarantee[q][d] > 0
        )


class Protected:
    """What each queue's jobs have that may not be evicted: a gang of which one pod is not preemptable counts whole."""

    def __init__(self, session: Session) -> None:
        self._session = session
        snapshot, tasks = session.snapshot, session.snapshot.tasks
        self.jobs: Mask = np.zeros(len(snapshot.jobs), dtype=np.bool_)
        self.jobs[tasks.job[~tasks.preemptable]] = True
        self._has: Array = queue_sums(snapshot, session.state.job_allocated * self.jobs[:, None])
        session.state.listen(self._changed)

    def _changed(self, job: int, shape: int, rows: Ints, counts: Ints, sign: int) -> None:
        snapshot = self._session.snapshot
        if self.jobs[job] and snapshot.jobs.queue[job] >= 0:
            amount = snapshot.shapes.requests[shape].astype(object) * (sign * int(counts.sum()))
            for q in snapshot.queues.path[int(snapshot.jobs.queue[job])]:
                self._session.state.add(self._has, q, amount)

    def has(self, queue: int, *, own: bool) -> Row:
        """Of a queue, with or without those below it."""
        row: Row = self._has[queue].tolist()
        return own_of(self._session, self._has, queue) if own else row


def tree_limits(session: Session, guarantee: list[Row]) -> list[Row]:
    """The limit of each queue in a tree: children share the limit of their parent."""
    queues, nothing = session.snapshot.queues, [0] * len(session.snapshot.axes)
    limits = [nothing for _ in queues.queues]
    limits[queues.root] = real_limit(session, queues.queues[queues.root], session.total, nothing, nothing)
    unvisited = [queues.root]
    while unvisited:
        parent = unvisited.pop()
        guaranteed = nothing
        for child in queues.children[parent]:
            guaranteed = plus(guaranteed, guarantee[child])
        for child in queues.children[parent]:
            limits[child] = real_limit(session, queues.queues[child], limits[parent], guaranteed, guarantee[child])
            unvisited.append(child)
    return limits


def quota_of(limit: Row, total: Row) -> Row:
    """The limit, or unlimited where it is the whole cluster: nodes then explain a refusal better than quotas."""
    return [UNLIMITED if most >= there else most for most, there in zip(limit, total, strict=True)]


def deserved_by(session: Session, guarantee: list[Row], limit: list[Row]) -> list[Row]:
    """What each queue deserves: its declaration, at most its limit, at least its guarantee; 0 if not declared."""
    axes = session.snapshot.axes
    rows = []
    for q, queue in enumerate(session.snapshot.queues.queues):
        row = at_least(at_most(axes.row(queue.deserved or {}), limit[q]), guarantee[q])
        row[axes.pods] = 0
        rows.append(row)
    return rows


def named_by(session: Session, deserved: list[Row]) -> list[frozenset[int]]:
    """The resources that each queue declares, also with 0: of those it deserves none. Pod slots do not count."""
    axes = session.snapshot.axes
    return [
        frozenset(axes.index[name] for name in queue.deserved or {} if name in axes.index)
        .union(d for d, amount in enumerate(row) if amount > 0)
        .difference((axes.pods,))
        for queue, row in zip(session.snapshot.queues.queues, deserved, strict=True)
    ]
