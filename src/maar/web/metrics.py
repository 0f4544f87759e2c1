"""Metrics for Prometheus: durations of cycles, their decisions, waiting jobs by reason, the state of queues and pools.

Updated after each cycle; the state of queues and pools is read at each scrape.
"""

from __future__ import annotations

import asyncio
from collections import Counter as Tally
from collections.abc import Callable
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from maar.controller.loop import Cycle
from maar.controller.scheduler import Scheduler
from maar.session.state import queue_sums
from maar.web.pool_metrics import PoolMetrics

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


def _made(
    registry: CollectorRegistry, kind: Callable[..., Any], name: str, what: str, *labels: str, **more: Any
) -> Any:
    return kind(name, what, labels, namespace="maar", registry=registry, **more)


class Metrics:
    """The metrics of one scheduler, in a separate registry."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._cache = scheduler.cache
        self.registry = CollectorRegistry()
        made = partial(_made, self.registry)
        self._cycle: Histogram = made(Histogram, "cycle_seconds", "Duration of a cycle", buckets=SECONDS)
        self._action: Histogram = made(Histogram, "action_seconds", "Duration of an action", "action", buckets=SECONDS)
        self._binds: Counter = made(Counter, "binds", "Bound pods")
        self._evictions: Counter = made(Counter, "evictions", "Evicted pods", "queue")
        self._waiting: Gauge = made(Gauge, "waiting_jobs", "Waiting jobs by their first reason", "reason")
        self._allocated: Gauge = made(
            Gauge, "queue_allocated", "Resources allocated to the jobs of a queue", "queue", "resource"
        )
        self._share: Gauge = made(
            Gauge, "queue_share", "Largest share of any resource of all nodes that the jobs of a queue have", "queue"
        )
        self._lag: Gauge = made(Gauge, "watch_lag_seconds", "Time since the last sign of a watch", "resource")
        self._refused: Counter = made(Counter, "config_refused", "Refused configurations")
        self._foreign: Counter = made(Counter, "foreign_binds", "Pods of Maar that another scheduler bound")
        self._leader: Gauge = made(Gauge, "leader", "Whether this instance decides")
        self._invalid: Gauge = made(Gauge, "invalid_objects", "Objects that cannot be used, by kind", "kind")
        self._bugs: Counter = made(Counter, "bugs", "Unexpected errors that affected one object or job only")
        self._restarts: Counter = made(Counter, "restarts", "Restarts of parts that decisions do not depend on", "part")
        self._counted: Tally[str] = Tally()
        """What counters of other parts were when they were last read."""
        self._tasks: Gauge = made(Gauge, "tasks", "Tasks of the event loop")
        self._event_loop = asyncio.get_running_loop()
        ProcessCollector(registry=self.registry)
        self._foreign_before = 0
        self._codes: dict[str, str] = {}
        self._of_pools = PoolMetrics(scheduler, made)
        scheduler.loop.on_cycle.append(self.on_cycle)
        scheduler.loop.on_action.append(lambda name, seconds: self._action.labels(name).observe(seconds))
        scheduler.config.on_refused.append(lambda _: self._refused.inc())

    def on_cycle(self, cycle: Cycle) -> None:
        self._of_pools.on_cycle(cycle)
        self._cycle.observe(cycle.seconds)
        self._binds.inc(len(cycle.plan.bind))
        snapshot = self._cache.latest
        for evict in cycle.plan.evict:
            job = self._cache.task(evict.task).job
            self._evictions.labels(snapshot.jobs.jobs[snapshot.jobs.number[job]].queue).inc()
        resting = self._cache.resting
        self._codes = {job: code for job, code in self._codes.items() if job in resting}
        self._codes.update({w.job: w.reasons[0].code for w in cycle.plan.waiting})
        self._waiting.clear()
        for code, count in Tally(self._codes.values()).items():
            self._waiting.labels(code).set(count)

    def text(self) -> bytes:
        self._update_queues()
        self._update_problems()
        self._of_pools.update()
        self._lag.clear()
        for resource, seconds in self._scheduler.lags().items():
            self._lag.labels(resource).set(seconds)
        self._leader.set(int(self._scheduler.leading))
        self._tasks.set(len(asyncio.all_tasks(self._event_loop)))
        self._foreign.inc(self._scheduler.foreign.count - self._foreign_before)
        self._foreign_before = self._scheduler.foreign.count
        return generate_latest(self.registry)

    def _update_problems(self) -> None:
        problems = self._scheduler.picture.problems
        self._invalid.clear()
        for kind, count in problems.counts().items():
            self._invalid.labels(kind).set(count)
        self._bugs.inc(self._more("bugs", problems.bugs))
        for part, count in self._scheduler.restarts().items():
            self._restarts.labels(part).inc(self._more(part, count))

    def _more(self, what: str, count: int) -> int:
        """How much a counter of another part has grown since it was last read."""
        more, self._counted[what] = count - self._counted[what], count
        return more

    def _update_queues(self) -> None:
        if not self._cache.started:
            return
        snapshot = self._cache.latest
        sums = queue_sums(snapshot, snapshot.jobs.allocated)
        totals = snapshot.nodes.allocatable.sum(axis=0).tolist()
        self._allocated.clear()
        self._share.clear()
        for queue, row in zip(snapshot.queues.queues, sums.tolist(), strict=True):
            parts = [has / total for has, total in zip(row, totals, strict=True) if total]
            self._share.labels(queue.name).set(max(parts, default=0.0))
            for resource, amount in zip(snapshot.axes.names, row, strict=True):
                self._allocated.labels(queue.name, resource).set(amount)
