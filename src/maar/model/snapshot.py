"""The snapshot: one consistent picture of the cluster, and all that a decision may know.

`Cluster` is plain: lists of nouns in any order, as a reader, a test or a simulator has them. `Snapshot` is the same in
tables, sorted, so that equal clusters give equal snapshots whatever order they came in. A cycle never changes one.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np

from maar.model.jobs import Job, JobTable
from maar.model.nodes import Node, NodeTable
from maar.model.plan import Elect, Lock
from maar.model.queues import Queue, QueueTree
from maar.model.resources import Axes, Ints
from maar.model.shapes import ShapeTable
from maar.model.tasks import Status, Task, TaskTable, placing_order
from maar.model.topology import HyperNode


class Budget(msgspec.Struct, frozen=True):
    """A disruption budget: how many more of its pods may be evicted now."""

    key: str
    allowed: int


class Cluster(msgspec.Struct, frozen=True):
    """What there is, in any order."""

    nodes: tuple[Node, ...] = ()
    tasks: tuple[Task, ...] = ()
    jobs: tuple[Job, ...] = ()
    """Every task's job is among them."""
    queues: tuple[Queue, ...] = ()
    budgets: tuple[Budget, ...] = ()
    hypernodes: tuple[HyperNode, ...] = ()
    namespace_weights: dict[str, int] = {}
    elect: Elect | None = None
    locks: tuple[Lock, ...] = ()


class Snapshot:
    """The same, in tables."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.axes = Axes(_resource_names(cluster))
        self.nodes = NodeTable(cluster.nodes, self.axes)
        self.queues = QueueTree(cluster.queues)
        tasks = sorted(cluster.tasks, key=placing_order)
        self.shapes = ShapeTable((t.shape for t in tasks), self.axes)
        self.jobs = JobTable(sorted(cluster.jobs, key=lambda j: j.key), self.queues.number)
        self.tasks = TaskTable(tasks, self.jobs.number, self.shapes.number, self.nodes.row)
        self.jobs.count(self.tasks, self.shapes)
        self.budgets: dict[str, Budget] = {b.key: b for b in sorted(cluster.budgets, key=lambda b: b.key)}
        self.hypernodes = tuple(sorted(cluster.hypernodes, key=lambda h: (h.tier, h.name)))
        self._count_nodes()

    def _count_nodes(self) -> None:
        """What tasks take of each node, and the features they leave there."""
        n, r = self.nodes.allocatable.shape
        self.used: Ints = np.zeros((n, r), dtype=np.int64)
        self.releasing: Ints = np.zeros((n, r), dtype=np.int64)
        self.nominated: Ints = np.zeros((n, r), dtype=np.int64)
        status, node, shape = self.tasks.status, self.tasks.node, self.tasks.shape
        for statuses, column in (
            ((Status.BOUND, Status.RELEASING), self.used),
            ((Status.RELEASING,), self.releasing),
            ((Status.NOMINATED,), self.nominated),
        ):
            chosen = np.isin(status, statuses) & (node >= 0)
            np.add.at(column, node[chosen], self.shapes.requests[shape[chosen]])
        self.features: Ints = np.zeros((len(self.shapes.feature), n), dtype=np.int64)
        self.leaving: Ints = np.zeros_like(self.features)
        visible = np.array([bool(f) for f in self.shapes.features], dtype=np.bool_)
        if visible.any():
            present = (Status.BOUND, Status.RELEASING, Status.NOMINATED)
            there = np.isin(status, present) & (node >= 0) & visible[shape]
            for t in np.flatnonzero(there).tolist():
                self.features[self.shapes.features[shape[t]], node[t]] += 1
                if status[t] == Status.RELEASING:
                    self.leaving[self.shapes.features[shape[t]], node[t]] += 1


def _resource_names(cluster: Cluster) -> Iterable[str]:
    """All dimensions that any object mentions."""
    names: set[str] = set()
    for node in cluster.nodes:
        names.update(node.allocatable)
    for shape in {task.shape for task in cluster.tasks}:
        names.update(name for name, _ in shape.requests)
    for job in cluster.jobs:
        names.update(job.min_resources or ())
    for queue in cluster.queues:
        for amounts in (queue.capability, queue.deserved, queue.guarantee):
            names.update(amounts or ())
    return names
