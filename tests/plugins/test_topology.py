"""topology: gangs within one rack, by node label or by HyperNode."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from maar.actions import allocate
from maar.config.config import ActionOption, Config, NoArguments, PluginOption, Registration
from maar.model.jobs import Closeness
from maar.model.nodes import Node
from maar.model.plan import Plan
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status
from maar.model.topology import HyperNode, Member
from maar.model.verdicts import verdict
from maar.plugins import gang as gang_plugin
from maar.plugins import predicates, topology
from maar.plugins.support.tiers import by_hypernodes, by_label
from maar.plugins.topology import Arguments
from maar.session.session import Session
from maar.testing.builders import Gang, cluster, gang, node
from maar.testing.scenario import scene

RACK = "rack"
HARD = Closeness(key=RACK)
SOFT = Closeness(key=RACK, hard=False)


def config(flags: dict[str, bool] | None = None, arguments: Arguments | None = None) -> Config:
    chosen = PluginOption(
        Registration(topology.NAME, topology.Topology, codes=topology.CODES), arguments or Arguments(), flags or {}
    )
    return Config(
        (ActionOption(Registration(allocate.NAME, allocate.Allocate), NoArguments()),),
        (
            (
                PluginOption(Registration(gang_plugin.NAME, gang_plugin.Gang), gang_plugin.Arguments()),
                PluginOption(Registration(predicates.NAME, predicates.Predicates), predicates.Arguments()),
                chosen,
            ),
        ),
    )


def racks(gpu: int = 4, **sizes: int) -> list[Node]:
    """Nodes `a1, a2, b1, ...` in racks `a`, `b`, ..., four GPUs each."""
    return [node(f"{r}{i + 1}", gpu=gpu, labels={RACK: r}) for r, n in sizes.items() for i in range(n)]


def close(count: int, closeness: Closeness = HARD, name: str = "job", **fields: Any) -> Gang:
    """A gang of pods with four GPUs each: one fills a node."""
    return gang(name, count, **{"gpu": 4, "closeness": closeness, **fields})


def used(plan: Plan) -> list[str]:
    return sorted(b.node for b in plan.bind)


def reasons(plan: Plan) -> list[str]:
    return [reason.message for wait in plan.waiting for reason in wait.reasons]


def opened(scenery: Cluster, arguments: Arguments | None = None) -> Session:
    session = Session(Snapshot(scenery), config(arguments=arguments), 0.0)
    session.open()
    return session


def tried(scenery: Cluster, job: str = "ns/job", arguments: Arguments | None = None) -> list[list[str]]:
    """The domains that a job tries, by tier, each as its nodes."""
    session = opened(scenery, arguments)
    found = session.hooks.domains[0].call(session.job(session.snapshot.jobs.number[job]))
    assert found is not None
    names = np.array(session.snapshot.nodes.names)
    return [[" ".join(names[mask].tolist()) for mask in tier] for tier in found]


# -- by label


def test_a_hard_gang_starts_within_one_rack() -> None:
    nodes = racks(a=2, b=3)
    assert ["b1", "b2", "b3"] == used(scene(cluster(nodes, close(3)), config())[0])
    off = config({"hyperNodeGradient": False})
    assert ["a1", "a2", "b1"] == used(scene(cluster(nodes, close(3)), off)[0])


def test_the_tightest_rack_that_is_enough_comes_first_then_the_name() -> None:
    nodes = racks(a=4, b=2, c=3, d=2, e=1)
    assert [["b1 b2", "d1 d2", "c1 c2 c3", "a1 a2 a3 a4"]] == tried(cluster(nodes, close(2)))


def test_racks_that_could_never_hold_it_are_left_out_and_full_ones_come_last() -> None:
    full = gang("old", 2, gpu=4, on=["a1", "c1"])
    nodes = racks(a=2, b=1, c=2, d=2)
    assert [["d1 d2", "a1 a2", "c1 c2"]] == tried(cluster(nodes, full, close(2)))
    few = msgspec.convert({"hypernode.gradient.evict.max-hypernodes": "1"}, Arguments, strict=False)
    assert [["d1 d2", "a1 a2"]] == tried(cluster(nodes, full, close(2)), arguments=few)


def test_room_that_is_being_freed_counts() -> None:
    leaving = gang("old", 1, gpu=4, task={"status": Status.RELEASING, "node": "a2"})
    scenery = cluster(racks(a=2, b=1), leaving, close(2))
    plans = scene(scenery, config())
    assert [("ns/job-0", "a1"), ("ns/job-1", "a2")] == [(n.task, n.node) for n in plans[0].nominate]
    assert ["a1", "a2"] == used(plans[1])


def test_nodes_without_the_label_are_in_no_rack() -> None:
    plan = scene(cluster(racks(a=1), node("x1", gpu=4), node("x2", gpu=4), close(2)), config())[0]
    assert [] == used(plan)
    assert ["needs 2 pods together, the best domain has room for 1: 3/3 nodes fit"] == reasons(plan)


def test_a_soft_gang_prefers_a_rack_and_takes_anything() -> None:
    assert ["b1", "b2"] == used(scene(cluster(racks(a=1, b=2), close(2, SOFT)), config())[0])
    assert ["a1", "b1", "b2"] == used(scene(cluster(racks(a=1, b=2), close(3, SOFT)), config())[0])
    assert ["x1", "x2"] == used(scene(cluster(node("x1", gpu=4), node("x2", gpu=4), close(2, SOFT)), config())[0])


def test_without_the_label_anywhere_a_hard_gang_waits_and_says_why() -> None:
    plan = scene(cluster(node("n1", gpu=8), close(1)), config())[0]
    assert [] == used(plan)
    assert ["must run within one `rack`, but no node has that label"] == reasons(plan)


def test_a_gang_that_fits_no_rack_now_says_how_many_fit() -> None:
    plan = scene(cluster(racks(a=2, b=2), gang("old", gpu=4, on=["a1"]), close(3)), config())[0]
    head = "needs 3 pods together, the best domain has room for 2: 3/4 nodes fit: "
    assert [head + "1 short of nvidia.com/gpu (needs 4, best has 0 free)"] == reasons(plan)


def test_roles_must_fit_in_the_rack_together() -> None:
    nodes = [*racks(a=1), node("a2", cpu=1, labels={RACK: "a"}), *racks(b=2)]
    roles = gang("job", roles={"ps": 1, "worker": 1}, gpu=4, role_min={"ps": 1, "worker": 1}, closeness=HARD)
    assert ["b1", "b2"] == used(scene(cluster(nodes, roles), config())[0])


# -- gangs that already run


def test_a_gang_that_lost_a_pod_finishes_in_its_rack() -> None:
    begun = close(3, minimum=3, on=["b1", "b2"])
    assert ["b3"] == used(scene(cluster(racks(a=4, b=3), begun), config())[0])
    plan = scene(cluster(racks(a=4, b=2), begun), config())[0]
    assert [] == used(plan)


def test_pods_above_the_minimum_stay_in_the_rack_too() -> None:
    growing = close(4, minimum=2, on=["b1", "b2"])
    plan = scene(cluster(racks(a=4, b=3), growing), config())[0]
    assert ["b3"] == used(plan)
    head = "0/7 nodes fit: 4 outside the `rack` of its running pods, 3 short of nvidia.com/gpu"
    assert [f"{head} (needs 4, best has 0 free)"] == reasons(plan)
    soft = close(4, SOFT, minimum=2, on=["b1", "b2"])
    assert 2 == len(used(scene(cluster(racks(a=4, b=3), soft), config())[0]))


def test_a_gang_that_runs_in_two_racks_waits_and_says_why() -> None:
    torn = close(3, minimum=3, on=["a1", "b1"])
    plan = scene(cluster(racks(a=2, b=2), torn), config())[0]
    assert [] == used(plan)
    assert ["its running pods are not within one `rack`, so no further pod can join them"] == reasons(plan)


def test_a_soft_gang_goes_where_most_of_it_runs() -> None:
    torn = close(4, SOFT, minimum=4, on=["b1", "b2", "c1"])
    nodes = racks(a=1, b=3, c=2)
    assert "b1 b2 b3" == tried(cluster(nodes, torn))[0][0]
    assert ["b3"] == used(scene(cluster(nodes, torn), config())[0])


# -- by HyperNode


def tree() -> list[HyperNode]:
    """Two racks of two in one block, a rack of three in another, and a spine above both."""

    def of(*names: str, kind: str = "Node") -> tuple[Member, ...]:
        return tuple(Member(kind, name) for name in names)

    return [
        HyperNode("rack-a", 1, of("a1", "a2"), "rack"),
        HyperNode("rack-b", 1, of("b1", "b2"), "rack"),
        HyperNode("rack-c", 1, (Member("Node", pattern="c.*"),), "rack"),
        HyperNode("block-ab", 2, of("rack-a", "rack-b", kind="HyperNode"), "block"),
        HyperNode("block-c", 2, of("rack-c", kind="HyperNode"), "block"),
        HyperNode("spine", 3, (Member("HyperNode", pattern="block-.*"),), "spine"),
        HyperNode("empty", 1, of("gone")),
    ]


def leaves() -> list[Node]:
    return [node(name, gpu=4) for name in ("a1", "a2", "b1", "b2", "c1", "c2", "c3")]


def test_tiers_are_tried_closest_first_and_each_from_the_top_level_down() -> None:
    """Block `c` has the fewest slots, so its rack comes first."""
    expected = [["c1 c2 c3", "a1 a2", "b1 b2"], ["c1 c2 c3", "a1 a2 b1 b2"], ["a1 a2 b1 b2 c1 c2 c3"]]
    assert expected[:1] == tried(cluster(leaves(), tree(), close(2, Closeness(tier=1))))
    assert expected[:2] == tried(cluster(leaves(), tree(), close(2, Closeness(tier=2))))
    assert expected[:2] == tried(cluster(leaves(), tree(), close(2, Closeness(tier_name="block"))))
    assert expected == tried(cluster(leaves(), tree(), close(2, Closeness())))
    soft = tried(cluster(leaves(), tree(), close(2, Closeness(tier=1, hard=False))))
    assert [*expected, ["a1 a2 b1 b2 c1 c2 c3"]] == soft


@pytest.mark.parametrize(
    ("count", "tier", "nodes"),
    [
        (2, 1, ["c1", "c2"]),
        (3, 1, ["c1", "c2", "c3"]),
        (4, 1, []),
        (4, 2, ["a1", "a2", "b1", "b2"]),
        (5, 2, []),
        (5, 3, ["a1", "a2", "b1", "b2", "c1"]),
    ],
)
def test_a_gang_gets_the_lowest_tier_that_holds_it(count: int, tier: int, nodes: list[str]) -> None:
    plan = scene(cluster(leaves(), tree(), close(count, Closeness(tier=tier))), config())[0]
    assert nodes == used(plan)


def test_a_gang_too_large_for_its_tier_says_how_many_fit() -> None:
    plan = scene(cluster(leaves(), tree(), close(4, Closeness(tier=1))), config())[0]
    assert ["needs 4 pods together, the best domain has room for 3: 7/7 nodes fit"] == reasons(plan)


@pytest.mark.parametrize(
    ("closeness", "words"),
    [
        (Closeness(tier=0), "HyperNode of tier 0 or lower"),
        (Closeness(tier_name="pod"), "HyperNode of tier `pod` or lower"),
    ],
)
def test_without_such_a_tier_a_hard_gang_waits_and_says_why(closeness: Closeness, words: str) -> None:
    plan = scene(cluster(leaves(), tree(), close(1, closeness)), config())[0]
    assert [f"must run within one {words}, but no such HyperNode has nodes"] == reasons(plan)


@pytest.mark.parametrize("tier", [4, 9])
def test_above_the_top_the_whole_cluster_is_one_more_tier(tier: int) -> None:
    """The gang needs a node that is in no HyperNode."""
    parts = (leaves(), node("outside", gpu=4), tree())
    nodes = ["a1", "a2", "b1", "b2", "c1", "c2", "c3", "outside"]
    assert nodes == used(scene(cluster(*parts, close(8, Closeness(tier=tier))), config())[0])
    assert [] == used(scene(cluster(*parts, close(8, Closeness(tier=3))), config())[0])
    closest = tried(cluster(*parts, close(2, Closeness(tier=tier))))
    assert [["c1 c2 c3", "a1 a2", "b1 b2"], [" ".join(nodes)]] == [closest[0], closest[-1]]


@pytest.mark.parametrize("closeness", [Closeness(tier=1), Closeness(tier=3), Closeness()])
def test_without_hypernodes_the_whole_cluster_is_the_only_tier(closeness: Closeness) -> None:
    plan = scene(cluster(leaves(), close(7, closeness)), config())[0]
    assert ["a1", "a2", "b1", "b2", "c1", "c2", "c3"] == used(plan)
    waiting = scene(cluster(leaves(), close(8, closeness)), config())[0]
    assert [] == used(waiting)
    assert 1 == len(reasons(waiting))


def test_a_gang_of_an_unknown_tier_name_waits_also_without_hypernodes() -> None:
    plan = scene(cluster(leaves(), close(1, Closeness(tier_name="pod"))), config())[0]
    assert [] == used(plan)


def test_a_running_gang_grows_into_the_next_tier_only_if_allowed() -> None:
    for tier, node_used in ((1, []), (2, ["b1"])):
        begun = close(3, Closeness(tier=tier), minimum=3, on=["a1", "a2"])
        assert node_used == used(scene(cluster(leaves(), tree(), begun), config())[0])


# -- parts


def test_gangs_without_closeness_use_no_domains() -> None:
    session = opened(cluster(racks(a=1), gang("job")))
    job = session.job(0)
    assert session.hooks.domains[0].call(job) is None
    assert session.hooks.job_nodes[0].call(job) is None
    assert session.hooks.is_valid(job) is None


def test_a_tier_adds_up_by_domain() -> None:
    nodes = Snapshot(cluster(node("x1"), racks(b=1, a=2))).nodes
    (tier,) = by_label(nodes, RACK)
    assert ["a", "b"] == tier.names
    assert [30, 4] == tier.sums(np.array([10, 20, 4, 1000])).tolist()
    assert [True, True, False, False] == tier.mask(0).tolist()
    assert [] == by_label(nodes, "unknown")
    assert [1, 2, 3] == [t.number for t in by_hypernodes(Snapshot(cluster(leaves())).nodes, tree())]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([], "Unschedulable"),
        ([node("cpu-only")], "Unschedulable"),
        ([node("n1", gpu=8)], "Invalid"),
    ],
)
def test_nodes_are_missing_if_none_could_hold_a_gang_that_must_stay_in_a_rack(nodes: list[Node], expected: str) -> None:
    """A node group may scale from zero; but nodes that could hold it, without racks, would be bought for nothing."""
    (plan, *_) = scene(cluster(nodes, close(2)), config())
    assert [expected] == [verdict(wait.reasons).condition for wait in plan.waiting]


@pytest.mark.parametrize("minimum", [0, 1])
def test_a_hard_gang_without_a_minimum_stays_within_one_rack(minimum: int) -> None:
    """Also if it is so large that its surplus is placed several pods at a time."""
    plans = scene(cluster(*racks(r1=1, r2=1, r3=3), close(192, minimum=minimum)), config())
    assert 1 == len({name[:2] for name in used(plans[0])})
