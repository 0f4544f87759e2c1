"""What a process holds: its shards, the newest map that it knows, and which nodes and queues it may use by that.

The map alone does not say what may be used. A node leaves *before* the map is written, and comes after the map was seen
and pods were listed *then* (rules 5 and 8 of docs/shards-proof.md). No I/O here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from maar.kube.write.shards import StoredMap
from maar.shards.map import ShardMap
from maar.shards.proposals import QueueMove, SlotMove
from maar.shards.slots import slot_of


class Fresh(NamedTuple):
    """What the map has given to this process, and what it may use after a list of pods."""

    slots: frozenset[int] = frozenset()
    nodes: frozenset[str] = frozenset()
    queues: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.slots or self.nodes or self.queues)

    def plus(self, other: Fresh) -> Fresh:
        return Fresh(self.slots | other.slots, self.nodes | other.nodes, self.queues | other.queues)

    def minus(self, other: Fresh) -> Fresh:
        return Fresh(self.slots - other.slots, self.nodes - other.nodes, self.queues - other.queues)


@dataclass(slots=True)
class Leaving:
    """What this process gives away: it uses none of it, and the map is written when all is settled."""

    nodes: dict[str, int] = field(default_factory=dict)
    """Node to its taker."""
    slots: dict[int, SlotMove] = field(default_factory=dict)
    queues: dict[str, QueueMove] = field(default_factory=dict)
    """Queue to the move that it is part of."""

    def __bool__(self) -> bool:
        return bool(self.nodes or self.slots or self.queues)


class Holding:
    """The shards of one process."""

    def __init__(self) -> None:
        self.stored: StoredMap | None = None
        """The newest version of the map that was seen, in a watch or in an answer."""
        self.epochs: dict[int, int] = {}
        """The shards that this process decides for, each with its epoch."""
        self.retiring: set[int] = set()
        """Shards that it is about to give back: it begins nothing for them."""
        self.leaving = Leaving()
        self.fresh = Fresh()
        self.changes = 0
        """Counts everything that may change what is used."""
        self._used: tuple[object, int, frozenset[str]] | None = None

    @property
    def shards(self) -> frozenset[int]:
        return frozenset(self.epochs.keys() - self.retiring)

    @property
    def map(self) -> ShardMap:
        assert self.stored is not None, "no map yet"
        return self.stored.map

    def epoch_of(self, shard: int) -> int:
        """The epoch of a shard in the map; 0 if it never had a holder."""
        return 0 if self.stored is None else self.stored.map.epochs.get(shard, 0)

    @property
    def is_outdated(self) -> bool:
        """Whether another process has raised the epoch of a shard of this one."""
        return self.stored is not None and any(self.epoch_of(shard) != epoch for shard, epoch in self.epochs.items())

    # -- the map

    def see(self, stored: StoredMap) -> bool:
        """A version of the map was seen; whether it is a new one."""
        before = self.stored
        if before is not None and _number(stored) <= _number(before):
            return False
        self.stored = stored
        self.changes += 1
        if before is not None and self.epochs:
            self.fresh = self.fresh.plus(gained(before.map, stored.map, frozenset(self.epochs)))
        self._forget_gone()
        return True

    def _forget_gone(self) -> None:
        """What belongs to others now has left, and what belongs to a shard that was given back is not ours to give."""
        held, owners, leaving = self.epochs.keys(), self.map, self.leaving
        leaving.nodes = {node: to for node, to in leaving.nodes.items() if owners.owner_of(node) in held - {to}}
        leaving.slots = {s: m for s, m in leaving.slots.items() if owners.slots[s] == m.owner and m.owner in held}
        leaving.queues = {q: m for q, m in leaving.queues.items() if owners.shard_of(q) == m.owner and m.owner in held}

    def listed(self, fresh: Fresh) -> None:
        """Pods were listed after all of this was seen in the map."""
        self.fresh = self.fresh.minus(fresh)
        self.changes += 1

    def begin(self, shard: int, epoch: int, at: ShardMap) -> None:
        """A take-over is complete: the map `at` had the epoch of this process before pods were listed."""
        self.epochs[shard] = epoch
        self.changes += 1
        self.fresh = self.fresh.plus(gained(at, self.map, frozenset({shard})))

    def end(self, shard: int) -> None:
        """A shard was given back."""
        del self.epochs[shard]
        self.retiring.discard(shard)
        self._forget_gone()
        self.changes += 1

    # -- what is used

    def uses(self, names: Iterable[str]) -> frozenset[str]:
        """The nodes among `names` that this process may use."""
        if self._used is not None and self._used[0] is names and self._used[1] == self.changes:
            return self._used[2]
        owners, held, fresh, leaving = self.map, self.shards, self.fresh, self.leaving
        slots = [shard in held and slot not in fresh.slots and slot not in leaving.slots
                 for slot, shard in enumerate(owners.slots)]  # fmt: skip
        entries = owners.nodes
        used = frozenset(
            name
            for name in names
            if (entries[name] in held if name in entries else slots[slot_of(name)])
            and name not in fresh.nodes
            and name not in leaving.nodes
        )
        self._used = (names, self.changes, used)
        return used

    def decides_for(self, queues: Iterable[str]) -> frozenset[str]:
        """The queues among these that this process decides for, also those that it lets go."""
        owners, held, fresh = self.map, self.shards, self.fresh
        return frozenset(
            queue
            for queue in queues
            if owners.shard_of(queue) in held
            and queue not in fresh.queues
            and (queue in owners.queues or slot_of(queue) not in fresh.slots)
        )


def gained(before: ShardMap, after: ShardMap, shards: frozenset[int]) -> Fresh:
    """What these shards own in the second map and not in the first."""
    pairs = enumerate(zip(before.slots, after.slots, strict=True))
    slots = (slot for slot, (was, is_) in pairs if is_ in shards and was not in shards)
    return Fresh(
        frozenset(slots),
        _gained(before.nodes, after.nodes, before, after, shards),
        _gained(before.queues, after.queues, before, after, shards),
    )


def _gained(
    entries: Mapping[str, int], new: Mapping[str, int], before: ShardMap, after: ShardMap, shards: frozenset[int]
) -> frozenset[str]:
    """The names with an entry in one of the maps that these shards have gained."""

    def owner(name: str, of: Mapping[str, int], whole: ShardMap) -> int:
        found = of.get(name)
        return whole.slots[slot_of(name)] if found is None else found

    if entries == new:
        return frozenset()
    names = {name for name, _ in entries.items() ^ new.items()}
    return frozenset(n for n in names if owner(n, new, after) in shards and owner(n, entries, before) not in shards)


def _number(stored: StoredMap) -> int:
    """Versions of objects of one kind can be compared as numbers."""
    return int(stored.version) if stored.version.isdecimal() else 0
