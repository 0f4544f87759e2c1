"""A planner in the style of Slurm's backfill, as the comparison for `bench.forecast`.

It assumes that running jobs end at their declared limits and that nothing new arrives. It walks all waiting jobs by
priority and age over a table of time, and gives each the earliest time at which its whole gang fits until its limit. It
is kinder than Slurm's, which looks at the first 100 jobs and one day ahead only.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping

import numpy as np

from maar.forecast.start import Begin, StartState
from maar.model.resources import Ints
from maar.model.snapshot import Cluster
from maar.model.tasks import Status
from maar.sim.virtual import GPU

STEP = 60.0


class Table:
    """Free GPUs of each node from each time on."""

    def __init__(self, free: Ints, now: float) -> None:
        self.times = [now, math.inf]
        self.free = [free, free]

    def _cut(self, at: float) -> int:
        """The row that begins at a time."""
        row = bisect.bisect_left(self.times, at)
        if self.times[row] != at:
            self.times.insert(row, at)
            self.free.insert(row, self.free[row - 1].copy())
        return row

    def take(self, begin: float, end: float, gpus: Ints) -> None:
        first, last = self._cut(begin), self._cut(end)
        for row in range(first, last):
            self.free[row] = self.free[row] - gpus

    def earliest(self, seconds: float, workers: int, width: int) -> tuple[float, Ints]:
        """The first time at which all workers fit until they end, and where."""
        for row, begin in enumerate(self.times[:-1]):
            last = bisect.bisect_left(self.times, begin + seconds)
            least = np.minimum.reduce(self.free[row:last])
            fits = np.maximum(least, 0) // width
            if int(fits.sum()) >= workers:
                counts = np.diff(np.minimum(np.cumsum(fits), workers), prepend=0)
                return begin, counts * width
        return math.inf, np.zeros_like(self.free[0])


def plan(cluster: Cluster, begins: Mapping[str, Begin], now: float) -> dict[str, float]:
    """The planned start of each waiting job."""
    rows = {node.name: row for row, node in enumerate(cluster.nodes)}
    table = Table(np.array([node.allocatable[GPU] for node in cluster.nodes], dtype=np.int64), now)
    used: dict[str, Ints] = {}
    started: dict[str, float] = {}
    for task in cluster.tasks:
        if task.status is Status.BOUND:
            used.setdefault(task.job, np.zeros(len(rows), dtype=np.int64))[rows[task.node]] += _gpus(
                task.shape.requests
            )
            started[task.job] = min(started.get(task.job, math.inf), task.started or now)
    for key, gpus in used.items():
        limit = begins[key].traits.limit
        ends = math.inf if limit is None else started[key] + limit
        table.take(now, _on_step(max(ends, now + STEP), now), gpus)
    waiting = [b for b in begins.values() if b.state is StartState.WAITING]
    planned = {}
    for begin in sorted(waiting, key=lambda b: (-b.job.priority, b.job.created, b.job.key)):
        workers, width = _workers(cluster, begin)
        seconds = begin.traits.limit or math.inf
        at, gpus = table.earliest(seconds, workers, width)
        planned[begin.job.key] = at
        if at < math.inf:
            table.take(at, _on_step(at + seconds, now), gpus)
    return planned


def _on_step(time: float, now: float) -> float:
    return now + math.ceil((time - now) / STEP) * STEP if time < math.inf else math.inf


def _workers(cluster: Cluster, begin: Begin) -> tuple[int, int]:
    elastic = begin.job.elastic
    if elastic is not None:
        return elastic.requested, _gpus(elastic.shape.requests)
    tasks = [task for task in cluster.tasks if task.job == begin.job.key]
    return len(tasks), _gpus(tasks[0].shape.requests)


def _gpus(requests: tuple[tuple[str, int], ...]) -> int:
    return dict(requests).get(GPU, 0)
