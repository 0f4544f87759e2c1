"""Gives nodes, slots and queues to other shards: when everything that was sent for them is settled, one write.

The write replaces a version of the map that has the epochs of this process, and is repeated until it is answered
(rules 4, 5 and 8 of docs/shards-proof.md).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable
from typing import Protocol

from maar.controller.shards.holding import Holding
from maar.kube.client.api import Api
from maar.kube.client.backoff import Backoff
from maar.kube.client.errors import ApiError, Conflict, NotLeading
from maar.kube.read.shards import BrokenMap
from maar.kube.write.shards import read_map, write_map
from maar.shards.map import ShardMap
from maar.shards.proposals import ProposalReason, Proposals
from maar.shards.shard import Lend
from maar.shards.slots import slot_of

logger = logging.getLogger("maar.shards")

LOOK = 0.02
"""Seconds between two looks at what is not settled yet; tuned by hand."""


class LostShard(Exception):
    """Another process has taken over a shard of this one."""


class SentMoves(Protocol):
    """What this process has sent and not settled."""

    def nodes_in_use(self) -> set[str]:
        """The nodes to which pods are being bound."""

    def unsettled(self) -> frozenset[str]:
        """All writes that are not settled, to be compared with a later answer."""


class Moves:
    """Everything that this process gives away."""

    def __init__(self, api: Api, holding: Holding, sent: SentMoves, seen: Callable[[], None]) -> None:
        """`seen` is called after a new version of the map."""
        self._api = api
        self._holding = holding
        self._sent = sent
        self._seen = seen
        self._bell = asyncio.Event()
        self._before: dict[str, frozenset[str]] = {}
        """What was not settled when a queue began to leave."""
        self._wanting: frozenset[str] = frozenset()
        """Queues whose jobs have wants."""
        self.is_writing = False
        """Whether a write may be on its way: until a later one is answered."""
        self.written = 0
        """How often the map was written."""

    def after(self, lends: Iterable[Lend], proposed: Proposals, wanting: frozenset[str]) -> None:
        """Begin what a cycle has decided. Nothing that it sent is for these nodes and queues after this."""
        holding, leaving = self._holding, self._holding.leaving
        held, owners, self._wanting = holding.shards, holding.map, wanting
        nodes = {lend.node: lend.to for lend in lends if not owners.full or _goes_home(lend, owners)}
        for move in proposed.nodes:
            # The end of a loan is decided in a step, unless its shard ends.
            if move.owner in held and (move.why is ProposalReason.GONE or move.owner >= owners.shards):
                nodes.setdefault(move.node, move.to)
        nodes = {node: to for node, to in nodes.items() if owners.owner_of(node) in held and owners.knows(to)}
        slots = {move.slot: move for move in proposed.slots if move.owner in held}
        queues = {queue: move for move in proposed.queues if move.owner in held for queue in move.queues}
        new = {*(nodes.keys() - leaving.nodes.keys()), *(slots.keys() - leaving.slots.keys())}
        began = queues.keys() - leaving.queues.keys()
        # A write that may be on its way is not withdrawn. The other moves follow what is proposed now.
        leaving.nodes = nodes | leaving.nodes
        leaving.slots = slots | (leaving.slots if self.is_writing else {})
        leaving.queues = queues | (leaving.queues if self.is_writing else {})
        self._before = {queue: before for queue, before in self._before.items() if queue in leaving.queues}
        if began:
            self._before.update(dict.fromkeys(began, self._sent.unsettled()))
        if new or began:
            holding.changes += 1
        if leaving:
            self._bell.set()

    async def run(self) -> None:
        """Write what is settled. Raises `LostShard` if another process holds a shard of this one."""
        backoff = Backoff(0.05, 2.0, random.Random(0))
        while True:
            await self._bell.wait()
            if not self._holding.leaving:
                self._bell.clear()
                continue
            made = self._made()
            if made == self._holding.map:
                await asyncio.sleep(LOOK)
                continue
            try:
                if await self._write(made):
                    backoff.reset()
                    continue
            except NotLeading:
                raise LostShard("the lease of a shard is lost") from None
            except (ApiError, BrokenMap) as error:
                logger.warning("the ShardMap could not be written, will retry: %s", error)
            await asyncio.sleep(backoff.next(0.0))

    async def _write(self, made: ShardMap) -> bool:
        """One try; afterwards the newest version of the map is known."""
        holding = self._holding
        if holding.is_outdated:
            raise LostShard("the ShardMap has another epoch for a shard of this process")
        assert holding.stored is not None
        self.is_writing = True
        try:
            stored = await write_map(self._api, holding.stored, made)
        except Conflict:
            newest = await read_map(self._api)
            if newest is None:
                raise BrokenMap("it was deleted") from None
            self.is_writing = False
            holding.see(newest)
            self._seen()
            return False
        self.is_writing = False
        self.written += 1
        holding.see(stored)
        self._seen()
        return True

    def _made(self) -> ShardMap:
        """The map with everything that is settled given away."""
        holding, leaving = self._holding, self._holding.leaving
        busy, open_ = self._sent.nodes_in_use(), self._sent.unsettled()
        made = holding.map
        busy_slots = {slot_of(node) for node in busy}
        for slot, move in sorted(leaving.slots.items()):
            if slot not in busy_slots and made.slots[slot] == move.owner and made.knows(move.to):
                made = move.applied(made)
        for node, to in sorted(leaving.nodes.items()):
            if node not in busy and made.knows(to):
                made = made.lent(node, to)
        moves = {(move.top, move.owner): move for move in leaving.queues.values()}
        for _, queue_move in sorted(moves.items()):
            settled = all(not self._before.get(queue, frozenset()) & open_ for queue in queue_move.queues)
            if settled and not self._wanting.intersection(queue_move.queues) and made.knows(queue_move.to):
                made = queue_move.applied(made)
        return made


def _goes_home(lend: Lend, owners: ShardMap) -> bool:
    """Whether a lend makes the map smaller."""
    return owners.slots[slot_of(lend.node)] == lend.to
