"""Victims as columns: the gangs that can only leave whole, a row for each, in the order of cost.

On a full cluster nearly all victims are such gangs: at their minimum, with every pod among the candidates. What they
cost is known before a search begins, so a search compares them as columns. All other jobs (elastic ones, those with
surplus or subgroups, gangs of which a pod is protected) are compared unit by unit in `victims` and `openings`.

The table does not change. A gang whose number of pods is not that of its row has left.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from maar.model.fitting import EVERY
from maar.model.resources import Floats, Ints, Mask
from maar.session.eviction.cost import work_lost
from maar.session.hooks import Claim
from maar.session.no_room import one_shape
from maar.session.session import Session

OWNER = "gang table"


class GangTable:
    """The gangs among some candidates that can only leave whole."""

    def __init__(self, session: Session, claim: Claim, tasks: Ints) -> None:
        """`tasks`: the candidates for a claim, all of them still there."""
        self._session = session
        self._state = session.state
        snapshot = session.snapshot
        jobs = snapshot.tasks.job[tasks]
        found, size = np.unique(jobs, return_counts=True)
        whole = _may_leave_whole(session, claim.across_queues)[found] & (found != claim.job.index)
        whole &= (size == session.state.job_ready[found]) & (size <= _minimums(session)[found])
        self.job: Ints = found[whole]
        self.others: list[int] = found[~whole].tolist()
        """The jobs of the other candidates."""
        self.size: Ints = size[whole]
        self.queue: Ints = snapshot.jobs.queue[self.job]
        self.priority: Ints = snapshot.jobs.priority[self.job]
        held = _sums(session, tasks, np.searchsorted(found, jobs), len(found))[whole]
        kinds, of_kind = np.unique(np.column_stack((self.queue, held)), axis=0, return_inverse=True)
        self.kinds: list[list[int]] = kinds.tolist()
        """The queue of equal gangs, and what each of them holds."""
        self.kind: Ints = of_kind.reshape(-1)
        gpu, cpu = (np.bincount(jobs, work[tasks], len(snapshot.jobs))[self.job] for work in lost_by_task(session))
        self.turn: Ints = np.lexsort((self.job, cpu, gpu, self.priority))
        """The gangs in the order of cost if queues do not matter; jobs are numbered in the order of their keys."""
        self.rank: Ints = np.empty(len(self.job), dtype=np.int64)
        """The place of each gang among those of one priority, by lost work and then by key."""
        self.rank[np.lexsort((self.job, cpu, gpu))] = np.arange(len(self.job))
        self._find_spots(session, tasks, jobs)

    def _find_spots(self, session: Session, tasks: Ints, jobs: Ints) -> None:
        """Nodes with one of these gangs and no other candidate, if that is so on all nodes of the gang."""
        nodes = len(session.snapshot.nodes)
        pairs, of_pair = np.unique(jobs * nodes + session.state.node[tasks], return_inverse=True)
        owner, rows = np.divmod(pairs, max(nodes, 1))
        shared = (np.bincount(rows, minlength=nodes) > 1)[rows]
        alone = np.isin(owner, self.job) & ~np.isin(owner, owner[shared])
        self.row: Ints = rows[alone]
        """The node of each spot; the spots of one gang are next to each other, by node."""
        self.gang: Ints = np.searchsorted(self.job, owner[alone])
        self.gift: Ints = _sums(session, tasks, of_pair, len(pairs))[alone]
        """What each spot frees."""
        self.spot: Ints = np.full(nodes, -1)
        """The spot on each node; -1: none."""
        self.spot[self.row] = np.arange(len(self.row))
        self.first: Ints = np.flatnonzero(np.diff(self.gang, prepend=-1))
        """The first spot of each gang that has any."""

    def __contains__(self, job: int) -> bool:
        return job in self._numbers

    @cached_property
    def _numbers(self) -> dict[int, int]:
        return {job: number for number, job in enumerate(self.job.tolist())}

    def alike(self, job: int, gangs: Ints) -> list[int]:
        """The jobs of those of these gangs that have pods of the same shape in the same queue; fewest pods first.

        The gang itself is among them.
        """
        number = self._numbers[job]
        here = np.union1d(gangs[self.queue[gangs] == self.queue[number]], [number])
        here, shape = self.job[here[np.argsort(self.size[here], kind="stable")]], self._shape(job)
        return [other for other in here.tolist() if other == job or self._shape(other) == shape >= 0]

    def _shape(self, job: int) -> int:
        return one_shape(self._session, self._session.job(job))

    def there(self, refused: Mask, gangs: Ints | slice = EVERY) -> Mask:
        """Which of some gangs have not left, and are not among the refused jobs."""
        jobs = self.job[gangs]
        return np.asarray((self._state.job_ready[jobs] == self.size[gangs]) & ~refused[jobs])


def _sums(session: Session, tasks: Ints, of: Ints, count: int) -> Ints:
    """What tasks hold together, by what they are `of`: numbers below `count`."""
    snapshot = session.snapshot
    sums = np.zeros((count, len(snapshot.axes)), dtype=np.int64)
    np.add.at(sums, of, snapshot.shapes.requests[snapshot.tasks.shape[tasks]])
    return sums


def lost_by_task(session: Session) -> tuple[Floats, Floats]:
    """The GPU seconds and CPU seconds that are lost with each task."""
    return session.memo.fixed(OWNER, "work", lambda: work_lost(session.snapshot, EVERY, session.now))


def _may_leave_whole(session: Session, across_queues: bool) -> Mask:
    """The jobs that are evicted whole or not at all while they have no surplus."""

    def find() -> Mask:
        jobs, gang = session.snapshot.jobs, session.hooks.gang
        may = gang is not None and (gang.whole_for_reclaim if across_queues else gang.whole_for_preempt)
        found = np.full(len(jobs), may, dtype=np.bool_)
        found[[*jobs.elastic, *jobs.divided]] = False
        return found

    return session.memo.fixed(OWNER, across_queues, find)


def _minimums(session: Session) -> Ints:
    """The minimum of each job."""

    def find() -> Ints:
        gang = session.hooks.gang
        return np.array(
            [0 if gang is None else gang.minimum(job) for job in session.snapshot.jobs.jobs], dtype=np.int64
        )

    return session.memo.fixed(OWNER, "minimum", find)
