"""ShardMap and Shard between their objects and what they mean: nothing is lost, and what is wrong is named."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from tests.shards.test_map import maps

from maar.kube.read.shards import (
    MOST_BYTES,
    MOST_WANTS,
    BrokenMap,
    shard_map,
    shard_name,
    shard_number,
    spec_of,
    wants_of,
    wire_wants,
)
from maar.kube.wire.decoding import decode
from maar.kube.wire.shards import Shard, ShardSpec
from maar.kube.wire.shards import ShardMap as WireMap
from maar.model.plan import Cause, Evict
from maar.shards.map import ShardMap
from maar.shards.wants import Want


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


def stored(wants: list[Want]) -> tuple[Want, ...]:
    """The wants of shard 1 after they were written and read."""
    body = msgspec.json.encode({"metadata": {"name": shard_name(1)}, "spec": ShardSpec(wire_wants(wants))})
    return wants_of(msgspec.json.decode(body, type=Shard))


def test_wants_come_back_as_they_were_written() -> None:
    victim = Evict("ns/low-0", "ns/high", "priority", Cause.PREEMPTED, grace=30)
    asks = Want(1, "ns/high", "u1", 7, 1700000000.0, ("n1", "n2"), 1700000130.5, True, (victim,))
    elected = Want(1, "ns/large", "u2", 0, 1700000001.0, ("n3",), 1700000220.0, elected=1700000100.25)
    assert (elected, asks) == stored([asks, elected])
    assert (asks,) == stored([asks])


def test_of_too_many_wants_the_first_in_the_order_are_written_and_that_of_the_elected_job() -> None:
    wants = [Want(1, f"ns/{i:03}", f"u{i}", 0, 1700000000.0 + i, (), 1700000300.0) for i in range(MOST_WANTS + 1)]
    last = msgspec.structs.replace(wants[-1], elected=1700000299.0)
    written = stored([*wants[:-1], last])
    assert (last, *wants[: MOST_WANTS - 1]) == written
