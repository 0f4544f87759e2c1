"""Shapes: pods with equal needs share one shape."""

from __future__ import annotations

from maar.model.resources import Axes
from maar.model.selectors import PodSelector, PodTerm, Port, Requirement, Selector
from maar.model.shapes import Shape, ShapeTable
from maar.model.snapshot import Snapshot
from maar.testing.builders import GPU, cluster, gang, node, shape

WEB = PodSelector(Selector((Requirement("app", "In", ("web",)),)), ("ns",))
APART = PodTerm(WEB, "kubernetes.io/hostname")


def test_equal_needs_are_one_shape() -> None:
    snapshot = Snapshot(cluster(node("n"), gang("a", 3, cpu="1500m", gpu=1), gang("b", 2, cpu=1.5, gpu=1), gang("c")))
    assert 2 == len(snapshot.shapes)
    assert [0, 0, 0, 0, 0, 1] == snapshot.tasks.shape.tolist()


def test_every_need_makes_a_shape() -> None:
    different = [
        shape(),
        shape(cpu=2),
        shape(gpu=1),
        shape(ports=(Port(80),)),
        shape(node_selector=(Requirement("zone", "In", ("a",)),)),
        shape(anti_affinity=(APART,)),
        shape(matches=(WEB,)),
    ]
    assert 7 == len(ShapeTable([*different, *different], Axes([])))


def test_requests_are_rows_with_the_pod_slot() -> None:
    table = ShapeTable([shape(cpu=2, memory="1Gi", gpu=4), shape(cpu=0, memory=0)], Axes([GPU]))
    assert [[2000, 2**30, 1, 0, 4], [0, 0, 1, 0, 0]] == table.requests.tolist()
    assert [4, 0] == table.gpus.tolist()
    assert [False, True] == table.best_effort.tolist()


def test_best_effort_asks_for_nothing_but_its_slot() -> None:
    assert Shape().best_effort
    assert Shape(requests=(("cpu", 0), ("pods", 1))).best_effort
    assert not Shape(requests=(("example.com/fpga", 1), ("pods", 1))).best_effort


def test_features_are_numbered_once() -> None:
    first = shape(matches=(WEB,), anti_affinity=(APART, APART), ports=(Port(80), Port(443)))
    second = shape(cpu=2, matches=(WEB,), ports=(Port(443),))
    table = ShapeTable([first, second, shape()], Axes([]))
    assert {WEB: 0, APART: 1, Port(80): 2, Port(443): 3} == table.feature
    assert [[0, 1, 2, 3], [0, 3], []] == table.features


def test_ports_conflict_by_address_and_protocol() -> None:
    assert Port(80).conflicts(Port(80, address="10.0.0.1"))
    assert not Port(80).conflicts(Port(80, "UDP"))
    assert not Port(80, address="10.0.0.1").conflicts(Port(80, address="10.0.0.2"))
    assert not Port(80).conflicts(Port(81))
