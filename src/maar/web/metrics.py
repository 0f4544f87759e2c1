"""Metrics for Prometheus: cycles and their decisions, waiting jobs by reason, writes, the state of queues and pools.

They come from an observer, after each cycle; the state of queues and pools is read at each scrape. What only a process
has that writes is in `actor_metrics`.
"""

from __future__ import annotations

import asyncio
from collections import Counter as Tally
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from maar.controller.observer import Observer
from maar.controller.snapshots.cycle import Cycle
from maar.session.eviction.cost import work_lost
from maar.web.messages import Alive
from maar.web.metric_parts import Made, Part
from maar.web.pool_metrics import PoolMetrics
from maar.web.queue_metrics import queue_of, queue_text
from maar.web.wait_metrics import WaitMetrics

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


def _made(
    registry: CollectorRegistry, kind: Callable[..., Any], name: str, what: str, *labels: str, **more: Any
) -> Any:
    return kind(name, what, labels, namespace="maar", registry=registry, **more)


class Metrics:
    """The metrics of one process, in a separate registry."""

    def __init__(self, observer: Observer, *parts: Callable[[Made], Part]) -> None:
        self._observer = observer
        self._last: Cycle | None = None
        self.registry = CollectorRegistry()
        made = partial(_made, self.registry)
        self._cycle: Histogram = made(Histogram, "cycle_seconds", "Duration of a cycle", buckets=SECONDS)
        self._first: Gauge = made(
            Gauge, "first_cycle_timestamp_seconds", "When the first cycle ended, in Unix seconds; 0 before"
        )
        self._action: Histogram = made(Histogram, "action_seconds", "Duration of an action", "action", buckets=SECONDS)
        self._binds: Counter = made(Counter, "binds", "Bound pods")
        self._evictions: Counter = made(Counter, "evictions", "Evicted pods", "queue", "cause")
        self._lost: Counter = made(
            Counter, "lost_gpu_seconds", "Work of evicted pods since their last checkpoint or start", "queue", "cause"
        )
        self._writes: Counter = made(
            Counter, "writes", "Requests that change something in the cluster", "resource", "verb", "result"
        )
        self._waiting: Gauge = made(Gauge, "waiting_jobs", "Waiting jobs by their first reason", "reason")
        self._lag: Gauge = made(Gauge, "watch_lag_seconds", "Time since the last sign of a watch", "resource")
        self._refused: Counter = made(Counter, "config_refused", "Refused configurations")
        self._responses: Counter = made(Counter, "http_responses", "Responses of the HTTP server", "code")
        self._connections: Gauge = made(Gauge, "http_connections", "Open connections to the HTTP server")
        self._invalid: Gauge = made(Gauge, "invalid_objects", "Objects that cannot be used, by kind", "kind")
        self._bugs: Counter = made(Counter, "bugs", "Unexpected errors that affected one object or job only")
        self._restarts: Counter = made(Counter, "restarts", "Restarts of parts that decisions do not depend on", "part")
        self._measured: Gauge = made(Gauge, "measured_nodes", "Nodes whose real load is known")
        self._counted: Tally[str] = Tally()
        """What counters of other parts were when they were last read."""
        self._tasks: Gauge = made(Gauge, "tasks", "Tasks of the event loop")
        self._event_loop = asyncio.get_running_loop()
        ProcessCollector(registry=self.registry)
        self._begun = False
        self._waits = WaitMetrics()
        self._deserved: Mapping[str, Mapping[str, int]] = {}
        """What queues deserve by the last decision that looked at them."""
        self._of_pools = PoolMetrics(observer.config, made)
        self._parts: list[Part] = [make(made) for make in parts]
        observer.loop.on_cycle.append(self.on_cycle)
        observer.loop.on_action.append(lambda name, seconds: self._action.labels(name).observe(seconds))
        observer.config.on_refused.append(lambda _: self._refused.inc())

    def on_cycle(self, cycle: Cycle) -> None:
        self._last = cycle
        self._of_pools.on_cycle(cycle)
        if not self._begun:
            self._first.set(cycle.now + cycle.seconds)
            self._begun = True
        self._cycle.observe(cycle.seconds)
        self._binds.inc(len(cycle.plan.bind))
        self._count_evictions(cycle)
        self._waits.on_cycle(cycle)
        if cycle.plan.deserved:
            self._deserved = {share.queue: share.amounts for share in cycle.plan.deserved}

    def _count_evictions(self, cycle: Cycle) -> None:
        snapshot = cycle.snapshot
        for evict in cycle.plan.evict:
            job = cycle.pods[evict.task].job
            labels = queue_of(snapshot, job), evict.cause.value
            self._evictions.labels(*labels).inc()
            members = snapshot.jobs.members[snapshot.jobs.number[job]]
            gone = members[[snapshot.tasks.tasks[t].key == evict.task for t in members.tolist()]]
            self._lost.labels(*labels).inc(float(work_lost(snapshot, gone, cycle.now)[0].sum()))

    def on_alive(self, alive: Alive) -> None:
        """The HTTP process has sent its counts."""
        self._connections.set(alive.connections)
        for code, count in alive.responses.items():
            self._responses.labels(code).inc(count)

    def on_restart(self) -> None:
        self._restarts.labels("http").inc()
        self._connections.set(0)

    def text(self) -> bytes:
        last = self._last
        codes = {} if last is None else {job: wait.reasons[0].code for job, wait in last.waits.items()}
        self._waiting.clear()
        for code, count in Tally(codes.values()).items():
            self._waiting.labels(code).set(count)
        self._update_problems()
        self._update_writes()
        self._of_pools.update()
        for part in self._parts:
            part.update(last)
        self._lag.clear()
        for resource, seconds in self._observer.lags().items():
            self._lag.labels(resource).set(seconds)
        self._measured.set(self._observer.loads.known())
        self._tasks.set(len(asyncio.all_tasks(self._event_loop)))
        queues = queue_text(None, codes=codes)
        if last is not None:
            queues = queue_text(last.snapshot, last.own.has_queue, self._deserved, codes)
        return generate_latest(self.registry) + queues + self._waits.text()

    def _update_writes(self) -> None:
        for write, count in self._observer.reader.writes.items():
            self._writes.labels(*write).inc(self._more(f"write {write}", count))

    def _update_problems(self) -> None:
        problems = self._observer.picture.problems
        self._invalid.clear()
        for kind, count in problems.counts().items():
            self._invalid.labels(kind).set(count)
        self._bugs.inc(self._more("bugs", problems.bugs))
        for part, count in self._observer.restarts().items():
            self._restarts.labels(part).inc(self._more(part, count))

    def _more(self, what: str, count: int) -> int:
        """How much a counter of another part has grown since it was last read."""
        more, self._counted[what] = count - self._counted[what], count
        return more
