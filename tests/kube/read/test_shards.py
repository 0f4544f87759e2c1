"""The ShardMap between its object and the map: nothing is lost, and what is wrong is named."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from tests.shards.test_map import maps

from maar.kube.read.shards import MOST_BYTES, BrokenMap, shard_map, shard_name, shard_number, spec_of
from maar.kube.wire.decoding import decode
from maar.kube.wire.shards import ShardMap as WireMap
from maar.shards.map import ShardMap


def read(**changes: Any) -> ShardMap:
    spec = msgspec.to_builtins(spec_of(ShardMap.new(2))) | changes
    return shard_map(decode({"metadata": {"name": "maar"}, "spec": spec}, WireMap))


@settings(max_examples=40)
@given(maps())
def test_a_map_comes_back_as_it_was_written(made: ShardMap) -> None:
    made = made.raised(0, 3, "maar-0").resized(5)
    body = msgspec.json.encode({"metadata": {"name": "maar"}, "spec": spec_of(made)})
    assert made == shard_map(msgspec.json.decode(body, type=WireMap))


def test_entries_that_say_what_the_slot_says_are_dropped() -> None:
    home = ShardMap.new(2).owner_of("node-1")
    assert {} == read(nodes={"node-1": home}).nodes
    assert {"node-1": 1 - home} == read(nodes={"node-1": 1 - home}).nodes
    assert {} == read(queues={"node-1": home}).queues


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"shards": 65}, "spec.shards: expected 1 to 64, got 65"),
        ({"slots": [0]}, "spec.slots: expected 256, got 1"),
        ({"nodes": {"n": 2}}, "spec.nodes[n]: shard 2 is not in the ShardMap"),
        ({"epochs": {"one": 1}}, "spec.epochs: expected the number of a shard, got `one`"),
        ({"epochs": {"01": 1}}, "spec.epochs: expected the number of a shard, got `01`"),
        ({"holders": {"9" * 5000: "a"}}, "spec.holders: expected the number of a shard, got `99999999999999999999`"),
        ({"holders": {"70": "a"}}, "spec.epochs and holders: shard 70 does not exist"),
    ],
)
def test_a_broken_map_is_named(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(BrokenMap) as told:
        read(**changes)
    assert f"ShardMap `maar`: {expected}" == str(told.value)


def test_a_map_that_is_wrong_or_too_large_is_not_written() -> None:
    made = ShardMap.new(2)
    with pytest.raises(BrokenMap, match="shard 7 is not in the ShardMap"):
        spec_of(msgspec.structs.replace(made, nodes={"n": 7}))
    long = {f"{number:0>250}": 1 for number in range(MOST_BYTES // 250)}
    with pytest.raises(BrokenMap, match="too many nodes are lent"):
        spec_of(msgspec.structs.replace(made, nodes=long))


def test_names_of_shards() -> None:
    assert [0, 63] == [shard_number(shard_name(shard)) for shard in (0, 63)]
    assert [None] * 5 == [shard_number(name) for name in ("0", "shard-", "shard-01", "shard-²", "shard-999")]
