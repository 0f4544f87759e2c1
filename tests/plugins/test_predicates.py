"""predicates: which nodes a pod may use, by properties of nodes and by running pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from maar.actions import allocate
from maar.config.config import ActionOption, Config, NoArguments, PluginOption, Registration
from maar.model.nodes import Node
from maar.model.plan import Plan
from maar.model.selectors import (
    NodeTerm,
    PodSelector,
    PodTerm,
    Port,
    Requirement,
    Selector,
    Spread,
    Taint,
    Toleration,
)
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status
from maar.model.verdicts import verdict
from maar.plugins import gang as gang_plugin
from maar.plugins import predicates
from maar.session.session import Session
from maar.testing.builders import Gang, cluster, gang, node
from maar.testing.scenario import scene

ZONE = "zone"
HOST = "kubernetes.io/hostname"


def config(**switches: bool) -> Config:
    """allocate with gangs and predicates; some predicates may be disabled."""
    arguments = msgspec.structs.replace(predicates.Arguments(), **switches)
    return Config(
        (ActionOption(Registration(allocate.NAME, allocate.Allocate), NoArguments()),),
        (
            (
                PluginOption(Registration(gang_plugin.NAME, gang_plugin.Gang), gang_plugin.Arguments()),
                PluginOption(Registration(predicates.NAME, predicates.Predicates), arguments),
            ),
        ),
    )


def pods(app: str) -> PodSelector:
    return PodSelector(Selector((Requirement("app", "In", (app,)),)), ("ns",))


def on(plan: Plan) -> dict[str, int]:
    """How many pods each node gets."""
    return dict(sorted(Counter(b.node for b in plan.bind).items()))


def first(scenery: Cluster, **switches: bool) -> dict[str, int]:
    """Where the pods go; nothing moves afterwards."""
    return on(scene(scenery, config(**switches))[0])


def why(scenery: Cluster) -> list[str]:
    plan = scene(scenery, config())[0]
    assert not plan.bind
    return [reason.message for wait in plan.waiting for reason in wait.reasons]


def zones(sizes: Mapping[str, int], **fields: Any) -> list[Node]:
    """Nodes `a1, a2, b1, ...` in zones `a`, `b`, ..."""
    return [node(f"{z}{i + 1}", labels={ZONE: z}, **fields) for z, n in sizes.items() for i in range(n)]


def job(name: str = "job", count: int = 1, *, minimum: int | None = None, cpu: int = 1, **constraints: Any) -> Gang:
    return gang(name, count, minimum=minimum, cpu=cpu, constraints=constraints)


# -- properties of nodes


def test_unschedulable_nodes_are_refused_unless_tolerated() -> None:
    closed = node("n1", unschedulable=True)
    assert ["0/1 nodes fit: 1 unschedulable"] == why(cluster(closed, job()))
    exists = Toleration("node.kubernetes.io/unschedulable", "Exists")
    assert {"n1": 1} == first(cluster(closed, job(tolerations=(exists,))))


def test_the_node_selector_must_match() -> None:
    wants = (Requirement("disk", "In", ("ssd",)),)
    nodes = [node("n1", labels={"disk": "hdd"}), node("n2", labels={"disk": "ssd"}), node("n3")]
    assert {"n2": 1} == first(cluster(nodes, job(node_selector=wants)))
    assert ["0/2 nodes fit: 2 do not match the node selector"] == why(cluster(nodes[::2], job(node_selector=wants)))


def test_one_of_the_affinity_terms_must_match_and_all_of_its_expressions() -> None:
    ssd, big = Requirement("disk", "In", ("ssd",)), Requirement("size", "Gt", ("10",))
    nodes = [
        node("n1", labels={"disk": "ssd", "size": "5"}),
        node("n2", labels={"disk": "hdd", "size": "50"}),
        node("n3", labels={"disk": "ssd", "size": "50"}),
    ]
    both = (NodeTerm((ssd, big)),)
    assert {"n3": 1} == first(cluster(nodes, job(node_terms=both)))
    either = (NodeTerm((ssd,)), NodeTerm((big,)))
    assert {"n1": 64, "n2": 64, "n3": 64} == first(cluster(nodes, job(count=192, node_terms=either)))
    assert ["0/3 nodes fit: 3 do not match the node affinity"] == why(cluster(nodes, job(node_terms=())))


def test_a_node_can_be_asked_for_or_avoided_by_name() -> None:
    nodes = [node("n1"), node("n2")]
    named = (NodeTerm(fields=(Requirement("metadata.name", "In", ("n2",)),)),)
    assert {"n2": 1} == first(cluster(nodes, job(node_terms=named)))
    other = (NodeTerm(fields=(Requirement("metadata.name", "NotIn", ("n1", "gone")),)),)
    assert {"n2": 1} == first(cluster(nodes, job(node_terms=other)))
    gone = (NodeTerm(fields=(Requirement("metadata.name", "In", ("gone",)),)),)
    assert ["0/2 nodes fit: 2 do not have the required name"] == why(cluster(nodes, job(node_terms=gone)))


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_taints_refuse_pods_that_do_not_tolerate_them(effect: str) -> None:
    tainted = node("n1", taints=[Taint("team", "a", effect)])
    assert ["0/1 nodes fit: 1 tainted with `team`"] == why(cluster(tainted, job()))
    wrong = (Toleration("team", "Equal", "b"),)
    assert ["0/1 nodes fit: 1 tainted with `team`"] == why(cluster(tainted, job(tolerations=wrong)))
    right = (Toleration("team", "Equal", "a", effect),)
    assert {"n1": 1} == first(cluster(tainted, job(tolerations=right)))


def test_several_taints_are_not_named_and_soft_ones_refuse_no_pod() -> None:
    nodes = [node("n1", taints=[Taint("a")]), node("n2", taints=[Taint("b")])]
    assert ["0/2 nodes fit: 2 tainted"] == why(cluster(nodes, job()))
    assert {"n1": 1} == first(cluster(node("n1", taints=[Taint("a", effect="PreferNoSchedule")]), job()))


def test_a_node_is_counted_under_the_first_thing_that_refuses_it() -> None:
    wants = (Requirement("disk", "In", ("ssd",)),)
    nodes = [
        node("n1", unschedulable=True, taints=[Taint("a")]),
        node("n2", taints=[Taint("a")]),
        node("n3", labels={"disk": "ssd"}, taints=[Taint("a")]),
    ]
    message = "0/3 nodes fit: 1 do not match the node selector, 1 unschedulable, 1 tainted with `a`"
    assert [message] == why(cluster(nodes, job(node_selector=wants)))


@pytest.mark.parametrize(
    ("switch", "constraints", "part"),
    [
        ("node_affinity", {"node_selector": (Requirement("disk", "In", ("ssd",)),)}, node("n1")),
        ("node_affinity", {"node_terms": ()}, node("n1")),
        ("taints", {}, node("n1", taints=[Taint("a")])),
        ("pod_affinity", {"affinity": (PodTerm(pods("x"), ZONE),)}, node("n1")),
        ("spread", {"spread": (Spread(pods("x"), ZONE, 1, True),)}, node("n1")),
    ],
)
def test_each_part_can_be_switched_off(switch: str, constraints: dict[str, Any], part: Node) -> None:
    scenery = cluster(part, job(**constraints))
    assert {} == first(scenery)
    assert {"n1": 1} == first(scenery, **{switch: False})


# -- host ports


def test_a_host_port_is_open_for_one_pod_of_a_node() -> None:
    nodes = [node("n1"), node("n2"), node("n3")]
    assert {"n1": 1, "n2": 1, "n3": 1} == first(cluster(nodes, job(count=3, ports=(Port(80),))))
    taken = "needs 4 pods together, there is room for 3: 0/3 nodes fit: 3 already use its host port: 80"
    assert [taken] == why(cluster(nodes, job(count=4, ports=(Port(80),))))
    assert {"n1": 4} == first(cluster(nodes, job(count=4, ports=(Port(80),))), node_ports=False)


def test_ports_conflict_by_number_protocol_and_address() -> None:
    nodes = [node("n1"), node("n2")]
    taken = gang("taken", on=["n1"], constraints={"ports": (Port(80, address="10.0.0.1"),)})
    assert {"n2": 1} == first(cluster(nodes, taken, job(ports=(Port(80),))))
    for free in (Port(81), Port(80, "UDP"), Port(80, address="10.0.0.2")):
        assert {"n1": 1} == first(cluster(nodes, taken, job(ports=(free,)))), free
    assert ["0/1 nodes fit: 1 already use its host port: 80"] == why(cluster(nodes[:1], taken, job(ports=(Port(80),))))


# -- pod affinity


def test_affinity_goes_to_the_domain_of_the_pods_it_means() -> None:
    there = gang("there", on=["b1"], constraints={"matches": (pods("db"),)})
    near = (PodTerm(pods("db"), ZONE),)
    scenery = cluster(zones({"a": 2, "b": 2}), node("x1"), there, job(count=100, affinity=near))
    assert {"b1": 63, "b2": 37} == first(scenery)
    assert {"b1": 1} == first(cluster(zones({"a": 2, "b": 2}), there, job(affinity=(PodTerm(pods("db"), HOST),))))


def test_affinity_without_the_pods_it_means_waits() -> None:
    scenery = cluster(zones({"a": 2}), job(affinity=(PodTerm(pods("db"), ZONE),)))
    assert ["0/2 nodes fit: 2 have no pod required by its pod affinity in their `zone`"] == why(scenery)


DB = gang("there", cpu=1, on=["a1"], constraints={"matches": (pods("db"),)})


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((zones({"a": 2}),), "NeighbourNotFound"),
        # However many nodes are tainted or full: new nodes do not help while the neighbour is missing.
        ((zones({"a": 1}), zones({"b": 3}, taints=[Taint("x", "", "NoSchedule")])), "NeighbourNotFound"),
        ((zones({"a": 2}), gang("full", 2, cpu=64, on=["a1", "a2"])), "NeighbourNotFound"),
        # The neighbour's zone has no usable node: a new one helps.
        ((zones({"a": 1}, unschedulable=True), zones({"b": 3}), DB), "Unschedulable"),
        ((zones({"a": 1}, cpu=1), zones({"b": 3}), DB), "Unschedulable"),
        ((), "Unschedulable"),
    ],
)
def test_a_job_that_must_be_near_others_asks_for_nodes_only_if_these_run(parts: tuple[Any, ...], expected: str) -> None:
    (plan, *_) = scene(cluster(*parts, job(affinity=(PodTerm(pods("db"), ZONE),))), config())
    assert [expected] == [verdict(w.reasons).condition for w in plan.waiting if w.job == "ns/job"]


def test_all_affinity_terms_must_hold_for_the_same_pods() -> None:
    db, fast = pods("db"), pods("fast")
    nodes = zones({"a": 1, "b": 1, "c": 1})
    scenery = cluster(
        nodes,
        gang("half", on=["a1"], constraints={"matches": (db,)}),
        gang("other", on=["a1"], constraints={"matches": (fast,)}),
        gang("both", on=["c1"], constraints={"matches": (db, fast)}),
        job(affinity=(PodTerm(db, ZONE), PodTerm(fast, ZONE))),
    )
    assert {"c1": 1} == first(scenery)


def test_a_gang_that_wants_to_be_near_itself_starts_in_the_one_domain_that_holds_it() -> None:
    me = pods("me")
    near = (PodTerm(me, ZONE),)
    nodes = [*zones({"a": 1, "b": 3, "c": 2}), node("x1", cpu=1000)]
    scenery = cluster(nodes, job(count=150, affinity=near, matches=(me,)))
    assert {"b1": 64, "b2": 64, "b3": 22} == first(scenery)


def test_a_gang_near_itself_that_no_domain_holds_waits() -> None:
    me = pods("me")
    scenery = cluster(zones({"a": 1, "b": 2}), job(count=150, affinity=(PodTerm(me, ZONE),), matches=(me,)))
    head = "needs 150 pods together, there is room for 128: 0/3 nodes fit: 2 short of cpu (needs 1, best has 0 free), "
    assert [head + "1 have no pod required by its pod affinity in their `zone`"] == why(scenery)


def test_a_first_pod_needs_all_its_own_terms_to_mean_itself() -> None:
    me, db = pods("me"), pods("db")
    terms = (PodTerm(me, ZONE), PodTerm(db, ZONE))
    assert {} == first(cluster(zones({"a": 1}), job(affinity=terms, matches=(me,))))
    assert {"a1": 1} == first(cluster(zones({"a": 1}), job(affinity=terms, matches=(me, db))))


def test_a_first_pod_is_not_first_where_one_like_it_runs() -> None:
    me = pods("me")
    there = gang("there", on=["b1"], constraints={"matches": (me,)})
    scenery = cluster(zones({"a": 3, "b": 1}), there, job(count=2, affinity=(PodTerm(me, ZONE),), matches=(me,)))
    assert {"b1": 2} == first(scenery)


def test_two_labels_of_affinity_name_one_domain_together() -> None:
    me = pods("me")
    labels = [("a", "r1"), ("a", "r2"), ("b", "r1"), ("b", "r1")]
    nodes = [node(f"n{i}", labels={ZONE: z, "rack": r}) for i, (z, r) in enumerate(labels)]
    near = (PodTerm(me, ZONE), PodTerm(me, "rack"))
    assert {"n2": 64, "n3": 36} == first(cluster(nodes, job(count=100, affinity=near, matches=(me,))))


# -- anti-affinity


def test_one_on_each_node_where_a_shape_keeps_away_from_itself() -> None:
    me = pods("me")
    apart = job(count=3, anti_affinity=(PodTerm(me, HOST),), matches=(me,))
    assert {"n1": 1, "n2": 1, "n3": 1} == first(cluster([node("n1"), node("n2"), node("n3")], apart))
    assert {} == first(cluster([node("n1"), node("n2")], apart))


def test_one_in_each_zone_where_a_shape_keeps_away_from_itself() -> None:
    me = pods("me")
    apart = job(count=2, anti_affinity=(PodTerm(me, ZONE),), matches=(me,))
    assert {"a1": 1, "b1": 1} == first(cluster(zones({"a": 2, "b": 2}), apart))
    head = "needs 2 pods together, there is room for 1: 0/4 nodes fit: 4 have a pod excluded by its anti-affinity"
    assert [f"{head} in their `zone`"] == why(cluster(zones({"a": 4}), apart))


def test_nodes_without_the_label_are_not_restricted() -> None:
    me = pods("me")
    apart = job(count=4, anti_affinity=(PodTerm(me, ZONE),), matches=(me,))
    assert {"a1": 1, "x1": 3} == first(cluster(zones({"a": 2}), node("x1"), apart))


def test_anti_affinity_keeps_away_from_the_domains_of_others() -> None:
    there = gang("there", on=["a1"], constraints={"matches": (pods("noisy"),)})
    away = job(count=5, anti_affinity=(PodTerm(pods("noisy"), ZONE),))
    assert {"b1": 5} == first(cluster(zones({"a": 2, "b": 1}), there, away))
    assert ["0/2 nodes fit: 2 have a pod excluded by its anti-affinity in their `zone`"] == why(
        cluster(zones({"a": 2}), there, away)
    )


def test_pods_already_there_keep_others_away() -> None:
    me = pods("me")
    there = gang("there", on=["a1"], constraints={"anti_affinity": (PodTerm(me, ZONE),)})
    scenery = cluster(zones({"a": 2, "b": 1}), there, job(count=5, matches=(me,)))
    assert {"b1": 5} == first(scenery)
    assert {"a1": 5} == first(scenery, pod_affinity=False)
    scenery = cluster(zones({"a": 2}), there, job(matches=(me,)))
    assert ["0/2 nodes fit: 2 have a pod whose anti-affinity excludes it"] == why(scenery)


def test_two_jobs_placed_in_one_cycle_keep_apart() -> None:
    me, other = pods("me"), pods("other")
    left = job("left", 2, anti_affinity=(PodTerm(other, ZONE),), matches=(me,))
    right = job("right", 2, matches=(other,))
    assert {"a1": 2, "b1": 2} == first(cluster(zones({"a": 1, "b": 1}), left, right))


# -- spread


def spread(me: PodSelector, skew: int = 1, key: str = ZONE, **fields: Any) -> tuple[Spread, ...]:
    return (Spread(me, key, skew, hard=True, **fields),)


def test_spread_keeps_the_skew() -> None:
    me = pods("me")
    scenery = cluster(zones({"a": 2, "b": 1, "c": 1}), job(count=7, spread=spread(me), matches=(me,)))
    placed = first(scenery)
    by_zone = Counter(dict.fromkeys("abc", 0))
    for name, count in placed.items():
        by_zone[name[0]] += count
    assert {"a": 3, "b": 2, "c": 2} == dict(by_zone)


def test_spread_is_limited_by_its_fullest_domain() -> None:
    me = pods("me")
    small = [node("a1", labels={ZONE: "a"}, cpu=2), node("b1", labels={ZONE: "b"}, cpu=64)]
    assert {"a1": 2, "b1": 3} == first(cluster(small, job(count=5, spread=spread(me), matches=(me,))))
    assert {} == first(cluster(small, job(count=6, spread=spread(me), matches=(me,))))
    assert {"a1": 2, "b1": 4} == first(cluster(small, job(count=6, spread=spread(me, 2), matches=(me,))))


def test_nodes_without_the_label_fail_a_spread() -> None:
    me = pods("me")
    scenery = cluster(node("x1"), job(spread=spread(me), matches=(me,)))
    assert ["0/1 nodes fit: 1 lack the label `zone` of its topology spread"] == why(scenery)


def test_fewer_domains_than_wanted_count_as_empty_ones() -> None:
    me = pods("me")
    nodes = zones({"a": 1, "b": 1})
    assert {"a1": 2, "b1": 2} == first(cluster(nodes, job(count=4, spread=spread(me), matches=(me,))))
    three = spread(me, min_domains=3)
    assert {"a1": 1, "b1": 1} == first(cluster(nodes, job(count=2, spread=three, matches=(me,))))
    assert {} == first(cluster(nodes, job(count=3, spread=three, matches=(me,))))


def test_nodes_that_the_selector_refuses_are_no_domains_unless_asked_for() -> None:
    me = pods("me")
    wants = (Requirement(ZONE, "In", ("a", "b")),)
    nodes = zones({"a": 1, "b": 1, "c": 1})
    fields: dict[str, Any] = {"node_selector": wants, "matches": (me,)}
    assert {"a1": 2, "b1": 2} == first(cluster(nodes, job(count=4, spread=spread(me), **fields)))
    ignoring = spread(me, honor_affinity=False)
    assert {} == first(cluster(nodes, job(count=4, spread=ignoring, **fields)))


def test_tainted_nodes_are_domains_unless_asked_otherwise() -> None:
    me = pods("me")
    nodes = [*zones({"a": 1}), node("b1", labels={ZONE: "b"}, taints=[Taint("gone")])]
    assert {} == first(cluster(nodes, job(count=2, spread=spread(me), matches=(me,))))
    honoring = spread(me, honor_taints=True)
    assert {"a1": 2} == first(cluster(nodes, job(count=2, spread=honoring, matches=(me,))))


def test_spread_over_others_refuses_crowded_domains_only() -> None:
    db = pods("db")
    there = gang("there", 2, on=["a1", "a1"], constraints={"matches": (db,)})
    nodes = zones({"a": 1, "b": 1})
    assert {"b1": 5} == first(cluster(nodes, there, job(count=5, spread=spread(db))))
    assert {"a1": 5} == first(cluster(nodes, there, job(count=5, spread=spread(db, 2))))


def test_pods_that_are_leaving_do_not_count_for_spread_but_do_for_anti_affinity() -> None:
    me = pods("me")
    leaving = gang("old", on=["a1"], constraints={"matches": (me,)}, task={"status": Status.RELEASING, "node": "a1"})
    nodes = zones({"a": 1})
    assert {"a1": 1} == first(cluster(nodes, leaving, job(spread=spread(me, min_domains=2), matches=(me,))))
    apart = job(anti_affinity=(PodTerm(me, ZONE),))
    plans = scene(cluster(nodes, leaving, apart), config())
    assert {} == on(plans[0])
    assert [("ns/job-0", "a1")] == [(n.task, n.node) for n in plans[0].nominate]
    assert {"a1": 1} == on(plans[1])


# -- cost


def test_shapes_without_such_constraints_have_no_limit() -> None:
    session = Session(Snapshot(cluster(node("n1"), job())), config(), 0.0)
    session.open()
    assert [] == session.capacity.limits(0)
