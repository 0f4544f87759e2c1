"""The snapshot: one consistent state of the cluster, and everything that a decision may know.

`Cluster` is plain data in any order, as a reader, a test or a simulator has it. `Snapshot` holds the same in sorted
tables, so that equal clusters give equal snapshots. A cycle never changes a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import msgspec
import numpy as np
from msgspec.structs import replace

from maar.model.facts import Fact
from maar.model.fitting import Mode, free
from maar.model.jobs import Job, JobTable
from maar.model.loads import Load, LoadTable
from maar.model.nodes import Image, Node, NodeTable
from maar.model.plan import Elect, Lock
from maar.model.queues import Queue, QueueTree
from maar.model.reserved import shapes_in
from maar.model.resources import Axes, Ints, Mask
from maar.model.scope import Scope
from maar.model.shapes import Shape, ShapeTable
from maar.model.splice import Splice
from maar.model.tasks import Status, Task, TaskTable, placing_order
from maar.model.topology import HyperNode
from maar.model.volumes import VolumeRoom


class Budget(msgspec.Struct, frozen=True):
    """A disruption budget: how many more of its pods may be evicted now."""

    key: str
    allowed: int


class Quota(msgspec.Struct, frozen=True):
    """A ResourceQuota for all pods of a namespace: what they may have, and what the existing ones have."""

    key: str
    """`namespace/name`"""
    hard: dict[str, int]
    used: dict[str, int] = {}

    @property
    def namespace(self) -> str:
        return self.key.partition("/")[0]


class Cluster(msgspec.Struct, frozen=True):
    """The state of the cluster, in any order."""

    nodes: tuple[Node, ...] = ()
    tasks: tuple[Task, ...] = ()
    jobs: tuple[Job, ...] = ()
    """Includes the job of every task."""
    queues: tuple[Queue, ...] = ()
    budgets: tuple[Budget, ...] = ()
    hypernodes: tuple[HyperNode, ...] = ()
    namespace_weights: dict[str, int] = {}
    quotas: tuple[Quota, ...] = ()
    elect: Elect | None = None
    locks: tuple[Lock, ...] = ()
    facts: tuple[Fact, ...] = ()
    """What plugins and the core remember; several of one identity if several writers left one."""
    resized: dict[str, float] = {}
    """When the sizes in each pool with a rate limit last changed."""
    rooms: tuple[VolumeRoom, ...] = ()
    """Limits for volumes."""
    images: tuple[Image, ...] = ()
    """Images on nodes. An image whose size differs between nodes has one entry for each size."""
    loads: tuple[Load, ...] = ()
    """The real load of nodes, where it is known."""


class Snapshot:
    """The cluster in sorted tables."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.axes = Axes(_resource_names(cluster), _requested_names(cluster))
        self.nodes = NodeTable(cluster.nodes, self.axes)
        self.queues = QueueTree(cluster.queues)
        tasks = sorted(cluster.tasks, key=placing_order)
        future = (*_worker_shapes(cluster.jobs), *shapes_in(cluster.facts))
        self.shapes = ShapeTable((*(t.shape for t in tasks), *future), self.axes)
        self.jobs = JobTable(sorted(cluster.jobs, key=lambda j: j.key), self.queues)
        self.tasks = TaskTable(tasks, self.jobs.number, self.shapes.number, self.nodes.row)
        self.jobs.count(self.tasks, self.shapes)
        self._take_rest(cluster)
        n, r = self.nodes.allocatable.shape
        self.used: Ints = np.zeros((n, r), dtype=np.int64)
        self.releasing: Ints = np.zeros((n, r), dtype=np.int64)
        self.nominated: Ints = np.zeros((n, r), dtype=np.int64)
        self.features: Ints = np.zeros((len(self.shapes.feature), n), dtype=np.int64)
        self.leaving: Ints = np.zeros_like(self.features)
        self.shown: Mask = np.zeros(len(self.features), dtype=np.bool_)
        """The features that some pod on a node shows or has shown; the rows of all others are zero."""
        self._count_nodes(self.tasks, 1)

    def _take_rest(self, cluster: Cluster) -> None:
        self.budgets: dict[str, Budget] = {b.key: b for b in sorted(cluster.budgets, key=lambda b: b.key)}
        self.hypernodes = tuple(sorted(cluster.hypernodes, key=lambda h: (h.tier, h.name)))
        self.rooms: dict[str, VolumeRoom] = {room.name: room for room in cluster.rooms}
        self.images: tuple[Image, ...] = cluster.images
        self.resting: frozenset[int] = frozenset()
        """Waiting jobs that a cycle may skip: nothing that could help them has changed since the last look."""
        self.scope: Scope | None = None
        """What one of several shards decides on; `None`: everything."""
        self.is_read = True
        """Whether the reasons of waiting jobs are read. Making them is slow and does not affect decisions."""

    def tasks_of(self, job: int) -> list[Task]:
        """All tasks of a job, by its row."""
        return self.tasks.tasks[slice(*self.jobs.members.span(job))]

    def free(self, mode: Mode) -> Ints:
        """The free amounts of each node; may be negative."""
        return free(mode, self.nodes.allocatable, self)

    @cached_property
    def loads(self) -> LoadTable:
        """The real load of nodes, made on first use."""
        return LoadTable(self.cluster.loads, self.nodes.row)

    def _count_nodes(self, tasks: TaskTable, sign: int) -> None:
        """Add (or with `sign` -1, subtract) what tasks take of each node and the features they leave there."""
        status, node, shape = tasks.status, tasks.node, tasks.shape
        bound, leaving, nominated = (status == s for s in (Status.BOUND, Status.RELEASING, Status.NOMINATED))
        for chosen, column in ((bound | leaving, self.used), (leaving, self.releasing), (nominated, self.nominated)):
            on_node = chosen & (node >= 0)
            np.add.at(column, node[on_node], self.shapes.requests[shape[on_node]] * sign)
        visible = np.array([bool(f) for f in self.shapes.features], dtype=np.bool_)
        if visible.any():
            on_node = (bound | leaving | nominated) & (node >= 0) & visible[shape]
            for s in np.unique(shape[on_node]).tolist():
                self.shown[self.shapes.features[s]] = True
            for t in np.flatnonzero(on_node).tolist():
                self.features[self.shapes.features[shape[t]], node[t]] += sign
                if leaving[t]:
                    self.leaving[self.shapes.features[shape[t]], node[t]] += sign

    def after(self, rest: Cluster, changed: Mapping[str, Changed]) -> Snapshot | None:
        """The next snapshot, if nodes and queues are the same and some jobs have changed (`None`: deleted).

        `rest` is the cluster without jobs and tasks. The cost grows with the change; other columns are copied.
        Returns `None` if a new resource changes the axes, or if the shapes of pods that are gone have become too many:
        the caller then makes a snapshot from scratch.
        """
        if self.shapes.crowded:
            return None
        elastic_only = self._elastic_changes(changed)
        changed = {key: c for key, c in changed.items() if key not in elastic_only}
        jobs = sorted((c[0] for c in changed.values() if c is not None), key=lambda j: j.key)
        tasks = sorted((t for c in changed.values() if c is not None for t in c[1]), key=placing_order)
        shapes = dict.fromkeys((*(t.shape for t in tasks), *_worker_shapes(jobs), *shapes_in(rest.facts)))
        mentioned = {name for shape in shapes for name, _ in shape.requests}
        mentioned.update(name for job in jobs for name in job.min_resources or ())
        if self.axes.rest is None and not mentioned <= self.axes.index.keys():
            return None
        next_ = Snapshot.__new__(Snapshot)
        next_.cluster, next_.axes, next_.nodes, next_.queues = rest, self.axes, self.nodes, self.queues
        next_.shapes = self.shapes
        next_.shapes.add(shapes)
        new_jobs = JobTable(jobs, self.queues)
        new_tasks = TaskTable(tasks, new_jobs.number, self.shapes.number, self.nodes.row)
        new_jobs.count(new_tasks, self.shapes)
        splice = Splice.by_key([j.key for j in self.jobs.jobs], [j.key for j in jobs], set(changed))
        next_.jobs = self.jobs.with_jobs(elastic_only.values()).changed(new_jobs, splice)
        of_tasks = splice.parts(self.jobs.sizes, new_jobs.sizes)
        next_.tasks = self.tasks.changed(new_tasks, of_tasks, next_.jobs.sizes)
        next_._take_rest(rest)
        next_._recount_nodes(self, new_tasks, changed)
        return next_

    def _elastic_changes(self, changed: Mapping[str, Changed]) -> dict[str, Job]:
        """Jobs that changed only in elastic fields on which no column depends."""
        found = {}
        for key, change in changed.items():
            row = self.jobs.number.get(key)
            if change is None or row is None:
                continue
            (job, tasks), before = change, self.jobs.jobs[row]
            if job.elastic is None or before.elastic is None:
                continue
            alike = replace(job, index=row, elastic=before.elastic) == before
            shapes, known = ((e.shape, e.beside) for e in (job.elastic, before.elastic))
            if alike and shapes == known and self.tasks_of(row) == list(tasks):
                found[key] = replace(job, index=row)
        return found

    def _recount_nodes(self, before: Snapshot, new: TaskTable, changed: Mapping[str, Changed]) -> None:
        self.used, self.releasing = before.used.copy(), before.releasing.copy()
        self.nominated = before.nominated.copy()
        size = len(self.shapes.feature)
        self.features, self.leaving = (only(c, before.shown, size) for c in (before.features, before.leaving))
        self.shown = np.concatenate((before.shown, np.zeros(size - len(before.shown), dtype=np.bool_)))
        known = before.jobs.number
        rows = [before.jobs.members[known[key]] for key in changed if key in known]
        if rows:
            self._count_nodes(before.tasks.only(np.concatenate(rows)), -1)
        self._count_nodes(new, 1)


Changed = tuple[Job, tuple[Task, ...]] | None
"""A job with its current tasks; `None` if it is deleted."""


def only(table: Ints, chosen: Mask, size: int) -> Ints:
    """A copy of the chosen rows; all others of its `size` rows are zero, and take no memory until they are written.

    Anyone may make a pod with thousands of host ports, each of which is a row.
    """
    if chosen.all() and len(table) == size:
        return table.copy()
    made = np.zeros((size, table.shape[1]), dtype=table.dtype)
    rows = np.flatnonzero(chosen)
    made[rows] = table[rows]
    return made


def _worker_shapes(jobs: Iterable[Job]) -> list[Shape]:
    """The shapes of pods of elastic jobs, which may not exist yet, in the order of the jobs."""
    elastic = [job.elastic for job in sorted(jobs, key=lambda job: job.key) if job.elastic is not None]
    return [shape for job in elastic for shape in (job.shape, *job.beside)]


def _resource_names(cluster: Cluster) -> set[str]:
    """The resources of nodes and queues."""
    names = {name for node in cluster.nodes for name in node.allocatable}
    for queue in cluster.queues:
        for amounts in (queue.capability, queue.deserved, queue.guarantee):
            names.update(amounts or ())
    return names


def _requested_names(cluster: Cluster) -> set[str]:
    """The resources that pods and groups request, whether they exist or not."""
    names: set[str] = set()
    for shape in {*(task.shape for task in cluster.tasks), *_worker_shapes(cluster.jobs), *shapes_in(cluster.facts)}:
        names.update(name for name, _ in shape.requests)
    for job in cluster.jobs:
        names.update(job.min_resources or ())
    return names
