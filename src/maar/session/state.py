"""The part of a session that changes: integer columns, written through the journal.

Everything a cycle moves is a number in an array: what nodes have used, where tasks are, what jobs and queues have. The
columns that plugins keep are made here too (`column`) and are undone with the others. Cost grows with what was touched.

The verbs are few: `bind`, `nominate`, `withdraw` (a nomination), `hold` and `evict`. They keep the books of node, job,
role and queue together; nobody else writes to the columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from maar.model.resources import Ints
from maar.model.snapshot import Snapshot
from maar.model.tasks import Status
from maar.session.journal import Array, Journal

Listener = Callable[[int, int, int], None]
"""Told of every change of what a job has: job, shape, number of tasks (negative when they go)."""


class Held(NamedTuple):
    """Room that is kept for pods of a job that do not exist yet; negative counts are room that is kept no more."""

    shape: int
    rows: Ints
    counts: Ints
    beside: bool
    """Not for a worker but for a pod beside them (a master, a launcher), which may well have the same shape."""


class State(Journal):
    """The columns of one session."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self.snapshot = snapshot
        self.used: Ints = snapshot.used.copy()
        self.releasing: Ints = snapshot.releasing.copy()
        self.nominated: Ints = snapshot.nominated.copy()
        self.features: Ints = snapshot.features.copy()
        self.leaving: Ints = snapshot.leaving.copy()
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
        """Python integers: a queue's own jobs and those of all queues below it."""
        self.soft: bool = bool(self.releasing.any() or self.nominated.any())
        """Whether room now and room to come may differ."""
        self.held: dict[int, tuple[Held, ...]] = {}
        """Job row to the room that is kept for pods of it."""
        self._requests: list[Array] = [
            np.array([int(x) for x in row], dtype=object) for row in snapshot.shapes.requests
        ]
        self._listeners: list[Listener] = []

    # -- for plugins

    def column(self, size: int | tuple[int, ...]) -> Ints:
        """A column of zeros for a plugin's own count; write to it with `add` and it is undone with the others."""
        return np.zeros(size, dtype=np.int64)

    def listen(self, listener: Listener) -> None:
        """Be told whenever a job gets or loses tasks (not when that is undone: the journal does that)."""
        self._listeners.append(listener)

    # -- the verbs

    def bind(self, job: int, shape: int, tasks: Ints, rows: Ints, counts: Ints) -> None:
        """Put pending tasks of one shape and role on nodes: `counts[i]` of them, in order, on `rows[i]`."""
        self.add(self.used, rows, counts[:, None] * self.snapshot.shapes.requests[shape])
        self._arrive(job, shape, tasks, rows, counts, Status.BOUND)

    def nominate(self, job: int, shape: int, tasks: Ints, rows: Ints, counts: Ints) -> None:
        """Promise pending tasks room that is there or coming."""
        self.soften()
        self.add(self.nominated, rows, counts[:, None] * self.snapshot.shapes.requests[shape])
        self._arrive(job, shape, tasks, rows, counts, Status.NOMINATED)

    def withdraw(self, task: int) -> None:
        """Take a nomination back: the task is pending again."""
        row, shape, job = self._place_of(task)
        self.add(self.nominated, row, -self.snapshot.shapes.requests[shape])
        self._show(self.features, shape, row, -1)
        self.add(self.status, task, np.int8(Status.PENDING - Status.NOMINATED))
        self.add(self.node, task, -1 - row)
        self.add(self.job_pending, job, 1)
        self._count(job, self._role(task), shape, -1, self.job_nominated, self.role_nominated)
        self.touch(np.array([row]))

    def hold(self, job: int, shape: int, rows: Ints, counts: Ints, beside: bool = False) -> None:
        """Keep room, there or coming, for pods of a job that do not exist yet; its queue pays for it."""
        self.soften()
        self.add(self.nominated, rows, counts[:, None] * self.snapshot.shapes.requests[shape])
        for feature in self.snapshot.shapes.features[shape]:
            self.add(self.features, (feature, rows), counts)
        self._pay(job, shape, int(counts.sum()))
        self.touch(rows)
        self.put(self.held, job, (*self.held.get(job, ()), Held(shape, rows, counts, beside)))

    def let_go(self, job: int) -> None:
        """Keep no more room for pods of a job that do not exist yet."""
        for kept in self.held.get(job, ()):
            self.hold(job, kept.shape, kept.rows, -kept.counts, kept.beside)

    def evict(self, task: int) -> None:
        """Send a bound task away: its room is releasing, and its queue no longer pays for it."""
        self.soften()
        self._leave(task, 1)

    def spare(self, task: int) -> None:
        """Take an eviction of this session back."""
        self._leave(task, -1)

    def soften(self, soft: bool = True) -> None:
        """Say whether room now and room to come may differ from here on."""
        if self.soft != soft:
            self.assign(self, "soft", soft)

    # -- their parts

    def _arrive(self, job: int, shape: int, tasks: Ints, rows: Ints, counts: Ints, status: Status) -> None:
        for feature in self.snapshot.shapes.features[shape]:
            self.add(self.features, (feature, rows), counts)
        self.add(self.status, tasks, np.int8(status - Status.PENDING))
        self.add(self.node, tasks, np.repeat(rows, counts) + 1)
        self.add(self.job_pending, job, -len(tasks))
        bound = status is Status.BOUND
        self._count(
            job,
            self._role(int(tasks[0])),
            shape,
            len(tasks),
            self.job_ready if bound else self.job_nominated,
            self.role_ready if bound else self.role_nominated,
        )
        self.touch(rows)

    def _leave(self, task: int, n: int) -> None:
        """A bound task begins to go (1), or does not go after all (-1)."""
        row, shape, job = self._place_of(task)
        if row >= 0:
            self.add(self.releasing, row, n * self.snapshot.shapes.requests[shape])
            self._show(self.leaving, shape, row, n)
            self.touch(np.array([row]))
        self.add(self.status, task, np.int8(n * (Status.RELEASING - Status.BOUND)))
        self._count(job, self._role(task), shape, -n, self.job_ready, self.role_ready)

    def _count(self, job: int, role: int, shape: int, n: int, of_job: Ints, of_role: Ints) -> None:
        self.add(of_job, job, n)
        self.add(of_role, role, n)
        self._pay(job, shape, n)

    def _pay(self, job: int, shape: int, n: int) -> None:
        self.add(self.job_allocated, job, n * self.snapshot.shapes.requests[shape])
        queue = self.snapshot.jobs.queue[job]
        if queue >= 0:
            amount = self._requests[shape] * n
            for q in self.snapshot.queues.path[queue]:
                self.add(self.queue_allocated, q, amount)
        for listener in self._listeners:
            listener(job, shape, n)

    def _show(self, column: Ints, shape: int, row: int, n: int) -> None:
        for feature in self.snapshot.shapes.features[shape]:
            self.add(column, (feature, row), n)

    def _place_of(self, task: int) -> tuple[int, int, int]:
        tasks = self.snapshot.tasks
        return int(self.node[task]), int(tasks.shape[task]), int(tasks.job[task])

    def _role(self, task: int) -> int:
        return int(self.snapshot.jobs.task_role[task])


def queue_sums(snapshot: Snapshot, of_jobs: Ints) -> Array:
    """What each queue's jobs have together, with the queues below it, as Python integers."""
    queues, resources = len(snapshot.queues), len(snapshot.axes)
    own = np.zeros((queues, resources), dtype=object)
    queue = snapshot.jobs.queue
    known = queue >= 0
    for half, shift in ((of_jobs[known] >> 32, 32), (of_jobs[known] & 0xFFFFFFFF, 0)):
        part = np.zeros((queues, resources), dtype=np.int64)
        np.add.at(part, queue[known], half)
        own += part.astype(object) * (1 << shift)
    sums = np.zeros_like(own)
    for q in range(queues):
        for above in snapshot.queues.path[q]:
            sums[above] += own[q]
    return sums
