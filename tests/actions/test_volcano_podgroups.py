"""What Volcano's PodGroups mean: from manifests to a plan, in every configuration file that it matters for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.confs import ALLOCATE, HELM, HELM_PREEMPT, PREEMPT, RECLAIM, SURPLUS_ONLY

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


# -- priority of a group without a class


def default_class(value: int) -> str:
    return f"""
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {{name: usual}}
value: {value}
globalDefault: true"""


@pytest.mark.parametrize("config", [PREEMPT, HELM_PREEMPT], ids=["preempt", "helm"])
def test_important_pods_do_not_make_a_group_without_a_class_important(load: Read, config: str) -> None:
    """Without a PodGroup the pod's own priority counts."""
    low = group("low", "minMember: 1"), pod("low-0", on="n1")
    grouped = load(node("n1", 1), *low, group("high", "minMember: 1"), pod("high-0", "priority: 9"))
    assert set() == evicted(scene(grouped, configured(config)))
    alone = load(node("n1", 1), *low, pod("high-0", "priority: 9", of="-"))
    assert {"low-0"} == evicted(scene(alone, configured(config)))


def test_a_group_without_a_class_has_the_default_class(load: Read) -> None:
    def world(value: int) -> Cluster:
        low = pod("low", "priority: 3", on="n1", of="-")
        high = group("high", "minMember: 1"), pod("high-0", "priority: 9")
        return load(default_class(value), node("n1", 1), low, *high)

    assert {"low"} == evicted(scene(world(4), configured(PREEMPT)))
    assert set() == evicted(scene(world(3), configured(PREEMPT)))


def test_a_group_without_a_class_is_never_above_its_lowest_pod(load: Read) -> None:
    """`usual` has priority 0; the group of the lowest pod gives way to it."""
    low = group("low", "minMember: 2"), pod("low-0", "priority: -7", on="n1"), pod("low-1", "priority: 5", on="n1")
    world = load(node("n1", 2), *low, pod("usual", of="-"))
    assert {"low-0", "low-1"} == evicted(scene(world, configured(PREEMPT)))


# -- preemptionPolicy: Never of one pod

NEVER = "preemptionPolicy: Never"


def queue(name: str, weight: int) -> str:
    return f"""
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {{name: {name}}}
spec: {{weight: {weight}}}"""


@pytest.mark.parametrize("config", [PREEMPT, HELM_PREEMPT], ids=["preempt", "helm"])
def test_one_pod_that_never_preempts_silences_only_itself(load: Read, config: str) -> None:
    """The room that is freed goes to the pods for which others were evicted."""
    for silent in range(3):
        world = load(
            node("n1", 2),
            *(group(f"low{i}", "minMember: 1") for i in range(2)),
            *(pod(f"low{i}-0", on="n1") for i in range(2)),
            group("high", "minMember: 2, priorityClassName: system-node-critical"),
            *(pod(f"high-{i}", NEVER if i == silent else "") for i in range(3)),
        )
        plans = scene(world, configured(config))
        assert {"low0-0", "low1-0"} == evicted(plans)
        promised = names({n.task for n in plans[0].nominate})
        assert {f"high-{i}" for i in range(3) if i != silent} == promised
        assert promised == bound(plans)


@pytest.mark.parametrize("config", [PREEMPT, HELM_PREEMPT], ids=["preempt", "helm"])
def test_a_gang_whose_minimum_needs_a_pod_that_never_preempts_does_not_preempt(load: Read, config: str) -> None:
    world = load(
        node("n1", 3),
        group("low", "minMember: 1"),
        pod("low-0", on="n1"),
        group("high", "minMember: 3, priorityClassName: system-node-critical"),
        *(pod(f"high-{i}", NEVER if i == 1 else "") for i in range(3)),
    )
    assert set() == evicted(scene(world, configured(config)))
    assert set() == bound(scene(world, configured(config)))


def test_a_role_whose_minimum_needs_a_pod_that_never_preempts_does_not_preempt(load: Read) -> None:
    def world(silent: int) -> Cluster:
        roles = ("ps", "w", "w")
        return load(
            node("n1", 2),
            group("low", "minMember: 1"),
            pod("low-0", on="n1"),
            group("high", "minMember: 2, minTaskMember: {ps: 1}, priorityClassName: system-node-critical"),
            *(
                pod(f"high-{i}", NEVER if i == silent else "").replace(
                    "group-name: high", f"group-name: high, volcano.sh/task-spec: {role}"
                )
                for i, role in enumerate(roles)
            ),
        )

    assert set() == evicted(scene(world(0), configured(PREEMPT)))
    assert {"low-0"} == evicted(scene(world(1), configured(PREEMPT)))


def test_between_queues_too_one_pod_silences_only_itself(load: Read) -> None:
    def gone(minimum: int, silent: int) -> int:
        world = load(
            node("n1", 4),
            queue("a", 3),
            queue("b", 1),
            *(group(f"low{i}", "minMember: 1, queue: b") for i in range(4)),
            *(pod(f"low{i}-0", on="n1") for i in range(4)),
            group("claim", f"minMember: {minimum}, queue: a"),
            *(pod(f"claim-{i}", NEVER if i == silent else "") for i in range(3)),
        )
        return len(evicted(scene(world, configured(RECLAIM))))

    assert (2, 0, 3) == (gone(2, 0), gone(3, 0), gone(3, silent=-1))


def test_inside_its_job_a_pod_that_never_preempts_takes_nothing(load: Read) -> None:
    def world(policy: str) -> Cluster:
        own = group("own", "minMember: 1")
        return load(node("n1", 2), own, *pods("own", 2, on="n1"), pod("own-2", f"priority: 9{policy}"))

    assert set() == evicted(scene(world(f", {NEVER}"), configured(PREEMPT)))
    assert {"own-1"} == evicted(scene(world(""), configured(PREEMPT)))
