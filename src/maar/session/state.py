"""The mutable part of a session: integer columns, written through the journal.

Everything that a cycle changes is a number in an array: resources used on nodes, places of tasks, resources of jobs and
queues. Columns of plugins are made here too (`column`) and are undone with the others. The cost grows with the number
of touched rows.

The verbs are `bind`, `nominate`, `withdraw` (a nomination), `hold` and `evict`. They update node, job, role and queue
together. No other module writes to these columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from maar.model.resources import Ints
from maar.model.snapshot import Snapshot, only
from maar.model.tasks import Status
from maar.session.journal import Array, Journal

Listener = Callable[[int, int, int], None]
"""Called when the resources of a job change: job, shape, number of tasks (negative when tasks leave)."""


class Held(NamedTuple):
    """Room kept for pods of a job that do not exist yet; negative counts cancel earlier room."""

    shape: int
    rows: Ints
    counts: Ints
    beside: bool
    """For a pod beside the workers (a master, a launcher), which may have the same shape as a worker."""


class State(Journal):
    """The columns of one session."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
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
        self.held: dict[int, tuple[Held, ...]] = {}
        """Job row to the room kept for its pods."""
        self._requests: list[Array] = [
            np.array([int(x) for x in row], dtype=object) for row in snapshot.shapes.requests
        ]
        self._listeners: list[Listener] = []

    # -- for plugins

    def column(self, size: int | tuple[int, ...]) -> Ints:
        """A column of zeros for a plugin; changes made with `add` are undone with the others."""
        return np.zeros(size, dtype=np.int64)

    def listen(self, listener: Listener) -> None:
        """Call `listener` whenever a job gets or loses tasks (not on undo, which the journal does)."""
        self._listeners.append(listener)

    def close(self) -> None:
        """Drop everything: listeners and history refer to the session."""
        vars(self).clear()

    # -- the verbs

    def bind(self, job: int, shape: int, tasks: Ints, rows: Ints, counts: Ints) -> None:
        """Put pending tasks of one shape and role on nodes: `counts[i]` of them, in order, on `rows[i]`."""
        self.add(self.used, rows, counts[:, None] * self.snapshot.shapes.requests[shape])
        self._arrive(job, shape, tasks, rows, counts, Status.BOUND)

    def nominate(self, job: int, shape: int, tasks: Ints, rows: Ints, counts: Ints) -> None:
        """Promise pending tasks room that is free or being released."""
        self.soften()
        self.add(self.nominated, rows, counts[:, None] * self.snapshot.shapes.requests[shape])
        self._arrive(job, shape, tasks, rows, counts, Status.NOMINATED)

    def withdraw(self, task: int) -> None:
        """Cancel a nomination: the task is pending again."""
        row, shape, job = self._place_of(task)
        self.add(self.nominated, row, -self.snapshot.shapes.requests[shape])
        self._show(self.features, shape, row, -1)
        self.add(self.status, task, np.int8(Status.PENDING - Status.NOMINATED))
        self.add(self.node, task, -1 - row)
        self.add(self.job_pending, job, 1)
        self._count(job, self._role(task), shape, -1, self.job_nominated, self.role_nominated)
        self.touch(np.array([row]))

    def hold(self, job: int, shape: int, rows: Ints, counts: Ints, beside: bool = False) -> None:
        """Keep free or releasing room for pods of a job that do not exist yet; its queue is charged."""
        self.soften()
        self.add(self.nominated, rows, counts[:, None] * self.snapshot.shapes.requests[shape])
        for feature in self.snapshot.shapes.features[shape]:
            self.add(self.features, (feature, rows), counts)
        self._pay(job, shape, int(counts.sum()))
        self.touch(rows)
        self.put(self.held, job, (*self.held.get(job, ()), Held(shape, rows, counts, beside)))

    def let_go(self, job: int) -> None:
        """Release all room kept for pods of a job that do not exist yet."""
        for kept in self.held.get(job, ()):
            self.hold(job, kept.shape, kept.rows, -kept.counts, kept.beside)

    def evict(self, task: int) -> None:
        """Evict a bound task: its room is releasing, and its queue is no longer charged."""
        self.soften()
        self._leave(task, 1)

    def spare(self, task: int) -> None:
        """Cancel an eviction of this session."""
        self._leave(task, -1)

    def linger(self, task: int, charged: bool) -> None:
        """Count a task that is being deleted as staying: its room does not become free, and its queue may pay."""
        row, shape, job = self._place_of(task)
        if row >= 0:
            self.add(self.releasing, row, -self.snapshot.shapes.requests[shape])
            self._show(self.leaving, shape, row, -1)
            self.touch(np.array([row]))
        if charged:
            self._pay(job, shape, 1)

    def charge(self, job: int, shape: int, count: int) -> None:
        """Count tasks without a node against their job and queue, to try what the queue may still have."""
        self._pay(job, shape, count)

    def soften(self, soft: bool = True) -> None:
        """Set whether current room and room to come may differ."""
        if self.soft != soft:
            self.assign(self, "soft", soft)

    # -- parts of the verbs

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
        """Mark a bound task as leaving (1), or cancel that (-1)."""
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
    """The resources of each queue's jobs, with the queues below it, as Python integers."""
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
