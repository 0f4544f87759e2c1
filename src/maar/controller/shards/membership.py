"""Which shards a process holds: it takes a free one, and further ones if nobody else does.

A candidate for each shard of the map waits for its Lease. The one who wins does, in this order (rule 3 of
docs/shards-proof.md): raise its epoch in the map, fence what the predecessor announced, list pods; then it decides. A
process with several shards gives one back if a process without any asks for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from maar.controller.shards.front import Shards
from maar.controller.shards.moving import LostShard
from maar.kube.client.api import Api
from maar.kube.client.backoff import Backoff, cancel, happens
from maar.kube.client.errors import AlreadyExists, ApiError, Conflict, NotFound
from maar.kube.read.shards import BrokenMap
from maar.kube.wire.annotations import SPARE
from maar.kube.wire.api_resources import LEASES
from maar.kube.write.leases import LeaderElection, LeaseClaims
from maar.kube.write.shards import StoredMap, create_map, read_map, write_map
from maar.shards.map import ShardMap
from maar.shards.slots import SLOTS

logger = logging.getLogger("maar.shards")

LOOK = 0.5
"""Seconds between two looks at whether a process without shards asks for one; tuned by hand."""

PATIENCE = 4 / 15
"""For this share of the lease time, a process that has a shard leaves a free one to processes without any, which try at
the moment when a lease ends. Tuned by hand: twice the time between two tries of a candidate."""

Candidate = Callable[[int, LeaseClaims], LeaderElection]
"""Makes the candidate for the Lease of a shard."""


@dataclass(eq=False, slots=True)
class Membership:
    """The shards of one process: takes them, takes them over, gives them back.

    `take_over` fences what was inherited and lists pods; `begin` is called when there is something to decide.

    `wanted` is the number of shards of a new map.
    """

    _api: Api
    _shards: Shards
    _candidate: Candidate
    _take_over: Callable[[], Awaitable[None]]
    _unsettled: Callable[[], frozenset[str]]
    _begin: Callable[[], None]
    wanted: int
    namespace: str
    lease_seconds: float
    _elections: dict[int, LeaderElection] = field(default_factory=dict)
    _tasks: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    _give_back: dict[int, asyncio.Event] = field(default_factory=dict)
    _bell: asyncio.Event = field(default_factory=asyncio.Event)
    _asked_at: float = float("-inf")
    _claims: LeaseClaims = field(init=False)

    def __post_init__(self) -> None:
        self._claims = LeaseClaims(self.lease_seconds * PATIENCE)
        self._shards.on_map.append(self._bell.set)

    async def run(self) -> None:
        """Hold shards until cancelled; then give all of them back. Raises `LostShard` if one is lost."""
        works = [asyncio.create_task(work) for work in (self._shards.moves.run(), self._shards.list_fresh())]
        works.append(asyncio.create_task(self._shards.objects.run()))
        self._shards.look()  # candidates count from when they first see a lease
        try:
            while True:
                self._start_candidates()
                await happens(self._bell, LOOK)
                self._bell.clear()
                self._shards.look()
                for task in (*works, *self._tasks.values()):
                    if task.done() and not task.cancelled():
                        task.result()
                self._tasks = {shard: task for shard, task in self._tasks.items() if not task.done()}
                await self._restore_map()
                await self._ask_for_one()
        finally:
            await cancel(works)
            await cancel(self._tasks.values())  # each gives its Lease back

    def _start_candidates(self) -> None:
        stored = self._shards.holding.stored
        members = {0} if stored is None else set(stored.map.members())
        for shard in sorted(members - self._tasks.keys()):
            self._tasks[shard] = asyncio.create_task(self._stand_for(shard))
        for shard in self._tasks.keys() - members:
            if shard in self._give_back:
                self._give_back[shard].set()
            elif shard not in self._shards.holding.epochs:
                self._tasks[shard].cancel()

    async def _stand_for(self, shard: int) -> None:
        """Wait for the Lease of a shard, and hold it until it is given back."""
        election = self._elections.get(shard)
        if election is None:
            election = self._elections[shard] = self._candidate(shard, self._claims)
        await election.lead(
            lambda: self._hold(shard, election),
            lambda: logger.error("lost the lease of shard %d", shard),
        )
        if election.lost:
            raise LostShard(f"the lease of shard {shard} is lost")

    # -- one shard

    async def _hold(self, shard: int, election: LeaderElection) -> None:
        begun = time.monotonic()
        stored = await self._raised(shard, election)
        if stored is None:
            logger.info("shard %d is no longer wanted", shard)
            return
        announced = len(election.intents.inherited)
        await self._take_over()
        holding = self._shards.holding
        seconds = time.monotonic() - begun
        self._shards.begin(shard, election.epoch, stored, seconds)
        self._claims.ended()
        logger.info(
            "holds shard %d in epoch %d: took over in %.2f s, %d announced writes fenced",
            shard, election.epoch, seconds, announced,
        )  # fmt: skip
        self._begin()
        self._shards.look()
        give_back = self._give_back[shard] = asyncio.Event()
        try:
            while not give_back.is_set():
                await happens(give_back, LOOK)
                if election.spare and len(holding.shards) > 1:
                    logger.info("gives shard %d to %s, which has none", shard, election.spare)
                    break
            await self._retire(shard)
            if shard not in holding.map.members():
                await self._shards.objects.clear(shard, election.epoch)
        finally:
            del self._give_back[shard]
            holding.end(shard)
            self._shards.gave_back(shard)

    async def _raised(self, shard: int, election: LeaderElection) -> StoredMap | None:
        """The map with the epoch of this process in it; `None` if the shard is not wanted any more."""
        backoff = Backoff(0.05, 2.0, random.Random(0))
        while True:
            try:
                stored = await read_map(self._api)
                if stored is None:
                    # All nodes belong to the shard that led alone until now, and move by lending.
                    stored = await create_map(self._api, ShardMap(self.wanted, (0,) * SLOTS))
                if not stored.map.knows(shard):
                    return None
                try:
                    made = stored.map.raised(shard, election.epoch, election.identity)
                except ValueError as error:
                    raise LostShard(str(error)) from None
                return await write_map(self._api, stored, made)
            except (AlreadyExists, Conflict):
                continue
            except NotFound as error:
                raise ApiError(
                    "the kinds ShardMap and Shard are not defined: apply deploy/crds/shardmaps.yaml and shards.yaml"
                ) from error
            except (ApiError, BrokenMap) as error:
                logger.warning("the ShardMap could not be written, will retry: %s", error)
                await asyncio.sleep(backoff.next(0.0))

    async def _retire(self, shard: int) -> None:
        """Stop deciding for a shard, and settle everything that was sent before."""
        holding = self._shards.holding
        holding.retiring.add(shard)
        holding.changes += 1
        await self._shards.a_cycle()
        before = self._unsettled()
        while before & self._unsettled() or self._shards.moves.is_writing:  # noqa: ASYNC110 it looks again now and then
            await asyncio.sleep(0.05)

    async def _restore_map(self) -> None:
        """The holder of the first shard writes the map again if somebody has deleted it."""
        holding = self._shards.holding
        if 0 not in holding.epochs or not self._shards.map_is_gone:
            return
        with contextlib.suppress(ApiError):
            holding.see(await create_map(self._api, holding.map))
            logger.error("the ShardMap was deleted, and is written again as it was")

    # -- processes without shards

    async def _ask_for_one(self) -> None:
        """Ask a process with several shards for one of them, if this one has none."""
        stored, holding = self._shards.holding.stored, self._shards.holding
        if stored is None or holding.epochs or time.monotonic() < self._asked_at + self.lease_seconds:
            return
        members = stored.map.members()
        if any(stored.map.epochs.get(shard, 0) == 0 for shard in members):
            return  # one of them is free
        counts = Counter(stored.map.holders.get(shard, "") for shard in members)
        rich = [shard for shard in members if counts[stored.map.holders.get(shard, "")] > 1]
        if not rich or rich[-1] not in self._elections:
            return  # its candidate is made in the next turn, if the map has just been seen
        self._asked_at = time.monotonic()
        election = self._elections[rich[-1]]
        notes = {"metadata": {"annotations": {SPARE: election.identity}}}
        with contextlib.suppress(ApiError):
            await self._api.patch(LEASES.path(self.namespace, election.name), notes)


async def together(deciding: Coroutine[Any, Any, None], membership: Membership) -> None:
    """Decide while shards are held. At the end decisions end first, so that all writes are settled."""
    holding = asyncio.create_task(membership.run())
    work = asyncio.create_task(deciding)
    try:
        await asyncio.wait([holding, work], return_when=asyncio.FIRST_COMPLETED)
        for task in (holding, work):
            if task.done():
                task.result()
    finally:
        await cancel([work])
        await cancel([holding])
