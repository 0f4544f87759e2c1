"""Jobs: gangs, what starts together or not at all.

A `Job` is what its group object says (or, for a pod alone, the pod): a minimum, minimums of its roles, a queue, a
priority. The `JobTable` adds what its tasks make of it: who its members are, how much it has, how many run.
"""

from __future__ import annotations

import enum
from itertools import pairwise

import msgspec
import numpy as np

from maar.model.resources import Ints
from maar.model.shapes import ShapeTable
from maar.model.tasks import Status, TaskTable


class Phase(enum.StrEnum):
    """A group's admission. Groups of dialects without admission are INQUEUE from the start."""

    PENDING = "Pending"
    """Not admitted: its operator creates no pods yet."""
    INQUEUE = "Inqueue"
    RUNNING = "Running"
    UNKNOWN = "Unknown"
    COMPLETED = "Completed"


class Closeness(msgspec.Struct, frozen=True):
    """That a gang runs within one domain of the network.

    Either `key`, a node label whose value names the domain, or `tier`, the highest tier of HyperNode allowed.
    """

    key: str = ""
    tier: int | None = None
    tier_name: str = ""
    hard: bool = True


class Job(msgspec.Struct, frozen=True):
    """One gang."""

    key: str
    """`namespace/name`"""
    queue: str = "default"
    min_member: int = 1
    role_min: dict[str, int] = {}
    min_resources: dict[str, int] | None = None
    priority: int = 0
    created: float = 0.0
    uid: str = ""
    phase: Phase = Phase.INQUEUE
    waiting_since: float | None = None
    """When it began to wait, where that is not its creation."""
    preempts: bool = True
    """False under preemptionPolicy Never."""
    closeness: Closeness | None = None
    sla: float | None = None
    """Seconds after creation by which it must be admitted (its own annotation)."""
    promise: float | None = None
    """Seconds by which it will have ended after its start."""
    election_expired: float | None = None
    """When it last lost its election because its locks were too old."""
    declared: bool = True
    """Has an object of its own (a PodGroup), and so exists also without pods."""
    broken: str = ""
    """Why it makes no sense and waits until its owner mends it."""
    index: int = -1
    """Its row in the job table; set there."""

    @property
    def namespace(self) -> str:
        """The first half of its key."""
        return self.key.partition("/")[0]


class Role(msgspec.Struct, frozen=True):
    """The tasks of one job that do the same; `index` is its row in the columns of roles."""

    index: int
    name: str
    minimum: int


class JobTable:
    """All jobs of a snapshot, sorted by key, with what their tasks make of them."""

    def __init__(self, jobs: list[Job], queues: dict[str, int]) -> None:
        self.jobs: list[Job] = [
            job if job.index == i else msgspec.structs.replace(job, index=i) for i, job in enumerate(jobs)
        ]
        self.number: dict[str, int] = {job.key: i for i, job in enumerate(self.jobs)}
        self.queue: Ints = np.array([queues.get(j.queue, -1) for j in self.jobs], dtype=np.int64)
        self.priority: Ints = np.array([j.priority for j in self.jobs], dtype=np.int64)
        self.minimum: Ints = np.array([j.min_member for j in self.jobs], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.jobs)

    def count(self, tasks: TaskTable, shapes: ShapeTable) -> None:
        """Fill in what depends on tasks: members, roles, what each job has and how many are ready."""
        n = len(self.jobs)
        bounds = np.searchsorted(tasks.job, np.arange(n + 1))
        self.members: list[Ints] = [np.arange(a, b) for a, b in pairwise(bounds.tolist())]
        self._number_roles(tasks)
        have = np.isin(tasks.status, (Status.BOUND, Status.NOMINATED))
        self.allocated: Ints = _sum_by(tasks.job[have], shapes.requests[tasks.shape[have]], n)
        ready = np.isin(tasks.status, (Status.BOUND, Status.SUCCEEDED))
        self.ready: Ints = np.bincount(tasks.job[ready], minlength=n).astype(np.int64)
        nominated = tasks.status == Status.NOMINATED
        pending = tasks.status == Status.PENDING
        self.pending: Ints = np.bincount(tasks.job[pending], minlength=n).astype(np.int64)
        blocked = tasks.status == Status.BLOCKED
        self.blocked: Ints = np.bincount(tasks.job[blocked], minlength=n).astype(np.int64)
        modest = shapes.best_effort[tasks.shape]
        self.best_effort: Ints = np.bincount(tasks.job[modest], minlength=n).astype(np.int64)
        """How many tasks of a job ask for nothing but a pod slot."""
        self.nominated: Ints = np.bincount(tasks.job[nominated], minlength=n).astype(np.int64)
        roles = len(self.role_min)
        self.role_ready: Ints = np.bincount(self.task_role[ready], minlength=roles).astype(np.int64)
        self.role_nominated: Ints = np.bincount(self.task_role[nominated], minlength=roles).astype(np.int64)
        active = (self.pending + self.nominated + self.blocked) > 0
        active |= np.array([j.phase is Phase.PENDING for j in self.jobs], dtype=np.bool_)
        active |= np.array([bool(j.broken) for j in self.jobs], dtype=np.bool_)
        active |= np.array(
            [not len(m) and j.phase is not Phase.COMPLETED for j, m in zip(self.jobs, self.members, strict=True)],
            dtype=np.bool_,
        )
        self.active: list[int] = np.flatnonzero(active).tolist()
        """Jobs that a cycle must look at: they wait for something."""

    def _number_roles(self, tasks: TaskTable) -> None:
        self.roles: list[tuple[Role, ...]] = []
        self.task_role: Ints = np.zeros(len(tasks), dtype=np.int64)
        minimums: list[int] = []
        for job, members in zip(self.jobs, self.members, strict=True):
            names = dict.fromkeys([*(tasks.tasks[t].role for t in members.tolist()), *job.role_min])
            roles = {}
            for name in names:
                roles[name] = Role(len(minimums), name, job.role_min.get(name, 0))
                minimums.append(roles[name].minimum)
            self.roles.append(tuple(roles.values()))
            if len(roles) == 1:
                self.task_role[members] = len(minimums) - 1
            else:
                for t in members.tolist():
                    self.task_role[t] = roles[tasks.tasks[t].role].index
        self.role_min: Ints = np.array(minimums, dtype=np.int64)


def _sum_by(groups: Ints, rows: Ints, size: int) -> Ints:
    sums = np.zeros((size, rows.shape[1]), dtype=np.int64)
    np.add.at(sums, groups, rows)
    return sums
