"""Metrics of what `maar run` writes, and of whether it leads. In shadow mode they are 0. Part of `maar.web.metrics`."""

from __future__ import annotations

from functools import partial

from prometheus_client import Counter, Gauge, Histogram

from maar.controller.observer import Observer
from maar.controller.scheduler import Scheduler
from maar.controller.snapshots.cycle import Cycle
from maar.kube.write.executor import Bind, Work
from maar.web.metric_parts import Made
from maar.web.metrics import Metrics
from maar.web.shard_metrics import ShardMetrics

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
            self._of_shards = ShardMetrics(scheduler, scheduler.shards, self._made)
        if self._of_shards is not None:
            self._of_shards.update(last)


def metrics_of(observer: Observer, scheduler: Scheduler | None = None) -> Metrics:
    """All metrics of a process: of its observer, which is the scheduler, if there is one."""
    return Metrics(observer, partial(ActorMetrics, scheduler))
