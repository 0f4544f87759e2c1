"""What should belong to another shard: safety and liveness of the moves, and each reason by itself."""

import itertools
import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.shards.test_slots import fewest_moves

from maar.model.nodes import NodeTable
from maar.model.queues import Queue, QueueTree
from maar.model.resources import Axes
from maar.model.topology import HyperNode, Member
from maar.shards.map import ShardMap, problems
from maar.shards.proposals import (
    MOST_IN_RACKS,
    NOTHING,
    Move,
    NodeMove,
    ProposalReason,
    QueueMove,
    kept_racks,
    proposals,
    rack_homes,
    racks_of,
)
from maar.shards.slots import SLOTS, slot_of
from maar.testing.builders import node

NODES = [f"node-{number}" for number in range(30)]
RACKS = [f"rack-{number}" for number in range(6)]
QUEUES = [f"queue-{number}" for number in range(10)]
NO_QUEUES = QueueTree([])


@st.composite
def trees(draw: st.DrawFn) -> QueueTree:
    """Queues, some below others, some pinned (also to shards that do not exist), some with a missing parent."""
    made: list[Queue] = []
    for name in draw(st.lists(st.sampled_from(QUEUES), unique=True)):
        parent = draw(st.sampled_from(["", "", *(queue.name for queue in made), "queue-9"]))
        made.append(Queue(name, parent=parent, pin=draw(st.sampled_from(["", "", "", "0", "1", "7", "two"]))))
    return QueueTree(made)


@st.composite
def held_maps(draw: st.DrawFn) -> ShardMap:
    """A map in the middle of anything: nodes lent, queues let go, slots moved; all shards have holders."""
    made = ShardMap.new(draw(st.integers(1, 4))).resized(4)
    for shard in range(5):
        made = made.resized(max(made.shards, shard + 1)).raised(shard, 1, f"process-{shard}")
    shards = st.integers(0, 4)
    for name, to in draw(st.lists(st.tuples(st.sampled_from([*NODES, "gone-1", "gone-2"]), shards), max_size=15)):
        made = made.lent(name, to)
    for name, to in draw(st.lists(st.tuples(st.sampled_from([*QUEUES, "gone"]), shards), max_size=8)):
        made = made.let_go(name, to)
    dice = random.Random(draw(st.integers(0, 1000)))
    for _ in range(draw(st.integers(0, 40))):
        made = made.moved(dice.randrange(SLOTS), dice.randint(0, 4))
    return made.resized(draw(st.integers(1, 5)))


racks_of_nodes = st.dictionaries(st.sampled_from(NODES), st.sampled_from(["", *RACKS]))


def moved_by(shard_map: ShardMap, moves: list[Move], seen: dict[str, list[int]]) -> ShardMap:
    """The map after the moves; the owners that each name had one after the other are noted."""
    for move in moves:
        shard_map = move.applied(shard_map)
        for name in NODES:
            _note(seen, f"node {name}", shard_map.owner_of(name))
        for name in QUEUES:
            _note(seen, f"queue {name}", shard_map.shard_of(name))
    return shard_map


def _note(seen: dict[str, list[int]], what: str, owner: int) -> None:
    owners = seen.setdefault(what, [owner])
    if owners[-1] != owner:
        owners.append(owner)


@settings(max_examples=60)
@given(held_maps(), racks_of_nodes, trees())
def test_liveness_all_moves_together_leave_nothing_to_propose(
    before: ShardMap, racks: dict[str, str], tree: QueueTree
) -> None:
    proposed = proposals(before, racks, tree)
    after = moved_by(before, list(proposed.moves), {})
    assert () == proposals(after, racks, tree).moves
    assert [] == problems(after)
    assert fewest_moves(before.slots, before.shards) == len(proposed.slots)
    # A shard that is not wanted any more owns nothing.
    assert all(shard < before.shards for shard in after.members())


@settings(max_examples=60)
@given(held_maps(), racks_of_nodes, trees(), st.integers(0, 1000))
def test_safety_in_any_order_each_name_moves_once_and_the_end_is_the_same(
    before: ShardMap, racks: dict[str, str], tree: QueueTree, seed: int
) -> None:
    proposed = proposals(before, racks, tree)
    straight = moved_by(before, list(proposed.moves), {})
    seen = {f"node {name}": [before.owner_of(name)] for name in NODES}
    seen |= {f"queue {name}": [before.shard_of(name)] for name in QUEUES}
    now, rest, dice = before, list(proposed.moves), random.Random(seed)
    while rest:
        dice.shuffle(rest)
        some = rest[: dice.randint(1, len(rest))]
        now = moved_by(now, some, seen)
        rest = list(proposals(now, racks, tree).moves)
    assert straight == now
    twice = {what: owners for what, owners in seen.items() if len(owners) > 2}
    existing = {*(f"node {name}" for name in racks), *(f"queue {queue.name}" for queue in tree.queues)}
    assert set() == existing & twice.keys()


@settings(max_examples=30)
@given(held_maps(), racks_of_nodes, trees())
def test_safety_the_order_of_the_input_does_not_matter(
    before: ShardMap, racks: dict[str, str], tree: QueueTree
) -> None:
    turned = dict(reversed(racks.items()))
    assert proposals(before, racks, tree) == proposals(before, turned, QueueTree(reversed(tree.queues)))


@settings(max_examples=30)
@given(held_maps(), racks_of_nodes, trees())
def test_safety_owners_named_in_moves_are_the_present_ones(
    before: ShardMap, racks: dict[str, str], tree: QueueTree
) -> None:
    proposed = proposals(before, racks, tree)
    assert all(before.slots[move.slot] == move.owner != move.to for move in proposed.slots)
    assert all(before.owner_of(move.node) == move.owner != move.to for move in proposed.nodes)
    assert all(before.shard_of(queue) == move.owner != move.to for move in proposed.queues for queue in move.queues)
    along = [name for move in proposed.slots for name in move.nodes]
    alone = [move.node for move in proposed.nodes]
    assert len({*along, *alone}) == len(along) + len(alone)


def moved_by_all(shard_map: ShardMap, racks: dict[str, str]) -> ShardMap:
    """The map after all proposed moves of nodes, in one step."""
    moves = proposals(shard_map, racks, NO_QUEUES).nodes
    return msgspec.structs.replace(shard_map, nodes={move.node: move.to for move in moves})


def two_shards() -> ShardMap:
    return ShardMap.new(2).raised(0, 1, "a").raised(1, 1, "b")


def name_in(shard_map: ShardMap, shard: int, stem: str, skip: int = 0) -> str:
    """A name whose slot belongs to a shard."""
    found = (f"{stem}-{n}" for n in itertools.count() if shard_map.slots[slot_of(f"{stem}-{n}")] == shard)
    return next(itertools.islice(found, skip, None))


def test_with_one_shard_nothing_is_proposed() -> None:
    made = ShardMap.new(1).raised(0, 1, "a")
    assert NOTHING is proposals(made, dict.fromkeys(NODES, "rack"), QueueTree([Queue("team", pin="0")]))


def test_a_lent_node_goes_back() -> None:
    made = two_shards()
    name = name_in(made, 0, "n")
    assert (NodeMove(name, 1, 0, ProposalReason.SLOT),) == proposals(made.lent(name, 1), {name: ""}, NO_QUEUES).nodes


def test_the_entry_of_a_deleted_node_goes_back_too() -> None:
    made = two_shards()
    name = name_in(made, 0, "n")
    assert (NodeMove(name, 1, 0, ProposalReason.GONE),) == proposals(made.lent(name, 1), {}, NO_QUEUES).nodes


def test_a_rack_is_kept_in_the_shard_of_its_own_slot() -> None:
    made = two_shards()
    racks = [name_in(made, 0, "rack"), name_in(made, 1, "rack")]
    nodes = {f"node-{number}": racks[number % 2] for number in range(20)}
    proposed = proposals(made, nodes, NO_QUEUES)
    assert {ProposalReason.RACK} == {move.why for move in proposed.nodes}
    after = moved_by(made, list(proposed.moves), {})
    assert {name: racks.index(rack) for name, rack in nodes.items()} == {name: after.owner_of(name) for name in nodes}


def test_fewer_racks_than_shards_are_torn_apart() -> None:
    """Otherwise some shard would own no node at all."""
    made = two_shards()
    assert () == proposals(made, dict.fromkeys(NODES, "the-only-rack"), NO_QUEUES).moves


def test_a_large_cluster_keeps_as_many_racks_as_the_map_has_room_for() -> None:
    racks = {f"node-{number}": f"rack-{number // 40}" for number in range(30_000)}
    kept = kept_racks(racks, 4)
    assert MOST_IN_RACKS // 40 == len(kept)
    made = two_shards()
    after = moved_by_all(made, racks)
    assert not after.full
    bigger = {**racks, "one-more": min(kept, key=lambda rack: (kept[rack], rack))}
    assert 1 == len(kept.keys() ^ kept_racks(bigger, 4).keys())


def test_a_pinned_queue_moves_with_the_queues_below_it() -> None:
    made = two_shards()
    top = name_in(made, 0, "team")
    made = made.let_go("below", 0)
    tree = QueueTree([Queue(top, pin="1"), Queue("below", parent=top)])
    assert (QueueMove(top, ("below", top), 0, 1, ProposalReason.PIN),) == proposals(made, {}, tree).queues
    assert {"below", top} == proposals(made, {}, tree).leaving_queues()


def test_a_new_parent_proposes_its_shard() -> None:
    made = two_shards()
    top, other = name_in(made, 0, "team"), name_in(made, 1, "team")
    made = made.let_go("below", 0)
    proposed = proposals(made, {}, QueueTree([Queue(top), Queue(other), Queue("below", parent=other)]))
    assert (QueueMove(other, ("below",), 0, 1, ProposalReason.PARENT),) == proposed.queues


def test_a_queue_whose_parent_is_missing_stays() -> None:
    made = two_shards()
    lost = name_in(made, 1, "lost")
    made = made.let_go(lost, 0)
    assert () == proposals(made, {}, QueueTree([Queue(lost, parent="team")])).queues


def test_the_entry_of_a_deleted_queue_goes_back() -> None:
    made = two_shards()
    name = name_in(made, 1, "team")
    assert (QueueMove(name, (name,), 0, 1, ProposalReason.GONE),) == proposals(
        made.let_go(name, 0), {}, NO_QUEUES
    ).queues


@pytest.mark.parametrize(
    ("pin", "expected"),
    [
        ("2", "shard 2 does not exist: shards are 0 to 1"),
        ("-1", "expected the number of a shard, got `-1`"),
        ("one", "expected the number of a shard, got `one`"),
        ("²", "expected the number of a shard, got `²`"),
        ("1" * 1000, "expected the number of a shard, got `" + "1" * 20 + "`"),
    ],
)
def test_a_wrong_pin_is_named_and_stops_nothing(pin: str, expected: str) -> None:
    made = two_shards()
    team, good = name_in(made, 0, "team"), name_in(made, 0, "good")
    proposed = proposals(made, {}, QueueTree([Queue(team, pin=pin), Queue(good, pin="1")]))
    assert {team: expected} == proposed.problems
    assert [good] == [move.top for move in proposed.queues]


def test_a_pin_below_the_top_is_named() -> None:
    made = two_shards()
    tree = QueueTree([Queue("team"), Queue("below", parent="team", pin="1")])
    assert {"below": "only a top-level queue can be pinned to a shard"} == proposals(made, {}, tree).problems


def test_a_shard_without_a_holder_gets_nothing() -> None:
    made = two_shards().resized(3)
    racks = dict.fromkeys(NODES, "")
    assert () == proposals(made, racks, QueueTree([Queue("team", pin="2")])).moves
    with_holder = proposals(made.raised(2, 1, "c"), racks, QueueTree([Queue("team", pin="2")]))
    assert SLOTS // 3 == len(with_holder.slots)
    assert {2} == {move.to for move in with_holder.moves}
    in_racks = {name: RACKS[number % 6] for number, name in enumerate(NODES)}
    assert {0, 1} == set(rack_homes(made, in_racks).values())
    assert {0, 1, 2} == set(rack_homes(made.raised(2, 1, "c"), in_racks).values())


def test_racks_come_from_a_label_or_from_the_closest_hypernodes() -> None:
    labels = [{"rack": "r1", "row": "a"}, {"rack": "r2", "row": "a"}, {"row": "b"}]
    table = NodeTable([node(f"n{i}", labels=found) for i, found in enumerate(labels)], Axes([]))
    assert {"n0": "r1", "n1": "r2", "n2": ""} == racks_of(table, (), "rack")
    domains = [
        HyperNode("row-a", 2, (Member("HyperNode", pattern="rack-.*"),)),
        HyperNode("rack-1", 1, (Member("Node", name="n0"),)),
        HyperNode("rack-2", 1, (Member("Node", name="n1"), Member("Node", name="n0"))),
    ]
    assert {"n0": "rack-1", "n1": "rack-2", "n2": ""} == racks_of(table, domains)
    assert {"n0": "", "n1": "", "n2": ""} == racks_of(table, ())
