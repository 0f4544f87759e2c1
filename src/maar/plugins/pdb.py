"""pdb: disruption budgets limit how many pods of an application may be evicted.

It votes on victims. A PodDisruptionBudget allows a number of evictions; evictions of this session count against it. For
pods that leave together, it permits the first ones, in the given order, until a budget is used up. So a gang of three
under a budget of two gets two votes, and an eviction that needs all three is refused. A pod without a budget may be
evicted.
"""

from __future__ import annotations

import msgspec
import numpy as np

from maar.config.config import WithoutArguments
from maar.model.resources import Ints, Mask
from maar.model.snapshot import Snapshot
from maar.model.tasks import Status
from maar.session.eviction.protection import unprotected
from maar.session.hooks import Claim
from maar.session.register import Register
from maar.session.session import Session

NAME = "pdb"


class Cover(msgspec.Struct, frozen=True):
    """Which budgets cover which tasks: the budgets of task `t` are `budget[start[t]:start[t + 1]]`."""

    start: Ints
    budget: Ints

    def pairs(self, tasks: Ints) -> tuple[Ints, Ints]:
        """Every (position in `tasks`, budget) of the given tasks, in their order."""
        first, counts = self.start[tasks], self.start[tasks + 1] - self.start[tasks]
        position = np.repeat(np.arange(len(tasks)), counts)
        within = np.arange(len(position)) - np.repeat(np.cumsum(counts) - counts, counts)
        return position, self.budget[first[position] + within]


class Pdb(WithoutArguments):
    def open(self, session: Session, on: Register) -> None:
        """Register the votes, if there are budgets."""
        self._session = session
        self._cover: Cover | None = None
        budgets = session.snapshot.budgets.values()
        if not budgets:
            return
        self._allowed: Ints = np.array([max(b.allowed, 0) for b in budgets], dtype=np.int64)
        on.preemptable(self._victims)
        on.reclaimable(self._victims)

    def _victims(self, claim: Claim, tasks: Ints) -> Mask:
        if self._cover is None:
            self._cover = covered(self._session.snapshot)
        position, budget = self._cover.pairs(tasks)
        left = self._allowed - self._spent(self._cover)
        may = permitted(len(tasks), position, budget, left, together=claim.together)
        return np.asarray(may | unprotected(self._session, tasks))

    def _spent(self, cover: Cover) -> Ints:
        """The evictions of this session, by budget; earlier evictions are already included in `allowed`."""
        now, before = self._session.state.status, self._session.snapshot.tasks.status
        evicted = np.flatnonzero((now == Status.RELEASING) & (before != Status.RELEASING))
        return np.bincount(cover.pairs(evicted)[1], minlength=len(self._allowed))


def covered(snapshot: Snapshot) -> Cover:
    """The budgets of all tasks; a budget that no longer exists is ignored."""
    number = {key: i for i, key in enumerate(snapshot.budgets)}
    lists = [[number[b] for b in dict.fromkeys(t.budgets) if b in number] for t in snapshot.tasks.tasks]
    start = np.concatenate(([0], np.cumsum([len(found) for found in lists], dtype=np.int64)))
    return Cover(start, np.array([b for found in lists for b in found], dtype=np.int64))


def permitted(count: int, position: Ints, budget: Ints, left: Ints, *, together: bool) -> Mask:
    """Which of `count` tasks may be evicted, given the rest of each budget and the budgets at each position.

    With `together`, the first tasks of each budget use it up; otherwise each task is judged alone.
    """
    rank = np.zeros(len(budget), dtype=np.int64)
    if together:
        order = np.argsort(budget, kind="stable")
        ordered = budget[order]
        rank[order] = np.arange(len(ordered)) - np.searchsorted(ordered, ordered)
    may = np.ones(count, dtype=np.bool_)
    may[position[rank >= left[budget]]] = False
    return may
