"""Disruption budgets: which pods they cover, and how many pods may be evicted."""

from collections.abc import Callable

import pytest

from maar.model.snapshot import Budget, Cluster

Load = Callable[..., Cluster]

BUDGET = (
    "\n---\n{apiVersion: policy/v1, kind: PodDisruptionBudget, "
    "metadata: {name: %s, namespace: a}, spec: {%s}, status: {%s}}\n"
)
POD = "\n---\n{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: %s, labels: {app: %s}}, spec: {%s}}\n"
MINE = "selector: {matchLabels: {app: x}}"


def running(count: int) -> str:
    return "".join(POD % (f"p{i}", "a", "x", "nodeName: n") for i in range(count))


@pytest.mark.parametrize(
    ("spec", "pods", "allowed"),
    [
        ("minAvailable: 2", 5, 3),
        ("minAvailable: 9", 5, 0),
        ("minAvailable: 50%", 5, 2),  # 2.5 pods must stay available: 3
        ("minAvailable: 100%", 5, 0),
        ("maxUnavailable: 1", 5, 1),
        ("maxUnavailable: 9", 5, 5),
        ("maxUnavailable: 50%", 5, 3),  # 2.5 pods may be unavailable: 3
        ("maxUnavailable: 0", 5, 0),
        ("minAvailable: 1", 0, 0),
        ("", 5, 0),
    ],
)
def test_without_a_status_it_is_computed_as_kubernetes_does(load: Load, spec: str, pods: int, allowed: int) -> None:
    cluster = load(BUDGET % ("b", f"{MINE}, {spec}", "") + running(pods))
    assert (Budget("a/b", allowed),) == cluster.budgets


def test_pods_without_a_node_do_not_count(load: Load) -> None:
    text = BUDGET % ("b", f"{MINE}, minAvailable: 2", "") + running(3) + POD % ("waits", "a", "x", "")
    assert (Budget("a/b", 1),) == load(text).budgets


def test_a_status_counts(load: Load) -> None:
    text = BUDGET % ("b", f"{MINE}, minAvailable: 5", "disruptionsAllowed: 4") + running(5)
    assert (Budget("a/b", 4),) == load(text).budgets


def test_who_is_covered(load: Load) -> None:
    text = (
        BUDGET % ("x", MINE, "")
        + BUDGET % ("all", "selector: {}", "")
        + BUDGET % ("none", "", "")
        + POD % ("one", "a", "x", "")
        + POD % ("two", "a", "y", "")
        + POD % ("three", "b", "x", "")
    )
    found = {t.key: t.budgets for t in load(text).tasks}
    assert {"a/one": ("a/all", "a/x"), "a/two": ("a/all",), "b/three": ()} == found
