"""HyperNodes become rows of nodes; pools come from labels."""

from __future__ import annotations

import pytest

from maar.model.nodes import NodeTable
from maar.model.resources import Axes
from maar.model.selectors import Requirement, Selector
from maar.model.topology import HyperNode, Member, Pool, hypernode_rows, pools
from maar.testing.builders import node

NODES = NodeTable([node(f"n{i}", labels={"rack": f"r{i // 2}"}) for i in range(6)], Axes([]))


def rows(*hypernodes: HyperNode) -> dict[str, list[str]]:
    found = hypernode_rows(hypernodes, NODES)
    return {name: [NODES.names[i] for i in mask.nonzero()[0]] for name, mask in found.items()}


@pytest.mark.parametrize(
    ("member", "expected"),
    [
        (Member(name="n3"), ["n3"]),
        (Member(name="gone"), []),
        (Member(pattern="n[0-2]"), ["n0", "n1", "n2"]),
        (Member(pattern="n"), []),
        (Member(pattern=".*5"), ["n5"]),
        (Member(), []),
        (Member(labels=Selector((Requirement("rack", "In", ("r1",)),))), ["n2", "n3"]),
        (Member(labels=Selector()), ["n0", "n1", "n2", "n3", "n4", "n5"]),
        (Member("HyperNode", name="gone"), []),
    ],
)
def test_members(member: Member, expected: list[str]) -> None:
    assert {"h": expected} == rows(HyperNode("h", 1, (member,)))


def test_members_add_up_and_nest() -> None:
    assert {
        "leaf-0": ["n0", "n1"],
        "leaf-1": ["n2"],
        "spine": ["n0", "n1", "n2"],
        "top": ["n0", "n1", "n2", "n5"],
    } == rows(
        HyperNode("leaf-0", 1, (Member(name="n0"), Member(name="n1"))),
        HyperNode("leaf-1", 1, (Member(name="n2"),)),
        HyperNode("spine", 2, (Member("HyperNode", pattern="leaf-.*"),)),
        HyperNode("top", 3, (Member("HyperNode", name="spine"), Member(name="n5"))),
    )


def test_a_cycle_adds_nothing() -> None:
    assert {"a": ["n0", "n1"], "b": ["n0", "n1"], "self": ["n2"]} == rows(
        HyperNode("a", 1, (Member(name="n0"), Member("HyperNode", name="b"))),
        HyperNode("b", 2, (Member(name="n1"), Member("HyperNode", name="a"))),
        HyperNode("self", 1, (Member(name="n2"), Member("HyperNode", pattern=".*elf"))),
    )


def test_pools_by_the_first_label_that_a_node_has() -> None:
    table = NodeTable(
        [
            node("a", labels={"nvidia.com/gpu.product": "A100", "vodascheduler/accelerator": "x"}),
            node("b", labels={"maar.dev/accelerator": "h100", "nvidia.com/gpu.product": "A100"}),
            node("c", labels={"nvidia.com/gpu.product": "A100"}),
            node("d"),
        ],
        Axes([]),
    )
    h100 = Pool("h100", "maar.dev/accelerator", "h100")
    a100 = Pool("A100", "nvidia.com/gpu.product", "A100")
    assert [h100, a100] == pools(table)
    assert [False, True, False, False] == h100.rows(table).tolist()
    assert [True] * 4 == Pool("all").rows(table).tolist()
