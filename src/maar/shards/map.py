"""The ShardMap: which shard each node and each queue belongs to, and who holds each shard.

One object for the whole cluster, written by compare-and-swap. Each method returns a new map, to be written in place of
the version that it was made from. What must have happened before (requests settled, wants ended) is the caller's duty:
the rules are in docs/shards-proof.md.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from maar.shards.slots import MOST_SHARDS, SLOTS, check_number, even, slot_of

# An entry takes about 30 bytes, and an object may have about 1.5 MB. Beyond this the map must be split.
MOST_ENTRIES = 20_000
# Problems that are named in full; of the others only the number is told.
NAMED = 5


class ShardMap(msgspec.Struct, frozen=True):
    """Owners of all nodes and queues. Shards are numbered from 0."""

    shards: int
    """How many shards there should be. Shards beyond it give away what they have, and then end."""
    slots: tuple[int, ...]
    """The shard of each slot."""
    nodes: dict[str, int] = {}
    """Owners of nodes that do not belong to the shard of their slot. An entry outlives a deleted node."""
    queues: dict[str, int] = {}
    """Shards of queues that do not belong to the shard of their slot."""
    epochs: dict[int, int] = {}
    """The epoch of the last holder of each shard. Shards that never had one are not in it."""
    holders: dict[int, str] = {}
    """The last holder of each shard, for people: the Lease decides who holds it."""

    @staticmethod
    def new(shards: int) -> "ShardMap":
        """The map of a new cluster."""
        return ShardMap(shards, even(shards))

    def owner_of(self, node: str) -> int:
        """The shard that owns a node, whether the node exists or not."""
        owner = self.nodes.get(node)
        return self.slots[slot_of(node)] if owner is None else owner

    def shard_of(self, queue: str) -> int:
        """The shard that decides for a queue. For a queue with a parent see `maar.shards.proposals`."""
        shard = self.queues.get(queue)
        return self.slots[slot_of(queue)] if shard is None else shard

    def knows(self, shard: int) -> bool:
        """Whether a shard is wanted, or was once: only such a shard may own anything."""
        return 0 <= shard < self.shards or shard in self.epochs

    def members(self) -> list[int]:
        """The shards that need a holder: the wanted ones, and others that still own something."""
        owners = {*range(self.shards), *self.slots, *self.nodes.values(), *self.queues.values()}
        return sorted(owners)

    @property
    def full(self) -> bool:
        """Whether no further node may be lent: nodes can only be given back."""
        return len(self.nodes) + len(self.queues) >= MOST_ENTRIES

    def lent(self, node: str, to: int) -> "ShardMap":
        """The map after the owner of a node has lent it, or given it back (rule 5)."""
        self._check_taker(to)
        return msgspec.structs.replace(self, nodes=self._entries(self.nodes, {node: to}))

    def let_go(self, queue: str, to: int) -> "ShardMap":
        """The map after the shard of a queue has let it go (rule 8)."""
        self._check_taker(to)
        return msgspec.structs.replace(self, queues=self._entries(self.queues, {queue: to}))

    def moved(self, slot: int, to: int, nodes: Iterable[str] = (), queues: Iterable[str] = ()) -> "ShardMap":
        """The map after a slot was given to another shard, with all names in it except the ones given.

        These, and names that have an entry, stay where they are. For all other names in the slot, also of nodes and
        queues that do not exist now, the present shard must have settled what it sent (rules 5 and 8).
        """
        self._check_taker(to)
        slots = tuple(to if number == slot else shard for number, shard in enumerate(self.slots))
        after = msgspec.structs.replace(self, slots=slots)
        stay_nodes = {name: self.owner_of(name) for name in (*self.nodes, *nodes) if slot_of(name) == slot}
        stay_queues = {name: self.shard_of(name) for name in (*self.queues, *queues) if slot_of(name) == slot}
        return msgspec.structs.replace(
            after, nodes=after._entries(self.nodes, stay_nodes), queues=after._entries(self.queues, stay_queues)
        )

    def raised(self, shard: int, epoch: int, holder: str) -> "ShardMap":
        """The map after a new holder has written its epoch into it (rule 3, step 2)."""
        if not self.knows(shard):
            raise ValueError(f"shard {shard} is not in the ShardMap")
        if epoch < self.epochs.get(shard, 0):
            raise ValueError(f"shard {shard} already has epoch {self.epochs[shard]}: {epoch} is lower")
        if epoch == self.epochs.get(shard) and holder != self.holders.get(shard, holder):
            raise ValueError(f"shard {shard} already has epoch {epoch}, of `{self.holders[shard]}`")
        epochs, holders = {**self.epochs, shard: epoch}, {**self.holders, shard: holder}
        return msgspec.structs.replace(self, epochs=epochs, holders=holders)

    def resized(self, shards: int) -> "ShardMap":
        """The map with another wanted number of shards. Nothing changes owners by this."""
        check_number(shards)
        # A shard that owns something stays known, also if it never had a holder.
        kept = {shard: 0 for shard in self.members() if shard >= shards}
        return msgspec.structs.replace(self, shards=shards, epochs={**kept, **self.epochs})

    def _check_taker(self, to: int) -> None:
        if not self.knows(to):
            raise ValueError(f"shard {to} is not in the ShardMap")

    def _entries(self, entries: Mapping[str, int], changes: Mapping[str, int]) -> dict[str, int]:
        """Entries after changes. What equals the shard of its slot needs no entry."""
        after = dict(entries)
        for name, shard in changes.items():
            if shard == self.slots[slot_of(name)]:
                after.pop(name, None)
            else:
                after[name] = shard
        return after


def problems(shard_map: ShardMap) -> list[str]:
    """What is wrong with a map that somebody wrote by hand, each with the entry that it is about."""
    if not 1 <= shard_map.shards <= MOST_SHARDS:
        return [f"shards: expected 1 to {MOST_SHARDS}, got {shard_map.shards}"]
    if len(shard_map.slots) != SLOTS:
        return [f"slots: expected {SLOTS}, got {len(shard_map.slots)}"]
    entries = len(shard_map.nodes) + len(shard_map.queues)
    if entries > MOST_ENTRIES:
        return [f"nodes and queues: at most {MOST_ENTRIES} entries, got {entries}"]
    return list(_shortened(_unknown(shard_map)))


def _unknown(shard_map: ShardMap) -> Iterator[str]:
    for shard in sorted({*shard_map.epochs, *shard_map.holders}):
        if not 0 <= shard < MOST_SHARDS:
            yield f"epochs and holders: shard {shard} does not exist"
    for shard, epoch in sorted(shard_map.epochs.items()):
        if epoch < 0:
            yield f"epochs: shard {shard} has epoch {epoch}"
    slots = {str(slot): shard for slot, shard in enumerate(shard_map.slots)}
    for field, entries in (("slots", slots), ("nodes", shard_map.nodes), ("queues", shard_map.queues)):
        for name, shard in sorted(entries.items()):
            if not shard_map.knows(shard):
                yield f"{field}[{name}]: shard {shard} is not in the ShardMap"


def _shortened(every: Iterable[str]) -> Iterator[str]:
    told = list(every)
    yield from told[:NAMED]
    if len(told) > NAMED:
        yield f"and {len(told) - NAMED} more"
