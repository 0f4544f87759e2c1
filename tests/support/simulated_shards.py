"""Simulated shards: several schedulers that take steps, one at a time, on one virtual cluster.

A step of a shard (`maar.shards.shard`) takes effect at once: pods are bound and evicted, wants are read by all, nodes
belong to the taker. What happens when requests are late or processes die is the subject of the model in
`tests/shards/model`; this is about what the shards decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from maar.config.config import Config
from maar.model.queues import QueueTree
from maar.model.resources import Mask
from maar.model.snapshot import Cluster, Snapshot
from maar.shards.map import ShardMap
from maar.shards.public_view import with_room_of_others
from maar.shards.scope import own_jobs
from maar.shards.shard import Lend, Standing, Step, step
from maar.shards.wants import Pause, Want
from maar.sim.virtual import Virtual


class Counts(msgspec.Struct):
    """What the shards did."""

    steps: int = 0
    lends: int = 0
    binds: int = 0
    evictions: int = 0
    missed: int = 0
    """Wants that were not served in time."""


class Shards:
    """N shards on one cluster."""

    def __init__(
        self,
        cluster: Cluster,
        config: Config,
        owners: ShardMap,
        now: float = 0.0,
        witness: Callable[[Cluster, Step, Cluster], None] | None = None,
        pace: float = 1.0,
    ) -> None:
        """`witness` sees the cluster before and after each step; `pace` seconds pass with each step."""
        self._witness = witness
        self._pace = pace
        self.virtual = Virtual.of(cluster)
        self.config = config
        self.owners = _with_parents(owners, QueueTree(cluster.queues))
        self.now = now
        self.wants: dict[int, tuple[Want, ...]] = {}
        self.pauses: dict[int, tuple[Pause, ...]] = {}
        self.counts = Counts()
        self._names: tuple[str, ...] = ()
        self._uses: dict[int, set[str]] = {}
        """The nodes of each shard, of those names."""

    def standing(self, shard: int, snapshot: Snapshot) -> Standing:
        """What a shard knows: it uses all nodes, and decides for all queues, that the map gives it."""
        owners = self.owners
        uses = self._nodes_of(shard, snapshot.nodes.names)
        queues = frozenset(queue.name for queue in snapshot.queues.queues if owners.shard_of(queue.name) == shard)
        wants = tuple(want for wants in self.wants.values() for want in wants)
        return Standing(frozenset({shard}), owners, uses, queues, wants=wants, pauses=self.pauses.get(shard, ()))

    def _nodes_of(self, shard: int, names: tuple[str, ...]) -> frozenset[str]:
        """The nodes that the map gives to a shard."""
        if self._names is not names:
            self._names, self._uses = names, {}
            for name in names:
                self._uses.setdefault(self.owners.owner_of(name), set()).add(name)
        return frozenset(self._uses.get(shard, ()))

    def step(self, shard: int) -> bool:
        """One step of a shard; returns whether anything changed."""
        snapshot = self.virtual.snapshot()
        standing = self.standing(shard, snapshot)
        taken = self.decided(snapshot, standing)
        if self._witness is not None:
            tied = {task.job for task in snapshot.tasks.tasks if task.resident}
            borrows = [want for want in taken.wants if want.job in tied and not standing.uses.issuperset(want.nodes)]
            assert not borrows, f"the user of its node binds a pod tied to it, and nobody borrows for it: {borrows}"
        changed = self._carry_out(shard, taken, snapshot, own_jobs(snapshot, standing.uses, standing.queues))
        self.counts.steps += 1
        self.now += self._pace
        return changed

    def decided(self, snapshot: Snapshot, standing: Standing) -> Step:
        """What a shard decides."""
        return step(snapshot, self.config, self.now, standing)

    def _carry_out(self, shard: int, taken: Step, snapshot: Snapshot, own: Mask) -> bool:
        before = self.virtual.version, self.owners, self.wants.get(shard, ())
        cluster = self.virtual.cluster() if self._witness is not None else None
        self.virtual.carry_out(with_room_of_others(taken.plan, snapshot, own), self.now)
        for lend in taken.lends:
            self._lend(lend)
        longer = {pause.id: pause.length for pause in self.pauses.get(shard, ())}
        self.counts.missed += sum(longer.get(pause.id) != pause.length for pause in taken.pauses)
        self.wants[shard], self.pauses[shard] = taken.wants, taken.pauses
        self.counts.lends += len(taken.lends)
        self.counts.binds += len(taken.plan.bind)
        self.counts.evictions += len(taken.plan.evict)
        if self._witness is not None and cluster is not None:
            self._witness(cluster, taken, self.virtual.cluster())
        return before != (self.virtual.version, self.owners, taken.wants)

    def _lend(self, lend: Lend) -> None:
        self._uses.get(self.owners.owner_of(lend.node), set()).discard(lend.node)
        self._uses.setdefault(lend.to, set()).add(lend.node)
        self.owners = self.owners.lent(lend.node, lend.to)

    def settle(self, order: Iterable[int], pauses: int = 3) -> bool:
        """Take steps in this order of shards until a round of all of them changes nothing; False if `order` ends.

        While wants stand or jobs are in a pause, the time moves to their end, up to `pauses` times.
        """
        members, quiet = set(self.owners.members()), set[int]()
        for shard in order:
            quiet = set() if self.step(shard) else quiet | {shard}
            if quiet < members:
                continue
            ends = [pause.until for of in self.pauses.values() for pause in of if pause.until > self.now]
            ends += [want.deadline for of in self.wants.values() for want in of if want.elected is None]
            if not ends or not pauses:
                return True
            self.now, quiet, pauses = max(self.now, *ends), set(), pauses - 1
        return False


def _with_parents(owners: ShardMap, tree: QueueTree) -> ShardMap:
    """The map after queues have moved to the shards of their top-level queues."""
    for number, path in enumerate(tree.path):
        if not tree.broken[number] and len(path) > 1:
            owners = owners.let_go(tree.queues[number].name, owners.shard_of(tree.queues[path[-2]].name))
    return owners
