"""The speed-up model: the speed of jobs by number of workers, from measurements and accounting events.

The store feeds it records roughly in order of time; the controller and `maar history` ask it. It uses no database and
no clock. Rules:

- Only measured sizes have a point: the median of the newest epochs on that many workers. Other sizes have no point
  (Voda used a default, which one measurement then corrupted). One job has only a part of these epochs.
- Step times (`maar.elastic.steps`) are fitted to the same epochs, by workers, nodes and batch size. If every epoch has
  a step time and a batch size, these are used; else the time of the whole epoch.
- S(k) = epoch time on 1 / epoch time on k. If 1 is not measured, its epoch time is computed from the smallest measured
  size, as if the speed-up were linear below it.
- An epoch in which the size changed counts for no size. Either the measurement says so, or accounting has a start, a
  resize or a suspension within the epoch; the two records may arrive in any order.
- The key is (category, accelerator). A key with fewer than two sizes uses the points of the same category on the
  accelerator with most measurements. Without points, the curve is linear.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from statistics import median
from typing import Any, NamedTuple

import msgspec

from maar.elastic.steps import MeasuredSteps, Steps, fit, settings_of
from maar.history.category import namespace_of, scoped
from maar.history.progress import Progress
from maar.history.records import Event, EventKind, Measurement, Record
from maar.history.restarts import restart_seconds, took_effect

Key = tuple[str, str]
"""Category and accelerator."""

RECENT = 101
"""Newest epochs per size that count, because trainings change. Tuned by hand."""
OF_ONE = 16
"""Newest epochs of one job per size that count, so that one wrong job cannot replace the others. Tuned by hand."""
RESTARTS = 3
"""Minimum measured restarts for an estimate of their cost. Tuned by hand."""
WITHIN = (1e-9, 1e9)
"""Accepted speed-ups, as in `maar allocate`. Any client may report an epoch of 0 seconds, and no curve goes through an
infinite point. Tuned by hand."""
JOBS = 20_000
"""Maximum jobs with remembered progress; the namespace with most jobs loses its oldest."""
KEYS = 20_000
"""Maximum keys, because any client may invent categories."""
SIZES = 256
"""Maximum sizes per key; the least recently measured are dropped. A curve through thousands of points takes minutes to
fit. Tuned by hand."""


class Epoch(NamedTuple):
    """What is kept of a measured epoch."""

    job: str
    seconds: float
    nodes: int
    batch: float
    step: float


class Model:
    """The model of all jobs."""

    def __init__(self) -> None:
        self._times: dict[Key, dict[int, dict[int, Epoch]]] = defaultdict(dict)
        """Epochs by key, workers and row of the measurement; oldest first."""
        self._counts: dict[Key, int] = {}
        """Number of measurements by key; the most recently measured key is last."""
        self._sizes: Counter[str] = Counter()
        """Number of keys by namespace."""
        self._kin: dict[str, set[Key]] = defaultdict(set)
        """The keys of each category."""
        self._totals: dict[str, deque[int]] = defaultdict(lambda: deque(maxlen=RECENT))
        self._noises: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=RECENT))
        self._restarts: dict[Key, deque[float]] = defaultdict(lambda: deque(maxlen=RECENT))
        self._jobs: dict[str, Progress] = {}
        self._crowds: Counter[str] = Counter()
        """Number of jobs by namespace."""
        self._points: dict[Key, Mapping[int, float]] = {}
        self._steps: dict[Key, Steps] = {}
        self._stale: set[Key] = set()

    # -- input

    def feed(self, record: Record) -> None:
        # Rows of earlier versions may have categories that namespaces share.
        record = msgspec.structs.replace(record, category=scoped(record.namespace, record.category))
        if isinstance(record, Measurement):
            self._measured(record)
        else:
            self._happened(record)

    def _measured(self, m: Measurement) -> None:
        job = self._job(m)
        key = (m.category, m.accelerator)
        self._touch(key)
        if m.total_epochs is not None and m.total_epochs != job.total:
            self._totals[m.category].append(m.total_epochs)
        if m.noise_scale is not None:
            self._noises[m.category].append(m.noise_scale)
        job.measured(m)
        if job.resize is not None and took_effect(job.resize, m):
            cost = restart_seconds(job.resize, m, self.epoch_times(key))
            if cost is not None:
                self._restarts[key].append(cost)
            job.resize = None
        if not m.resized and not job.changed_within(m.begin, m.end):
            job.remember(m)
            sizes = self._times[key]
            times = sizes[m.workers] = sizes.pop(m.workers, {})  # moved to the end
            times[m.id] = Epoch(m.job, m.seconds, m.nodes or 0, m.batch, m.step_seconds or 0.0)
            own = [row for row, epoch in times.items() if epoch.job == m.job]
            for row in own[:-OF_ONE]:
                del times[row]
            _forget_first(times, RECENT)
            _forget_first(sizes, SIZES)
            self._stale.add(key)

    def _touch(self, key: Key) -> None:
        """Count a measurement of a key and move the key to the end.

        If there are too many, the namespace with most keys loses its first: nobody can crowd out the others.
        """
        self._counts[key] = self._counts.pop(key, 0) + 1
        self._kin[key[0]].add(key)
        self._sizes[namespace_of(key[0])] += self._counts[key] == 1
        if len(self._counts) > KEYS:
            crowded = self._sizes.most_common(1)[0][0]
            oldest = next(key for key in self._counts if namespace_of(key[0]) == crowded)
            self._sizes[crowded] -= 1
            for kept in (self._counts, self._times, self._restarts):
                kept.pop(oldest, None)
            self._stale.add(oldest)
            self._kin[oldest[0]].discard(oldest)
            if not self._kin[oldest[0]]:
                del self._kin[oldest[0]]
                self._totals.pop(oldest[0], None)
                self._noises.pop(oldest[0], None)

    def _happened(self, e: Event) -> None:
        job = self._job(e)
        if e.kind is EventKind.ENDED:
            self._crowds[e.namespace] -= self._jobs.pop(e.job, None) is not None
            return
        if e.kind is EventKind.SUBMITTED:
            return
        for m in job.changed(e.at):
            key = (m.category, m.accelerator)
            if self._times.get(key, {}).get(m.workers, {}).pop(m.id, None) is not None:
                self._stale.add(key)
        job.resize = e if e.kind is EventKind.RESIZED else None

    def _job(self, record: Record) -> Progress:
        """The job of a record; a different UID is a different job with the same name."""
        job = self._jobs.get(record.job)
        if job is None or (record.uid and job.uid and record.uid != job.uid):
            self._crowds[record.namespace] += job is None
            job = self._jobs[record.job] = Progress()
            if len(self._jobs) > JOBS:
                crowded = self._crowds.most_common(1)[0][0]
                del self._jobs[next(job for job in self._jobs if namespace_of(job) == crowded)]
                self._crowds[crowded] -= 1
        job.known(record)
        return job

    # -- output

    def points(self) -> Mapping[Key, Mapping[int, float]]:
        """The measured points {workers: speed-up} of every key that has any; only changed keys are computed again."""
        if self._stale:
            points = dict(self._points)
            for key in self._stale:
                points[key] = speedups(self.epoch_times(key))
                if not points[key]:
                    del points[key]
                found = fit(self._seen(key))
                if found is None:
                    self._steps.pop(key, None)
                else:
                    self._steps[key] = found
            self._points = points
            self._stale.clear()
        return self._points

    def steps(self, key: Key) -> Steps | None:
        """The step times that were fitted to the epochs of a key; None without any."""
        self.points()
        return self._steps.get(key)

    def _seen(self, key: Key) -> list[MeasuredSteps]:
        """What was measured, by workers, nodes and batch size."""
        epochs = [(workers, epoch) for workers, rows in self._times.get(key, {}).items() for epoch in rows.values()]
        if all(e.step and e.batch for _, e in epochs):
            found = (MeasuredSteps(n, e.step / (e.batch * n), e.nodes, e.batch) for n, e in epochs)
        else:
            found = (MeasuredSteps(n, e.seconds, e.nodes, e.batch) for n, e in epochs)
        return settings_of(list(found))

    def epoch_times(self, key: Key) -> dict[int, float]:
        """The median epoch time by measured number of workers."""
        sizes = self._times.get(key, {})
        return {n: median(epoch.seconds for epoch in sizes[n].values()) for n in sorted(sizes) if sizes[n]}

    def samples(self, key: Key) -> dict[int, int]:
        """The number of epochs behind each median."""
        return {workers: len(epochs) for workers, epochs in sorted(self._times.get(key, {}).items()) if epochs}

    def count(self, key: Key) -> int:
        """The number of measurements of a key."""
        return self._counts.get(key, 0)

    def measured(self) -> list[Key]:
        return sorted(self._counts)

    def kin(self, category: str) -> list[Key]:
        """The keys of a category, most measurements first."""
        return sorted(self._kin.get(category, ()), key=lambda k: (-self.count(k), k))

    def points_for(self, key: Key) -> Mapping[int, float]:
        """The best known points: its own, or those of its category on another accelerator. Empty is linear."""
        return self.points().get(self.source(key), {})

    def source(self, key: Key) -> Key:
        """The key whose measurements are used for a key: itself, or its category on another accelerator."""
        points = self.points()
        if len(points.get(key, ())) > 1:
            return key
        return next((k for k in self.kin(key[0]) if k != key and len(points.get(k, ())) > 1), key)

    def noise(self, category: str) -> float | None:
        """The median of the noise scales that jobs of a category reported last."""
        noises = self._noises.get(category)
        return median(noises) if noises else None

    def job(self, name: str) -> Progress | None:
        """The progress of a job (`namespace/name`)."""
        return self._jobs.get(name)

    def total_epochs(self, category: str) -> int | None:
        """The median of the epochs that jobs of a category reported."""
        totals = self._totals.get(category)
        return round(median(totals)) if totals else None

    def restart(self, key: Key) -> float | None:
        """The median cost of a resize in seconds; of the category on all accelerators if the key has too few."""
        own = self._restarts.get(key, ())
        if len(own) >= RESTARTS:
            return median(own)
        anywhere = [cost for k in self.kin(key[0]) for cost in self._restarts.get(k, ())]
        return median(anywhere) if len(anywhere) >= RESTARTS else None


def _forget_first(among: dict[int, Any], most: int) -> None:
    if len(among) > most:
        del among[next(iter(among))]


def speedups(times: Mapping[int, float]) -> dict[int, float]:
    """The points of measured epoch times; linear below the smallest measured size.

    >>> speedups({1: 60.0, 2: 40.0}), speedups({2: 30.0, 4: 20.0})
    ({1: 1.0, 2: 1.5}, {2: 2.0, 4: 3.0})
    """
    if not times:
        return {}
    smallest = min(times)
    alone = smallest * times[smallest]
    slowest, fastest = WITHIN
    return {workers: min(max(alone / seconds, slowest), fastest) for workers, seconds in sorted(times.items())}
