"""The node table: labels as columns, requirements over all rows at once, taints in classes."""

from __future__ import annotations

import numpy as np
import pytest

from maar.model.nodes import HOSTNAME, NodeTable
from maar.model.resources import Axes
from maar.model.selectors import NodeTerm, Requirement, Selector, Taint, Toleration
from maar.testing.builders import node

GPU_TAINT = Taint("nvidia.com/gpu", "present")
NODES = [
    node("n3", labels={"zone": "b", "rank": "10"}, unschedulable=True),
    node("n1", labels={"zone": "a", "rank": "2"}, taints=[GPU_TAINT]),
    node("n2", labels={"zone": "a", "rank": "many"}),
    node("n0", cpu="1500m"),
]
TABLE = NodeTable(NODES, Axes([]))


def test_rows_are_sorted_by_name_whatever_the_order() -> None:
    for order in (NODES, NODES[::-1], sorted(NODES, key=lambda n: n.allocatable["cpu"])):
        table = NodeTable(order, Axes([]))
        assert ("n0", "n1", "n2", "n3") == table.names
        assert {"n0": 0, "n1": 1, "n2": 2, "n3": 3} == table.row
        assert [1500, 64000, 64000, 64000] == table.allocatable[:, 0].tolist()
        assert [False, False, False, True] == table.unschedulable.tolist()


@pytest.mark.parametrize(
    ("requirement", "rows"),
    [
        (Requirement("zone", "In", ("a",)), [1, 2]),
        (Requirement("zone", "In", ("a", "b", "c")), [1, 2, 3]),
        (Requirement("zone", "In"), []),
        (Requirement("zone", "NotIn", ("a",)), [0, 3]),
        (Requirement("zone", "NotIn"), [0, 1, 2, 3]),
        (Requirement("zone", "Exists"), [1, 2, 3]),
        (Requirement("zone", "DoesNotExist"), [0]),
        (Requirement("rank", "Gt", ("2",)), [3]),
        (Requirement("rank", "Gt", ("1",)), [1, 3]),
        (Requirement("rank", "Lt", ("10",)), [1]),
        (Requirement("rank", "Gt", ("few",)), []),
        (Requirement("rank", "Lt"), []),
        (Requirement("nobody", "Exists"), []),
        (Requirement("nobody", "NotIn", ("a",)), [0, 1, 2, 3]),
        (Requirement("nobody", "Lt", ("5",)), []),
    ],
)
def test_requirements(requirement: Requirement, rows: list[int]) -> None:
    assert rows == np.flatnonzero(TABLE.meets(requirement)).tolist()
    # The table and a single map of labels give the same result.
    assert rows == [i for i, n in enumerate(TABLE.nodes) if requirement.matches(n.labels)]


def test_a_label_column_is_made_once() -> None:
    column = TABLE.label("zone")
    assert column is TABLE.label("zone")
    assert ([-1, 0, 0, 1], ("a", "b")) == (column.codes.tolist(), column.values)


def test_a_node_without_the_label_is_its_own_host() -> None:
    table = NodeTable([node("a"), node("b", labels={HOSTNAME: "other"})], Axes([]))
    assert ("a", "other") == table.label(HOSTNAME).values


@pytest.mark.parametrize(
    ("term", "rows"),
    [
        (NodeTerm(), []),
        (NodeTerm((Requirement("zone", "In", ("a",)), Requirement("rank", "In", ("2",)))), [1]),
        (NodeTerm(fields=(Requirement("metadata.name", "In", ("n3",)),)), [3]),
        (NodeTerm(fields=(Requirement("metadata.name", "NotIn", ("n3",)),)), [0, 1, 2]),
        (NodeTerm((Requirement("zone", "Exists"),), (Requirement("metadata.name", "NotIn", ("n1",)),)), [2, 3]),
    ],
)
def test_terms(term: NodeTerm, rows: list[int]) -> None:
    assert rows == np.flatnonzero(TABLE.meets_term(term)).tolist()


def test_equal_taints_are_one_class() -> None:
    table = NodeTable([node("a", taints=[GPU_TAINT]), node("b"), node("c", taints=[GPU_TAINT])], Axes([]))
    assert ((GPU_TAINT,), ()) == table.taint_sets
    assert [0, 1, 0] == table.taint_class.tolist()


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        (Toleration("gpu", "Equal", "a"), True),
        (Toleration("gpu", "Equal", "b"), False),
        (Toleration("gpu", "Exists"), True),
        (Toleration("cpu", "Exists"), False),
        (Toleration(operator="Exists"), True),
        (Toleration(value="a"), False),
        (Toleration("gpu", "Exists", effect="NoSchedule"), True),
        (Toleration("gpu", "Exists", effect="NoExecute"), False),
    ],
)
def test_tolerations(toleration: Toleration, tolerates: bool) -> None:
    assert tolerates is toleration.tolerates(Taint("gpu", "a"))


def test_a_selector_without_requirements_matches_everything() -> None:
    assert Selector().matches({})
    assert not Selector((Requirement("a", "Exists"), Requirement("b", "Exists"))).matches({"a": ""})


def test_a_cluster_without_nodes() -> None:
    table = NodeTable([], Axes(["nvidia.com/gpu"]))
    assert (0, 5) == table.allocatable.shape
    assert [] == table.meets(Requirement("zone", "NotIn", ("a",))).tolist()
    assert [] == table.meets_term(NodeTerm(fields=(Requirement("metadata.name", "In", ("a",)),))).tolist()
