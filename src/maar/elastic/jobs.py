"""The jobs of one pool as columns: the input of an algorithm.

Made by callers with jobs (the `resize` action, the simulator, `maar allocate`) and read by the algorithms, which do not
change it. A row is a job; the order of rows has no meaning. Columns may be written between two calls: the simulator
keeps one table and asks about `only` some of its rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from maar.elastic.speedup import LINEAR, Curve, Floats

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Jobs:
    """Columns with one row per job, made by `make_jobs`."""

    names: Sequence[str]
    min: Ints
    """The minimum number of workers, if the job has any."""
    max: Ints
    """The maximum number of workers. If below `min`, the job cannot run now."""
    requested: Ints
    """The size that fixed-size algorithms give, within `min` and `max`."""
    gpus: Ints
    """GPUs of one worker; 1 if worker slots are counted."""
    priority: Ints
    """Higher is more important."""
    submit: Floats
    """Submit time in seconds, on any clock."""
    remaining: Floats
    """Remaining seconds on one worker; infinite if unknown."""
    attained: Floats
    """GPU seconds over the whole life of the job, not only the last run."""
    first_start: Floats
    """Seconds, on the clock of `submit`; infinite if the job never started."""
    waited: Floats
    """Seconds since the job last stopped or was submitted; 0 while it runs."""
    ran: Floats
    """Seconds of the last run; 0 if the job never ran."""
    rank: Ints
    """The order of names, the last tie-breaker. It stays valid for a part of the table."""
    curves: Floats
    """Speed-up curves one after another; equal curves are stored once."""
    offset: Ints
    """The index of the job's S(0) in `curves`."""
    reach: Ints
    """The largest size covered by its curve."""
    size: Ints
    """Current workers; 0 if it waits."""
    measured: Ints
    """The largest size at which its speed was measured; 0 if it never was."""
    restart: Floats
    """Seconds that the job loses if its size changes now; 0 if that is free."""
    done: Floats
    """Its work so far, in seconds on one worker."""
    delayed: Floats
    """Seconds in which the job had no workers, from its submission on, in total."""
    promised: Floats
    """All its work as its owner promises it, in seconds on one worker; infinite without a promise."""

    def __len__(self) -> int:
        return len(self.min)

    def speed(self, workers: Ints) -> Floats:
        """S of every job at the given sizes."""
        speeds: Floats = self.curves[self.offset + workers]
        return speeds

    def speedup(self, row: int) -> Floats:
        """S(0), S(1), ... S(max) of one job."""
        start = int(self.offset[row])
        return self.curves[start : start + int(self.max[row]) + 1]

    def only(self, rows: npt.ArrayLike) -> Jobs:
        part = np.asarray(rows)
        if part.dtype == bool:
            part = np.flatnonzero(part)
        part = part.astype(np.int64, copy=False)
        names = self.names
        return Jobs(
            tuple([names[row] for row in part.tolist()]),
            self.min[part],
            self.max[part],
            self.requested[part],
            self.gpus[part],
            self.priority[part],
            self.submit[part],
            self.remaining[part],
            self.attained[part],
            self.first_start[part],
            self.waited[part],
            self.ran[part],
            self.rank[part],
            self.curves,
            self.offset[part],
            self.reach[part],
            self.size[part],
            self.measured[part],
            self.restart[part],
            self.done[part],
            self.delayed[part],
            self.promised[part],
        )

    def bounded(self, min: Ints | None = None, max: Ints | None = None) -> Jobs:
        """The same jobs with other bounds; a job whose `max` is below its `min` gets nothing."""
        least = self.min if min is None else _whole(min)
        most = self.max if max is None else _whole(max)
        if np.any(most > self.reach):
            row = int(np.argmax(most > self.reach))
            raise ValueError(f"`{self.names[row]}`: no speed-up beyond {self.reach[row]} workers, got max {most[row]}")
        if np.any(least < 1):
            raise ValueError(f"`{self.names[int(np.argmax(least < 1))]}`: `min` must be at least 1")
        asked = np.minimum(np.maximum(np.minimum(self.requested, most), least), self.reach)
        return replace(self, min=least, max=most, requested=asked)


def make_jobs(
    names: Sequence[str],
    *,
    min: npt.ArrayLike = 1,
    max: npt.ArrayLike | None = None,
    requested: npt.ArrayLike | None = None,
    gpus: npt.ArrayLike = 1,
    priority: npt.ArrayLike = 0,
    submit: npt.ArrayLike = 0.0,
    remaining: npt.ArrayLike = math.inf,
    attained: npt.ArrayLike = 0.0,
    first_start: npt.ArrayLike = math.inf,
    waited: npt.ArrayLike = 0.0,
    ran: npt.ArrayLike = 0.0,
    speedup: Sequence[Curve] | Curve = LINEAR,
    size: npt.ArrayLike = 0,
    measured: npt.ArrayLike | None = None,
    restart: npt.ArrayLike = 0.0,
    done: npt.ArrayLike | None = None,
    delayed: npt.ArrayLike | None = None,
    promised: npt.ArrayLike = math.inf,
) -> Jobs:
    """A table from lists, or from one value for all jobs. `requested` defaults to `min`, and `max` to `requested`.

    `measured` defaults to the last point of the speed-up, `done` to the attained service at the speed of the requested
    size, and `delayed` to `waited`.
    """
    n = len(names)
    least = _ints(min, n)
    asked = least.copy() if requested is None else _ints(requested, n)
    most = np.maximum(asked, least) if max is None else _ints(max, n)
    per_worker = _ints(gpus, n)
    if n and (least.min() < 1 or per_worker.min() < 1):
        raise ValueError("`min` and `gpus` must be at least 1")
    rank = np.empty(n, dtype=np.int64)
    rank[sorted(range(n), key=names.__getitem__)] = np.arange(n)
    speedups = [speedup] * n if isinstance(speedup, Curve) else speedup
    curves, offset, reach = _stored(speedups, np.maximum(most, least))
    asked = np.maximum(np.minimum(asked, most), least)
    if measured is None:
        measured = [found.workers[-1] if found.workers else 0 for found in speedups]
    if done is None:
        done = _floats(attained, n) / per_worker * (curves[offset + asked] / asked)
    return Jobs(
        tuple(names),
        least,
        most,
        asked,
        per_worker,
        _ints(priority, n),
        _floats(submit, n),
        _floats(remaining, n),
        _floats(attained, n),
        _floats(first_start, n),
        _floats(waited, n),
        _floats(ran, n),
        rank,
        curves,
        offset,
        reach,
        _ints(size, n),
        _ints(measured, n),
        _floats(restart, n),
        _floats(done, n),
        _floats(waited if delayed is None else delayed, n),
        _floats(promised, n),
    )


def _stored(speedups: Sequence[Curve], most: Ints) -> tuple[Floats, Ints, Ints]:
    """The curves one after another, the start of each job's curve, and the largest size it covers."""
    n = len(most)
    if len(speedups) != n:
        raise ValueError(f"expected a speed-up for each of {n} jobs, got {len(speedups)}")
    longest: dict[Curve, int] = {}
    for curve, size in zip(speedups, most.tolist(), strict=True):
        if longest.get(curve, 0) < size:
            longest[curve] = size
        else:
            longest.setdefault(curve, 1)
    parts = [curve.values(size) for curve, size in longest.items()]
    starts = np.cumsum([0] + [len(part) for part in parts]).tolist()
    start = dict(zip(longest, starts, strict=False))
    curves = np.concatenate(parts) if parts else np.zeros(1)
    offset = np.fromiter((start[curve] for curve in speedups), dtype=np.int64, count=n)
    reach = np.fromiter((longest[curve] for curve in speedups), dtype=np.int64, count=n)
    return curves, offset, reach


def _whole(values: npt.ArrayLike) -> Ints:
    return np.asarray(values, dtype=np.int64)


def _ints(values: npt.ArrayLike, n: int) -> Ints:
    return np.array(np.broadcast_to(np.asarray(values, dtype=np.int64), n))


def _floats(values: npt.ArrayLike, n: int) -> Floats:
    return np.array(np.broadcast_to(np.asarray(values, dtype=np.float64), n))
