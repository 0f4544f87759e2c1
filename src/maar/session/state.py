"""The mutable part of a session: integer columns, written through the journal.

Everything that a cycle changes is a number in an array: resources used on nodes, places of tasks, resources of jobs and
queues. Columns of plugins are made here too (`column`) and are undone with the others. The cost grows with the number
of touched rows.

The verbs are `bind`, `nominate`, `withdraw` (a nomination), `reserve` and `evict`. They update node, job, role and
queue together. No other module writes to these columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from maar.model.resources import Ints
from maar.model.snapshot import Snapshot, only
from maar.model.tasks import Status
from maar.session.journal import Array, Journal

if TYPE_CHECKING:
    from maar.session.counters import Counter

Listener = Callable[[int, int, Ints, Ints, int], None]
"""Called when a job gets or loses tasks: job, shape, rows of nodes (-1: no known node), how many on each, 1 or -1."""

NOWHERE: Ints = np.array([-1])
ONE: Ints = np.array([1])
START: Ints = np.array([0])
MANY = 32
"""From this number on, tasks that leave together are counted together, whatever their jobs. Tuned by hand."""


class ReservedRoom(NamedTuple):
    """Room kept for pods of a job that do not exist yet; negative counts cancel earlier room."""

    shape: int
    rows: Ints
    counts: Ints
    beside: bool
    """For a pod beside the workers (a master, a launcher), which may have the same shape as a worker."""


class SessionState(Journal):
    """The columns of one session."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(len(snapshot.nodes))
        self.snapshot = snapshot
        self.used: Ints = snapshot.used.copy()
        self.releasing: Ints = snapshot.releasing.copy()
        self.nominated: Ints = snapshot.nominated.copy()
        self.features: Ints = only(snapshot.features, snapshot.shown, len(snapshot.features))
        self.leaving: Ints = only(snapshot.leaving, snapshot.shown, len(snapshot.leaving))
        self.status: npt.NDArray[np.int8] = snapshot.tasks.status.copy()
        self.node: Ints = snapshot.tasks.node.copy()
        jobs = snapshot.jobs
        self.job_allocated: Ints = jobs.allocated.copy()
        self.job_ready: Ints = jobs.ready.copy()
        self.job_nominated: Ints = jobs.nominated.copy()
        self.job_pending: Ints = jobs.pending.copy()
        self.role_ready: Ints = jobs.role_ready.copy()
        self.role_nominated: Ints = jobs.role_nominated.copy()
        self.queue_allocated: Array = queue_sums(snapshot, jobs.allocated)
        """Python integers: the queue's own jobs and the jobs of all queues below it."""
        self.soft: bool = bool(self.releasing.any() or self.nominated.any())
        """Whether current room and room to come may differ."""
        self.reserved: dict[int, tuple[ReservedRoom, ...]] = {}
        """Job row to the room kept for its pods."""
        self._requests: list[Array] = [
            np.array([int(x) for x in row], dtype=object) for row in snapshot.shapes.requests
        ]
        self._listeners: list[Listener] = []
        self._counters: tuple[Counter, ...] = ()

    # -- for plugins

    def column(self, size: int | tuple[int, ...]) -> Ints:
        """A column of zeros for a plugin; changes made with `add` are undone with the others."""
        return np.zeros(size, dtype=np.int64)

    def listen(self, listener: Listener) -> None:
        """Call `listener` whenever a job gets or loses tasks (not on undo, which the journal does)."""
        self._listeners.append(listener)

    def tell(self, counters: Iterable[Counter]) -> None:
        """Tell these counters which tasks come and go."""
        self._counters = tuple(counters)

    def close(self) -> None:
        """Drop everything: listeners and history refer to the session."""
        vars(self).clear()

    # -- the verbs

    def bind(self, job: int, shape: int, tasks: Ints, rows: Ints, counts: Ints) -> None:
        """Put pending tasks of one shape and role on nodes: `counts[i]` of them, in order, on `rows[i]`."""
        self.add(self.used, rows, counts[:, None] * self.snapshot.shapes.requests[shape])
        self._arrive(job, shape, tasks, rows, counts, Status.BOUND)

    def nominate(self, job: int, shape: int, tasks: Ints, rows: Ints, counts: Ints) -> None:
        """Nominate room for pending tasks that is free or being released."""
        self.soften()
        self.add(self.nominated, rows, counts[:, None] * self.snapshot.shapes.requests[shape])
        self._arrive(job, shape, tasks, rows, counts, Status.NOMINATED)

    def withdraw(self, *tasks: int) -> None:
        """Cancel nominations: the tasks are pending again."""
        for job, shape, role, chosen, rows, counts in self._alike(tasks):
            self.add(self.nominated, rows, -counts[:, None] * self.snapshot.shapes.requests[shape])
            self._show(self.features, shape, rows, -counts)
            self.add(self.status, chosen, np.int8(Status.PENDING - Status.NOMINATED))
            self.add(self.node, chosen, -1 - self.node[chosen])
            self.add(self.job_pending, job, len(chosen))
            for counter in self._counters:
                counter.give_back(shape, chosen, rows, counts)
            self._count(job, role, -len(chosen), self.job_nominated, self.role_nominated)
            self._pay(job, shape, rows, counts, len(chosen), -1)
            self.touch(rows)

    def reserve(self, job: int, shape: int, rows: Ints, counts: Ints, beside: bool = False) -> None:
        """Keep free or releasing room for pods of a job that do not exist yet; its queue is charged."""
        self.soften()
        self.add(self.nominated, rows, counts[:, None] * self.snapshot.shapes.requests[shape])
        for feature in self.snapshot.shapes.features[shape]:
            self.add(self.features, (feature, rows), counts)
        comes, number = counts.sum() > 0, np.abs(counts)
        for counter in self._counters:
            if comes:
                counter.take(shape, NOWHERE[:0], rows, number, nominated=True)
            else:
                counter.give_back(shape, NOWHERE[:0], rows, number)
        self._pay(job, shape, rows, number, int(number.sum()), 1 if comes else -1)
        self.touch(rows)
        self.put(self.reserved, job, (*self.reserved.get(job, ()), ReservedRoom(shape, rows, counts, beside)))

    def let_go(self, job: int) -> None:
        """Release all room kept for pods of a job that do not exist yet."""
        for kept in self.reserved.get(job, ()):
            self.reserve(job, kept.shape, kept.rows, -kept.counts, kept.beside)

    def evict(self, *tasks: int) -> None:
        """Evict bound tasks: their room is releasing, and their queues are no longer charged."""
        self.soften()
        self._leave(tasks, 1)

    def spare(self, *tasks: int) -> None:
        """Cancel evictions of this session."""
        self._leave(tasks, -1)

    def linger(self, task: int, charged: bool) -> None:
        """Count a task that is being deleted as staying: its room does not become free, and its queue may pay."""
        row, shape, job = self._place_of(task)
        if row >= 0:
            self.add(self.releasing, row, -self.snapshot.shapes.requests[shape])
            self._show(self.leaving, shape, row, -1)
            for counter in self._counters:
                counter.leave(task, row, -1)
            self.touch(np.array([row]))
        if charged:
            self._pay(job, shape, np.array([row]), ONE, 1, 1)

    def charge(self, job: int, shape: int, count: int) -> None:
        """Count tasks without a node against their job and queue, to try what the queue may still have."""
        self._pay(job, shape, NOWHERE, np.array([count]), count, 1)

    def charge_queue(self, queue: int, amounts: Array) -> None:
        """Charge amounts (negative: give back) to a queue and all above it without a job, to try what it may have."""
        for q in self.snapshot.queues.path[queue]:
            self.add(self.queue_allocated, q, amounts.astype(object))

    def clear_queue(self, queue: int) -> None:
        """Count a queue and all above it as having nothing, to try what it may have."""
        for q in self.snapshot.queues.path[queue]:
            self.add(self.queue_allocated, q, -self.queue_allocated[q])

    def soften(self, soft: bool = True) -> None:
        """Set whether current room and room to come may differ."""
        if self.soft != soft:
            self.assign(self, "soft", soft)

    # -- parts of the verbs

    def _arrive(self, job: int, shape: int, tasks: Ints, rows: Ints, counts: Ints, status: Status) -> None:
        for feature in self.snapshot.shapes.features[shape]:
            self.add(self.features, (feature, rows), counts)
        for counter in self._counters:
            counter.take(shape, tasks, rows, counts, nominated=status is Status.NOMINATED)
        self.add(self.status, tasks, np.int8(status - Status.PENDING))
        self.add(self.node, tasks, rows.repeat(counts) + 1)
        self.add(self.job_pending, job, -len(tasks))
        role = self._role(tasks.item(0))
        if status is Status.BOUND:
            self._count(job, role, len(tasks), self.job_ready, self.role_ready)
        else:
            self._count(job, role, len(tasks), self.job_nominated, self.role_nominated)
        self._pay(job, shape, rows, counts, len(tasks), 1)
        self.touch(rows)

    def _leave(self, tasks: Sequence[int], n: int) -> None:
        """Mark bound tasks as leaving (1), or cancel that (-1)."""
        if len(tasks) > MANY and self._leave_together(np.array(tasks), n):
            return
        for job, shape, role, chosen, rows, counts in self._alike(tasks):
            known = rows >= 0
            here, leaving = rows[known], n * counts[known]
            if len(here):
                self.add(self.releasing, here, leaving[:, None] * self.snapshot.shapes.requests[shape])
                self._show(self.leaving, shape, here, leaving)
                for counter in self._counters:
                    for task, row in zip(chosen.tolist(), self.node[chosen].tolist(), strict=True):
                        if row >= 0:
                            counter.leave(task, row, n)
                self.touch(here)
            self.add(self.status, chosen, np.int8(n * (Status.RELEASING - Status.BOUND)))
            self._count(job, role, -n * len(chosen), self.job_ready, self.role_ready)
            self._pay(job, shape, rows, counts, len(chosen), -n)

    def _leave_together(self, tasks: Ints, n: int) -> bool:
        """The same for tasks of many jobs at once; false, and nothing is done, if somebody must know of each."""
        table, requests = self.snapshot.tasks, self.snapshot.shapes.requests
        shapes, jobs, rows = table.shape[tasks], table.job[tasks], self.node[tasks]
        features = self.snapshot.shapes.features
        if self._listeners or self._counters or any(features[shape] for shape in set(shapes.tolist())):
            return False
        here = rows >= 0
        self._sum(self.releasing, rows[here], n * requests[shapes[here]])
        self.touch(rows[here])
        self.add(self.status, tasks, np.int8(n * (Status.RELEASING - Status.BOUND)))
        ones = np.full(len(tasks), -n)
        self._sum(self.job_ready, jobs, ones)
        self._sum(self.role_ready, self.snapshot.jobs.task_role[tasks], ones)
        self._sum(self.job_allocated, jobs, -n * requests[shapes])
        queues, of = np.unique(self.snapshot.jobs.queue[jobs] * len(requests) + shapes, return_counts=True)
        for kind, count in zip(queues.tolist(), of.tolist(), strict=True):
            queue, shape = divmod(kind, len(requests))
            for q in self.snapshot.queues.path[queue] if queue >= 0 else ():
                self.add(self.queue_allocated, q, self._requests[shape] * (-n * count))
        return True

    def _sum(self, column: Ints, at: Ints, amounts: Ints) -> None:
        """Add amounts to a column at places that may be named more than once."""
        places, of = np.unique(at, return_inverse=True)
        sums = np.zeros((len(places), *column.shape[1:]), dtype=np.int64)
        np.add.at(sums, of.reshape(-1), amounts)
        self.add(column, places, sums)

    def _alike(self, tasks: Sequence[int]) -> Iterator[tuple[int, int, int, Ints, Ints, Ints]]:
        """Placed tasks by job, shape and role, in the order of their nodes (-1: no known node): how many on each."""
        table, roles = self.snapshot.tasks, self.snapshot.jobs.task_role
        parts: dict[tuple[int, int, int], list[int]] = {}
        for task in tasks:
            parts.setdefault((table.job.item(task), table.shape.item(task), roles.item(task)), []).append(task)
        for (job, shape, role), members in parts.items():
            chosen = np.array(members)
            on = self.node[chosen]
            order = on.argsort(kind="stable")
            on = on[order]
            first = np.concatenate((START, (on[1:] != on[:-1]).nonzero()[0] + 1))
            yield job, shape, role, chosen[order], on[first], np.append(first[1:], len(on)) - first

    def _count(self, job: int, role: int, n: int, of_job: Ints, of_role: Ints) -> None:
        self.add(of_job, job, n)
        self.add(of_role, role, n)

    def _pay(self, job: int, shape: int, rows: Ints, counts: Ints, total: int, sign: int) -> None:
        """Charge `total` tasks to their job and queue (-1: give back): `counts[i]` of them on `rows[i]`."""
        n = sign * total
        self.add(self.job_allocated, job, n * self.snapshot.shapes.requests[shape])
        queue = self.snapshot.jobs.queue.item(job)
        if queue >= 0:
            amount = self._requests[shape] * n
            for q in self.snapshot.queues.path[queue]:
                self.add(self.queue_allocated, q, amount)
        for listener in self._listeners:
            listener(job, shape, rows, counts, sign)

    def _show(self, column: Ints, shape: int, rows: Ints | int, counts: Ints | int) -> None:
        for feature in self.snapshot.shapes.features[shape]:
            self.add(column, (feature, rows), counts)

    def _place_of(self, task: int) -> tuple[int, int, int]:
        tasks = self.snapshot.tasks
        return self.node.item(task), tasks.shape.item(task), tasks.job.item(task)

    def _role(self, task: int) -> int:
        return self.snapshot.jobs.task_role.item(task)


def queue_sums(snapshot: Snapshot, of_jobs: Ints) -> Array:
    """The resources of each queue's jobs, with the queues below it, as Python integers."""
    queues, resources = len(snapshot.queues), len(snapshot.axes)
    own = np.zeros((queues, resources), dtype=object)
    queue = snapshot.jobs.queue
    known = queue >= 0
    place = (queue[known, None] * resources + np.arange(resources)).ravel()
    for half, shift in ((of_jobs[known] >> 32, 32), (of_jobs[known] & 0xFFFFFFFF, 0)):
        # Sums of floats, ten times as fast, and exact: two million jobs with half an integer each stay below 2**53.
        part = np.bincount(place, weights=half.ravel(), minlength=queues * resources).astype(np.int64)
        own += part.reshape(queues, resources).astype(object) * (1 << shift)
    sums = np.zeros_like(own)
    for q in range(queues):
        for above in snapshot.queues.path[q]:
            sums[above] += own[q]
    return sums
