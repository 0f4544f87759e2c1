"""Names to slots and slots to shards: the hash is fixed, shares are even, and few slots move."""

from collections import Counter
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maar.shards.slots import MOST_SHARDS, SLOTS, balanced, even, slot_of

numbers = st.integers(1, MOST_SHARDS)
any_slots = st.builds(
    lambda drawn, shards: tuple(byte % shards for byte in drawn), st.binary(min_size=SLOTS, max_size=SLOTS), numbers
)


def moves(before: tuple[int, ...], after: tuple[int, ...]) -> list[int]:
    return [slot for slot in range(SLOTS) if before[slot] != after[slot]]


def fewest_moves(slots: tuple[int, ...], shards: int) -> int:
    """The fewest moves after which each shard has 256 / `shards`, rounded down or up."""
    few, odd = divmod(SLOTS, shards)
    has = sorted((Counter(slots)[shard] for shard in range(shards)), reverse=True)
    return sum(max(0, few + (place < odd) - slots_now) for place, slots_now in enumerate(has))


def test_the_slot_of_a_name_never_changes() -> None:
    """These are on clusters: with another hash, all nodes would have another owner."""
    assert [239, 114, 105, 252] == [slot_of(name) for name in ("node-1", "node-2", "default", "größer")]


def test_names_spread_over_the_slots() -> None:
    counts = Counter(slot_of(f"gpu-{number:05}.example.com") for number in range(51_200))
    assert 256 == len(counts)
    assert 120 < min(counts.values())
    assert 290 > max(counts.values())


@given(any_slots, numbers)
def test_safety_shares_are_even_and_the_fewest_slots_move(slots: tuple[int, ...], shards: int) -> None:
    wanted = balanced(slots, shards)
    counts = Counter(wanted)
    assert set(range(shards)) == set(counts)
    assert {SLOTS // shards, ceil(SLOTS / shards)} >= set(counts.values())
    assert fewest_moves(slots, shards) == len(moves(slots, wanted))


@given(any_slots, numbers, st.data())
def test_safety_what_is_wanted_stays_while_slots_move(slots: tuple[int, ...], shards: int, data: st.DataObject) -> None:
    wanted = balanced(slots, shards)
    done = data.draw(st.sets(st.sampled_from(range(SLOTS))))
    partly = tuple(wanted[slot] if slot in done else slots[slot] for slot in range(SLOTS))
    assert wanted == balanced(partly, shards)


@pytest.mark.parametrize("shards", range(1, MOST_SHARDS))
def test_one_more_shard_takes_its_share_and_one_fewer_gives_it_back(shards: int) -> None:
    before = even(shards)
    after = balanced(before, shards + 1)
    moved = moves(before, after)
    assert SLOTS // (shards + 1) <= len(moved) <= ceil(SLOTS / (shards + 1))
    assert {shards} == {after[slot] for slot in moved}
    back = balanced(after, shards)
    assert moved == moves(after, back)


@pytest.mark.parametrize("shards", [-1, 0, MOST_SHARDS + 1])
def test_a_number_of_shards_that_cannot_be(shards: int) -> None:
    with pytest.raises(ValueError, match=f"must be 1 to 64: {shards}"):
        even(shards)
