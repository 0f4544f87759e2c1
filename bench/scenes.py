"""Clusters for benchmarks of the decision."""

from __future__ import annotations

from maar.model.queues import Queue
from maar.model.selectors import Requirement, Taint, Toleration
from maar.model.snapshot import Cluster
from maar.testing.builders import Gang, cluster, gang, node

QUEUES = 10
GANG = 20
SHAPES = 50
LABEL, TAINT = "pool", Taint("dedicated", "batch", "NoSchedule")


def nodes(count: int) -> list[object]:
    """Nodes with 8 GPUs: one in ten has a label, another one in ten has a taint."""
    made: list[object] = []
    for i in range(count):
        labels = {LABEL: "a"} if i % 10 == 0 else {}
        taints = (TAINT,) if i % 10 == 1 else ()
        made.append(node(f"node-{i:05}", cpu=96, memory="768Gi", gpu=8, labels=labels, taints=taints))
    return made


def work(pods: int, *, on_nodes: int = 0) -> list[Gang]:
    """Gangs of 20 pods in 50 shapes and 10 queues; already running on that many nodes if `on_nodes` is given."""
    return [_gang(i, on_nodes) for i in range(pods // GANG)]


def _gang(i: int, on_nodes: int) -> Gang:
    kind = i % SHAPES
    constraints: dict[str, object] = {}
    if kind % 10 == 0:
        constraints["node_selector"] = (Requirement(LABEL, "In", ("a",)),)
    if kind % 10 == 1:
        constraints["tolerations"] = (Toleration("dedicated", "Equal", "batch", "NoSchedule"),)
    on = [f"node-{(i * GANG + k) % on_nodes:05}" for k in range(GANG)] if on_nodes else []
    return gang(
        f"gang-{i:05}",
        GANG,
        cpu=1 + kind % 7,
        memory=f"{1 + kind}Gi",
        gpu=(0, 0, 1, 0, 2)[kind % 5],
        on=on,
        queue=f"queue-{i % QUEUES}",
        created=float(i),
        constraints=constraints,
    )


def queues() -> list[Queue]:
    """Ten equal queues."""
    return [Queue(f"queue-{i}") for i in range(QUEUES)]


def arriving(node_count: int, pods: int) -> Cluster:
    """An empty cluster with all work pending."""
    return cluster(nodes(node_count), queues(), work(pods))  # type: ignore[arg-type]


def running(node_count: int, pods: int) -> Cluster:
    """The same work, all running."""
    return cluster(nodes(node_count), queues(), work(pods, on_nodes=node_count))  # type: ignore[arg-type]


def full(victims: bool) -> Cluster:
    """500 nodes, each full with a gang of 8 one-GPU pods, and a pending gang of 10 eight-GPU pods.

    With `victims`, the running gangs have a lower priority and may be evicted; without it, they may not.
    """
    names = [f"node-{i:03}" for i in range(500)]
    low = [
        gang(f"low-{i:03}", 8, gpu=1, on=[name] * 8, priority=1 if victims else 100, created=float(i))
        for i, name in enumerate(names)
    ]
    return cluster([node(name, gpu=8) for name in names], low, gang("wants", 10, gpu=8, priority=50, created=1e3))
