"""What should belong to another shard: the moves that a ShardMap and a cluster propose.

Nothing here moves anything. The shard that owns a slot, node or queue settles what it sent, and then writes the move
into the map (rules 5 and 8 of docs/shards-proof.md). The reasons to move:

- the number of shards: slots move as `balanced` says, with the names in them;
- racks: nodes of one rack should be in one shard, the one of the rack's own slot;
- pins: `maar.dev/shard` on a top-level Queue names its shard;
- parents: a queue belongs to the shard of its top-level queue;
- the end of a loan, and names that no longer exist: they go back, so that the map stays small.

Moves do not depend on each other. After some of them, in any order, the others are still proposed and no new ones.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec
import numpy as np

from maar.model.nodes import NodeTable
from maar.model.queues import QueueTree
from maar.model.resources import Ints
from maar.model.topology import HyperNode, hypernode_rows
from maar.shards.map import MOST_ENTRIES, ShardMap
from maar.shards.slots import SLOTS, balanced, slot_of

MOST_IN_RACKS = MOST_ENTRIES // 2
"""Nodes that may have an entry for the sake of their racks. The other half is for nodes that are lent."""


class ProposalReason(StrEnum):
    """Why a node or queue should be in another shard."""

    SLOT = "slot"
    """Its slot belongs, or will belong, to that shard. A node that was lent goes back."""
    RACK = "rack"
    PIN = "pin"
    PARENT = "parent"
    GONE = "gone"
    """It does not exist any more, and its entry can go."""


class SlotMove(msgspec.Struct, frozen=True):
    """A slot that should belong to another shard."""

    slot: int
    owner: int
    to: int
    nodes: tuple[str, ...] = ()
    """Nodes that come along. They must be settled before."""
    staying_nodes: tuple[str, ...] = ()
    staying_queues: tuple[str, ...] = ()
    """Names in the slot that keep their shards: they belong elsewhere, or move by themselves."""

    def applied(self, shard_map: ShardMap) -> ShardMap:
        return shard_map.moved(self.slot, self.to, self.staying_nodes, self.staying_queues)


class NodeMove(msgspec.Struct, frozen=True):
    """A node that should belong to another shard."""

    node: str
    owner: int
    to: int
    why: ProposalReason

    def applied(self, shard_map: ShardMap) -> ShardMap:
        return shard_map.lent(self.node, self.to)


class QueueMove(msgspec.Struct, frozen=True):
    """Queues below one top-level queue that should leave a shard.

    They move in one write, because jobs in them share the limits of their parents.
    """

    top: str
    queues: tuple[str, ...]
    owner: int
    to: int
    why: ProposalReason

    def applied(self, shard_map: ShardMap) -> ShardMap:
        for queue in self.queues:
            shard_map = shard_map.let_go(queue, self.to)
        return shard_map


Move = SlotMove | NodeMove | QueueMove


class Proposals(msgspec.Struct, frozen=True):
    """All proposed moves, each list sorted by name or number."""

    slots: tuple[SlotMove, ...] = ()
    nodes: tuple[NodeMove, ...] = ()
    queues: tuple[QueueMove, ...] = ()
    problems: dict[str, str] = {}
    """Pins that cannot be followed, by queue."""

    @property
    def moves(self) -> tuple[Move, ...]:
        return (*self.slots, *self.nodes, *self.queues)

    def leaving_queues(self) -> frozenset[str]:
        """Queues for which nothing new is begun, because a move is proposed (rule 8)."""
        return frozenset(queue for move in self.queues for queue in move.queues)


NOTHING = Proposals()


def proposals(shard_map: ShardMap, racks: Mapping[str, str], tree: QueueTree) -> Proposals:
    """What should move, given all nodes with their racks (empty if a node has none) and all queues.

    A shard that never had a holder gets nothing: nobody would use it.
    """
    if shard_map.shards == 1 and not any(shard_map.slots) and not shard_map.nodes and not shard_map.queues:
        return NOTHING
    wanted = balanced(shard_map.slots, shard_map.shards)
    held = _held(shard_map)
    moving = {
        slot: to
        for slot, (owner, to) in enumerate(zip(shard_map.slots, wanted, strict=True))
        if owner != to and to in held
    }
    homes = _Homes(shard_map, racks, wanted)
    queues, problems = _queue_moves(shard_map, tree, wanted, held)
    return Proposals(
        slots=_slot_moves(shard_map, homes, moving, tree),
        nodes=(*homes.moves(shard_map, moving, held),),
        queues=queues,
        problems=problems,
    )


def _held(shard_map: ShardMap) -> frozenset[int]:
    """The wanted shards that ever had a holder."""
    return frozenset(shard for shard in range(shard_map.shards) if shard_map.epochs.get(shard, 0) > 0)


class _Homes:
    """The shard that each node should have. Columns, because a cluster has many nodes."""

    def __init__(self, shard_map: ShardMap, racks: Mapping[str, str], wanted: tuple[int, ...]) -> None:
        gone = [name for name in shard_map.nodes if name not in racks]
        self.names = sorted([*racks, *gone])
        self.gone = frozenset(gone)
        self.racks = racks
        self.rack_slots = kept_racks(racks, shard_map.shards)
        self.slot = _column(slot_of(name) for name in self.names)
        by = self.slot
        if self.rack_slots:
            # A node that is gone, or in no rack, goes by its own slot.
            in_rack = _column(self.rack_slots.get(racks.get(name, ""), -1) for name in self.names)
            by = np.where(in_rack < 0, self.slot, in_rack)
        self.home = np.array(wanted, dtype=np.int64)[by]
        self.owner = np.array(shard_map.slots, dtype=np.int64)[self.slot]
        self.has_entry = np.zeros(len(self.names), dtype=np.bool_)
        if shard_map.nodes:
            entry = _column(shard_map.nodes.get(name, -1) for name in self.names)
            self.has_entry = entry >= 0
            self.owner = np.where(self.has_entry, entry, self.owner)

    def comes_along(self, moving: Mapping[int, int]) -> tuple[Ints, Ints]:
        """For each node: the shard that its slot moves to, or -1; and the same if the node moves with it."""
        to = np.full(SLOTS, -1, dtype=np.int64)
        for slot, shard in moving.items():
            to[slot] = shard
        taker = to[self.slot]
        return taker, np.where((taker == self.home) & ~self.has_entry, taker, -1)

    def moves(self, shard_map: ShardMap, moving: Mapping[int, int], held: frozenset[int]) -> Iterable[NodeMove]:
        """The nodes that must move by themselves."""
        _, along = self.comes_along(moving)
        for row in np.flatnonzero((self.home != self.owner) & (along < 0)):
            name, owner, home = self.names[row], int(self.owner[row]), int(self.home[row])
            if home in held:
                yield NodeMove(name, owner, home, self._why(name))

    def _why(self, name: str) -> ProposalReason:
        if name in self.gone:
            return ProposalReason.GONE
        return ProposalReason.RACK if self.racks[name] in self.rack_slots else ProposalReason.SLOT


def kept_racks(racks: Mapping[str, str], shards: int) -> dict[str, int]:
    """The racks whose nodes are kept in one shard, with their slots.

    With fewer racks than shards there are none: some shard would have no nodes. In a large cluster there are as many as
    the map has entries for, by order of their slots, so that one more node changes one rack at most.
    """
    sizes = Counter(rack for rack in racks.values() if rack)
    if len(sizes) < shards:
        return {}
    kept, nodes = {}, 0
    for slot, rack in sorted((slot_of(rack), rack) for rack in sizes):
        nodes += sizes[rack]
        if nodes > MOST_IN_RACKS:
            break
        kept[rack] = slot
    return kept


def rack_homes(shard_map: ShardMap, racks: Mapping[str, str]) -> dict[str, int]:
    """The shards of nodes that should be with their racks. A shard that never had a holder gets none."""
    wanted, held = balanced(shard_map.slots, shard_map.shards), _held(shard_map)
    kept = kept_racks(racks, shard_map.shards)
    homes = {rack: wanted[slot] for rack, slot in kept.items() if wanted[slot] in held}
    return {name: homes[rack] for name, rack in racks.items() if rack in homes}


def _slot_moves(shard_map: ShardMap, homes: _Homes, moving: Mapping[int, int], tree: QueueTree) -> tuple[SlotMove, ...]:
    if not moving:
        return ()
    nodes: dict[int, list[str]] = {slot: [] for slot in moving}
    staying: dict[int, list[str]] = {slot: [] for slot in moving}
    queues: dict[int, list[str]] = {slot: [] for slot in moving}
    taker, along = homes.comes_along(moving)
    for row in np.flatnonzero(taker >= 0):
        name, slot = homes.names[row], int(homes.slot[row])
        if along[row] >= 0:
            nodes[slot].append(name)
        elif homes.home[row] != taker[row]:
            staying[slot].append(name)
    for queue in tree.queues:
        queues.get(slot_of(queue.name), []).append(queue.name)
    return tuple(
        SlotMove(slot, shard_map.slots[slot], to, (*nodes[slot],), (*staying[slot],), (*queues[slot],))
        for slot, to in sorted(moving.items())
    )


def _queue_moves(
    shard_map: ShardMap, tree: QueueTree, wanted: tuple[int, ...], held: frozenset[int]
) -> tuple[tuple[QueueMove, ...], dict[str, str]]:
    problems: dict[str, str] = {}
    leaving: dict[tuple[str, int, int], list[str]] = {}
    pins: set[str] = set()
    for number, queue in enumerate(tree.queues):
        owner = shard_map.shard_of(queue.name)
        if tree.broken[number] and owner < shard_map.shards:
            continue  # its parent may come back; its jobs wait in any case
        path = tree.path[number] if not tree.broken[number] else (number,)
        top = tree.queues[path[-2] if len(path) > 1 else path[0]]
        pin, problem = pinned(top.pin, shard_map.shards)
        if queue.name != top.name:
            problem = "only a top-level queue can be pinned to a shard" if queue.pin else ""
        if problem:
            problems[queue.name] = problem
        if pin is not None:
            pins.add(top.name)
        home = wanted[slot_of(top.name)] if pin is None else pin
        if owner != home and home in held:
            leaving.setdefault((top.name, owner, home), []).append(queue.name)
    for name, owner in shard_map.queues.items():
        home = wanted[slot_of(name)]
        if name not in tree.number and owner != home and home in held:
            leaving[name, owner, home] = [name]

    def why(top: str, names: list[str]) -> ProposalReason:
        if top not in tree.number:
            return ProposalReason.GONE
        if top not in names:
            return ProposalReason.PARENT
        return ProposalReason.PIN if top in pins else ProposalReason.SLOT

    moves = (
        QueueMove(top, tuple(names), owner, home, why(top, names))
        for (top, owner, home), names in sorted(leaving.items())
    )
    return tuple(moves), problems


def pinned(text: str, shards: int) -> tuple[int | None, str]:
    """The shard that a Queue is pinned to, if any, and what is wrong with the annotation."""
    if not text:
        return None, ""
    if not (text.isascii() and text.isdecimal() and len(text) <= 3):
        return None, f"expected the number of a shard, got `{text[:20]}`"
    if int(text) >= shards:
        return None, f"shard {int(text)} does not exist: shards are 0 to {shards - 1}"
    return int(text), ""


def racks_of(nodes: NodeTable, hypernodes: Iterable[HyperNode], label: str = "") -> dict[str, str]:
    """The rack of each node: the value of a label, or its HyperNode of the lowest tier; empty if it has none."""
    racks = dict.fromkeys((node.name for node in nodes.nodes), "")
    if label:
        return {node.name: node.labels.get(label, "") for node in nodes.nodes}
    every = list(hypernodes)
    lowest = min((hypernode.tier for hypernode in every), default=0)
    rows = hypernode_rows(every, nodes) if every else {}
    # Backwards, so that of two domains of a node the first name counts.
    for name in sorted((hypernode.name for hypernode in every if hypernode.tier == lowest), reverse=True):
        for row in np.flatnonzero(rows[name]):
            racks[nodes.nodes[row].name] = name
    return racks


def _column(values: Iterable[int]) -> Ints:
    return np.fromiter(values, dtype=np.int64)
