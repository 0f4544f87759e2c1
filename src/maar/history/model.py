"""The speed-up model: what measurements and accounting say about how fast jobs are on how many workers.

Fed with records in about the order of time, as the store gives them; asked by the controller and by `maar history`.
No database, no clock. Rules:

- Only sizes that were measured have a point: the median of the newest epochs on that many workers. A size that was
  never measured has none (Voda filled it with a default, which one measurement then corrupted).
- S(k) = epoch time on 1 / epoch time on k. If 1 was never measured, epoch time on 1 is counted from the smallest size
  measured, as if speed-up were linear below it.
- An epoch in which the size changed belongs to no size: it said so itself, or accounting has a start, a resize or a
  suspension between its begin and its end, whichever of the two was heard of first.
- The key is (category, accelerator). A key with fewer than two sizes says nothing of a curve; the same category on the
  accelerator with most measurements speaks for it. Where nobody speaks, there are no points: linear.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from statistics import median
from typing import Any

from maar.history.progress import Progress
from maar.history.records import Event, EventKind, Measurement, Record
from maar.history.restarts import restart_seconds, took_effect

Key = tuple[str, str]
"""Category and accelerator."""

RECENT = 101
"""So many of the newest epochs of a size count: trainings change, and medians like odd numbers. By taste."""
RESTARTS = 3
"""Fewer restarts than that are an accident, not a cost. By taste."""
WITHIN = (1e-9, 1e9)
"""Speed-ups that are believed, by taste, as `maar allocate` does. Whoever reaches the port may tell of an epoch that
took no time at all, and no curve goes through a point in infinity."""
JOBS = 20_000
"""Jobs whose progress is remembered, the newest."""
KEYS = 20_000
"""Categories by accelerator that are remembered, those last heard of: whoever reaches the port may invent more."""
SIZES = 256
"""Sizes of one of them, those last heard of. By taste: more than one training is ever run on, and a curve through some
thousands of points would take minutes to fit."""


class Model:
    """What is known of all jobs."""

    def __init__(self) -> None:
        self._times: dict[Key, dict[int, dict[int, float]]] = defaultdict(dict)
        """Key, workers, row of the measurement: seconds; oldest first."""
        self._counts: dict[Key, int] = {}
        """How many measurements each has had; who was last heard of comes last."""
        self._kin: dict[str, set[Key]] = defaultdict(set)
        """The keys of each category."""
        self._totals: dict[str, deque[int]] = defaultdict(lambda: deque(maxlen=RECENT))
        self._restarts: dict[Key, deque[float]] = defaultdict(lambda: deque(maxlen=RECENT))
        self._jobs: dict[str, Progress] = {}
        self._points: dict[Key, Mapping[int, float]] = {}
        self._stale: set[Key] = set()

    # -- hearing

    def feed(self, record: Record) -> None:
        """Hear of one record."""
        if isinstance(record, Measurement):
            self._measured(record)
        else:
            self._happened(record)

    def _measured(self, m: Measurement) -> None:
        job = self._job(m)
        key = (m.category, m.accelerator)
        self._heard(key)
        if m.total_epochs is not None and m.total_epochs != job.total:
            self._totals[m.category].append(m.total_epochs)
        job.measured(m)
        if job.resize is not None and took_effect(job.resize, m):
            cost = restart_seconds(job.resize, m, self.epoch_times(key))
            if cost is not None:
                self._restarts[key].append(cost)
            job.resize = None
        if not m.resized and not job.changed_within(m.begin, m.end):
            job.remember(m)
            sizes = self._times[key]
            times = sizes[m.workers] = sizes.pop(m.workers, {})  # the last one now
            times[m.id] = m.seconds
            _forget_first(times, RECENT)
            _forget_first(sizes, SIZES)
            self._stale.add(key)

    def _heard(self, key: Key) -> None:
        """Something was measured of a key, which is the last now; the first of too many is forgotten."""
        self._counts[key] = self._counts.pop(key, 0) + 1
        self._kin[key[0]].add(key)
        if len(self._counts) > KEYS:
            oldest = next(iter(self._counts))
            for kept in (self._counts, self._times, self._restarts):
                kept.pop(oldest, None)
            self._stale.add(oldest)
            self._kin[oldest[0]].discard(oldest)
            if not self._kin[oldest[0]]:
                del self._kin[oldest[0]]
                self._totals.pop(oldest[0], None)

    def _happened(self, e: Event) -> None:
        job = self._job(e)
        if e.kind is EventKind.ENDED:
            self._jobs.pop(e.job, None)
            return
        if e.kind is EventKind.SUBMITTED:
            return
        for m in job.changed(e.at):
            key = (m.category, m.accelerator)
            if self._times.get(key, {}).get(m.workers, {}).pop(m.id, None) is not None:
                self._stale.add(key)
        job.resize = e if e.kind is EventKind.RESIZED else None

    def _job(self, record: Record) -> Progress:
        """The job of a record; another UID is another job of the same name."""
        job = self._jobs.get(record.job)
        if job is None or (record.uid and job.uid and record.uid != job.uid):
            job = self._jobs[record.job] = Progress()
            if len(self._jobs) > JOBS:
                del self._jobs[next(iter(self._jobs))]
        job.known(record)
        return job

    # -- asking

    def points(self) -> Mapping[Key, Mapping[int, float]]:
        """The measured points {workers: speed-up} of every key that has any; only what changed is counted anew."""
        if self._stale:
            points = dict(self._points)
            for key in self._stale:
                points[key] = speedups(self.epoch_times(key))
                if not points[key]:
                    del points[key]
            self._points = points
            self._stale.clear()
        return self._points

    def epoch_times(self, key: Key) -> dict[int, float]:
        """The median epoch on each number of workers that was measured."""
        sizes = self._times.get(key, {})
        return {workers: median(sizes[workers].values()) for workers in sorted(sizes) if sizes[workers]}

    def samples(self, key: Key) -> dict[int, int]:
        """How many epochs each of these medians is of."""
        return {workers: len(epochs) for workers, epochs in sorted(self._times.get(key, {}).items()) if epochs}

    def count(self, key: Key) -> int:
        """How many measurements there were."""
        return self._counts.get(key, 0)

    def measured(self) -> list[Key]:
        """All keys of which anything was measured."""
        return sorted(self._counts)

    def kin(self, category: str) -> list[Key]:
        """The keys of a category, those with most measurements first."""
        return sorted(self._kin.get(category, ()), key=lambda k: (-self.count(k), k))

    def points_for(self, key: Key) -> Mapping[int, float]:
        """The points to believe: its own, or those of its category elsewhere; empty is linear."""
        points = self.points()
        own = points.get(key, {})
        if len(own) > 1:
            return own
        elsewhere = (k for k in self.kin(key[0]) if k != key and len(points.get(k, ())) > 1)
        other = next(elsewhere, None)
        return own if other is None else points[other]

    def job(self, name: str) -> Progress | None:
        """What is known of a job, by `namespace/name`."""
        return self._jobs.get(name)

    def total_epochs(self, category: str) -> int | None:
        """How many epochs jobs of a category have: the median of what they said."""
        totals = self._totals.get(category)
        return round(median(totals)) if totals else None

    def restart(self, key: Key) -> float | None:
        """What a resize costs, in seconds: the median of the newest; of the category anywhere if it has too few."""
        own = self._restarts.get(key, ())
        if len(own) >= RESTARTS:
            return median(own)
        anywhere = [cost for k in self.kin(key[0]) for cost in self._restarts.get(k, ())]
        return median(anywhere) if len(anywhere) >= RESTARTS else None


def _forget_first(among: dict[int, Any], most: int) -> None:
    if len(among) > most:
        del among[next(iter(among))]


def speedups(times: Mapping[int, float]) -> dict[int, float]:
    """Points of measured epoch times; linear below the smallest size measured.

    >>> speedups({1: 60.0, 2: 40.0}), speedups({2: 30.0, 4: 20.0})
    ({1: 1.0, 2: 1.5}, {2: 2.0, 4: 3.0})
    """
    if not times:
        return {}
    smallest = min(times)
    alone = smallest * times[smallest]
    slowest, fastest = WITHIN
    return {workers: min(max(alone / seconds, slowest), fastest) for workers, seconds in sorted(times.items())}
