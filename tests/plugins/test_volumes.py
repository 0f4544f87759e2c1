"""predicates: volumes of which a node takes a limited number."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from maar.actions import allocate
from maar.config.config import ActionOption, Config, NoArguments, PluginOption, Registration
from maar.decide import decide
from maar.model.plan import Plan
from maar.model.reasons import in_one_line
from maar.model.selectors import NodeTerm, Requirement
from maar.model.snapshot import Snapshot
from maar.model.tasks import Status
from maar.model.volumes import LIMIT, VolumeNeed, VolumeRoom
from maar.plugins import gang as gang_plugin
from maar.plugins import predicates
from maar.plugins.support.volumes import reach_words
from maar.testing.builders import Part, cluster, gang, node

DISK = VolumeNeed("disk", "disk", 1)
TWO: dict[str, Any] = {"constraints": {"volume_needs": (msgspec.structs.replace(DISK, count=2),)}}
ONE: dict[str, Any] = {"constraints": {"volume_needs": (DISK,)}}


def config(**switches: bool) -> Config:
    arguments = msgspec.structs.replace(predicates.Arguments(), **switches)
    plugins = (
        PluginOption(Registration(gang_plugin.NAME, gang_plugin.Gang), gang_plugin.Arguments()),
        PluginOption(Registration(predicates.NAME, predicates.Predicates), arguments),
    )
    return Config((ActionOption(Registration(allocate.NAME, allocate.Allocate), NoArguments()),), (plugins,))


def plan(*parts: Part, room: dict[str, Any], **switches: bool) -> Plan:
    it = VolumeRoom("disk", room.pop("code", LIMIT), "at their limit of disk", **room)
    return decide(Snapshot(cluster(*parts, rooms=(it,))), config(**switches), 0.0)


def on(made: Plan) -> dict[str, int]:
    return dict(sorted(Counter(bind.node for bind in made.bind).items()))


def test_each_node_takes_as_many_as_its_limit_and_others_take_any_number() -> None:
    nodes = [node("a"), node("b"), node("free")]
    room = {"nodes": {"a": 2, "b": 0}}
    assert {"a": 2} == on(plan(*nodes[:2], gang("g", 2, **ONE), room=dict(room)))
    assert {"free": 3} == on(plan(*nodes[1:], gang("g", 3, **ONE), room=dict(room)))
    assert {"a": 1} == on(plan(nodes[0], gang("g", 1, **TWO), room=dict(room)))


def test_a_gang_finds_room_for_all_its_volumes_or_does_not_start() -> None:
    nodes = [node("a"), node("b")]
    room = {"nodes": {"a": 2, "b": 1}}
    made = plan(*nodes, gang("g", 4, **ONE), room=dict(room))
    assert {} == on(made)
    (reason,) = made.waiting[0].reasons
    expected = "needs 4 pods together, there is room for 3: 0/2 nodes fit: 2 at their limit of disk"
    assert expected == reason.message
    never = "never on today's nodes: needs 4 pods together, all nodes hold 3 if nothing else runs"
    assert f"{never}: add nodes, or lower its minimum" == in_one_line(made.waiting[0].reasons)
    assert {"a": 2, "b": 1} == on(plan(*nodes, gang("g", 3, **ONE), room=dict(room)))


def test_volumes_of_pods_that_are_there_count() -> None:
    there = gang("there", 1, on=["a"], **TWO)
    assert {"a": 1} == on(plan(node("a"), there, gang("g", 2, minimum=1, **ONE), room={"nodes": {"a": 3}}))
    assert {} == on(plan(node("a"), there, gang("g", 1, **TWO), room={"nodes": {"a": 3}}))
    leaving = gang("there", 1, on=["a"], task={"status": Status.RELEASING}, **TWO)
    made = plan(node("a"), leaving, gang("g", 1, **TWO), room={"nodes": {"a": 3}})
    assert ({}, ["a"]) == (on(made), [n.node for n in made.nominate]), "releasing room is promised"


def sharing(*names: str, count: int = 0) -> dict[str, Any]:
    return {"constraints": {"volume_needs": (VolumeNeed("disk", "disk", count, names),)}}


def test_a_shared_volume_counts_once_on_each_node() -> None:
    nodes, room = [node("a", cpu=2), node("b", cpu=2)], {"nodes": {"a": 1, "b": 1}}
    assert {"a": 2, "b": 2} == on(plan(*nodes, gang("g", 4, **sharing("x")), room=dict(room)))
    assert {} == on(plan(*nodes, gang("g", 1, **sharing("x", "y")), room=dict(room)))
    there = gang("there", 1, on=["a"], **sharing("x"))
    assert {"b": 2} == on(plan(*nodes, there, gang("g", 3, minimum=1, **sharing("y")), room=dict(room)))
    assert {"a": 1, "b": 2} == on(plan(*nodes, there, gang("g", 3, **sharing("x")), room=dict(room)))


def test_a_shared_volume_that_is_there_fits_even_beyond_the_limit() -> None:
    there = gang("there", 1, on=["a"], **sharing("x"))
    assert {"a": 1} == on(plan(node("a"), there, gang("g", 1, **sharing("x")), room={"nodes": {"a": 0}}))
    assert {} == on(plan(node("a"), there, gang("g", 1, **sharing("x", count=1)), room={"nodes": {"a": 1}}))


def test_own_and_shared_volumes_add_up() -> None:
    there = gang("there", 1, on=["a"], **sharing("x", count=1))
    few = gang("g", 5, minimum=1, **sharing("x", "y", count=1))
    assert {"a": 2} == on(plan(node("a"), there, few, room={"nodes": {"a": 5}})), "x, y, one of `there`, and two"


def test_limits_can_be_switched_off_and_free_volumes_cannot() -> None:
    parts = (node("a"), gang("g", 1, **ONE))
    assert {"a": 1} == on(plan(*parts, room={"nodes": {"a": 0}}, volume_limits=False))
    free = {"nodes": {}, "others": 0, "total": 0, "code": "NoFreeVolume"}
    assert {} == on(plan(*parts, room=free, volume_limits=False))


@pytest.mark.parametrize(("total", "placed"), [(1, 1), (2, 2), (3, 3), (9, 4)])
def test_what_all_nodes_share_is_counted_once(total: int, placed: int) -> None:
    parts = (node("a"), node("b"), gang("g", 6, minimum=1, **ONE))
    made = plan(*parts, room={"nodes": {"a": 2, "b": 2}, "others": 0, "total": total, "code": "NoFreeVolume"})
    assert placed == len(made.bind)


def test_kinds_of_one_pool_share_its_volumes() -> None:
    """One volume would be enough for either pod; the first takes it."""
    large, small = (VolumeNeed(name, "class local", 1) for name in ("large", "small"))
    rooms = tuple(VolumeRoom(n.room, "NoFreeVolume", "have none", {"a": 1}, others=0, total=1) for n in (large, small))
    gangs = (gang("a", 1, constraints={"volume_needs": (large,)}), gang("b", 1, constraints={"volume_needs": (small,)}))
    made = decide(Snapshot(cluster(node("a"), *gangs, rooms=rooms)), config(), 0.0)
    assert ["ns/a-0"] == [bind.task for bind in made.bind]


@pytest.mark.parametrize(
    ("expressions", "fields", "words"),
    [
        ([("zone", "In", ("a", "b"))], [], "cannot reach its volume at `a`, `b`"),
        ([("zone", "In", ("a",)), ("arch", "In", ("arm",))], [], "cannot reach its volume"),
        ([("zone", "Exists", ())], [], "cannot reach its volume"),
        ([], [("metadata.name", "In", ("n",))], "are not `n`, where its volume is being created"),
        ([], [("metadata.name", "NotIn", ("n",))], "recently failed to provide its volume"),
        ([("zone", "NotIn", ("a",))], [], "cannot reach its volume"),
    ],
)
def test_words(expressions: list[Any], fields: list[Any], words: str) -> None:
    parts = [tuple(Requirement(*r) for r in rs) for rs in (expressions, fields)]
    assert words == reach_words((NodeTerm(*parts),))
