"""Metrics of what `maar run` writes, of whether it leads, and of the shards that it holds. Part of `maar.web.metrics`.

In shadow mode they are 0, and without shards there are none of these.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable
from functools import partial

from prometheus_client import Counter, Gauge, Histogram

from maar.controller.observer import Observer
from maar.controller.scheduler import Scheduler
from maar.controller.shards.front import Shards
from maar.controller.snapshots.cycle import Cycle
from maar.kube.write.executor import Bind, Work
from maar.model.snapshot import Snapshot
from maar.shards.map import ShardMap
from maar.shards.sharing import Figures, Sharing
from maar.web.metric_parts import Made
from maar.web.metrics import Metrics

DELAYS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class ActorMetrics:
    """Metrics of one scheduler, if there is one."""

    def __init__(self, scheduler: Scheduler | None, made: Made) -> None:
        self._scheduler = scheduler
        self._made = made
        self._delay: Histogram = made(
            Histogram, "bind_delay_seconds", "Time from the decision to bind a pod to its request", buckets=DELAYS
        )
        self._foreign: Counter = made(Counter, "foreign_binds", "Pods of Maar that another scheduler bound")
        self._leader: Gauge = made(Gauge, "leader", "Whether this instance decides")
        self._foreign_before = 0
        self._of_shards: ShardMetrics | None = None
        if scheduler is not None:
            scheduler.executor.on_sent.append(self._on_sent)

    def _on_sent(self, work: Work, seconds: float) -> None:
        if isinstance(work, Bind):
            self._delay.observe(seconds)

    def update(self, last: Cycle | None) -> None:
        """Read everything; `last` is the last cycle."""
        scheduler = self._scheduler
        if scheduler is None:
            return
        self._leader.set(int(scheduler.leading))
        self._foreign.inc(scheduler.foreign.count - self._foreign_before)
        self._foreign_before = scheduler.foreign.count
        if self._of_shards is None and scheduler.shards is not None:  # it is known only after the start
            self._of_shards = ShardMetrics(scheduler.shards, self._made)
        if self._of_shards is not None:
            self._of_shards.update(last)


def metrics_of(observer: Observer, scheduler: Scheduler | None = None) -> Metrics:
    """All metrics of a process: of its observer, which is the scheduler, if there is one."""
    return Metrics(observer, partial(ActorMetrics, scheduler))


class ShardMetrics:
    """Metrics read at each scrape. Those with a `shard` label are reported by the holder of the shard only."""

    def __init__(self, shards: Shards, made: Made) -> None:
        self._shards = shards
        self._needed: Gauge = made(Gauge, "shards", "Shards that need a holder")
        self._held: Gauge = made(Gauge, "shard_held", "Whether this process holds the shard", "shard")
        self._epoch: Gauge = made(Gauge, "shard_epoch", "How often the shard got a new holder", "shard")
        self._nodes: Gauge = made(Gauge, "shard_nodes", "Nodes that the shard owns", "shard")
        self._lent: Gauge = made(Gauge, "shard_nodes_lent", "Nodes of its slots that others own", "shard")
        self._borrowed: Gauge = made(Gauge, "shard_nodes_borrowed", "Nodes of slots of others that it owns", "shard")
        self._wants: Gauge = made(Gauge, "shard_wants", "Jobs for which it asks other shards for nodes", "shard")
        self._waiting: Gauge = made(Gauge, "shard_waiting_jobs", "Waiting jobs of its queues", "shard")
        self._take_overs: Counter = made(Counter, "shard_take_overs", "How often this process took the shard", "shard")
        self._seconds: Gauge = made(Gauge, "shard_take_over_seconds", "Duration of the last take-over", "shard")
        self._writes: Counter = made(Counter, "shard_map_writes", "Writes of the ShardMap that gave something away")
        self._counted: Tally[int] = Tally()
        self._written = 0
        self._known: tuple[ShardMap, object, dict[int, Figures]] | None = None

    def update(self, last: Cycle | None) -> None:
        """Read everything; `last` is the last cycle."""
        gauges = (self._held, self._epoch, self._nodes, self._lent, self._borrowed, self._wants, self._waiting)
        for gauge in gauges:
            gauge.clear()
        self._update_take_overs()
        holding = self._shards.holding
        self._needed.set(0 if holding.stored is None else len(holding.map.members()))
        if holding.stored is None or not holding.epochs:
            return
        owners, snapshot = holding.map, None if last is None else last.snapshot
        figures = {} if snapshot is None else self._figures(owners, snapshot)
        wants = _by_shard(owners, snapshot, self._shards.wanting)
        waits = _by_shard(owners, snapshot, () if last is None else last.waits)
        for shard, epoch in holding.epochs.items():
            of = figures.get(shard, Figures())
            values = (1, epoch, of.nodes, of.lent, of.borrowed, wants[shard], waits[shard])
            for gauge, value in zip(gauges, values, strict=True):
                gauge.labels(str(shard)).set(value)

    def _update_take_overs(self) -> None:
        written = self._shards.moves.written
        self._writes.inc(written - self._written)
        self._written = written
        for shard, count in self._shards.taken.items():
            self._take_overs.labels(str(shard)).inc(count - self._counted[shard])
            self._counted[shard] = count
        for shard, seconds in self._shards.take_over_seconds.items():
            self._seconds.labels(str(shard)).set(seconds)

    def _figures(self, owners: ShardMap, snapshot: Snapshot) -> dict[int, Figures]:
        """Counted again only if the map or the nodes have changed."""
        names = snapshot.nodes.names
        if self._known is None or self._known[0] is not owners or self._known[1] is not names:
            self._known = (owners, names, Sharing(owners).figures(names))
        return self._known[2]


def _by_shard(owners: ShardMap, snapshot: Snapshot | None, jobs: Iterable[str]) -> Tally[int]:
    if snapshot is None:
        return Tally()
    table, number = snapshot.jobs.jobs, snapshot.jobs.number
    return Tally(owners.shard_of(table[number[job]].queue) for job in jobs if job in number)
