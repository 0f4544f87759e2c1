"""The real load of nodes, from NodeMetrics and as fractions."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from maar.kube.read.loads import measured
from maar.kube.wire.base import Metadata
from maar.kube.wire.cluster import Node, NodeStatus
from maar.kube.wire.errors import ManifestError
from maar.model.loads import Load
from maar.model.snapshot import Cluster

Read = Callable[..., Cluster]
NODE = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status:
  capacity: {cpu: 4, memory: 8Gi}
  allocatable: {cpu: 3, memory: 6Gi}
---
"""


def metrics(usage: str, name: str = "n1", timestamp: str = "timestamp: 1970-01-01T00:00:05Z") -> str:
    about = f"{{apiVersion: metrics.k8s.io/v1beta1, kind: NodeMetrics, metadata: {{name: {name}}}"
    return f"{NODE}{about}, {timestamp}, usage: {{{usage}}}}}"


def test_fractions_are_of_the_whole_machine(load: Read) -> None:
    """As in what Prometheus measures, which does not know what the kubelet reserves."""
    made = load(metrics("cpu: 1000000000n, memory: 2Gi"))
    assert (Load("n1", 0.25, 0.25, 5.0, 4000, 8 * 2**30),) == made.loads


def test_a_missing_figure_is_unknown(load: Read) -> None:
    assert (None, 0.5) == (load(metrics("memory: 4Gi")).loads[0].cpu, load(metrics("memory: 4Gi")).loads[0].memory)


def test_figures_of_an_unknown_node_are_left_out(load: Read) -> None:
    assert () == load(metrics("cpu: 1", name="other")).loads


@pytest.mark.parametrize(
    ("usage", "problem"),
    [
        ("cpu: -1", "usage.cpu: `-1` cannot be true: the node has 4"),
        ("cpu: 9", "usage.cpu: `9` cannot be true"),
        ("memory: 1e300", "usage.memory: `1e\\+300` cannot be true|usage.memory: `1e300` cannot be true"),
        ("cpu: lots", "usage.cpu: not a quantity"),
    ],
)
def test_figures_that_cannot_be_true_are_an_error(load: Read, usage: str, problem: str) -> None:
    with pytest.raises(ManifestError, match=problem):
        load(metrics(usage))


def test_figures_without_a_time_are_an_error(load: Read) -> None:
    with pytest.raises(ManifestError, match="timestamp: missing"):
        load(metrics("cpu: 1", timestamp="window: 30s"))


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -0.1, 2.1])
def test_fractions_that_cannot_be_true_are_unknown(wrong: float) -> None:
    node = Node(metadata=Metadata(name="n1"), status=NodeStatus(capacity={"cpu": "4", "memory": "1Ki"}))
    assert Load("n1", None, 0.5, 7.0, 4000, 1024) == measured(node, wrong, 0.5, 7.0)
    assert Load("n1", 0.5, None, 7.0, 4000, 1024) == measured(node, 0.5, wrong, 7.0)
    assert measured(node, wrong, wrong, 7.0) is None
