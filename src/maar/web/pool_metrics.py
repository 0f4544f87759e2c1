"""Metrics of pools and elastic jobs: resizes, sizes compared with the plan, placement on nodes.

This is part of `maar.web.metrics`. Changes are counted after each cycle; the state is read from the last snapshot at
each scrape.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable

import numpy as np
from prometheus_client import Counter, Gauge

from maar.controller.settings.config_file import ConfigFile
from maar.controller.snapshots.cycle import Cycle
from maar.model.elastic_outcome import sizes_of
from maar.model.plan import Cause, Plan, Target
from maar.model.resources import Mask
from maar.model.snapshot import Snapshot
from maar.model.tasks import Status
from maar.session.resizing.pools import nodes_of_pools
from maar.web.metric_parts import Made


class PoolMetrics:
    """Metrics with a `pool` label."""

    def __init__(self, config: ConfigFile, made: Made) -> None:
        self._last: Cycle | None = None
        self._config = config
        self._targets: dict[str, Target] = {}
        """Targets of the last cycle, by job."""
        self._sizes: dict[str, int] = {}
        """Sizes that the last cycle changed, by job."""
        self._resizes: Counter = made(Counter, "resizes", "Resizes of elastic jobs", "pool", "kind")
        self._migrations: Counter = made(Counter, "migrations", "Workers moved to another node", "pool")
        self._workers: Gauge = made(Gauge, "elastic_workers", "Workers of elastic jobs", "pool")
        self._planned: Gauge = made(Gauge, "elastic_planned_workers", "Workers that the algorithm planned", "pool")
        self._jobs: Gauge = made(Gauge, "elastic_jobs", "Elastic jobs by state", "pool", "state")
        self._across: Gauge = made(
            Gauge, "elastic_jobs_across_nodes", "Elastic jobs with workers on several nodes", "pool"
        )
        self._gpus: Gauge = made(Gauge, "pool_gpus", "GPUs of the nodes of a pool", "pool")
        self._used: Gauge = made(Gauge, "pool_gpus_used", "GPUs of the nodes of a pool that pods use", "pool")

    def on_cycle(self, cycle: Cycle) -> None:
        self._last, plan = cycle, cycle.plan
        self._targets = {target.job: target for target in plan.targets}
        self._sizes = {job: size for job, (size, _) in sizes_of(plan).items()}
        for job, kind in kinds_of_changes(plan):
            self._resizes.labels(self._pool_of(job), kind).inc()
        for evict in plan.evict:
            if evict.cause is Cause.MIGRATED:
                self._migrations.labels(self._pool_of(evict.beneficiary)).inc()

    def _pool_of(self, job: str) -> str:
        target = self._targets.get(job)
        return "" if target is None else target.pool

    def update(self) -> None:
        if self._last is None:
            return
        snapshot = self._last.snapshot
        gpus = list(snapshot.axes.accelerators)
        for gauge in (self._workers, self._planned, self._jobs, self._across, self._gpus, self._used):
            gauge.clear()
        own = self._own_nodes(self._last)
        for option, nodes in nodes_of_pools(snapshot.nodes, self._config.config.pools):
            mask = nodes & own
            self._gpus.labels(option.name).set(int(snapshot.nodes.allocatable[mask][:, gpus].sum()))
            self._used.labels(option.name).set(int(snapshot.used[mask][:, gpus].sum()))
            for gauge in (self._workers, self._planned, self._across):
                gauge.labels(option.name).set(0)
            for state in ("running", "waiting"):
                self._jobs.labels(option.name, state).set(0)
        across: Tally[str] = Tally()
        for row in snapshot.jobs.elastic:
            job = snapshot.jobs.jobs[row]
            target = self._targets.get(job.key)
            if target is None or job.elastic is None or not job.is_elastic:
                continue
            size = self._sizes.get(job.key, job.elastic.now)
            self._workers.labels(target.pool).inc(size)
            self._planned.labels(target.pool).inc(target.planned)
            self._jobs.labels(target.pool, "running" if size else "waiting").inc()
            across[target.pool] += nodes_under(snapshot, row) > 1
        for pool, count in across.items():
            self._across.labels(pool).set(count)

    def _own_nodes(self, cycle: Cycle) -> Mask:
        """The nodes that this process uses, so that every node is reported once."""
        names = cycle.snapshot.nodes.names
        return np.fromiter(map(cycle.own.has_node, names), dtype=np.bool_, count=len(names))


def kinds_of_changes(plan: Plan) -> Iterable[tuple[str, str]]:
    """Each job that the plan resizes, and how."""
    yield from ((r.job, "up" if r.after > r.before else "down") for r in plan.resize)
    yield from ((s.job, "suspend") for s in plan.suspend)
    yield from ((r.job, "resume") for r in plan.resume)


def nodes_under(snapshot: Snapshot, row: int) -> int:
    job, table = snapshot.jobs.jobs[row], snapshot.tasks
    assert job.elastic is not None
    members = snapshot.jobs.members[row]
    bound = members[table.status[members] == int(Status.BOUND)].tolist()
    return len(np.unique([table.node[t] for t in bound if table.tasks[t].role == job.elastic.role]))
