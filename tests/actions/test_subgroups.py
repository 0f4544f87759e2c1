"""Subgroups of a PodGroup: each one whole, some of them together, each in its domain; then five quiet cycles."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.support.confs import (
    ALLOCATE,
    BACKFILL,
    CAPACITY_GUIDE,
    HELM,
    HELM_PREEMPT,
    HELM_RECLAIM,
    PREEMPT,
    RECLAIM,
    RESERVE,
    SURPLUS_ONLY,
)
from tests.support.subgroups import divided, switches

from maar.decide import decide
from maar.kube.picture.manifests import Manifests, read
from maar.model.jobs import Closeness
from maar.model.nodes import Node
from maar.model.outcome import carry_out
from maar.model.plan import Plan
from maar.model.queues import Queue
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status
from maar.model.topology import HyperNode, Member
from maar.testing.builders import cluster, gang, node
from maar.testing.scenario import configured, scene


def close(config: str) -> str:
    """The configuration with `topology`, which the files of Volcano's Helm chart leave out."""
    return config + "  - name: topology\n" if "- name: priority" in config else config + "  - {name: topology}\n"


RACKS = [["n1", "n2"], ["n3", "n4"]]
NODES = [node(f"n{i}", gpu=2) for i in range(1, 5)]
WORLD: list[Node | HyperNode] = [*NODES, *switches(*RACKS)]
EVERY = {"allocate": ALLOCATE, "helm": HELM, "helm-preempt": HELM_PREEMPT, "capacity": CAPACITY_GUIDE}
every = pytest.mark.parametrize("config", EVERY.values(), ids=EVERY.keys())
FULL = ["n1", "n1", "n2", "n2", "n3", "n3", "n4", "n4"]


def bound(plans: list[Plan]) -> dict[str, str]:
    return {b.task.removeprefix("ns/"): b.node for plan in plans for b in plan.bind}


def evicted(plans: list[Plan]) -> set[str]:
    return {e.task.removeprefix("ns/") for plan in plans for e in plan.evict}


def reasons(plan: Plan, job: str) -> list[tuple[str, str]]:
    return [(r.code, r.message) for w in plan.waiting if w.job == f"ns/{job}" for r in w.reasons]


def racks(where: dict[str, str], tasks: list[str]) -> set[int]:
    """The racks of some tasks."""
    return {i for i, names in enumerate(RACKS) for task in tasks if where[task] in names}


# -- starting


@every
def test_each_subgroup_is_in_one_hypernode(config: str) -> None:
    plans = scene(cluster(WORLD, divided("a", [4, 4], size=4, minimum=8)), configured(close(config)))
    where = bound(plans[:1])
    first, second = ([f"a-{i}" for i in numbers] for numbers in (range(4), range(4, 8)))
    assert len(where) == 8
    assert 1 == len(racks(where, first)) == len(racks(where, second))


@every
def test_without_enough_subgroups_none_starts(config: str) -> None:
    """One rack has room for a subgroup, the other lacks one slot; two subgroups must start together."""
    other = gang("other", 1, gpu=1, on=["n1"])
    plans = scene(cluster(WORLD, other, divided("a", [4, 4], size=4, least=2)), configured(close(config)))
    assert {} == bound(plans)
    [(code, message)] = reasons(plans[-1], "a")
    assert "NotEnoughResources" == code
    assert message.startswith("subgroup `workers/1` (4 pods within one HyperNode of tier 1 or lower): needs 4 pods tog")
    assert "the best domain has room for 3" in message


@every
def test_further_subgroups_start_one_by_one(config: str) -> None:
    other = gang("other", 1, gpu=1, on=["n1"])
    plans = scene(cluster(WORLD, other, divided("a", [4, 4], size=4, least=1)), configured(close(config)))
    assert {"a-0", "a-1", "a-2", "a-3"} == set(bound(plans))
    assert {"n3", "n4"} == set(bound(plans).values())


def test_pods_above_the_size_follow_one_by_one_into_the_same_hypernode() -> None:
    plans = scene(cluster(WORLD, divided("a", [5, 3], size=3)), configured(close(ALLOCATE)))
    where = bound(plans)
    first = [task for task in where if task in {f"a-{i}" for i in range(5)}]
    assert 4 == len(first)
    assert 1 == len(racks(where, first))
    [(_, message)] = reasons(plans[-1], "a")
    assert message.startswith("subgroup `workers/0` (1 more pod): ")


def test_without_a_size_each_pod_starts_alone_in_the_hypernode_of_its_subgroup() -> None:
    plans = scene(cluster(WORLD, divided("a", [6], size=1)), configured(close(ALLOCATE)))
    assert 4 == len(bound(plans))
    assert 1 == len(racks(bound(plans), list(bound(plans))))


def test_the_minimum_of_the_job_counts_too() -> None:
    """Two subgroups and a launcher in none of them."""
    plans = scene(cluster(WORLD, divided("a", [3, 3, 3], size=3, least=2, minimum=7, loose=1)), configured(close(HELM)))
    assert {*(f"a-{i}" for i in range(6)), "a-9"} == set(bound(plans[:1]))
    lacks = divided("a", [3, 3], size=3, least=2, minimum=9, loose=3)
    plans = scene(cluster(WORLD, lacks), configured(close(HELM)))
    assert {} == bound(plans)


def test_role_minimums_count_too() -> None:
    made = divided("a", [2, 2, 2], size=2, least=1, minimum=4)
    made = replace(
        made,
        job=replace(made.job, role_min={"late": 2}),
        tasks=tuple(replace(t, role="late" if t.index > 3 else "early") for t in made.tasks),
    )
    plans = scene(cluster(NODES[:2], switches(["n1", "n2"]), made), configured(close(ALLOCATE)))
    assert {"a-0", "a-1", "a-4", "a-5"} == set(bound(plans))


def test_subgroups_stay_inside_the_domain_of_the_job() -> None:
    """The racks of one block: the job may not spread over two blocks, its subgroups not over two racks."""
    names = [f"n{i}" for i in range(8)]
    leaves = [HyperNode(f"s{i}", 1, tuple(Member(name=n) for n in names[2 * i : 2 * i + 2])) for i in range(4)]
    blocks = [
        HyperNode(f"b{i}", 2, tuple(Member(kind="HyperNode", name=f"s{j}") for j in (2 * i, 2 * i + 1)))
        for i in range(2)
    ]
    job = divided("a", [2, 2], size=2, minimum=4, gpu=1, closeness=Closeness(tier=2))
    other = gang("other", 2, gpu=1, on=["n0", "n4"])
    nodes = [node(name, gpu=1) for name in names]
    plans = scene(cluster(nodes, leaves, blocks, other, job), configured(close(ALLOCATE)))
    assert {} == bound(plans)
    plans = scene(cluster(nodes, leaves, blocks, gang("other", 1, gpu=1, on=["n0"]), job), configured(close(ALLOCATE)))
    assert {"n4", "n5", "n6", "n7"} == set(bound(plans).values())


def test_a_soft_subgroup_prefers_one_hypernode() -> None:
    soft = divided("a", [4], size=4, hard=False)
    where = bound(scene(cluster(WORLD, gang("other", 1, gpu=1, on=["n1"]), soft), configured(close(ALLOCATE))))
    assert {"n3", "n4"} == set(where.values())
    crowded = gang("other", 2, gpu=1, on=["n1", "n3"])
    where = bound(scene(cluster(WORLD, crowded, soft), configured(close(ALLOCATE))))
    assert 4 == len(where)


def test_without_the_plugin_topology_subgroups_still_start_whole() -> None:
    crowded = gang("other", 2, gpu=1, on=["n1", "n3"])
    plans = scene(cluster(WORLD, crowded, divided("a", [4, 4], size=4)), configured(HELM))
    assert 4 == len(bound(plans))


def test_a_subgroup_with_too_few_pods_waits_and_holds_up_no_other() -> None:
    plans = scene(cluster(WORLD, divided("a", [3, 4], size=4, least=1)), configured(close(ALLOCATE)))
    assert {"a-3", "a-4", "a-5", "a-6"} == set(bound(plans))
    [(code, message)] = reasons(plans[-1], "a")
    assert "NotEnoughPodsOfSubgroup" == code
    assert "subgroup `workers/0` needs 4 pods, only 3 can be placed" in message
    plans = scene(cluster(WORLD, divided("a", [3, 4], size=4, least=2)), configured(close(ALLOCATE)))
    [(code, message)] = reasons(plans[-1], "a")
    assert "NotEnoughSubgroups" == code
    assert message.startswith("policy `workers` needs 2 subgroups of 4 pods, only 1 have enough")
    assert message.endswith("subgroup `workers/0` has 3")


def test_best_effort_subgroups_are_left_to_backfill_and_start_whole() -> None:
    free = divided("a", [3, 3], size=3, gpu=0, cpu=0, memory=0)
    nodes = [node("n1", pods=4)]
    plans = scene(cluster(nodes, switches(["n1"]), free), configured(close(BACKFILL)))
    assert {"a-0", "a-1", "a-2"} == set(bound(plans))


def test_a_subgroup_that_can_never_fit_says_so() -> None:
    plans = scene(cluster(WORLD, divided("a", [5, 5], size=5, least=1)), configured(close(ALLOCATE)))
    [wait] = plans[-1].waiting
    assert wait.reasons[0].never is not None
    assert "LargerThanAnyDomain" == wait.reasons[0].never.code


def test_an_unknown_tier_name_is_a_reason() -> None:
    made = divided("a", [2], size=2)
    policy = replace(made.job.subgroups[0], closeness=Closeness(tier_name="galaxy"))
    made = replace(made, job=replace(made.job, subgroups=(policy,)))
    plans = scene(cluster(WORLD, made), configured(close(ALLOCATE)))
    what = "subgroups of `workers`: must run within one HyperNode of tier `galaxy` or lower, but no such HyperNode has"
    assert [("NoDomain", f"{what} nodes")] == reasons(plans[-1], "a")


# -- preempt and reclaim


@pytest.mark.parametrize("config", [PREEMPT, HELM_PREEMPT], ids=["preempt", "helm"])
def test_subgroups_preempt_for_all_of_them_or_not_at_all(config: str) -> None:
    low = [gang("low", 1, gpu=1, on=["n1"]), gang("idle", 1, gpu=1, on=["n3"])]
    plans = scene(
        cluster(WORLD, low, divided("a", [4, 4], size=4, least=2, minimum=8, priority=5)), configured(close(config))
    )
    assert {"low-0", "idle-0"} == evicted(plans)
    assert 8 == len(bound(plans))
    fixed = [low[0], gang("idle", 1, gpu=1, on=["n3"], priority=9)]
    plans = scene(
        cluster(WORLD, fixed, divided("a", [4, 4], size=4, least=2, minimum=8, priority=5)), configured(close(config))
    )
    assert set() == evicted(plans)


def test_the_cheaper_hypernode_is_emptied() -> None:
    dear, cheap = gang("dear", 2, gpu=2, on=["n1", "n2"], priority=2), gang("cheap", 2, gpu=2, on=["n3", "n4"])
    plans = scene(
        cluster(WORLD, dear, cheap, divided("a", [4], size=4, least=1, priority=5)), configured(close(PREEMPT))
    )
    assert {"cheap-0", "cheap-1"} == evicted(plans)


@pytest.mark.parametrize("config", [PREEMPT, SURPLUS_ONLY, HELM_PREEMPT], ids=["whole", "surplus", "helm"])
def test_a_surplus_subgroup_is_evicted_whole(config: str) -> None:
    victim = divided("a", [4, 4], size=4, least=1, on=FULL)
    plans = scene(cluster(WORLD, victim, gang("high", 1, gpu=1, priority=5)), configured(close(config)))
    assert {"a-4", "a-5", "a-6", "a-7"} == evicted(plans)
    [reason] = {e.reason for plan in plans for e in plan.evict}
    assert reason.startswith("preempted: surplus subgroup `workers/1` of `ns/a`")


def test_the_minimum_of_subgroups_is_never_broken() -> None:
    victim = divided("a", [4, 4], size=4, least=2, on=FULL)
    high = gang("high", 1, gpu=1, priority=5)
    assert set() == evicted(scene(cluster(WORLD, victim, high), configured(close(SURPLUS_ONLY))))
    whole = evicted(scene(cluster(WORLD, victim, high), configured(close(PREEMPT))))
    assert 8 == len(whole)


def test_pods_above_the_size_go_before_subgroups() -> None:
    victim = divided("a", [5, 3], size=3, least=1, tier=None, on=FULL)
    high = gang("high", 2, minimum=1, gpu=1, priority=5)
    plans = scene(cluster(WORLD, victim, high), configured(close(SURPLUS_ONLY)))
    assert 1 == len(evicted(plans))
    assert evicted(plans) < {f"a-{i}" for i in range(5)}


def test_the_minimum_of_the_job_keeps_a_surplus_subgroup() -> None:
    victim = divided("a", [4, 4], size=4, least=1, minimum=6, on=FULL)
    plans = scene(cluster(WORLD, victim, gang("high", 1, gpu=1, priority=5)), configured(close(SURPLUS_ONLY)))
    assert set() == evicted(plans)


@pytest.mark.parametrize("config", [RECLAIM, HELM_RECLAIM], ids=["reclaim", "helm"])
def test_reclaim_takes_surplus_subgroups_whole(config: str) -> None:
    queues = [Queue("rich", weight=1), Queue("poor", weight=1)]
    victim = divided("a", [2, 2, 2, 2], size=2, least=1, on=FULL, queue="rich")
    plans = scene(cluster(WORLD, queues, victim, gang("p", 4, gpu=1, queue="poor")), configured(close(config)))
    gone = evicted(plans)
    assert 4 == len(gone)
    assert all(({f"a-{i}", f"a-{i + 1}"} <= gone) == (f"a-{i}" in gone) for i in range(0, 8, 2))
    assert {"p-0", "p-1", "p-2", "p-3"} <= set(bound(plans))


def test_a_pod_above_the_size_leaves_with_its_subgroup() -> None:
    """It is taken first. When the subgroup has to go too, its room is not needed any more, but it cannot stay alone."""
    victim = divided("a", [5], size=4, tier=None, on=["n1", "n2", "n3", "n3", "n3"])
    nodes = [node("n1", gpu=1), node("n2", gpu=1), node("n3", gpu=3)]
    plans = scene(cluster(nodes, victim, gang("high", 2, gpu=1, priority=5)), configured(SURPLUS_ONLY))
    assert {f"a-{i}" for i in range(5)} == evicted(plans)


# -- elect and reserve


def test_nodes_are_locked_until_a_subgroup_fits_into_one_hypernode() -> None:
    """Two locked nodes in different racks hold as many pods as the subgroup has, but not in one rack."""
    busy = [gang(f"busy{i}", 1, gpu=2 - i % 2, on=[f"n{i}"]) for i in range(1, 5)]
    world = cluster(WORLD, busy, divided("a", [4], size=4, least=1))
    config = configured(close(RESERVE))
    for step in range(6):
        plan = decide(Snapshot(world), config, float(step))
        assert () == plan.bind
        assert () == plan.evict
        world = carry_out(world, plan, float(step))
    assert world.elect is not None
    locked = {lock.node for lock in world.locks}
    assert any(set(names) <= locked for names in RACKS)


# -- after a lost node


def test_a_subgroup_in_part_is_completed_in_its_hypernode() -> None:
    made = divided("a", [3, 3], size=3, least=2, on=["n1", "n1", "n2", "n3", "n3"])
    plans = scene(cluster(WORLD, made), configured(close(ALLOCATE)))
    assert {"n4"} == set(bound(plans).values())


def test_a_subgroup_in_part_is_completed_before_others_start() -> None:
    made = divided("a", [3, 3], size=3, least=1, on=["n1", "n1", "n2", "n3", "n3"])
    first = gang("first", 3, minimum=1, gpu=1, created=-1.0, priority=9)
    plans = scene(cluster(WORLD, gang("busy", 1, gpu=1, on=["n4"]), first, made), configured(close(ALLOCATE)))
    assert "n4" == bound(plans[:1])["a-5"]


def test_a_subgroup_in_part_that_cannot_be_completed_is_released_alone() -> None:
    """Its gang can do without it; another job has taken the room of its lost pod."""
    made = divided("a", [3, 3], size=3, least=1, on=["n1", "n1", "n2", "n3", "n3"], task={"controlled": True})
    other = gang("other", 2, gpu=2, on=["n4"], minimum=1)
    plans = scene(cluster(WORLD, made, other), configured(close(ALLOCATE)))
    assert {"a-3", "a-4"} == evicted(plans)


def test_a_promise_is_not_kept_for_a_part_of_a_subgroup() -> None:
    """One of the promised pods is gone: the others may not start without it."""
    made = divided("a", [4], size=4)
    promised = tuple(
        replace(t, status=Status.NOMINATED, node="n1" if t.index < 2 else "n2") for t in made.tasks if t.index < 3
    )
    plans = scene(cluster(WORLD, replace(made, tasks=promised)), configured(close(ALLOCATE)))
    assert {} == bound(plans)
    assert () == plans[-1].nominate


# -- manifests

Read = Callable[..., Manifests]


@pytest.fixture
def load(tmp_path: Path) -> Read:
    def load(policies: str, labels: str = "", pods: int = 8, spec: str = "minMember: 0") -> Manifests:
        documents = [
            f"""
apiVersion: v1
kind: Node
metadata: {{name: n{i}}}
status: {{allocatable: {{cpu: "2", memory: 64Gi, pods: "110"}}}}"""
            for i in range(1, 5)
        ]
        for i, names in enumerate(RACKS):
            members = ", ".join(f"{{type: Node, selector: {{exactMatch: {{name: {n}}}}}}}" for n in names)
            documents.append(
                f"""
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {{name: s{i}}}
spec: {{tier: 1, tierName: rack, members: [{members}]}}"""
            )
        documents.append(
            f"""
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {{name: a}}
spec: {{{spec}, subGroupPolicy: {policies}}}
status: {{phase: Inqueue}}"""
        )
        for i in range(pods):
            own = labels or f"role: worker, part: '{i // 4}'"
            documents.append(pod(f"a-{i}", f"labels: {{{own}}}, annotations: {{scheduling.k8s.io/group-name: a}}"))
        documents.append(pod("other", ""))
        path = tmp_path / "cluster.yaml"
        path.write_text("\n---\n".join(documents))
        return read([str(path)])

    return load


def pod(name: str, meta: str) -> str:
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}{", " + meta if meta else ""}}}
spec: {{containers: [{{name: c, resources: {{requests: {{cpu: 1, memory: 1Gi}}}}}}]}}"""


PARTS = "labelSelector: {matchLabels: {role: worker}}, matchLabelKeys: [part]"


def started(world: Cluster, config: str = HELM) -> dict[str, str]:
    plans = scene(world, configured(close(config)))
    return {b.task.removeprefix("default/"): b.node for plan in plans for b in plan.bind}


@pytest.mark.parametrize("tier", ["highestTierAllowed: 1", "highestTierName: rack"])
def test_a_policy_in_full(load: Read, tier: str) -> None:
    found = load(f"[{{name: p, {PARTS}, subGroupSize: 4, minSubGroups: 1, networkTopology: {{mode: hard, {tier}}}}}]")
    assert [] == found.warnings
    where = started(found.cluster)
    of_a = {task: at for task, at in where.items() if task.startswith("a-")}
    assert len(of_a) in (4, 8)
    for first in (0, 4):
        tasks = [f"a-{i}" for i in range(first, first + 4) if f"a-{i}" in of_a]
        assert len(tasks) in (0, 4)
        assert len(racks(of_a, tasks)) <= 1


def test_the_first_policy_that_matches_counts(load: Read) -> None:
    found = load(f"[{{name: p, {PARTS}, subGroupSize: 4}}, {{name: q, matchLabelKeys: [role]}}]")
    assert {0} == {t.subgroup.policy for t in found.cluster.tasks if t.subgroup is not None}
    assert any("matches the policies `p` and `q`: only `p` counts" in warning for warning in found.warnings)


def test_a_pod_without_the_label_is_in_no_subgroup(load: Read) -> None:
    found = load(f"[{{name: p, {PARTS}, subGroupSize: 4}}]", labels="role: worker")
    assert all(t.subgroup is None for t in found.cluster.tasks)
    assert any("has no label `part`: it is in no subgroup" in warning for warning in found.warnings)
    assert len(started(found.cluster)) > 1


def test_without_keys_all_selected_pods_are_one_subgroup(load: Read) -> None:
    found = load("[{name: p, labelSelector: {matchLabels: {role: worker}}, subGroupSize: 8}]")
    assert {(0, ())} == {(t.subgroup.policy, t.subgroup.values) for t in found.cluster.tasks if t.subgroup}


@pytest.mark.parametrize(
    ("policies", "reason"),
    [
        (
            "[{name: p, subGroupSize: -1}]",
            "spec.subGroupPolicy[0].subGroupSize: expected a number of at least 0, got `-1`",
        ),
        (
            "[{name: p, minSubGroups: -2}]",
            "spec.subGroupPolicy[0].minSubGroups: expected a number of at least 0, got `-2`",
        ),
        ("[{name: ''}]", "spec.subGroupPolicy[0].name: expected a name"),
        ("[{name: p}, {name: p}]", "spec.subGroupPolicy[1].name: `p` is given twice"),
        (
            "[{name: p, labelSelector: {matchExpressions: [{key: role, operator: Gt, values: ['1']}]}}]",
            "spec.subGroupPolicy[0].labelSelector.matchExpressions[0]: expected the operator to be one of In, NotIn,"
            " Exists, DoesNotExist, got `Gt`",
        ),
        (
            "[{name: p, labelSelector: {matchExpressions: [{key: role, operator: In}]}}]",
            "spec.subGroupPolicy[0].labelSelector.matchExpressions[0]: operator `In` needs values",
        ),
        (
            "[{name: p, networkTopology: {mode: firm, highestTierAllowed: 1}}]",
            "spec.subGroupPolicy[0].networkTopology.mode: expected `hard` or `soft`, got `firm`",
        ),
        (
            str([{"name": f"p{i}"} for i in range(3000)]),
            "spec.subGroupPolicy: expected at most 32 policies, got 3000",
        ),
        (
            f"[{{name: p, matchLabelKeys: {[f'k{i}' for i in range(3000)]}}}]",
            "spec.subGroupPolicy[0].matchLabelKeys: expected at most 16 keys",
        ),
    ],
    ids=["size", "least", "name", "twice", "operator", "values", "mode", "policies", "keys"],
)
def test_a_malformed_policy_stops_only_its_job(load: Read, policies: str, reason: str) -> None:
    world = load(policies).cluster
    plans = scene(world, configured(close(HELM)))
    assert ["default/other"] == [b.task for plan in plans for b in plan.bind]
    [wait] = plans[-1].waiting
    assert [("Invalid", reason)] == [(r.code, r.message) for r in wait.reasons]


def test_a_huge_size_waits_for_pods(load: Read) -> None:
    world = load(f"[{{name: p, {PARTS}, subGroupSize: 2147483647}}]").cluster
    assert {"other"} == started(world).keys()


def test_too_many_subgroups_stop_only_their_job(tmp_path: Path) -> None:
    room = {"cpu": "2000", "memory": "64Gi", "pods": "2000"}
    items: list[dict[str, object]] = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": room}},
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "a"},
            "spec": {"minMember": 0, "subGroupPolicy": [{"name": "p", "matchLabelKeys": ["part"]}]},
            "status": {"phase": "Inqueue"},
        },
    ]
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    for i in range(1001):
        meta = {"labels": {"part": str(i)}, "annotations": {"scheduling.k8s.io/group-name": "a"}}
        items.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"a-{i}", **meta}, "spec": spec})
    items.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "other"}, "spec": spec})
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    plan = decide(Snapshot(read([str(path)]).cluster), configured(close(HELM)), 0.0)
    assert ["default/other"] == [b.task for b in plan.bind]
    [wait] = plan.waiting
    what = "spec.subGroupPolicy: expected at most 1000 subgroups, its pods make 1001"
    assert [("Invalid", what)] == [(r.code, r.message) for r in wait.reasons]


def test_a_thousand_subgroups_take_little_time() -> None:
    """3,000 pods on 500 nodes, of which some 300 subgroups fit; measured at 2 s, with much room for slow machines."""
    names = [f"n{i:03}" for i in range(500)]
    leaves = [names[i : i + 10] for i in range(0, 500, 10)]
    nodes = [node(name, gpu=2) for name in names]
    world = cluster(nodes, switches(*leaves), divided("a", [3] * 1000, size=3, least=10, cpu=0, memory=0, gpu=1))
    started_at = time.process_time()
    plan = decide(Snapshot(world), configured(close(PREEMPT)), 0.0)
    assert time.process_time() - started_at < 20
    assert len(plan.bind) >= 900
