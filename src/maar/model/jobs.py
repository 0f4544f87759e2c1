"""Jobs: gangs, which start together or not at all.

A `Job` holds what its group object (or its only pod) declares: a minimum, minimums of its roles, a queue, a priority.
The `JobTable` adds what follows from its tasks: its members, its allocated resources, the number of running tasks.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from copy import copy
from functools import cached_property

import msgspec
import numpy as np

from maar.model.elastic import Elastic
from maar.model.lengths import Estimate
from maar.model.queues import QueueTree
from maar.model.resources import Ints, Mask
from maar.model.shapes import ShapeTable
from maar.model.splice import Splice
from maar.model.tasks import Status, TaskTable


class Phase(enum.StrEnum):
    """The admission phase of a group. A group of a dialect without admission is INQUEUE from the start."""

    PENDING = "Pending"
    """Not admitted: its operator does not create pods yet."""
    INQUEUE = "Inqueue"
    RUNNING = "Running"
    UNKNOWN = "Unknown"
    COMPLETED = "Completed"


class OnHold(enum.StrEnum):
    """Whether the owner of a job holds it (`maar.dev/hold`)."""

    NO = ""
    START = "start"
    """It does not start; if it runs, it goes on."""
    STOP = "stop"
    """It does not start; if it runs, it is suspended."""


class Closeness(msgspec.Struct, frozen=True):
    """The gang must or should run within one network domain.

    Either `key`, a node label whose value names the domain, or `tier`, the highest allowed tier of HyperNode.
    """

    key: str = ""
    tier: int | None = None
    tier_name: str = ""
    hard: bool = True

    @property
    def words(self) -> str:
        """The kind of domain that a gang requires."""
        if self.key:
            return f"`{self.key}`"
        if self.tier is not None:
            return f"HyperNode of tier {self.tier} or lower"
        return f"HyperNode of tier `{self.tier_name}` or lower" if self.tier_name else "HyperNode"


class SubgroupPolicy(msgspec.Struct, frozen=True):
    """Some tasks of a job start in subgroups (`Task.subgroup`): each one whole, and some of them together."""

    name: str
    size: int = 1
    """How many tasks of a subgroup start together; more tasks are its surplus."""
    least: int = 0
    """How many subgroups start together with the minimum of the job."""
    closeness: Closeness | None = None
    """The closeness of each subgroup, besides that of the job."""


class TaskTopology(msgspec.Struct, frozen=True):
    """Which roles of a job should share nodes or avoid each other, as its owner states (plugin `task-topology`)."""

    affinity: tuple[tuple[str, ...], ...] = ()
    """Lists of roles. A list of one: its pods together."""
    anti_affinity: tuple[tuple[str, ...], ...] = ()
    order: tuple[str, ...] = ()
    """Roles in the order in which they are placed."""
    problem: str = ""
    """Why it cannot be read; it then counts as missing."""


class JobBudget(msgspec.Struct, frozen=True):
    """How many pods of a job must stay, or may be missing, as its owner states (plugin `tdm`)."""

    amount: int
    percent: bool = False
    """Whether `amount` is a part of all its pods, in percent."""
    stays: bool = True
    """True: the pods that must stay. False: the pods that may be missing."""
    problem: str = ""
    """Why it cannot be read; it then counts as missing."""

    def of(self, pods: int) -> int:
        """The number of pods, rounded up."""
        return -(-self.amount * pods // 100) if self.percent else self.amount


class Job(msgspec.Struct, frozen=True):
    """One gang."""

    key: str
    """`namespace/name`"""
    queue: str = "default"
    min_member: int = 1
    role_min: dict[str, int] = {}
    min_resources: dict[str, int] | None = None
    quota_needs: dict[str, int] = {}
    """What it needs by the names of quotas (`limits.cpu`, `count/pods`), besides its `min_resources`."""
    priority: int = 0
    priority_classes: tuple[str, ...] = ()
    """The priority classes that it and its pods name, without the default class."""
    created: float = 0.0
    uid: str = ""
    phase: Phase = Phase.INQUEUE
    waiting_since: float | None = None
    """When it began to wait, if not at its creation."""
    preempts: bool = True
    """False for preemptionPolicy Never of its own class, or of all its pods."""
    closeness: Closeness | None = None
    subgroups: tuple[SubgroupPolicy, ...] = ()
    """The policies by which its tasks are in subgroups."""
    broken_grace: float | None = None
    """Seconds that it stays if it lacks part of its minimum because a pod failed; negative: for ever."""
    sla: float | None = None
    """Seconds after creation by which it must be admitted, from its own annotation."""
    promise: float | None = None
    """Its longest run time in seconds after its start, as promised by its owner."""
    estimate: Estimate | None = None
    """Its run time by the history; `None` if too little is known."""
    yields: bool = False
    """Its owner says that the whole job is preemptable."""
    budget: JobBudget | None = None
    task_topology: TaskTopology | None = None
    siblings: tuple[str, ...] = ()
    """What its only pod has in common with others that it is spread among: its controller, then Services."""
    declared: bool = True
    """Whether it has an object of its own (a PodGroup), so that it also exists without pods."""
    settles: float | None = None
    """Until when more pods may be added, for a job without an object that declares their number."""
    rests: float | None = None
    """Until when it is not started, because it changed again and again while it was being started."""
    broken: str = ""
    """Why the job is invalid; it waits until its owner corrects it."""
    on_hold: OnHold = OnHold.NO
    elastic: Elastic | None = None
    """Set if the number of workers may change. The lower bound then replaces the minimum that its group declares."""
    index: int = -1
    """Its row in the job table, which sets it."""

    @property
    def namespace(self) -> str:
        return self.key.partition("/")[0]

    @property
    def waits_since(self) -> float:
        """When it began to wait."""
        return self.created if self.waiting_since is None else self.waiting_since

    @property
    def role_minimums(self) -> dict[str, int]:
        """The minimums of its roles; none if its own minimum is smaller than their sum (as in Volcano)."""
        return self.role_min if self.min_member >= sum(self.role_min.values()) else {}

    @property
    def is_elastic(self) -> bool:
        """Whether its number of workers may change."""
        return self.elastic is not None and not self.elastic.rigid

    @property
    def is_suspended(self) -> bool:
        """Whether it has no pods because it is suspended."""
        return self.elastic is not None and self.elastic.suspended


class Role(msgspec.Struct, frozen=True):
    """Tasks of one job with the same role; `index` is its row in the role columns."""

    index: int
    name: str
    minimum: int
    """0 if it has none, or if role minimums do not count."""


class Members:
    """The tasks of each job, which are adjacent in the task table."""

    def __init__(self, sizes: Ints) -> None:
        self._bounds: list[int] = [0, *np.cumsum(sizes).tolist()]

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def __getitem__(self, job: int) -> Ints:
        if not 0 <= job < len(self):
            raise IndexError(job)
        return np.arange(*self.span(job))

    def span(self, job: int) -> tuple[int, int]:
        """The number of the job's first task, and the number after its last."""
        return self._bounds[job], self._bounds[job + 1]

    def __iter__(self) -> Iterator[Ints]:
        return (self[job] for job in range(len(self)))


class Roles:
    """The roles of each job, numbered over all jobs."""

    def __init__(self, names: list[tuple[str, ...]], minimums: Ints) -> None:
        self._names = names
        self._minimums = minimums
        self.starts: Ints = np.cumsum([0, *map(len, names)])

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[tuple[Role, ...]]:
        return (self[job] for job in range(len(self)))

    def __getitem__(self, job: int) -> tuple[Role, ...]:
        first = int(self.starts[job])
        return tuple(Role(first + i, name, int(self._minimums[first + i])) for i, name in enumerate(self._names[job]))


class JobTable:
    """All jobs of a snapshot, sorted by key, with columns computed from their tasks."""

    def __init__(self, jobs: list[Job], queues: QueueTree) -> None:
        jobs = [queues.demoted(job) for job in jobs]
        self._take(jobs)
        self.queue: Ints = np.array([queues.payer(j) for j in jobs], dtype=np.int64)
        """The queue that pays for a job; -1 if none does."""
        self.refused: Mask = np.array([queues.refusal(j) is not None for j in jobs], dtype=np.bool_)
        """Jobs that may not be in the queue that they name: they wait, and ask for nothing."""
        self.priority: Ints = np.array([j.priority for j in jobs], dtype=np.int64)
        self.minimum: Ints = np.array([j.min_member for j in jobs], dtype=np.int64)

    def _take(self, jobs: list[Job]) -> None:
        self.jobs: list[Job] = [
            job if job.index == i else msgspec.structs.replace(job, index=i) for i, job in enumerate(jobs)
        ]

    def __len__(self) -> int:
        return len(self.jobs)

    @cached_property
    def number(self) -> dict[str, int]:
        return {job.key: i for i, job in enumerate(self.jobs)}

    @cached_property
    def elastic(self) -> list[int]:
        """The rows of jobs whose number of workers may change, and of those that are only suspended and resumed."""
        return [i for i, job in enumerate(self.jobs) if job.elastic is not None]

    @cached_property
    def active(self) -> list[int]:
        """The rows of jobs that wait for something, which a cycle must look at."""
        rows: list[int] = np.flatnonzero(self.waits).tolist()
        return rows

    @cached_property
    def divided(self) -> list[int]:
        """The rows of jobs with subgroups."""
        return [i for i, job in enumerate(self.jobs) if job.subgroups]

    @cached_property
    def role_job(self) -> Ints:
        """The job of each role."""
        return np.repeat(np.arange(len(self.jobs)), np.diff(self.roles.starts))

    def count(self, tasks: TaskTable, shapes: ShapeTable) -> None:
        """Fill in the columns that depend on tasks: members, roles, allocated resources, counts by status."""
        n = len(self.jobs)

        def by_job(chosen: Mask) -> Ints:
            return np.bincount(tasks.job[chosen], minlength=n).astype(np.int64)

        self.sizes: Ints = np.bincount(tasks.job, minlength=n).astype(np.int64)
        self.members = Members(self.sizes)
        self._number_roles(tasks)
        have = (tasks.status == Status.BOUND) | (tasks.status == Status.NOMINATED)
        self.allocated: Ints = np.zeros((n, shapes.requests.shape[1]), dtype=np.int64)
        np.add.at(self.allocated, tasks.job[have], shapes.requests[tasks.shape[have]])
        ready = (tasks.status == Status.BOUND) | (tasks.status == Status.SUCCEEDED)
        nominated = tasks.status == Status.NOMINATED
        self.ready = by_job(ready)
        self.nominated = by_job(nominated)
        self.pending = by_job(tasks.status == Status.PENDING)
        self.blocked = by_job(tasks.status == Status.BLOCKED)
        self.best_effort = by_job(shapes.best_effort[tasks.shape])
        """The number of tasks that request nothing but a pod slot."""
        roles = len(self.role_min)
        self.role_ready: Ints = np.bincount(self.task_role[ready], minlength=roles).astype(np.int64)
        self.role_nominated: Ints = np.bincount(self.task_role[nominated], minlength=roles).astype(np.int64)
        asks = [_asks(job, size) for job, size in zip(self.jobs, self.sizes.tolist(), strict=True)]
        self.waits: Mask = (self.pending + self.nominated + self.blocked > 0) | np.array(asks, dtype=np.bool_)
        stops = np.array([job.on_hold is OnHold.STOP for job in self.jobs], dtype=np.bool_)
        if stops.any():
            self.waits |= stops & (by_job(tasks.status == Status.BOUND) > 0)

    def _number_roles(self, tasks: TaskTable) -> None:
        names: list[tuple[str, ...]] = []
        own: list[int] = []
        minimums: list[int] = []
        for job, members in zip(self.jobs, self.members, strict=True):
            of_tasks = [tasks.tasks[t].role for t in members.tolist()]
            known = {name: i for i, name in enumerate(dict.fromkeys([*of_tasks, *job.role_min]))}
            names.append(tuple(known))
            own.extend(known[role] for role in of_tasks)
            least = job.role_minimums
            minimums.extend(least.get(name, 0) for name in known)
        self.role_names = names
        self.own_role: Ints = np.array(own, dtype=np.int64)
        """The role of each task, counted from the first role of its job."""
        self.role_min: Ints = np.array(minimums, dtype=np.int64)
        self.roles = Roles(names, self.role_min)
        self.task_role: Ints = self.own_role + np.repeat(self.roles.starts[:-1], self.sizes)

    def with_jobs(self, jobs: Iterable[Job]) -> JobTable:
        """The table with these jobs in the rows that they name; no column depends on the change."""
        table = copy(self)
        table.jobs = list(self.jobs)
        for job in jobs:
            table.jobs[job.index] = job
        return table

    def changed(self, new: JobTable, change: Splice) -> JobTable:
        """The table with some jobs removed and the jobs of `new` in their place."""
        table = JobTable.__new__(JobTable)
        table._take(change.items(self.jobs, new.jobs))
        for name in PER_JOB:
            setattr(table, name, change.rows(getattr(self, name), getattr(new, name)))
        table.members = Members(table.sizes)
        roles = change.parts(np.diff(self.roles.starts), np.diff(new.roles.starts))
        for name in PER_ROLE:
            setattr(table, name, roles.rows(getattr(self, name), getattr(new, name)))
        table.role_names = change.items(self.role_names, new.role_names)
        table.own_role = change.parts(self.sizes, new.sizes).rows(self.own_role, new.own_role)
        table.roles = Roles(table.role_names, table.role_min)
        table.task_role = table.own_role + np.repeat(table.roles.starts[:-1], table.sizes)
        return table


PER_JOB = (
    *("queue", "refused", "priority", "minimum", "sizes", "allocated"),
    *("ready", "nominated", "pending", "blocked", "best_effort", "waits"),
)
PER_ROLE = ("role_min", "role_ready", "role_nominated")


def _asks(job: Job, size: int) -> bool:
    """Whether a job waits whatever its tasks are: for admission, for pods, or for its owner to correct it."""
    without = not size or job.is_suspended
    return job.phase is Phase.PENDING or bool(job.broken) or (without and job.phase is not Phase.COMPLETED)
