"""Nodes to the model."""

from collections.abc import Callable

import pytest

from maar.model.nodes import Node
from maar.model.selectors import Taint
from maar.model.snapshot import Cluster

Load = Callable[..., Cluster]


def node(load: Load, meta: str = "", spec: str = "", status: str = "") -> Node:
    (found,) = load(
        f"{{apiVersion: v1, kind: Node, metadata: {{name: n, {meta}}}, spec: {{{spec}}}, status: {{{status}}}}}"
    ).nodes
    return found


def test_allocatable_rounds_down(load: Load) -> None:
    found = node(load, status="allocatable: {cpu: 7910500u, memory: 1Gi, pods: 20, a.io/x: '3'}")
    assert {"cpu": 7910, "memory": 2**30, "pods": 20, "a.io/x": 3} == found.allocatable


def test_without_allocatable_capacity_counts_and_110_pods(load: Load) -> None:
    assert {"cpu": 4000, "pods": 110} == node(load, status="capacity: {cpu: 4}").allocatable
    both = node(load, status="capacity: {cpu: 4}, allocatable: {cpu: 3, pods: 9}")
    assert {"cpu": 3000, "pods": 9} == both.allocatable
    assert {"pods": 110} == node(load).allocatable


def test_a_negative_amount_is_nothing(load: Load) -> None:
    assert {"cpu": 0, "pods": 110} == node(load, status="allocatable: {cpu: -4}").allocatable


def test_labels(load: Load) -> None:
    assert {"zone": "a"} == node(load, "labels: {zone: a}").labels


@pytest.mark.parametrize(
    ("meta", "spec", "expected"),
    [("", "", False), ("", "unschedulable: true", True), ("deletionTimestamp: 2030-01-01T00:00:00Z", "", True)],
)
def test_unschedulable(load: Load, meta: str, spec: str, expected: bool) -> None:
    assert expected == node(load, meta, spec).unschedulable


@pytest.mark.parametrize(
    ("taints", "conditions", "expected"),
    [
        ("", "", ()),
        ("{key: gpu, value: a, effect: NoSchedule}", "", (Taint("gpu", "a"),)),
        ("", "{type: Ready, status: 'True'}", ()),
        ("", "{type: Ready, status: 'False'}", (Taint("node.kubernetes.io/not-ready"),)),
        ("", "{type: Ready, status: Unknown}", (Taint("node.kubernetes.io/unreachable"),)),
        ("", "{type: DiskPressure, status: 'False'}", ()),
        (
            "{key: node.kubernetes.io/not-ready, effect: NoExecute}",
            "{type: Ready, status: 'False'}",
            (Taint("node.kubernetes.io/not-ready", "", "NoExecute"), Taint("node.kubernetes.io/not-ready")),
        ),
    ],
)
def test_taints(load: Load, taints: str, conditions: str, expected: tuple[Taint, ...]) -> None:
    assert expected == node(load, spec=f"taints: [{taints}]", status=f"conditions: [{conditions}]").taints
