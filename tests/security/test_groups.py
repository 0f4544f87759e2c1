"""What a tenant can write on her PodGroups, row by row of docs/security-inputs.md."""

from __future__ import annotations

from typing import Any

import pytest
from tests.security.world import GPU, bound, codes, evicted, good, good_is_well, group, node, plan, pod, queue, row
from tests.support.objects import Json

ADMISSION = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: SHARES}, {name: predicates}]
"""


def admitted(*items: Json | list[Json], shares: str = "overcommit", **flags: Any) -> list[str]:
    text = ADMISSION.replace("SHARES", shares)
    for flag, on in flags.items():
        text = text.replace(f"name: {shares}", f"name: {shares}, {flag}: {str(on).lower()}")
    return [a.job for a in plan(*items, text=text).admit]


def waiting(name: str = "new") -> Json:
    """A group of `good` that asks for 4 GPUs and waits for its admission."""
    return group("good", name, phase="Pending", minResources={GPU: "4"})


@row("group-phase")
@pytest.mark.parametrize("phase", ["Inqueue", "Running"])
@pytest.mark.parametrize("asks", ["8", "16", "1e18"])
def test_a_phase_written_by_hand_keeps_no_more_than_her_queue_may_have(phase: str, asks: str) -> None:
    """The status of Volcano's PodGroup has no subresource. `evil` may have 4 GPUs, and says that more were admitted."""
    forged = [group("evil", f"g{i}", phase=phase, minMember=9, minResources={GPU: asks}) for i in range(5)]
    world = [node("n1"), queue("good"), queue("evil", capability={GPU: "4"})]
    assert ["good/new"] == admitted(world, forged, waiting())


@row("group-phase")
def test_under_a_common_parent_others_are_admitted() -> None:
    world = [
        node("n1"),
        queue("org", capability={GPU: "8"}),
        queue("good", parent="org"),
        queue("evil", parent="org", capability={GPU: "4"}),
    ]
    forged = [group("evil", "g", phase="Inqueue", minMember=9, minResources={GPU: "8"})]
    assert ["good/new"] == admitted(world, forged, waiting(), shares="capacity", enableHierarchy=True)


@row("group-phase")
def test_a_phase_gets_her_pods_no_room_beyond_her_limit() -> None:
    world = [node("n1"), queue("evil", capability={GPU: "2"}), group("evil", "g", phase="Running", minMember=1)]
    pods = [pod("evil", f"p{i}", annotations={"scheduling.k8s.io/group-name": "g"}) for i in range(8)]
    assert 2 == len(bound(plan(world, pods)))


@row("group-phase")
@pytest.mark.parametrize("phase", ["Completed", "Unknown", "Gone", "Inqueue"])
def test_no_phase_matters_to_others(phase: str) -> None:
    good_is_well(plan(good(), [group("evil", f"g{i}", phase=phase, minMember=5) for i in range(9)]))


@row("group-minimum")
@pytest.mark.parametrize("minimum", [2**31 - 1, -1, 0])
def test_a_minimum_matters_to_her_gang_only(minimum: int) -> None:
    evil = [
        group("evil", "g", phase="Inqueue", minMember=minimum, minTaskMember={f"r{i}": minimum for i in range(500)}),
        group("evil", "h", minMember=minimum, minResources={GPU: "1e30", "x": "-1", "cpu": "none"}),
        *(pod("evil", f"p{i}", gpus=8, annotations={"scheduling.k8s.io/group-name": "g"}) for i in range(3)),
    ]
    good_is_well(plan(good(), evil))


@row("group-minimum")
@pytest.mark.parametrize("tenants", ["trusted", "untrusted"])
def test_one_gang_on_everything_is_reclaimed_like_one_pod(tenants: str) -> None:
    """All pods are its minimum, and part of it is within her share."""
    items = [
        node("n1"),
        queue("good"),
        queue("evil"),
        group("evil", "g", phase="Running", minMember=8),
        *(pod("evil", f"e{i}", on="n1", annotations={"scheduling.k8s.io/group-name": "g"}) for i in range(8)),
        pod("good", "wants", gpus=4),
    ]
    assert 8 == len(evicted(plan(items, tenants=tenants)))


@row("group-priority-class")
@pytest.mark.parametrize("version", ["scheduling.volcano.sh/v1beta1", "scheduling.k8s.io/v1alpha2"])
def test_a_group_names_any_class_that_its_queue_accepts(version: str) -> None:
    """No admission plugin of Kubernetes checks the class of Volcano's PodGroup."""
    vip = group("evil", "vip", phase="Inqueue", priorityClassName="system-node-critical")
    member: dict[str, Any] = {"annotations": {"scheduling.k8s.io/group-name": "vip"}}
    if version != vip["apiVersion"]:
        vip |= {"apiVersion": version}
        vip["spec"] = {"schedulingPolicy": {"gang": {"minCount": 1}}, "priority": 2_000_000_000}
        member = {"schedulingGroup": {"podGroupName": "vip"}}
    others = [node("n1"), *(pod("other", f"o{i}", on="n1", queue="evil") for i in range(8))]
    claimant = pod("evil", "p", **member)
    assert 1 == len(evicted(plan(others, queue("evil"), vip, claimant), "other/"))
    made = plan(others, queue("evil", {"maar.dev/priority-classes": "silver"}), vip, claimant)
    assert ([], ["PriorityClassNotAccepted"]) == (evicted(made), codes(made, "evil/vip"))


@row("group-queue")
def test_a_group_may_be_in_a_queue_that_accepts_its_namespace() -> None:
    items = [node("n1"), queue("good", {"maar.dev/namespaces": "good"})]
    made = plan(items, group("evil", "g", queue="good", minResources={GPU: "8"}), waiting())
    assert (["good/new"], ["NamespaceNotAccepted"]) == ([a.job for a in made.admit], codes(made, "evil/g"))


@row("group-topology")
def test_a_network_topology_matters_to_her_gang_only() -> None:
    for topology in ({"mode": "hard", "highestTierAllowed": -5}, {"mode": "soft"}, {"mode": "x"}):
        good_is_well(plan(good(), group("evil", "g", networkTopology=topology)))


TDM = """
actions: "allocate, shuffle"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: predicates}, {name: proportion}, {name: task-topology}]
- plugins: [{name: tdm, arguments: {tdm.revocable-zone.rz: "00:00-12:00"}}]
"""
"""Closed at `NOW`, which is 13:46."""
REVOCABLE = node("n3", metadata={"labels": {"volcano.sh/revocable-zone": "rz"}})


def on_revocable(size: int = 2, notes: dict[str, str] | None = None, **said: str) -> list[Any]:
    """A gang of `evil` that still runs on a revocable node after its hours."""
    names = {"scheduling.k8s.io/group-name": "g", **{f"volcano.sh/{k.replace('_', '-')}": v for k, v in said.items()}}
    pods = (pod("evil", f"e{i}", on="n3", annotations=names) for i in range(size))
    return [REVOCABLE, group("evil", "g", phase="Running", minMember=size, annotations=notes or {}), *pods]


@row("pod-revocable")
def test_a_pod_that_takes_its_word_back_keeps_a_revocable_node_within_the_share_of_its_queue_only() -> None:
    items = good()
    assert ["evil/e0", "evil/e1"] == evicted(plan(items, on_revocable(revocable_zone="*"), text=TDM))
    kept = on_revocable(revocable_zone="*", preemptable="false")
    assert [] == evicted(plan(items, kept, text=TDM))
    poor = [item for item in items if item["metadata"]["name"] != "evil"]
    no_share = queue("evil", deserved={GPU: "0"}, weight=1, capability={GPU: "0"})
    made = plan(poor, no_share, kept, text=TDM, tenants="untrusted")
    assert ["evil/e0", "evil/e1"] == evicted(made)
    good_is_well(made)


@row("group-budget")
@pytest.mark.parametrize("budget", ["2", "100%", "99999999999", "-1", "no"])
def test_a_budget_keeps_a_gang_on_a_revocable_node_only_if_tenants_are_trusted(budget: str) -> None:
    evil = on_revocable(notes={"volcano.sh/jdb-min-available": budget}, preemptable="true")
    made = plan(good(), evil, text=TDM)
    assert ([] if budget in ("2", "100%") else ["evil/e0", "evil/e1"]) == evicted(made)
    good_is_well(made)
    made = plan(good(), evil, text=TDM, tenants="untrusted")
    assert ["evil/e0", "evil/e1"] == evicted(made)
    good_is_well(made)


@row("group-task-topology")
@pytest.mark.parametrize("text", ["a,b;c", "a,a", "a;b", ";,;,", "x" * 100_000, ",".join(map(str, range(300)))])
def test_a_task_topology_matters_to_her_gang_only(text: str) -> None:
    notes = {f"volcano.sh/task-topology-{name}": text for name in ("affinity", "anti-affinity", "task-order")}
    evil = [
        group("evil", "g", phase="Inqueue", minMember=2, annotations=notes),
        *(pod("evil", f"e{i}", gpus=0, annotations={"scheduling.k8s.io/group-name": "g"}) for i in range(2)),
    ]
    made = plan(good(), evil, text=TDM)
    good_is_well(made)
    assert ["evil/e0", "evil/e1"] == bound(made, "evil/"), "it is scheduled without its topology"
