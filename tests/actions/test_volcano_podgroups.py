"""What Volcano's PodGroups mean: from manifests to a plan, in every configuration file that it matters for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.confs import ALLOCATE, HELM, HELM_PREEMPT, PREEMPT, SURPLUS_ONLY

from maar.kube.picture.manifests import read
from maar.model.plan import Plan
from maar.model.snapshot import Cluster
from maar.testing.scenario import configured, scene

Read = Callable[..., Cluster]


@pytest.fixture
def load(tmp_path: Path) -> Read:
    def load(*documents: str) -> Cluster:
        path = tmp_path / "cluster.yaml"
        path.write_text("\n---\n".join(documents))
        return read([str(path)]).cluster

    return load


def node(name: str, cpu: int) -> str:
    return f"""
apiVersion: v1
kind: Node
metadata: {{name: {name}}}
status: {{allocatable: {{cpu: "{cpu}", memory: 64Gi, pods: "110"}}}}"""


def group(name: str, spec: str) -> str:
    return f"""
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {{name: {name}}}
spec: {{{spec}}}
status: {{phase: Inqueue}}"""


def pod(name: str, spec: str = "", on: str = "", of: str = "") -> str:
    """A pod that requests one CPU, in a group unless `of` is `-`; by default that of its name without the index."""
    of = of or name.rsplit("-", 1)[0]
    meta = "" if of == "-" else f", annotations: {{scheduling.k8s.io/group-name: {of}}}"
    more = f"{spec}, nodeName: {on}" if spec and on else spec or (f"nodeName: {on}" if on else "")
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}{meta}}}
spec: {{containers: [{{name: c, resources: {{requests: {{cpu: 1, memory: 1Gi}}}}}}]{", " + more if more else ""}}}"""


def pods(of: str, count: int, spec: str = "", on: str = "") -> list[str]:
    return [pod(f"{of}-{i}", spec, on) for i in range(count)]


def names(tasks: set[str]) -> set[str]:
    return {task.removeprefix("default/") for task in tasks}


def bound(plans: list[Plan]) -> set[str]:
    return names({b.task for plan in plans for b in plan.bind})


def evicted(plans: list[Plan]) -> set[str]:
    return names({e.task for plan in plans for e in plan.evict})


# -- minMember: 0


@pytest.mark.parametrize("config", [ALLOCATE, HELM], ids=["allocate", "helm"])
def test_without_a_minimum_a_job_starts_with_the_pods_that_fit(load: Read, config: str) -> None:
    """Role minimums do not count either: they add up to more than the minimum of the job."""
    world = load(node("n1", 1), group("loose", "minMember: 0, minTaskMember: {w: 1}"), *pods("loose", 3))
    assert {"loose-0"} == bound(scene(world, configured(config)))


@pytest.mark.parametrize(("minimum", "gone"), [(0, {"loose-0", "loose-1"}), (1, set())])
def test_without_a_minimum_every_pod_is_surplus(load: Read, minimum: int, gone: set[str]) -> None:
    """Both pods are needed; at a minimum of 1 one of them stays, so nothing is evicted."""
    world = load(
        node("n1", 2),
        group("loose", f"minMember: {minimum}"),
        *pods("loose", 2, on="n1"),
        *(pod(f"high-{i}", "priority: 9", of="high") for i in range(2)),
        group("high", "minMember: 2, priorityClassName: system-node-critical"),
    )
    assert gone == evicted(scene(world, configured(SURPLUS_ONLY)))


@pytest.mark.parametrize("config", [PREEMPT, HELM_PREEMPT], ids=["preempt", "helm"])
def test_without_a_minimum_a_job_lacks_nothing_and_preempts_nothing(load: Read, config: str) -> None:
    def world(minimum: int) -> Cluster:
        high = group("high", f"minMember: {minimum}, priorityClassName: system-node-critical")
        return load(node("n1", 1), group("low", "minMember: 1"), pod("low-0", on="n1"), high, pod("high-0"))

    assert set() == evicted(scene(world(0), configured(config)))
    assert {"low-0"} == evicted(scene(world(1), configured(config)))
