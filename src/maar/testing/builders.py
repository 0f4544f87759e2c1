"""Builders: a cluster in a few words, for tests, benchmarks and the documentation.

    cluster(
        node("n1", gpu=8),
        gang("low", 2, gpu=4, on=["n1", "n1"], priority=1),
        gang("high", 2, gpu=4, priority=10),
    )

Each builder takes what a scene is about and fills in defaults for the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from maar.model.elastic import Elastic
from maar.model.jobs import Job
from maar.model.loads import Load
from maar.model.nodes import Node
from maar.model.plan import Elect, Lock
from maar.model.queues import Queue
from maar.model.resources import PODS, allocatable, requests
from maar.model.selectors import Taint
from maar.model.shapes import Shape
from maar.model.snapshot import Budget, Cluster, Quota
from maar.model.tasks import Status, Task
from maar.model.topology import HyperNode

GPU = "nvidia.com/gpu"
Quantity = str | int | float
NAMESPACE = "ns"


class Gang(msgspec.Struct, frozen=True):
    """A job with its tasks."""

    job: Job
    tasks: tuple[Task, ...]


LISTED: Mapping[str, type] = {
    "nodes": Node,
    "queues": Queue,
    "budgets": Budget,
    "quotas": Quota,
    "hypernodes": HyperNode,
    "locks": Lock,
    "loads": Load,
}
"""The fields of a cluster that are lists of parts."""
Part = Node | Gang | Queue | Budget | Quota | HyperNode | Elect | Lock | Load | Task


def node(
    name: str,
    *,
    cpu: Quantity = 64,
    memory: Quantity = "256Gi",
    gpu: int = 0,
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Taint] = (),
    unschedulable: bool = False,
    **resources: Quantity,
) -> Node:
    """A node; other resources by keyword."""
    amounts = allocatable({"cpu": cpu, "memory": memory, PODS: pods, **resources})
    if gpu:
        amounts[GPU] = gpu
    return Node(name, amounts, dict(labels or {}), tuple(taints), unschedulable)


def shape(*, cpu: Quantity = 1, memory: Quantity = "1Gi", gpu: int = 0, **fields: Any) -> Shape:
    """A shape; its constraints by keyword. With zero requests it is best-effort."""
    amounts = requests({"cpu": cpu, "memory": memory, GPU: gpu, **fields.pop("resources", {})})
    amounts = {name: amount for name, amount in amounts.items() if amount}
    return Shape(requests=tuple(sorted({**amounts, PODS: 1}.items())), **fields)


def tasks(
    job: str,
    count: int,
    of: Shape,
    *,
    on: Sequence[str] = (),
    role: str = "",
    first: int = 0,
    **fields: Any,
) -> tuple[Task, ...]:
    """Tasks of a job, named `<job>-<role>-<index>`; the first ones are bound to the nodes `on`."""
    stem = f"{job}-{role}" if role else job
    made = []
    for i in range(count):
        bound = {"status": Status.BOUND, "node": on[i], "started": 0.0} if i < len(on) else {}
        made.append(Task(f"{stem}-{first + i}", job, of, role=role, index=first + i, **{**bound, **fields}))
    return tuple(made)


def gang(
    name: str,
    count: int = 1,
    *,
    minimum: int | None = None,
    cpu: Quantity = 1,
    memory: Quantity = "1Gi",
    gpu: int = 0,
    on: Sequence[str] = (),
    priority: int = 0,
    constraints: Mapping[str, Any] | None = None,
    task: Mapping[str, Any] | None = None,
    roles: Mapping[str, int] | None = None,
    **job: Any,
) -> Gang:
    """A gang of equal tasks, or of roles `{name: count}`. The default minimum is all tasks.

    `constraints` are fields of the shape, `task` fields of each task, all others fields of the job.
    """
    key = name if "/" in name else f"{NAMESPACE}/{name}"
    of = shape(cpu=cpu, memory=memory, gpu=gpu, **dict(constraints or {}))
    common, made = {"priority": priority, **dict(task or {})}, list[Task]()
    for role, size in ({"": count} if roles is None else roles).items():
        made.extend(tasks(key, size, of, on=on[len(made) :], role=role, **common))
    least = len(made) if minimum is None else minimum
    return Gang(Job(key, min_member=least, priority=priority, **job), tuple(made))


def elastic(
    name: str,
    low: int,
    high: int,
    *,
    on: Sequence[str] = (),
    size: int | None = None,
    gpu: int = 1,
    cpu: Quantity = 1,
    priority: int = 0,
    constraints: Mapping[str, Any] | None = None,
    job: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Gang:
    """An elastic job of `low` to `high` workers: suspended unless workers are on nodes or `size` is given.

    `job` are fields of the job, `constraints` fields of the shape, all others fields of its `Elastic`.
    """
    key = name if "/" in name else f"{NAMESPACE}/{name}"
    of = shape(cpu=cpu, gpu=gpu, **dict(constraints or {}))
    now = len(on) if size is None else size
    made = tasks(key, now, of, on=on, role="worker", priority=priority, controlled=True)
    made_elastic = Elastic(low, high, of, size=now or low, requested=low, suspended=not now, role="worker")
    made_elastic = msgspec.structs.replace(made_elastic, **fields)
    more = {"min_member": low + len(made_elastic.beside), "priority": priority, **dict(job or {})}
    return Gang(Job(key, elastic=made_elastic, **more), made)


def cluster(*parts: Part | Iterable[Part], **fields: Any) -> Cluster:
    """A cluster of parts and lists of parts, in any order. A single task is its own job."""
    flat: list[Part] = []
    for part in parts:
        flat.extend([part] if isinstance(part, msgspec.Struct) else part)
    gangs = [p for p in flat if isinstance(p, Gang)]
    loose = [p for p in flat if isinstance(p, Task)]
    known = {g.job.key for g in gangs}
    listed: dict[str, Any] = {name: tuple(p for p in flat if isinstance(p, kind)) for name, kind in LISTED.items()}
    alone = (Job(t.job, priority=t.priority) for t in loose if t.job not in known)
    return Cluster(
        tasks=(*(t for g in gangs for t in g.tasks), *loose),
        jobs=(*(g.job for g in gangs), *alone),
        elect=next((p for p in flat if isinstance(p, Elect)), None),
        **listed,
        **fields,
    )
