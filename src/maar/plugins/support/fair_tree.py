"""The hierarchical part of drf: the tree of `support.hdrf` on the columns of a session.

Only waiting jobs and jobs touched in this session can grow; all others have what they request. The sum of a queue is
computed again only after one of its jobs changed, and the tree only after any change: each change writes a new number
into a journaled column, which a rollback restores.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from maar.model.minimum import has_minimum
from maar.model.resources import Ints, Mask, total
from maar.model.snapshot import Snapshot
from maar.model.tasks import Status
from maar.plugins.support.hdrf import Path, QueuePart, Tree, TreeStanding
from maar.plugins.support.quotas import InUse, has_job, has_own, vote_by_kind, wanted_row
from maar.plugins.support.shares import Dominant, Row, at_least, less, plus
from maar.session.hooks import Claim
from maar.session.session import Session

Changes = dict[int, Row]
"""Jobs, and what they would have instead of their current resources."""


class Watched(NamedTuple):
    """The jobs of a queue that may be able to grow, and what each requests in total."""

    jobs: Ints
    requests: Ints


class FairTree:
    """Orders queues and judges victims by shares in the tree."""

    def __init__(self, session: Session, dominant: Dominant) -> None:
        self._session = session
        self._dominant = dominant
        self._dims = [d for d, _ in dominant.scales]
        self._tree = Tree(session.snapshot.queues)
        self._in_use = InUse(session)
        queues = len(session.snapshot.queues)
        self._known: list[dict[int, Row]] = [{} for _ in range(queues)]
        """For each queue the jobs that wait or changed, and what they request."""
        self._watched: list[Watched | None] = [None] * queues
        for i in session.snapshot.jobs.active:
            self._watch(i)
        self._latest = 0
        self._stamp: Ints = session.state.column(queues + 1)
        """The number of the latest change of each queue; the last entry is for all queues."""
        self._parts: list[tuple[Any, QueuePart] | None] = [None] * queues
        self._keys: list[tuple[tuple[bool, Fraction], ...]] = []
        self._keys_of: int | None = None
        session.state.listen(self._changed)

    def key(self, queue: int) -> tuple[tuple[bool, Fraction], ...]:
        stamp = int(self._stamp[-1])
        if self._keys_of != stamp:
            standings = self._tree.standings(self._all_parts())
            self._keys = [self._tree.key(q, standings) for q in range(len(self._known))]
            self._keys_of = stamp
        return self._keys[queue]

    def victims(self, claim: Claim, tasks: Ints) -> Mask:
        """Evict tasks as long as the branch of their queue keeps at least the share that the claimant's would have."""
        snapshot = self._session.snapshot
        mine = int(snapshot.jobs.queue[claim.job.index])
        self._watch(claim.job.index)
        wanted = wanted_row(self._session, claim.job, claim.shape)
        has: Changes = {claim.job.index: plus(has_job(self._session, claim.job.index), wanted)}
        parts = self._all_parts()
        parts[mine] = self._part(mine, has)

        def judge(task: int, going: bool) -> bool:
            job = int(snapshot.tasks.job[task])
            queue = int(snapshot.jobs.queue[job])
            rivals = None if queue < 0 else self._tree.rivals(mine, queue)
            if rivals is None or not snapshot.queues.queues[queue].reclaimable:
                return False
            self._watch(job)
            holds: Row = snapshot.shapes.requests[snapshot.tasks.shape[task]].tolist()
            left = {**has, job: less(has.get(job, has_job(self._session, job)), holds)}
            moved = [self._part(q, left) if q == queue else part for q, part in enumerate(parts)]
            guilty = self._lighter(rivals, self._tree.standings(moved))
            if guilty and going:
                has.update(left)
                parts[queue] = moved[queue]
            return guilty

        kinds = snapshot.tasks.job[tasks] * len(snapshot.shapes) + snapshot.tasks.shape[tasks]
        return vote_by_kind(claim, tasks, kinds, judge)

    def _lighter(self, rivals: tuple[Path, Path], standings: dict[Path, TreeStanding]) -> bool:
        return self._tree.weighted(rivals[0], standings) <= self._tree.weighted(rivals[1], standings)

    # -- what jobs have

    def _used_up(self) -> Mask:
        return np.array([a <= b for a, b in zip(self._session.total, self._in_use.row(), strict=True)], dtype=np.bool_)

    def _changed(self, job: int, shape: int, rows: Ints, counts: Ints, sign: int) -> None:
        queue = int(self._session.snapshot.jobs.queue[job])
        self._watch(job)
        self._latest += 1
        for place in {queue, len(self._stamp) - 1}:
            self._session.state.add(self._stamp, place, self._latest - int(self._stamp[place]))

    def _watch(self, job: int) -> None:
        """Track from now on whether this job can grow."""
        queue = int(self._session.snapshot.jobs.queue[job])
        if queue >= 0 and job not in self._known[queue]:
            self._known[queue][job] = asked(self._session.snapshot, job)
            self._watched[queue] = None

    def _watching(self, queue: int) -> Watched:
        watched = self._watched[queue]
        if watched is None:
            known = self._known[queue]
            requests = np.array(list(known.values()), dtype=np.int64).reshape(len(known), len(self._session.total))
            watched = self._watched[queue] = Watched(np.array(list(known), dtype=np.int64), requests)
        return watched

    def _all_parts(self) -> list[QueuePart]:
        used_up = self._used_up().tobytes()
        found = []
        for queue, known in enumerate(self._parts):
            stamp = int(self._stamp[queue]), used_up, len(self._known[queue])
            if known is None or known[0] != stamp:
                known = self._parts[queue] = stamp, self._part(queue, {})
            found.append(known[1])
        return found

    def _part(self, queue: int, changes: Changes) -> QueuePart:
        """What the jobs of a queue have, with `changes` applied; growing jobs are listed separately."""
        full = has_own(self._session, queue)
        jobs, requests = self._watching(queue)
        if len(jobs) == 0:
            return QueuePart(self._dominant.parts(full), ())
        has = self._session.state.job_allocated[jobs]
        for at, job in enumerate(jobs.tolist() if changes else ()):
            if job in changes:
                full = plus(less(full, has[at].tolist()), changes[job])
                has[at] = changes[job]
        lacks = (requests > has)[:, self._dims]
        growing = has[lacks.any(axis=1) & ~(lacks & self._used_up()[self._dims]).any(axis=1)]
        kinds, counts = np.unique(growing, axis=0, return_counts=True)
        rows = [tuple(self._dominant.parts(row)) for row in kinds.tolist()]
        return QueuePart(
            self._dominant.parts(less(full, total(growing))), tuple(zip(rows, counts.tolist(), strict=True))
        )


def asked(snapshot: Snapshot, job: int) -> Row:
    """What a job had and waited for when the session opened; for pods not created yet, the needs of their group."""
    members = snapshot.jobs.members[job]
    pending = members[snapshot.tasks.status[members] == Status.PENDING]
    waits = snapshot.shapes.requests[snapshot.tasks.shape[pending]].sum(axis=0, dtype=np.int64)
    row: Row = (snapshot.jobs.allocated[job] + waits).tolist()
    group = snapshot.jobs.jobs[job]
    if group.min_resources and not has_minimum(group, snapshot.tasks_of(job)):
        row = at_least(row, snapshot.axes.row(group.min_resources))
    return row
