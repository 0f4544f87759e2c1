"""What a process may use: by its shards, the map that it knows, and the lists of pods since."""

from __future__ import annotations

from maar.controller.shards.holding import Fresh, Holding, gained
from maar.kube.write.shards import StoredMap
from maar.shards.map import ShardMap
from maar.shards.proposals import ProposalReason, QueueMove, SlotMove
from maar.shards.slots import slot_of

MAP = ShardMap.new(2).raised(0, 1, "a").raised(1, 1, "b")
NAMES = [f"n{i}" for i in range(50)]
QUEUES = [f"q{i}" for i in range(20)]
OWN = [name for name in NAMES if MAP.owner_of(name) == 0]
FOREIGN = [name for name in NAMES if MAP.owner_of(name) == 1]


def stored(made: ShardMap, version: int) -> StoredMap:
    return StoredMap(made, {"metadata": {"resourceVersion": str(version)}})


def holder() -> Holding:
    holding = Holding()
    holding.see(stored(MAP, 1))
    holding.begin(0, 1, MAP)
    return holding


def test_it_uses_what_the_map_gave_it_before_pods_were_listed() -> None:
    holding = holder()
    assert set(OWN) == holding.uses(NAMES)
    assert {queue for queue in QUEUES if MAP.shard_of(queue) == 0} == holding.decides_for(QUEUES)
    assert not holding.fresh


def test_a_node_that_it_got_is_used_after_a_list() -> None:
    holding, borrowed = holder(), FOREIGN[0]
    assert holding.see(stored(MAP.lent(borrowed, 0), 2))
    assert borrowed not in holding.uses(NAMES)
    fresh = holding.fresh
    assert Fresh(nodes=frozenset({borrowed})) == fresh
    # Another node comes while pods are listed: that list may be too old for it.
    holding.see(stored(MAP.lent(borrowed, 0).lent(FOREIGN[1], 0), 3))
    holding.listed(fresh)
    assert {*OWN, borrowed} == holding.uses(NAMES)
    assert Fresh(nodes=frozenset({FOREIGN[1]})) == holding.fresh


def test_what_the_map_gave_it_during_a_take_over_waits_for_a_list() -> None:
    holding = Holding()
    holding.see(stored(MAP.lent(FOREIGN[0], 0), 2))
    holding.begin(0, 1, MAP)  # its pods were listed after this version, which is older
    assert set(OWN) == holding.uses(NAMES)
    assert Fresh(nodes=frozenset({FOREIGN[0]})) == holding.fresh


def test_a_slot_comes_with_all_its_names_also_of_nodes_that_do_not_exist_yet() -> None:
    holding, slot = holder(), slot_of(FOREIGN[0])
    holding.see(stored(MAP.moved(slot, 0), 2))
    new = next(f"new{i}" for i in range(10_000) if slot_of(f"new{i}") == slot)
    assert not {FOREIGN[0], new} & holding.uses([*NAMES, new])
    holding.listed(holding.fresh)
    assert {FOREIGN[0], new} <= holding.uses([*NAMES, new])


def test_a_queue_is_decided_for_after_a_list() -> None:
    holding = holder()
    queue = next(queue for queue in QUEUES if MAP.shard_of(queue) == 1)
    holding.see(stored(MAP.let_go(queue, 0), 2))
    assert queue not in holding.decides_for(QUEUES)
    holding.listed(holding.fresh)
    assert queue in holding.decides_for(QUEUES)


def test_a_node_that_leaves_is_not_used_until_it_came_back_and_pods_were_listed() -> None:
    holding, node = holder(), OWN[0]
    holding.leaving.nodes[node] = 1
    holding.changes += 1
    assert node not in holding.uses(NAMES)
    holding.see(stored(MAP.lent(node, 1), 2))
    assert not holding.leaving
    holding.see(stored(MAP, 3))
    assert node not in holding.uses(NAMES), "the other shard may have bound pods to it"
    holding.listed(holding.fresh)
    assert node in holding.uses(NAMES)


def test_a_slot_that_leaves_takes_all_its_nodes_along() -> None:
    holding, slot = holder(), slot_of(OWN[0])
    holding.leaving.slots[slot] = SlotMove(slot, 0, 1)
    holding.changes += 1
    assert {name for name in OWN if slot_of(name) != slot} == holding.uses(NAMES)
    holding.see(stored(MAP.moved(slot, 1), 2))
    assert not holding.leaving


def test_an_older_version_of_the_map_changes_nothing() -> None:
    holding = holder()
    holding.see(stored(MAP.lent(FOREIGN[0], 0), 10))
    assert not holding.see(stored(MAP, 9))
    assert 0 == holding.map.owner_of(FOREIGN[0])


def test_another_epoch_is_noticed() -> None:
    holding = holder()
    assert not holding.is_outdated
    holding.see(stored(MAP.raised(1, 2, "c"), 2))
    assert not holding.is_outdated
    holding.see(stored(MAP.raised(0, 2, "c"), 3))
    assert holding.is_outdated


def test_two_shards_of_one_process_are_used_together_and_one_that_retires_is_not() -> None:
    holding = holder()
    holding.begin(1, 1, MAP)
    assert set(NAMES) == holding.uses(NAMES)
    holding.retiring.add(0)
    holding.changes += 1
    assert set(FOREIGN) == holding.uses(NAMES)
    holding.end(0)
    assert frozenset({1}) == holding.shards


def test_a_move_between_its_own_shards_needs_no_list() -> None:
    assert not gained(MAP, MAP.lent(FOREIGN[0], 0), frozenset({0, 1}))


def test_what_leaves_with_a_shard_that_was_given_back_is_not_given_away_any_more() -> None:
    holding = holder()
    holding.begin(1, 1, MAP)
    slot, queue = slot_of(FOREIGN[0]), next(queue for queue in QUEUES if MAP.shard_of(queue) == 1)
    holding.leaving.nodes = {FOREIGN[1]: 2, OWN[0]: 2}
    holding.leaving.slots = {slot: SlotMove(slot, 1, 0)}
    holding.leaving.queues = {queue: QueueMove(queue, (queue,), 1, 0, ProposalReason.PIN)}
    holding.end(1)
    assert {OWN[0]: 2} == holding.leaving.nodes
    assert ({}, {}) == (holding.leaving.slots, holding.leaving.queues)
