"""nodeorder: the scores of Kubernetes, each with its weight."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.confs import HELM

from maar.actions import allocate
from maar.config.config import ActionOption, Config, NoArguments, PluginOption, Registration
from maar.config.file import default_config
from maar.model.nodes import Image, Node, NodeTable
from maar.model.resources import Axes
from maar.model.selectors import NodeTerm, PodSelector, PodTerm, Requirement, Selector, Spread, Taint, Toleration
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status
from maar.plugins import gang as gang_plugin
from maar.plugins import nodeorder, predicates
from maar.plugins.nodeorder import (
    Arguments,
    allocation,
    avoided_taints,
    balance,
    image_sizes,
    images_there,
    node_affinity,
)
from maar.plugins.support.default_spread import ZONE as DEFAULT_ZONE
from maar.registry import catalog
from maar.session.session import Session
from maar.testing.builders import cluster, gang, node, shape
from maar.testing.scenario import configured, scene

ZONE = "zone"
HOST = "kubernetes.io/hostname"
NONE = {field.name: field.type(0) for field in msgspec.structs.fields(Arguments)}


def only(**weights: float) -> Arguments:
    """All weights 0 except these."""
    return Arguments(**{**NONE, **weights})


def config(arguments: Arguments) -> Config:
    return Config(
        (ActionOption(Registration(allocate.NAME, allocate.Allocate), NoArguments()),),
        (
            (
                PluginOption(Registration(gang_plugin.NAME, gang_plugin.Gang), gang_plugin.Arguments()),
                PluginOption(Registration(predicates.NAME, predicates.Predicates), predicates.Arguments()),
                PluginOption(Registration(nodeorder.NAME, nodeorder.Nodeorder), arguments),
            ),
        ),
    )


def opened(scenery: Cluster, arguments: Arguments) -> tuple[Session, int]:
    """A session, and the shape of pod `new`."""
    session = Session(Snapshot(scenery), config(arguments), 0.0)
    session.open()
    return session, int(session.snapshot.tasks.shape[session.snapshot.tasks.number["ns/new-0"]])


def scores(scenery: Cluster, **weights: float) -> list[float]:
    """The score of every node for pod `new`, row scores and cluster scores together."""
    session, number = opened(scenery, only(**weights))
    whole = session.hooks.scores[0].call(number, slice(None))
    rows = np.arange(len(session.snapshot.nodes))[::-1]
    assert whole[rows].tolist() == session.hooks.scores[0].call(number, rows).tolist()
    extra = session.hooks.cluster_scores[0].call(number)
    total = whole if extra is None else whole + extra
    return [round(x, 6) for x in total.tolist()]


def table(*nodes: Node) -> NodeTable:
    return NodeTable(nodes, Axes(()))


def everywhere(nodes: NodeTable) -> Any:
    return np.ones(len(nodes), dtype=np.bool_)


def pods(app: str) -> PodSelector:
    return PodSelector(Selector((Requirement("app", "In", (app,)),)), ("ns",))


def placed(scenery: Cluster, arguments: Arguments) -> dict[str, str]:
    return {b.task: b.node for b in scene(scenery, config(arguments))[0].bind}


# -- room


def half_full(**new: Any) -> Cluster:
    return cluster(
        [node("n1", cpu=10, memory="100Gi", gpu=4), node("n2", cpu=10, memory="100Gi", gpu=4)],
        gang("old", cpu=5, memory="10Gi", on=["n2"]),
        gang("new", **{"cpu": 1, "memory": "10Gi", **new}),
    )


def test_least_and_most_requested() -> None:
    assert [90.0, 100 - (60 + 20) / 2] == scores(half_full(), least=1)
    assert [2 * 10.0, 2 * (60 + 20) / 2] == scores(half_full(), most=2)
    assert [100.0, 100.0] == scores(half_full(), least=1, most=1)


def test_room_scores_are_rounded_down_for_each_resource_and_for_their_mean() -> None:
    world = cluster(node("n1", cpu=3, memory="7Gi"), gang("new", cpu=1, memory="1Gi"))
    assert [(66 + 85) // 2] == scores(world, least=1)
    assert [(33 + 14) // 2] == scores(world, most=1)


def test_balanced_resources() -> None:
    """On `n1` both become equally full; on `n2` CPU was 50 and memory 10, and becomes 60 and 20."""
    assert [75.0, 75.0] == scores(half_full(), balanced=1)
    assert [50 + (50 + 95 - 100) // 2, 50 + (50 + 85 - 80) // 2] == scores(half_full(memory="20Gi"), balanced=1)


def one_balance(full: list[float]) -> int:
    """The balance of one node before or after a pod, as Kubernetes computes it."""
    full = [min(f, 1.0) for f in full]
    mean = sum(full) / len(full)
    deviation = math.sqrt(sum((f - mean) * (f - mean) for f in full) / len(full))
    if len(full) == 2:
        deviation = abs((full[0] - full[1]) / 2)
    return int((1 - deviation) * 100)


@given(
    has=st.tuples(st.integers(100, 200_000), st.integers(2**20, 2**42), st.integers(1, 16)),
    used=st.tuples(*[st.floats(0, 1)] * 3),
    asks=st.tuples(*[st.floats(0, 1)] * 3),
    accelerators=st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_room_scores_are_those_of_kubernetes(
    has: tuple[int, ...], used: tuple[float, ...], asks: tuple[float, ...], accelerators: bool
) -> None:
    dims = 3 if accelerators else 2
    without = [int(u * h) for u, h in zip(used[:dims], has, strict=False)]
    after = [w + int(a * (h - w)) for w, a, h in zip(without, asks, has, strict=False)]
    pair = [[[w / h], [a / h]] for w, a, h in zip(without, after, has, strict=False)]
    balances = [one_balance([part[i][0] for part in pair]) for i in (0, 1)]
    assert [50 + (50 + balances[1] - balances[0]) // 2] == balance(np.array(pair)).tolist()
    least = sum((h - a) * 100 // h for a, h in zip(after[:2], has, strict=False)) // 2
    most = sum(a * 100 // h for a, h in zip(after[:2], has, strict=False)) // 2
    amounts, capacity = (np.array([[float(n)] for n in numbers[:2]]) for numbers in (after, has))
    assert [2.0 * least + 3.0 * most] == allocation(amounts, capacity, 2.0, 3.0).tolist()


def test_small_pods_leave_whole_nodes_under_helm() -> None:
    """Twenty pods of one GPU on 8 nodes of 8: at least four nodes stay whole for pods of 8 GPUs."""
    small = [gang(f"small{i:02}", cpu=4, memory="16Gi", gpu=1) for i in range(20)]
    large = [gang(f"large{i}", cpu=16, memory="64Gi", gpu=8, created=1.0) for i in range(4)]
    plans = scene(cluster([node(f"n{i}", gpu=8) for i in range(8)], small, large), configured(HELM))
    assert 24 == sum(len(plan.bind) for plan in plans)


def test_the_default_weights_are_those_of_volcano() -> None:
    assert (1, 0, 2, 2, 1, 3, 1, 2) == msgspec.structs.astuple(Arguments())[:8]
    read = msgspec.convert({"leastrequested.weight": "0", "mostrequested.weight": 5}, Arguments, strict=False)
    assert (0, 5) == (read.least, read.most)


def test_an_empty_node_comes_first_by_default() -> None:
    assert {"ns/new-0": "n1"} == placed(half_full(), Arguments())
    assert {"ns/new-0": "n2"} == placed(half_full(), only(most=1))


# -- fixed by the snapshot


def test_preferred_node_affinity_is_stretched_over_usable_nodes() -> None:
    ssd, big = NodeTerm((Requirement("disk", "In", ("ssd",)),)), NodeTerm((Requirement("size", "Exists"),))
    nodes = table(node("n1"), node("n2", labels={"disk": "ssd"}), node("n3", labels={"disk": "ssd", "size": "1"}))
    wants = shape(node_preferences=((30, ssd), (10, big)))
    found = node_affinity(wants, nodes, everywhere(nodes))
    assert found is not None
    assert [0.0, 75.0, 100.0] == found.tolist()
    without = node_affinity(wants, nodes, np.array([True, True, False]))
    assert without is not None
    assert [0.0, 100.0] == without[:2].tolist()
    assert node_affinity(wants, nodes, np.array([True, False, False])) is None
    assert node_affinity(shape(), nodes, everywhere(nodes)) is None


def test_taints_that_are_better_avoided() -> None:
    soft = [Taint(key, effect="PreferNoSchedule") for key in "ab"]
    nodes = table(node("n1"), node("n2", taints=soft[:1]), node("n3", taints=[*soft, Taint("hard")]))
    found = avoided_taints(shape(), nodes, everywhere(nodes))
    assert found is not None
    assert [100.0, 50.0, 0.0] == found.tolist()
    tolerant = avoided_taints(shape(tolerations=(Toleration("b", "Exists"),)), nodes, everywhere(nodes))
    assert tolerant is not None
    assert [100.0, 0.0, 0.0] == tolerant.tolist()
    assert avoided_taints(shape(tolerations=(Toleration("", "Exists"),)), nodes, everywhere(nodes)) is None


def test_images_already_on_nodes() -> None:
    size = 2000 * 2**20
    there = (Image("train:1", size, ("n1",)), Image("other:1", size, ("n2",)))
    snapshot = Snapshot(replace(cluster(node("n1"), node("n2")), images=there))
    assert [size / 2, 0.0] == image_sizes("train:1", snapshot).tolist()
    found = images_there([image_sizes("train:1", snapshot)])
    assert found is not None
    assert [100.0, 0.0] == found.tolist()
    halves = images_there([np.array([511.5 * 2**20])])
    assert halves is not None
    assert [50.0] == halves.tolist()
    assert images_there([]) is None


def test_each_fixed_score_has_its_weight() -> None:
    nodes = [
        node("n1", labels={"disk": "ssd"}),
        node("n2", taints=[Taint("a", effect="PreferNoSchedule")]),
    ]
    wants = {"node_preferences": ((1, NodeTerm((Requirement("disk", "Exists"),))),), "images": ("train:1",)}
    there = (Image("train:1", 4000 * 2**20, ("n1",)),)
    scenery = replace(cluster(nodes, gang("new", constraints=wants)), images=there)
    assert [200.0, 0.0] == scores(scenery, node_affinity=2)
    assert [300.0, 0.0] == scores(scenery, taints=3)
    assert [100.0, 0.0] == scores(scenery, images=1)
    assert [600.0, 0.0] == scores(scenery, node_affinity=2, taints=3, images=1)


# -- other pods


def zones(**sizes: int) -> list[Node]:
    return [node(f"{z}{i + 1}", labels={ZONE: z}) for z, n in sizes.items() for i in range(n)]


def test_preferred_affinity_counts_the_pods_of_a_domain() -> None:
    db = pods("db")
    there = [gang("db", 3, on=["a1", "a1", "b1"], constraints={"matches": (db,)})]
    new = gang("new", constraints={"pod_preferences": ((10, PodTerm(db, ZONE)),)})
    scenery = cluster(zones(a=2, b=1, c=1), there, new)
    assert [200.0, 200.0, 100.0, 0.0] == scores(scenery, pod_affinity=2)
    away = gang("new", constraints={"pod_preferences": ((-10, PodTerm(db, ZONE)),)})
    assert [0.0, 0.0, 50.0, 100.0] == scores(cluster(zones(a=2, b=1, c=1), there, away), pod_affinity=1)


def test_the_preferences_of_placed_pods_count_too() -> None:
    web = pods("web")
    shy = gang("shy", on=["a1"], constraints={"pod_preferences": ((-5, PodTerm(web, ZONE)),)})
    new = gang("new", constraints={"matches": (web,)})
    assert [0.0, 0.0, 100.0] == scores(cluster(zones(a=2, b=1), shy, new), pod_affinity=1)


def test_nodes_that_a_shape_may_not_use_do_not_stretch_the_scores() -> None:
    db = pods("db")
    there = gang("db", 11, on=["a1"] * 10 + ["b1"], constraints={"matches": (db,)})
    wants = {"pod_preferences": ((1, PodTerm(db, ZONE)),), "node_selector": (Requirement(ZONE, "In", ("b", "c")),)}
    found = scores(cluster(zones(a=1, b=1, c=1), there, gang("new", constraints=wants)), pod_affinity=1)
    assert [100.0, 0.0] == found[1:]


def test_spread_that_is_wished_for_prefers_empty_domains() -> None:
    me = pods("me")
    wish = (Spread(me, ZONE, 1, hard=False),)
    there = gang("old", 3, on=["a1", "a1", "b1"], constraints={"matches": (me,)})
    scenery = cluster(zones(a=1, b=1, c=1), node("x1"), there, gang("new", constraints={"spread": wish}))
    assert [0.0, 50.0, 100.0, 0.0] == scores(scenery, spread=1)


def test_shapes_without_preferences_cost_nothing() -> None:
    session, number = opened(cluster(node("n1"), gang("new")), Arguments())
    assert session.hooks.cluster_scores[0].call(number) is None
    assert [] == session.capacity.limits(number)


def test_a_gang_that_wishes_to_be_spread_is_spread() -> None:
    me = pods("me")
    apart = {"matches": (me,), "pod_preferences": ((-100, PodTerm(me, HOST)),)}
    scenery = cluster([node("n1"), node("n2"), node("n3")], gang("new", 3, constraints=apart))
    assert ["n1", "n2", "n3"] == sorted(placed(scenery, only(pod_affinity=2)).values())
    assert ["n1", "n1", "n1"] == sorted(placed(scenery, only(least=1)).values())
    wish = {"matches": (me,), "spread": (Spread(me, ZONE, 1, hard=False),)}
    found = placed(cluster(zones(a=2, b=2), gang("new", 4, constraints=wish)), only(spread=2)).values()
    assert 2 == sum(name.startswith("a") for name in found)


def test_a_gang_that_wishes_to_be_near_itself_is_near() -> None:
    me = pods("me")
    near = {"matches": (me,), "pod_preferences": ((100, PodTerm(me, ZONE)),)}
    small = [node(name, cpu=1, labels={ZONE: z}) for name, z in (("n1", "a"), ("n2", "b"), ("n3", "a"))]
    scenery = cluster(small, gang("new", 2, constraints=near))
    assert ["n1", "n3"] == sorted(placed(scenery, only(pod_affinity=2)).values())
    assert ["n1", "n2"] == sorted(placed(scenery, only(least=1)).values())


def test_a_gang_that_does_not_fit_gets_the_usual_reason() -> None:
    me = pods("me")
    apart = {"matches": (me,), "pod_preferences": ((-100, PodTerm(me, HOST)),)}
    plan = scene(cluster(node("n1", cpu=2), gang("new", 3, constraints=apart)), config(Arguments()))[0]
    message = "needs 3 pods together, there is room for 2: 0/1 nodes fit: 1 short of cpu (needs 1, best has 0 free)"
    assert [message] == [r.message for w in plan.waiting for r in w.reasons]


# -- pods that do not say what they need


def test_pods_without_requests_are_shared_out() -> None:
    bare = [gang(f"bare{i}", cpu=0, memory=0) for i in range(5)]
    scenery = cluster([node(f"n{i}") for i in range(3)], gang("first", cpu=0, memory=0, on=["n1"]), bare)
    plan = scene(scenery, default_config(catalog()))[0]
    assert {"n0": 2, "n1": 1, "n2": 2} == Counter(bind.node for bind in plan.bind)


def test_leaving_pods_without_requests_do_not_count() -> None:
    leaving = gang("old", 2, cpu=0, memory=0, on=["n0", "n0"], task={"status": Status.RELEASING})
    scenery = cluster([node("n0"), node("n1")], leaving, gang("new", cpu=0, memory=0))
    assert [100.0, 100.0] == scores(scenery, best_effort=1)


def test_one_gang_of_pods_without_requests_stays_together() -> None:
    scenery = cluster([node("n0"), node("n1")], gang("g", 4, cpu=0, memory=0))
    plan = scene(scenery, default_config(catalog()))[0]
    assert {"n0": 4} == Counter(bind.node for bind in plan.bind)


def test_scores_by_room_count_a_small_request_for_pods_that_state_none() -> None:
    """0.1 CPU and 200 MiB, for the pods on the node and for the new one, each where it is not stated."""
    nodes = [node("n0", cpu=1, memory="2000Mi"), node("n1", cpu=1, memory="2000Mi")]
    there = [gang("a", 2, cpu=0, memory=0, on=["n0", "n0"]), gang("b", cpu=0, memory="400Mi", on=["n1"])]
    scenery = cluster(nodes, there, gang("new", cpu=0, memory=0))
    assert [(70 + 70) / 2, (80 + 70) / 2] == scores(scenery, least=1)
    assert [(30 + 30) / 2, (20 + 30) / 2] == scores(scenery, most=1)


def test_more_pods_than_a_node_seems_to_hold_score_as_a_full_node() -> None:
    scenery = cluster(node("n0", cpu=1, memory="1Gi"), gang("a", 30, cpu=0, memory=0, on=["n0"] * 30), gang("new"))
    assert [0.0] == scores(scenery, least=1)
    assert [100.0] == scores(scenery, most=1)


def test_counts_of_pods_without_requests_are_undone_with_their_placement() -> None:
    scenery = cluster([node("n0"), node("n1")], gang("new", 2, cpu=0, memory=0))
    session, number = opened(scenery, only(best_effort=1, least=1))
    before = session.hooks.scores[0].call(number, slice(None)).tolist()
    with session.statement():
        session.state.bind(0, number, np.array([0, 1]), np.array([1]), np.array([2]))
        assert before != session.hooks.scores[0].call(number, slice(None)).tolist()
    assert before == session.hooks.scores[0].call(number, slice(None)).tolist()


# -- pods of one controller or Service


def replica(name: str, *siblings: str, **fields: Any) -> Any:
    return gang(name, siblings=siblings or ("ReplicaSet ns/web",), cpu="100m", memory="100Mi", **fields)


SPREADING = only(spread=2, defaults=True)


def test_pods_of_one_controller_are_spread() -> None:
    replicas = [replica(f"web{i}") for i in range(5)]
    scenery = cluster([node(f"n{i}") for i in range(3)], replica("first", on=["n1"]), replicas)
    assert {"n0": 2, "n1": 1, "n2": 2} == Counter(placed(scenery, SPREADING).values())
    assert {"n0": 5} == Counter(placed(scenery, only(spread=2)).values())
    assert {"n1": 5} == Counter(bind.node for bind in scene(scenery, default_config(catalog()))[0].bind)


def test_the_default_spread_is_that_of_kubernetes() -> None:
    """A node without a zone has its own pods alone; sizes are those of the nodes and zones that the pod may use."""
    zones = [{DEFAULT_ZONE: "a"}, {DEFAULT_ZONE: "a"}, {DEFAULT_ZONE: "b"}, {}]
    nodes = [node(f"n{i}", labels=labels) for i, labels in enumerate(zones)]
    old = replica("old", on=["n0"])
    session, _ = opened(cluster(nodes, old, replica("new")), SPREADING)
    new = session.snapshot.jobs.jobs[session.snapshot.jobs.number["ns/new"]]
    found = session.hooks.job_scores[0].call(new)
    assert found is not None
    by_node, by_zone = math.log(4 + 2), math.log(3 + 2)
    raw = [by_node + 2 + by_zone + 4, 2 + by_zone + 4, 2 + 4, 2]
    assert [round(2 * 100 * (raw[0] + raw[3] - r) / raw[0], 6) for r in raw] == [round(x, 6) for x in found.tolist()]


def test_siblings_have_everything_of_the_pod_in_common() -> None:
    both, one = ("Service ns/a", "Service ns/b"), ("Service ns/a",)

    def place(new: tuple[str, ...], first: tuple[str, ...], second: tuple[str, ...]) -> str:
        old = replica("first", *first, on=["n0"]), replica("second", *second, on=["n1"])
        return placed(cluster([node("n0"), node("n1")], old, replica("new", *new)), SPREADING)["ns/new-0"]

    assert "n1" == place(both, first=both, second=one)
    assert "n0" == place(one, first=one, second=both)
    assert "n1" == place(one, first=one, second=("Service ns/b",))


def test_a_pod_with_spread_constraints_has_no_default_ones() -> None:
    own = {"spread": (Spread(pods("other"), HOST, 1, hard=False),)}
    scenery = cluster([node("n0"), node("n1")], replica("old", on=["n0"]), replica("new", constraints=own))
    assert {"ns/new-0": "n0"} == placed(scenery, SPREADING)


def test_leaving_siblings_do_not_count() -> None:
    leaving = replica("old", on=["n0"], task={"status": Status.RELEASING})
    scenery = cluster([node("n0"), node("n1")], leaving, replica("new"))
    assert {"ns/new-0": "n0"} == placed(scenery, SPREADING)
