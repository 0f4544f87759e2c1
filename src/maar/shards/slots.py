"""Names to slots, and slots to shards: the consistent hash of docs/shards.md.

The slot of a name is fixed for ever. The shard of a slot is written in the ShardMap, and changes one slot at a time.
When the number of shards changes, `balanced` says where each slot should be: as few slots as possible move.
"""

import hashlib
from collections import Counter
from functools import lru_cache

SLOTS = 256
# 4 slots for each shard: with fewer, one shard could have twice as many as another.
MOST_SHARDS = 64


@lru_cache(maxsize=1 << 17)  # 0.7 us for each name otherwise, and a cluster has up to 50,000 nodes
def slot_of(name: str) -> int:
    """The slot of the node, queue or topology domain of this name: a hash of the name and of nothing else."""
    return hashlib.blake2b(name.encode(), digest_size=1).digest()[0]


def even(shards: int) -> tuple[int, ...]:
    """The shard of each slot on a new cluster. `shards`: how many there are."""
    return balanced((0,) * SLOTS, shards)


def balanced(slots: tuple[int, ...], shards: int) -> tuple[int, ...]:
    """The shard that each slot should have, with the fewest moves from the shards that it has.

    Each of the shards gets 256 / `shards` slots, rounded down or up. The answer stays the same while the slots move, in
    any order, so that a move which was begun is not proposed for another slot before it is done.
    """
    check_number(shards)
    quota = quotas(slots, shards)
    kept: Counter[int] = Counter()
    leaving = []
    for slot, shard in enumerate(slots):
        if kept[shard] < quota.get(shard, 0):
            kept[shard] += 1
        else:
            leaving.append(slot)
    takers = [shard for shard in range(shards) for _ in range(quota[shard] - kept[shard])]
    wanted = list(slots)
    # Both lists are sorted. So without any one of the pairs the others remain the same.
    for slot, shard in zip(leaving, takers, strict=True):
        wanted[slot] = shard
    return tuple(wanted)


def quotas(slots: tuple[int, ...], shards: int) -> dict[int, int]:
    """How many slots each shard should have. The odd ones stay with shards that have them already, if any do."""
    few, odd = divmod(SLOTS, shards)
    has = Counter(slots)
    # By number among shards that have more than `few`, not by how many: that would change while slots move.
    first = sorted(range(shards), key=lambda shard: (has[shard] <= few, shard))
    return {shard: few + (place < odd) for place, shard in enumerate(first)}


def check_number(shards: int) -> None:
    """ValueError if a cluster cannot have this number of shards."""
    if not 1 <= shards <= MOST_SHARDS:
        raise ValueError(f"the number of shards must be 1 to {MOST_SHARDS}: {shards}")
