"""How far below its share a claim leaves a queue.

A queue that has more than it deserves may lose tasks until it has not. The last of them may take it below that line,
because a pod or a gang is not divided. This measures by how much: the largest part of its deserved amount that the
queue, or a queue above it, would then lack, of a resource of which it had more when the search began. Of other
resources its tasks free what they free: no other queue claimed it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

from maar.model.resources import Ints
from maar.model.tasks import Status
from maar.session.eviction.units import Unit
from maar.session.hooks import Claim, Excess
from maar.session.session import Session

OWNER = "shortfall"
BOUND = int(Status.BOUND)
Amounts = dict[tuple[int, int], int]
"""Amounts by queue and resource."""


class Shortfalls:
    """The shares of the queues that may lose tasks in one search."""

    def __init__(self, session: Session, claim: Claim, tasks: Ints, queues: tuple[int, ...]) -> None:
        """The search begins now, and may evict these tasks of these queues."""
        self._session = session
        self._tasks = tasks
        snapshot = session.snapshot
        self._queue_of = snapshot.jobs.queue
        self._excess: dict[int, list[Excess]] = {}
        """By queue; queues that are not above their shares are left out."""
        if claim.across_queues and session.hooks.excess and len(tasks):
            mine = int(self._queue_of[claim.job.index])
            self._excess = session.memo.current(OWNER, (mine, queues), lambda: self._find(claim, queues))
        self._freed: Amounts = {}
        self._freed_at = session.state.version
        self._of_kind: dict[tuple[int, int], Fraction | int] = {}
        """The shortfall that one more task leaves, by its queue and shape."""
        self._kinds_of: Amounts = {}

    def _find(self, claim: Claim, queues: tuple[int, ...]) -> dict[int, list[Excess]]:
        found = {}
        for queue in queues:
            lines = [line for entry in self._session.hooks.excess for line in entry.call(queue, claim.job)]
            if lines:
                found[queue] = lines
        return found

    def __bool__(self) -> bool:
        """Whether a queue can be left below its share at all."""
        return bool(self._excess)

    def freed(self) -> Amounts:
        """What left in this search."""
        if not self._excess:
            return {}
        version = self._session.state.version
        if self._freed_at != version:
            gone = self._tasks[self._session.state.status[self._tasks] != BOUND]
            self._freed, self._freed_at = self._sum(gone.tolist()), version
        return self._freed

    def above(self) -> Amounts:
        """What queues still have above their shares; negative below them."""
        freed = self.freed()
        lines = (line for lines in self._excess.values() for line in lines)
        return {(line.queue, line.dim): line.over - freed.get((line.queue, line.dim), 0) for line in lines}

    def _sum(self, tasks: Iterable[int]) -> Amounts:
        """What these tasks hold, of the resources that count."""
        table, shapes = self._session.snapshot.tasks, self._session.snapshot.shapes.requests
        found: Amounts = {}
        for task in tasks:
            for queue, dim, *_ in self._excess.get(self._queue_of.item(table.job.item(task)), ()):
                found[queue, dim] = found.get((queue, dim), 0) + shapes.item(table.shape.item(task), dim)
        return found

    def of(self, units: Iterable[Unit]) -> Fraction | int:
        """The shortfall of the queues of some units if they left too."""
        if not self._excess:
            return 0
        status, units = self._session.state.status, list(units)
        going = self._sum({t for unit in units for t in unit.tasks if status.item(t) == BOUND})
        return self._worst({self._queue_of.item(unit.job) for unit in units}, going)

    def least(self, lacks: Sequence[int]) -> Fraction | int:
        """A shortfall that no choice of tasks avoids, if these amounts must be freed."""
        table, requests = self._session.snapshot.tasks, self._session.snapshot.shapes.requests
        queues = {int(q) for q in np.unique(self._queue_of[table.job[self._tasks]]).tolist()}
        if len(queues) > 1:
            return 0  # another queue may free it
        worst = Fraction(0)
        for _, dim, over, due in self._excess.get(queues.pop(), ()):
            held = requests[table.shape[self._tasks], dim]
            held = held[held > 0]
            if len(held) and lacks[dim] > 0:
                step = int(np.gcd.reduce(held))  # what tasks free together is a multiple of it
                freed = max(lacks[dim] + -lacks[dim] % step, int(held.min()))
                worst = max(worst, Fraction(max(freed - over, 0), due))
        return worst or 0

    def can_free(self, lacks: Sequence[int]) -> bool:
        """Whether queues may lose as much as must be freed: what is above their shares, and less than a gang more."""
        if not self._excess:
            return False
        snapshot = self._session.snapshot
        jobs = np.unique(snapshot.tasks.job[self._tasks])
        for dim in (d for d, amount in enumerate(lacks) if amount > 0):
            most = 0
            for queue, lines in self._excess.items():
                over = [line.over for line in lines if line.queue == queue and line.dim == dim]
                if not over:
                    return True  # not limited by the share of this resource
                gangs = jobs[self._queue_of[jobs] == queue]
                most += over[0] + int(self._session.state.job_allocated[gangs, dim].max(initial=0))
            if lacks[dim] >= most:
                return False
        return True

    def size(self, unit: Unit, beside: Unit) -> int:
        """How much a unit holds of what the queue of another unit has too much of; 0 if nothing."""
        lines = self._excess.get(self._queue_of.item(beside.job), ())
        table, requests = self._session.snapshot.tasks, self._session.snapshot.shapes.requests
        if self._queue_of.item(unit.job) != self._queue_of.item(beside.job):
            return 0
        return max((sum(requests.item(table.shape.item(t), line.dim) for t in unit.tasks) for line in lines), default=0)

    def of_task(self, task: int) -> Fraction | int:
        """The shortfall of the queue of a task if it left too."""
        if not self._excess:
            return 0
        freed, table = self.freed(), self._session.snapshot.tasks
        if freed != self._kinds_of:
            self._kinds_of, self._of_kind = freed, {}
        queue = self._queue_of.item(table.job.item(task))
        kind = queue, table.shape.item(task)
        if kind not in self._of_kind:
            self._of_kind[kind] = self._worst((queue,), self._sum((task,)))
        return self._of_kind[kind]

    def of_holder(self, queue: int, *holds: int) -> Fraction | int:
        """The shortfall of a queue if tasks left too that hold these amounts of each resource together."""
        return self._worst((queue,), {(line.queue, line.dim): holds[line.dim] for line in self._excess.get(queue, ())})

    def _worst(self, queues: Iterable[int], going: Amounts) -> Fraction | int:
        worst: Fraction | int = 0
        freed = self.freed()
        for queue in queues:
            for at, dim, over, due in self._excess.get(queue, ()):
                below = freed.get((at, dim), 0) + going.get((at, dim), 0) - over
                if below > 0:
                    worst = max(worst, Fraction(below, due))
        return worst
