"""preempt and reclaim: a node whose only obstacle is a neighbour that may be evicted is an opening.

A neighbour is in the way if it uses a host port, or if one of the two excludes the other by anti-affinity.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.confs import HELM_PREEMPT, HELM_RECLAIM, PREEMPT

from maar.config.config import Config, Tenants
from maar.config.file import default_config
from maar.decide import decide
from maar.model.nodes import Node
from maar.model.plan import Plan
from maar.model.queues import Queue
from maar.model.selectors import PodSelector, PodTerm, Port, Requirement, Selector
from maar.model.snapshot import Budget, Cluster, Snapshot
from maar.registry import catalog
from maar.testing.builders import Gang, cluster, elastic, gang
from maar.testing.builders import node as plain_node
from maar.testing.scenario import configured, cycles, scene

HOST, ZONE = "kubernetes.io/hostname", "zone"
DEFAULT = default_config(catalog())
PREEMPT_ONLY = configured(PREEMPT)
PREEMPTING = pytest.mark.parametrize("config", [DEFAULT, configured(HELM_PREEMPT)], ids=["default", "helm"])
RECLAIMING = pytest.mark.parametrize("config", [DEFAULT, configured(HELM_RECLAIM)], ids=["default", "helm"])


def node(name: str, zone: str = "z", **fields: Any) -> Node:
    return plain_node(name, labels={HOST: name, ZONE: zone}, **fields)


def pods(app: str) -> PodSelector:
    return PodSelector(Selector((Requirement("app", "In", (app,)),)), ("ns",))


class Way(NamedTuple):
    """How two pods exclude each other: fields of the shapes of the neighbour and of the waiting pod."""

    neighbour: dict[str, Any]
    waiting: dict[str, Any]


def port(number: int, address: str = "0.0.0.0") -> dict[str, Any]:
    return {"ports": (Port(number, address=address),)}


def shows(app: str) -> dict[str, Any]:
    return {"matches": (pods(app),)}


def avoids(app: str, key: str = HOST, **fields: Any) -> dict[str, Any]:
    return {"anti_affinity": (PodTerm(pods(app), key, **fields),)}


WAYS = {
    "port": Way(port(80), port(80)),
    "any address": Way(port(80, "10.0.0.1"), port(80)),
    "own": Way(shows("noisy"), avoids("noisy")),
    "theirs": Way(avoids("quiet"), shows("quiet")),
    "zone": Way(shows("noisy"), avoids("noisy", ZONE)),
    "both": Way({**shows("noisy"), **avoids("quiet")}, {**shows("quiet"), **avoids("noisy")}),
    "port and own": Way({**port(80), **shows("noisy")}, {**port(80), **avoids("noisy")}),
}
ALL_WAYS = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
MAIN_WAYS = pytest.mark.parametrize(
    "way", [WAYS[name] for name in ("port", "own", "theirs")], ids=["port", "own", "theirs"]
)


def evicted(plans: list[Plan]) -> list[str]:
    return sorted(e.task for plan in plans for e in plan.evict)


def bound(plans: list[Plan]) -> dict[str, str]:
    return {b.task: b.node for plan in plans for b in plan.bind}


def low(name: str, on: str, of: dict[str, Any] | None = None, **fields: Any) -> Gang:
    return gang(name, on=[on], constraints=of, **{"priority": 1, **fields})


def high(of: dict[str, Any], count: int = 1, **fields: Any) -> Gang:
    return gang("high", count, constraints=of, **{"priority": 9, **fields})


# -- preempt


@PREEMPTING
@ALL_WAYS
def test_a_neighbour_of_lower_priority_goes(config: Config, way: Way) -> None:
    """Nothing else on the node goes, and the pod gets exactly this node."""
    parts = (node("n1"), low("a", "n1", way.neighbour), low("other", "n1"), high(way.waiting))
    plans = scene(cluster(*parts), config)
    assert ["ns/a-0"] == evicted(plans)
    assert {("ns/high-0", "n1")} == {(n.task, n.node) for n in plans[0].nominate}
    assert "n1" == bound(plans)["ns/high-0"]
    assert "preempted: gang of `ns/a` (priority 1) for `ns/high` (priority 9)" == plans[0].evict[0].reason


@PREEMPTING
@MAIN_WAYS
@pytest.mark.parametrize(
    "fields",
    [
        {"priority": 9},
        {"queue": "root"},
        {"task": {"preemptable": False}},
        {"task": {"foreign": True}},
    ],
    ids=["priority", "queue", "preemptable", "foreign"],
)
def test_a_neighbour_that_may_not_be_evicted_keeps_the_node_closed(
    config: Config, way: Way, fields: dict[str, Any]
) -> None:
    parts = (node("n1"), low("a", "n1", way.neighbour, **fields), low("b", "n1", way.neighbour), high(way.waiting))
    plans = scene(cluster(*parts), config)
    assert [] == evicted(plans)
    assert "ns/high-0" not in bound(plans)


@MAIN_WAYS
def test_a_disruption_budget_keeps_the_node_closed(way: Way) -> None:
    """It allows one of two neighbours in the way."""
    guarded = [low(name, "n1", way.neighbour, task={"budgets": ("ns/pdb",)}) for name in ("a", "b")]
    for allowed, expected in ((1, []), (2, ["ns/a-0", "ns/b-0"])):
        parts = (node("n1"), guarded, high(way.waiting), Budget("ns/pdb", allowed))
        assert expected == evicted(cycles(cluster(*parts), DEFAULT, 1)[0])


@PREEMPTING
@MAIN_WAYS
def test_a_node_with_a_lesser_neighbour_in_the_way_is_opened(config: Config, way: Way) -> None:
    """On each node but one a neighbour may not go; of the two others the less important neighbour goes."""
    zones = [node(f"n{i}", zone=f"z{i}") for i in range(4)]
    parts = (
        low("a", "n0", way.neighbour, task={"preemptable": False}),
        low("b", "n1", way.neighbour, priority=5),
        low("c", "n2", way.neighbour, priority=4),
        low("d", "n3", way.neighbour, priority=9),
        high(way.waiting),
    )
    plans = scene(cluster(zones, *parts), config)
    assert ["ns/c-0"] == evicted(plans)[:1]
    assert "n2" == bound(plans)["ns/high-0"]


@PREEMPTING
@MAIN_WAYS
def test_neighbours_and_the_room_that_is_needed_besides_go_together(config: Config, way: Way) -> None:
    """The neighbour has 1 of 8 GPUs, the waiting pod needs 4: of the other two, the less important goes too."""
    parts = (
        node("n1", gpu=8),
        low("a", "n1", way.neighbour, gpu=1, priority=3),
        low("b", "n1", gpu=4, priority=2),
        low("c", "n1", gpu=3, priority=1),
        high(way.waiting, gpu=4),
    )
    plans = scene(cluster(*parts), config)
    assert ["ns/a-0", "ns/c-0"] == evicted(plans[:1])
    assert "n1" == bound(plans)["ns/high-0"]


@PREEMPTING
@MAIN_WAYS
def test_the_room_of_the_neighbour_is_used(config: Config, way: Way) -> None:
    """A cheaper pod with enough room stays, since the neighbour must go and has room enough."""
    parts = (
        node("n1", gpu=8),
        low("a", "n1", way.neighbour, gpu=4, priority=3),
        low("b", "n1", gpu=4, priority=1),
        high(way.waiting, gpu=4),
    )
    assert ["ns/a-0"] == evicted(scene(cluster(*parts), config)[:1])


@PREEMPTING
@MAIN_WAYS
def test_nothing_goes_if_the_node_is_too_small(config: Config, way: Way) -> None:
    fixed = low("b", "n1", gpu=6, task={"preemptable": False})
    parts = (node("n1", gpu=8), low("a", "n1", way.neighbour, gpu=1), fixed, high(way.waiting, gpu=4))
    assert [] == evicted(scene(cluster(*parts), config))


@PREEMPTING
@MAIN_WAYS
def test_nothing_goes_if_another_node_has_room(config: Config, way: Way) -> None:
    nodes = (node("n1"), node("n2", zone="y"))
    plans = scene(cluster(nodes, low("a", "n1", way.neighbour), high(way.waiting)), config)
    assert [] == evicted(plans)
    assert "n2" == bound(plans)["ns/high-0"]


@PREEMPTING
@MAIN_WAYS
def test_a_gang_in_the_way_goes_whole(config: Config, way: Way) -> None:
    nodes = (node("n1"), node("n2", zone="y", unschedulable=True))
    parts = (gang("a", 2, on=["n1", "n2"], constraints=way.neighbour, priority=1), high(way.waiting))
    assert ["ns/a-0", "ns/a-1"] == evicted(scene(cluster(nodes, *parts), config))


@MAIN_WAYS
def test_a_gang_in_the_way_stays_if_only_surplus_may_go(way: Way) -> None:
    config = configured(PREEMPT.replace("whole", "surplus"))
    rigid = gang("a", 2, on=["n1", "n1"], constraints=way.neighbour, priority=1)
    loose = gang("a", 2, minimum=1, on=["n1", "n2"], constraints=way.neighbour, priority=1)
    nodes = (node("n1"), node("n2", zone="y", unschedulable=True))
    assert [] == evicted(scene(cluster(nodes, rigid, high(way.waiting)), config))
    assert ["ns/a-0"] == evicted(scene(cluster(nodes, loose, high(way.waiting)), config))


@PREEMPTING
@MAIN_WAYS
def test_a_gang_opens_as_many_nodes_as_it_needs(config: Config, way: Way) -> None:
    """Two pods that exclude each other, one node free: one neighbour goes, the less important of two."""
    apart = {**way.waiting, "ports": (*way.waiting.get("ports", ()), Port(99))}
    nodes = [node(f"n{i}", zone=f"z{i}") for i in range(3)]
    parts = (low("a", "n0", way.neighbour, priority=2), low("b", "n1", way.neighbour), high(apart, 2))
    plans = scene(cluster(nodes, *parts), config)
    assert ["ns/b-0"] == evicted(plans[:1])
    assert {"n1", "n2"} == {n for task, n in bound(plans).items() if task.startswith("ns/high")}


@PREEMPTING
def test_a_gang_that_does_not_fit_as_a_whole_evicts_no_neighbour(config: Config) -> None:
    nodes = [node(f"n{i}") for i in range(2)]
    parts = (low("a", "n0", port(80)), low("b", "n1", port(80), priority=9), high(port(80), 2))
    assert [] == evicted(scene(cluster(nodes, *parts), config))


@PREEMPTING
def test_a_neighbour_on_another_node_of_the_zone_keeps_the_node_closed(config: Config) -> None:
    """As in Kubernetes: only pods on the node itself are evicted for it. Here `n1` cannot be opened alone."""
    nodes = [node(f"n{i}") for i in range(3)]
    parts = (low("a", "n1", shows("noisy")), low("b", "n2", shows("noisy")), high(avoids("noisy", ZONE)))
    assert [] == evicted(scene(cluster(nodes, *parts), config))


@PREEMPTING
def test_a_pod_without_requests_takes_the_port_of_such_a_pod_only(config: Config) -> None:
    nothing = {"cpu": 0, "memory": 0}
    claims = high(port(80), **nothing)
    assert ["ns/a-0"] == evicted(scene(cluster(node("n1"), low("a", "n1", port(80), **nothing), claims), config))
    assert [] == evicted(scene(cluster(node("n1"), low("a", "n1", port(80)), claims), config))


def test_a_pod_that_never_preempts_evicts_no_neighbour() -> None:
    parts = (node("n1"), low("a", "n1", port(80)), high(port(80), preempts=False))
    assert [] == evicted(scene(cluster(*parts), DEFAULT))


@MAIN_WAYS
def test_an_elastic_neighbour_shrinks(way: Way) -> None:
    """The worker on the node and those after it leave; the job keeps its minimum."""
    nodes = (node("n1", gpu=2), node("n2", zone="y", gpu=2, unschedulable=True))
    wide = elastic("a", 1, 2, on=["n2", "n1"], constraints=way.neighbour, priority=1)
    plans, _ = cycles(cluster(nodes, wide, high(way.waiting)), PREEMPT_ONLY, 3)
    assert [("ns/a", 1)] == [(r.job, r.after) for plan in plans for r in plan.resize]
    assert "n1" == bound(plans)["ns/high-0"]


def test_pods_of_other_namespaces_stay_where_tenants_are_not_trusted() -> None:
    """A tenant states her anti-affinity: she does not choose with it who leaves, outside her namespace."""
    crossing = avoids("noisy", crosses=True)
    parts = (node("n1"), low("a", "n1", shows("noisy")), high(crossing))
    assert ["ns/a-0"] == evicted(scene(cluster(*parts), PREEMPT_ONLY))
    untrusted = replace(PREEMPT_ONLY, tenants=Tenants.UNTRUSTED)
    assert [] == evicted(scene(cluster(*parts), untrusted))


# -- reclaim


STUCK = gang("b9", 6, gpu=1, queue="b", constraints={"node_terms": ()})
"""A gang that no node takes: by its request, `b` deserves all that its weight gives it."""


@RECLAIMING
@MAIN_WAYS
@pytest.mark.parametrize("protected", [False, True])
def test_a_neighbour_of_a_queue_above_its_share_goes(config: Config, way: Way, protected: bool) -> None:
    """Queue `a` has 6 of 8 GPUs and deserves 4; `b` has none. The node has room: only the neighbour is in the way."""
    task = {"preemptable": not protected}
    parts = (
        node("n1", gpu=8),
        (Queue("a"), Queue("b")),
        gang("a1", gpu=1, on=["n1"], queue="a", constraints=way.neighbour, task=task),
        [gang(f"a{i}", gpu=1, on=["n1"], queue="a") for i in range(2, 7)],
        gang("b1", gpu=1, queue="b", constraints=way.waiting),
        STUCK,
    )
    plans = scene(cluster(*parts), config)
    assert ([] if protected else ["ns/a1-0"]) == evicted(plans)
    assert (None if protected else "n1") == bound(plans).get("ns/b1-0")
    if not protected:
        assert "reclaimed: gang of `ns/a1` (queue `a`) for `ns/b1` (queue `b`)" == plans[0].evict[0].reason


@RECLAIMING
def test_a_neighbour_of_a_queue_at_its_share_stays(config: Config) -> None:
    parts = (
        node("n1", gpu=8),
        (Queue("a"), Queue("b")),
        [gang(f"a{i}", gpu=1, on=["n1"], queue="a", constraints=port(80 + i)) for i in range(4)],
        gang("a4", 6, gpu=1, queue="a", constraints={"node_terms": ()}),
        gang("b1", gpu=1, queue="b", constraints=port(80)),
        STUCK,
    )
    assert [] == evicted(scene(cluster(*parts), config)[:1])


# -- against a plain reference


class Pod(NamedTuple):
    """A running job of one pod in a random scene."""

    node: int
    cpu: int
    priority: int
    ports: tuple[int, ...]
    apps: tuple[str, ...]
    avoids: tuple[tuple[str, str], ...]
    protected: bool


APPS, KEYS, CPUS = ("x", "y"), (HOST, ZONE), 6
some_ports = st.lists(st.sampled_from((80, 81)), max_size=1, unique=True).map(tuple)
some_apps = st.lists(st.sampled_from(APPS), max_size=2, unique=True).map(tuple)
some_terms = st.lists(st.tuples(st.sampled_from(APPS), st.sampled_from(KEYS)), max_size=1).map(tuple)
random_pods = st.builds(
    Pod, st.integers(0, 2), st.integers(1, 3), st.integers(0, 4), some_ports, some_apps, some_terms, st.booleans()
)


def constraints(pod: Pod) -> dict[str, Any]:
    return {
        "ports": tuple(Port(number) for number in pod.ports),
        "matches": tuple(sorted(pods(app) for app in pod.apps)),
        "anti_affinity": tuple(PodTerm(pods(app), key) for app, key in pod.avoids),
    }


def same_domain(key: str, one: int, other: int) -> bool:
    """Nodes 0 and 1 are in one zone, node 2 is in another."""
    return one == other or (key == ZONE and {one, other} == {0, 1})


def excludes(pod: Pod, other: Pod, node: int) -> bool:
    """Whether a pod keeps another off a node."""
    if pod.node == node and set(pod.ports) & set(other.ports):
        return True
    mine = any(app in pod.apps and same_domain(key, pod.node, node) for app, key in other.avoids)
    theirs = any(app in other.apps and same_domain(key, pod.node, node) for app, key in pod.avoids)
    return mine or theirs


def fits(running: list[Pod], pod: Pod, node: int) -> bool:
    used = sum(p.cpu for p in running if p.node == node)
    return used + pod.cpu <= CPUS and not any(excludes(p, pod, node) for p in running)


def cheapest(running: list[Pod], pod: Pod) -> int | None:
    """The least priority of victims that opens a node; -1 if one is open, `None` if none can be opened."""
    best: int | None = None
    for node in range(3):
        if fits(running, pod, node):
            return -1
        for most in range(pod.priority):
            left = [p for p in running if p.node != node or p.protected or p.priority > most]
            if fits(left, pod, node):
                best = most if best is None else min(best, most)
                break
    return best


@given(st.lists(random_pods, max_size=7), random_pods, st.integers(1, 5))
def test_exactly_the_cheapest_neighbours_go(running: list[Pod], waiting: Pod, priority: int) -> None:
    waiting = waiting._replace(priority=priority)
    nodes = [node(f"n{i}", zone="z0" if i < 2 else "z1", cpu=CPUS) for i in range(3)]
    scenery: Cluster = cluster(
        nodes,
        [
            low(
                f"p{i}",
                f"n{p.node}",
                constraints(p),
                cpu=p.cpu,
                priority=p.priority,
                task={"preemptable": not p.protected},
            )
            for i, p in enumerate(running)
        ],
        high(constraints(waiting), cpu=waiting.cpu, priority=priority),
    )
    plan = decide(Snapshot(scenery), PREEMPT_ONLY, 0.0)
    gone = {int(e.task.removeprefix("ns/p").partition("-")[0]) for e in plan.evict}
    expected = cheapest(running, waiting)
    if expected is None or expected < 0:
        assert set() == gone
        return
    assert expected == max(running[i].priority for i in gone)
    assert not any(running[i].protected for i in gone)
    places = [int(n.node.removeprefix("n")) for n in plan.nominate]
    assert 1 == len(places)
    assert fits([p for i, p in enumerate(running) if i not in gone], waiting, places[0])
    for spared in gone:  # every one of them is needed
        staying = [p for i, p in enumerate(running) if i not in gone - {spared}]
        assert not any(fits(staying, waiting, place) for place in range(3))
