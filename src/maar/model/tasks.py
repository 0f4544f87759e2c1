"""Tasks: pods, as a scheduler sees them.

A `Task` holds what one pod's object declares, unchanged during a cycle. The `TaskTable` has the columns that decisions
read, a row per task. Rows are sorted by job and then by the default placing order (index in the name, creation, key),
so a task's number ends every ranking of tasks.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from functools import cached_property, lru_cache

import msgspec
import numpy as np
import numpy.typing as npt

from maar.model.resources import Floats, Ints, Mask
from maar.model.shapes import Shape
from maar.model.splice import Splice

QUEUE_GATE = "scheduling.volcano.sh/queue-allocation-gate"
"""The name of the gate, and of the annotation with which a pod asks for it."""

UNBORN = "~"
"""Follows the name in the key of a pod that does not exist yet: no pod of the same name has that key."""


class Status(enum.IntEnum):
    """The state of a pod for decisions.

    PENDING ──► NOMINATED ──► BOUND ──► RELEASING ──► gone
       └──────────────────────►│ └────► SUCCEEDED, FAILED
    """

    PENDING = 0
    """Waits for a node, and Maar may place it."""
    NOMINATED = 1
    """Waits for room that still releases: it counts against its queue, but not yet against its node's idle room."""
    BOUND = 2
    """Has a node. Whether its containers run yet does not matter to a decision."""
    RELEASING = 3
    """Being deleted: its room is still in use and will become free."""
    SUCCEEDED = 4
    FAILED = 5
    BLOCKED = 6
    """Not to be placed: it has a scheduling gate, or needs something that Maar does not account for."""


READY = (Status.BOUND, Status.SUCCEEDED)
"""Tasks that have had their room: they count for the minimum of their gang."""


class Gate(enum.IntEnum):
    """The gate of Volcano's queue admission (`QUEUE_GATE`) on a pod."""

    NONE = 0
    CLOSED = 1
    """It is the only gate of the pod: Maar removes it when the queue admits the pod."""
    OPENED = 2
    """The pod asked for the gate and has no gate any more: while it waits, the queue's next gates count it."""


@lru_cache
def among(statuses: tuple[Status, ...]) -> Mask:
    """A mask to index with a column of statuses: one step for any number of `statuses`."""
    table = np.zeros(len(Status), dtype=np.bool_)
    table[list(statuses)] = True
    table.flags.writeable = False
    return table


class Subgroup(msgspec.Struct, frozen=True, order=True, gc=False):
    """A subgroup of a job: a policy, by its place in `Job.subgroups`, and the values that its tasks have in common."""

    policy: int
    values: tuple[str, ...] = ()


class Task(msgspec.Struct, frozen=True, gc=False):
    """One pod."""

    key: str
    """`namespace/name`"""
    job: str
    """Key of its job."""
    shape: Shape
    status: Status = Status.PENDING
    node: str = ""
    """Its node; for a nominated task, the node on which it waits for room."""
    role: str = ""
    subgroup: Subgroup | None = None
    priority: int = 0
    created: float = 0.0
    started: float | None = None
    index: int = 0
    """The number at the end of its name. Workers start in this order and stop in reverse."""
    uid: str = ""
    preemptable: bool = True
    yields: bool = False
    """Its owner says that it is preemptable; without a word it only may be evicted."""
    preempts: bool = True
    """False for preemptionPolicy Never: no pod is evicted for it."""
    critical: bool = False
    """System-critical, or in kube-system: the conformance plugin never evicts it."""
    resident: bool = False
    """Belongs to its node (a DaemonSet pod or static pod): never evicted to make room."""
    controlled: bool = False
    """Has a controller that creates it again."""
    cooldown: float = 0.0
    """Seconds after its start during which the cooldown plugin protects it."""
    checkpoint: float | None = None
    """When its work was last saved."""
    promise: float | None = None
    """Its longest run time in seconds after its start, as promised by its owner."""
    budgets: tuple[str, ...] = ()
    """Keys of the disruption budgets that cover it."""
    blocked: str = ""
    """Why it is BLOCKED, for its owner."""
    gate: Gate = Gate.NONE
    grace: float = 30.0
    """Seconds that it may take to stop after an eviction, as its owner states."""
    leaves: float | None = None
    """If it is being deleted: when that must be done."""
    foreign: bool = False
    """Another scheduler's: it takes room, and is never evicted."""
    unborn: bool = False
    """Its pod does not exist yet, because its job is suspended: a place for it resumes the job."""
    chosen: tuple[tuple[str, str], ...] = ()
    """What counters chose on its node (`Bind.chosen`), by plugin: only the counter that chose it knows what it is."""

    @property
    def pod(self) -> str:
        """`namespace/name` of its pod."""
        return self.key.partition(UNBORN)[0] if self.unborn else self.key


NO_TASKS: Ints = np.zeros(0, dtype=np.int64)


class TaskTable:
    """All tasks of a snapshot, in columns."""

    def __init__(self, tasks: list[Task], jobs: dict[str, int], shapes: dict[Shape, int], nodes: dict[str, int]):
        self.tasks = tasks
        self.job: Ints = _ints(jobs[t.job] for t in tasks)
        self.shape: Ints = _ints(shapes[t.shape] for t in tasks)
        self.status: npt.NDArray[np.int8] = np.array([t.status for t in tasks], dtype=np.int8)
        self.node: Ints = _ints(nodes.get(t.node, -1) for t in tasks)
        # A nomination to a deleted node is void.
        self.status[(self.status == Status.NOMINATED) & (self.node < 0)] = Status.PENDING
        self.node[(self.status == Status.PENDING) | (self.status == Status.BLOCKED)] = -1
        self.priority: Ints = _ints(t.priority for t in tasks)
        self.preemptable = np.array([t.preemptable for t in tasks], dtype=np.bool_)
        self.preempts = np.array([t.preempts for t in tasks], dtype=np.bool_)
        self.critical = np.array([t.critical for t in tasks], dtype=np.bool_)
        self.resident = np.array([t.resident for t in tasks], dtype=np.bool_)
        self.foreign = np.array([t.foreign for t in tasks], dtype=np.bool_)
        self.unborn = np.array([t.unborn for t in tasks], dtype=np.bool_)
        self.gate: npt.NDArray[np.int8] = np.array([t.gate for t in tasks], dtype=np.int8)
        self.started: Floats = np.array(
            [t.created if t.started is None else t.started for t in tasks], dtype=np.float64
        )
        self.checkpoint: Floats = np.array(
            [np.nan if t.checkpoint is None else t.checkpoint for t in tasks], dtype=np.float64
        )
        """When work was last saved; NaN if never."""
        self.promise: Floats = np.array([np.nan if t.promise is None else t.promise for t in tasks], dtype=np.float64)
        """How long each promises to run; NaN if it promises nothing."""

    def __len__(self) -> int:
        return len(self.tasks)

    @cached_property
    def number(self) -> dict[str, int]:
        return {task.key: i for i, task in enumerate(self.tasks)}

    @cached_property
    def unstarted(self) -> Mask:
        """Tasks whose start is not known."""
        return np.array([task.started is None for task in self.tasks], dtype=np.bool_)

    @cached_property
    def all_preempt(self) -> bool:
        return bool(self.preempts.all())

    @cached_property
    def priorities_differ(self) -> bool:
        """Whether tasks of one job have different priorities."""
        same_job = self.job[1:] == self.job[:-1]
        return bool((same_job & (self.priority[1:] != self.priority[:-1])).any())

    def only(self, rows: Ints) -> TaskTable:
        table = TaskTable.__new__(TaskTable)
        table.tasks = [self.tasks[row] for row in rows.tolist()]
        table.job = self.job[rows]
        for name in PER_TASK:
            setattr(table, name, getattr(self, name)[rows])
        return table

    def changed(self, new: TaskTable, change: Splice, sizes: Ints) -> TaskTable:
        """The table with the tasks of some jobs replaced by those of `new`; `sizes` has the new task counts."""
        table = TaskTable.__new__(TaskTable)
        table.tasks = change.items(self.tasks, new.tasks)
        table.job = np.repeat(np.arange(len(sizes)), sizes)
        for name in PER_TASK:
            setattr(table, name, change.rows(getattr(self, name), getattr(new, name)))
        return table


PER_TASK = (
    *("shape", "status", "node", "priority", "preemptable", "preempts", "critical", "resident"),
    *("foreign", "unborn", "gate", "started", "checkpoint", "promise"),
)


def placing_order(task: Task) -> tuple[str, int, float, str]:
    """The sort key of the table: job, then worker index, then oldest first."""
    return task.job, task.index, task.created, task.key


def longest_promise(tasks: Iterable[Task]) -> float | None:
    """The longest run time that tasks promise, if all of them promise one."""
    promises = [task.promise for task in tasks]
    return None if None in promises else max((p for p in promises if p is not None), default=None)


def _ints(values: Iterable[int]) -> Ints:
    return np.fromiter(values, dtype=np.int64)
