"""The ShardMap: owners by slot and by entry, its transitions, and what is wrong with a map."""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maar.shards.map import MOST_ENTRIES, ShardMap, problems
from maar.shards.slots import SLOTS, slot_of

NAMES = [f"node-{number}" for number in range(40)]
names = st.sampled_from(NAMES)
shards = st.integers(0, 3)


@st.composite
def maps(draw: st.DrawFn) -> ShardMap:
    """Maps of up to four shards, with nodes lent, queues let go and slots moved."""
    made = ShardMap.new(4)
    for node, to in draw(st.lists(st.tuples(names, shards), max_size=12)):
        made = made.lent(node, to)
    for queue, to in draw(st.lists(st.tuples(names, shards), max_size=12)):
        made = made.let_go(queue, to)
    for slot, to in draw(st.lists(st.tuples(st.integers(0, SLOTS - 1), shards), max_size=12)):
        made = made.moved(slot, to)
    return made.resized(draw(st.integers(1, 6)))


def owners(shard_map: ShardMap) -> dict[str, int]:
    return {name: shard_map.owner_of(name) for name in NAMES}


def routes(shard_map: ShardMap) -> dict[str, int]:
    return {name: shard_map.shard_of(name) for name in NAMES}


def needless(shard_map: ShardMap) -> list[str]:
    """Entries that say what the slot says."""
    entries = [*shard_map.nodes.items(), *shard_map.queues.items()]
    return [name for name, shard in entries if shard == shard_map.slots[slot_of(name)]]


@given(maps(), names, shards)
def test_safety_lending_changes_one_owner(before: ShardMap, node: str, to: int) -> None:
    to = to % before.shards
    after = before.lent(node, to)
    assert {**owners(before), node: to} == owners(after)
    assert routes(before) == routes(after)
    assert [] == needless(after)
    assert (before.slots, before.epochs) == (after.slots, after.epochs)


@given(maps(), names, shards)
def test_safety_letting_go_changes_one_route(before: ShardMap, queue: str, to: int) -> None:
    to = to % before.shards
    after = before.let_go(queue, to)
    assert {**routes(before), queue: to} == routes(after)
    assert owners(before) == owners(after)
    assert [] == needless(after)


@given(maps(), names, shards, st.sets(names), st.sets(names))
def test_safety_a_slot_moves_without_what_has_an_entry_or_stays(
    before: ShardMap, name: str, to: int, nodes: set[str], queues: set[str]
) -> None:
    slot, to = slot_of(name), to % before.shards
    after = before.moved(slot, to, nodes, queues)
    come = {n for n in NAMES if slot_of(n) == slot}
    assert {n: to if n in come - nodes - {*before.nodes} else before.owner_of(n) for n in NAMES} == owners(after)
    assert {q: to if q in come - queues - {*before.queues} else before.shard_of(q) for q in NAMES} == routes(after)
    assert [] == needless(after)


@given(maps(), st.integers(1, 8))
def test_safety_another_number_of_shards_moves_nothing(before: ShardMap, number: int) -> None:
    after = before.resized(number)
    assert number == after.shards
    assert (owners(before), routes(before), before.slots) == (owners(after), routes(after), after.slots)
    assert [] == problems(after)


@given(maps())
def test_what_the_transitions_make_has_no_problems(made: ShardMap) -> None:
    assert [] == problems(made)


def test_an_entry_goes_by_name_and_disappears_when_the_node_is_given_back() -> None:
    made = ShardMap.new(2)
    home = made.owner_of("node-1")
    lent = made.lent("node-1", 1 - home)
    assert {"node-1": 1 - home} == lent.nodes
    assert made == lent.lent("node-1", home)


def test_a_shard_that_is_no_longer_wanted_needs_a_holder_until_it_owns_nothing() -> None:
    made = ShardMap.new(2).raised(0, 1, "a").raised(1, 1, "b").resized(1)
    assert [0, 1] == made.members()
    for slot in [slot for slot, shard in enumerate(made.slots) if shard == 1]:
        assert 1 in made.members()
        made = made.moved(slot, 0)
    assert [0] == made.members()
    assert {0: 1, 1: 1} == made.epochs  # a later holder must raise it
    lent = made.lent("node-1", 1)
    assert [0, 1] == lent.members()


def test_nothing_is_given_to_a_shard_that_does_not_exist() -> None:
    made = ShardMap.new(2)
    gives: list[Callable[[], ShardMap]] = [
        lambda: made.lent("node-1", 2),
        lambda: made.let_go("team", 2),
        lambda: made.moved(0, -1),
        lambda: made.raised(2, 1, "a"),
    ]
    for give in gives:
        with pytest.raises(ValueError, match="is not in the ShardMap"):
            give()


def test_an_epoch_only_rises_and_has_one_holder() -> None:
    made = ShardMap.new(2).raised(1, 3, "a")
    assert ({1: 3}, {1: "a"}) == (made.epochs, made.holders)
    assert made == made.raised(1, 3, "a")
    assert ({1: 4}, {1: "b"}) == (made.raised(1, 4, "b").epochs, made.raised(1, 4, "b").holders)
    with pytest.raises(ValueError, match="already has epoch 3: 2 is lower"):
        made.raised(1, 2, "b")
    with pytest.raises(ValueError, match="already has epoch 3, of `a`"):
        made.raised(1, 3, "b")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"shards": 0}, "shards: expected 1 to 64, got 0"),
        ({"shards": 65}, "shards: expected 1 to 64, got 65"),
        ({"slots": (0,) * 3}, "slots: expected 256, got 3"),
        ({"slots": (0,) * 255 + (9,)}, "slots[255]: shard 9 is not in the ShardMap"),
        ({"nodes": {"node-1": 2}}, "nodes[node-1]: shard 2 is not in the ShardMap"),
        ({"queues": {"team": -1}}, "queues[team]: shard -1 is not in the ShardMap"),
        ({"epochs": {64: 1}}, "epochs and holders: shard 64 does not exist"),
        ({"holders": {-1: "a"}}, "epochs and holders: shard -1 does not exist"),
        ({"epochs": {1: -1}}, "epochs: shard 1 has epoch -1"),
        (
            {"nodes": {f"n{number}": 1 for number in range(MOST_ENTRIES + 1)}},
            "nodes and queues: at most 20000 entries, got 20001",
        ),
    ],
)
def test_problems_are_named(changes: dict[str, object], expected: str) -> None:
    assert [expected] == problems(msgspec.structs.replace(ShardMap.new(2), **changes))


def test_many_problems_are_counted() -> None:
    found = problems(msgspec.structs.replace(ShardMap.new(2), nodes={f"n{number}": 9 for number in range(8)}))
    assert 6 == len(found)
    assert "and 3 more" == found[-1]
