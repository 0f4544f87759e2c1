"""The front of the shards of a process: what the loop asks before a decision and hands over after it."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import InitVar, dataclass, field

import numpy as np

from maar.controller.shards.holding import Holding
from maar.controller.shards.moving import Moves, SentMoves
from maar.controller.shards.objects import ShardObjects
from maar.controller.snapshots.cache import Cache
from maar.controller.snapshots.cycle import Cycle
from maar.controller.snapshots.own import EVERYTHING, OwnPart
from maar.kube.client.api import Api
from maar.kube.kinds.cluster import SHARD_MAPS, SHARDS
from maar.kube.read.shards import MAP_NAME, BrokenMap, shard_number, wants_of, wire_wants
from maar.kube.wire.shards import ShardSpec, ShardStatus
from maar.kube.write.shards import StoredMap, stored_of
from maar.model.snapshot import Snapshot
from maar.model.tasks import Status
from maar.shards.proposals import NOTHING, Proposals, proposals, rack_homes, racks_of
from maar.shards.scope import own_jobs
from maar.shards.shard import Standing, Step
from maar.shards.sharing import Figures, Sharing
from maar.shards.wants import Pause, Want

logger = logging.getLogger("maar.shards")


@dataclass(eq=False, slots=True)
class Shards:
    """Everything about shards in one process."""

    api: InitVar[Api]
    _cache: Cache
    sent: InitVar[SentMoves]
    _list_pods: Callable[[], Awaitable[None]]
    _trigger: Callable[[], None]
    _rack_label: str = ""
    holding: Holding = field(default_factory=Holding)
    _wants: tuple[Want, ...] = ()
    """What the jobs of this process want."""
    _pauses: tuple[Pause, ...] = ()
    _proposed: tuple[object, ...] = ()
    """What the last proposals were made from."""
    _proposals: Proposals = NOTHING
    _homes: dict[str, int] = field(default_factory=dict)
    _figures: dict[int, ShardStatus] = field(default_factory=dict)
    _looked_at: object = None
    _lists: asyncio.Event = field(default_factory=asyncio.Event)
    _turned: asyncio.Event = field(default_factory=asyncio.Event)
    taken: Counter[int] = field(default_factory=Counter)
    """How often this process has taken each shard."""
    take_over_seconds: dict[int, float] = field(default_factory=dict)
    """The duration of the last time."""
    on_map: list[Callable[[], None]] = field(default_factory=list)
    """Called after a new version of the map."""
    moves: Moves = field(init=False)
    objects: ShardObjects = field(init=False)

    def __post_init__(self, api: Api, sent: SentMoves) -> None:
        self.moves = Moves(api, self.holding, sent, self._map_changed)
        self.objects = ShardObjects(api, self.holding)

    @property
    def active(self) -> bool:
        """Whether this process decides for anything."""
        return bool(self.holding.shards)

    @property
    def map_is_gone(self) -> bool:
        """Whether the watches have shown a map, and it exists no more."""
        return self._looked_at is not None and not self._cache.picture.objects.of(SHARD_MAPS)

    # -- before a decision

    def look(self) -> None:
        """Take in what the watches have shown of the map."""
        item = self._cache.picture.objects.of(SHARD_MAPS).get(SHARD_MAPS.key("", MAP_NAME))
        if item is None or item is self._looked_at:
            return
        self._looked_at = item
        try:
            if self.holding.see(stored_of(item)):
                self._map_changed()
        except BrokenMap as error:
            logger.error("%s; the last one that could be read is used", error)

    def _map_changed(self) -> None:
        for listener in self.on_map:
            listener()
        if self.holding.fresh:
            self._lists.set()
        self._cache.wake_all()
        self._trigger()

    def standing(self, snapshot: Snapshot, now: float) -> Standing:
        """What this process knows besides the cluster, for the next decision."""
        self.look()
        holding = self.holding
        self._propose(snapshot)
        table = snapshot.jobs
        missing = {table.jobs[row].queue for row in np.flatnonzero(table.queue < 0).tolist()}
        queues = holding.decides_for({queue.name for queue in snapshot.queues.queues} | missing)
        standing = Standing(
            holding.shards,
            holding.map,
            holding.uses(snapshot.nodes.names),
            queues,
            queues & self._proposals.leaving_queues(),
            self._homes,
            (*self._wants, *self._others()),
            self._pauses,
        )
        if standing.is_everything(snapshot):
            self._cache.decide_for(EVERYTHING)
        else:
            own = own_jobs(snapshot, standing.uses, standing.queues)
            self._cache.decide_for(OwnPart(own, table.number, standing.queues - standing.leaving, standing.uses))
        return standing

    def _others(self) -> list[Want]:
        """The wants of other shards, as the watches show them."""
        found: list[Want] = []
        for item in self._cache.picture.objects.of(SHARDS).values():
            number = shard_number(item.name)
            if number is not None and number not in self.holding.epochs:
                found += wants_of(item)
        return found

    def _propose(self, snapshot: Snapshot) -> None:
        """What should belong to others, if anything that matters to it has changed."""
        owners = self.holding.map
        made_from = (owners, snapshot.nodes, snapshot.queues, snapshot.cluster.hypernodes)
        if len(self._proposed) == len(made_from) and all(
            a is b for a, b in zip(self._proposed, made_from, strict=True)
        ):
            return
        self._proposed = made_from
        if owners.members() == [0]:
            self._proposals, self._homes = NOTHING, {}
            return
        racks = racks_of(snapshot.nodes, snapshot.cluster.hypernodes, self._rack_label)
        self._homes = rack_homes(owners, racks)
        self._proposals = proposals(owners, racks, snapshot.queues)

    # -- after a decision

    def after(self, step: Step, cycle: Cycle) -> None:
        """Carry out what a step decided besides its plan. Its plan has been sent."""
        snapshot = cycle.snapshot
        self._wants = (*step.wants, *self._until_bound(step.wants))
        self._pauses = step.pauses
        jobs, number = snapshot.jobs.jobs, snapshot.jobs.number
        wanting = frozenset(jobs[number[job]].queue for job in self.wanting if job in number)
        self.moves.after(step.lends, self._proposals, wanting)
        self._show(cycle)
        self.turned()

    def turned(self) -> None:
        """A cycle has ended. One that decided nothing, because the last shard is being given back, counts too."""
        self._turned.set()
        self._turned = asyncio.Event()

    def _until_bound(self, wants: tuple[Want, ...]) -> list[Want]:
        """Wants of before whose binds are on their way: they stand until all pods are bound."""
        stand, assumed = {want.id for want in wants}, self._cache.picture.assumed

        def is_binding(task: str) -> bool:
            found = assumed.get(task)
            return found is not None and found.status is Status.BOUND

        return [
            want
            for want in self._wants
            if want.id not in stand and want.elected is None and any(map(is_binding, self._cache.tasks_of(want.job)))
        ]

    def wake_at(self, now: float) -> float | None:
        """When time alone changes what shards decide: the end of a want or of a pause."""
        ends = [want.renewed_at for want in self._wants] + [want.deadline for want in self._others()]
        ends += [pause.until for pause in self._pauses]
        return min((end for end in ends if end > now), default=None)

    @property
    def wanting(self) -> frozenset[str]:
        """Jobs that every cycle must look at."""
        return frozenset(want.job for want in self._wants if want.elected is None)

    def _show(self, cycle: Cycle) -> None:
        if not self._figures or self.objects.figures_are_due:
            self._figures = self._count(cycle)
        for shard in self.holding.epochs:
            mine = wire_wants(want for want in self._wants if want.shard == shard)
            self.objects.show(shard, ShardSpec(mine), self._figures.get(shard, ShardStatus()))

    def _count(self, cycle: Cycle) -> dict[int, ShardStatus]:
        """Figures for people, of each shard of this process."""
        snapshot = cycle.snapshot
        owners, epochs = self.holding.map, self.holding.epochs
        figures = Sharing(owners).figures(snapshot.nodes.names)
        queues = Counter(owners.shard_of(queue.name) for queue in snapshot.queues.queues)
        jobs, number = snapshot.jobs.jobs, snapshot.jobs.number
        waits = Counter(owners.shard_of(jobs[number[job]].queue) for job in cycle.waits if job in number)
        return {
            shard: ShardStatus(
                owners.holders.get(shard, ""),
                epoch,
                *figures.get(shard, Figures()),
                queues[shard],
                waits[shard],
            )
            for shard, epoch in epochs.items()
        }

    # -- lists of pods, cycles

    async def list_fresh(self) -> None:
        """List pods whenever the map has given something to this process."""
        while True:
            await self._lists.wait()
            self._lists.clear()
            while self.holding.fresh:
                fresh = self.holding.fresh
                await self._list_pods()
                self.holding.listed(fresh)
                self._cache.wake_all()
                self._trigger()

    async def a_cycle(self) -> None:
        """Wait until a cycle has ended that began after this call."""
        for _ in range(2):
            turned = self._turned
            self._trigger()
            await turned.wait()

    def begin(self, shard: int, epoch: int, stored: StoredMap, seconds: float = 0.0) -> None:
        """Begin to hold a shard that was taken over in these seconds; its wants stand. Pods were listed after this
        version of the map, which has the epoch of this process: what a newer version gives it needs another list."""
        self.taken[shard] += 1
        self.take_over_seconds[shard] = seconds
        self.holding.see(stored)
        self.holding.begin(shard, epoch, stored.map)
        self._map_changed()
        self.objects.forget(shard)
        self._figures = {}
        item = next((i for i in self._cache.picture.objects.of(SHARDS).values() if shard_number(i.name) == shard), None)
        self._wants += wants_of(item) if item is not None else ()

    def gave_back(self, shard: int) -> None:
        self.objects.forget(shard)
        self._wants = tuple(want for want in self._wants if want.shard != shard)
