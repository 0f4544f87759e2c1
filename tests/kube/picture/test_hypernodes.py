"""HyperNodes: members by name, by pattern and by label."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from maar.kube.kinds.cluster import HYPERNODES
from maar.kube.picture.picture import Picture
from maar.kube.wire.cluster import HyperNode as WireHyperNode
from maar.model.selectors import Requirement, Selector
from maar.model.snapshot import Cluster, Snapshot
from maar.model.topology import HyperNode, Member, hypernode_rows

Load = Callable[..., Cluster]

RACK = """
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {name: rack}
spec:
  tier: 1
  tierName: rack
  members:
  - {type: Node, selector: {exactMatch: {name: n1}}}
  - {type: Node, selector: {labelMatch: {matchLabels: {rack: a}}}}
  - {type: Node, selector: {regexMatch: {pattern: "gpu-[01]"}}}
"""


def test_members(load: Load) -> None:
    (found,) = load(RACK).hypernodes
    assert (
        HyperNode(
            "rack",
            1,
            (
                Member("Node", name="n1"),
                Member("Node", labels=Selector((Requirement("rack", "In", ("a",)),))),
                Member("Node", pattern=".*(?:gpu-[01]).*"),
            ),
            "rack",
        )
        == found
    )


def test_a_pattern_is_looked_for_anywhere_in_the_name_as_volcano_does(load: Load) -> None:
    nodes = "".join(
        f"\n---\n{{apiVersion: v1, kind: Node, metadata: {{name: {name}}}}}"
        for name in ("gpu-0", "gpu-10", "gpu-2", "n1", "my-gpu-1.local")
    )
    snapshot = Snapshot(load(RACK + nodes))
    rows = hypernode_rows(snapshot.hypernodes, snapshot.nodes)["rack"]
    assert ["gpu-0", "gpu-10", "my-gpu-1.local", "n1"] == [
        name for name, inside in zip(snapshot.nodes.names, rows, strict=True) if inside
    ]


@pytest.mark.parametrize("pattern", ["(", r"gpu-\d+\z"], ids=["nonsense", "only-in-go"])
def test_live_a_pattern_that_is_none_stops_nothing_and_is_said_once(
    pattern: str, caplog: pytest.LogCaptureFixture
) -> None:
    members = [
        {"type": "Node", "selector": {"regexMatch": {"pattern": pattern}}},
        {"type": "Node", "selector": {"exactMatch": {"name": "n1"}}},
    ]
    document: dict[str, Any] = {"metadata": {"name": f"rack-{len(pattern)}"}, "spec": {"tier": 1, "members": members}}
    picture = Picture()
    for version in ("1", "2"):
        document["spec"]["tierName"] = version
        picture.put(HYPERNODES, msgspec.convert(document, WireHyperNode))
        (found,) = picture.take(0.0).around.hypernodes
        assert (Member("Node"), Member("Node", name="n1")) == found.members
    assert 1 == caplog.text.count(f"not a regular expression: `{pattern}`")
