"""The jobs of one pool as columns: the input of an algorithm.

Made by callers with jobs (the `resize` action, the simulator, `maar allocate`) and read by the algorithms, which do not
change it. A row is a job; the order of rows has no meaning. Columns may be written between two calls: the simulator
keeps one table and asks about `only` some of its rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import repeat
from operator import attrgetter, getitem
from typing import Any

import numpy as np
import numpy.typing as npt

from maar.elastic.speedup import LINEAR, Curve, Floats

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Jobs:
    """Columns with one row per job, made by `make_jobs`. All other lists of columns follow from this one."""

    names: Sequence[str]
    curves: Floats
    """Speed-up curves one after another; equal curves are stored once."""
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
        names, columns = self.names, map(getitem, _columns(self), repeat(part))
        return Jobs(tuple([names[row] for row in part.tolist()]), self.curves, *columns)

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


COLUMNS = tuple(f.name for f in fields(Jobs))[2:]
"""All but `names` and `curves`, in order."""
WHOLE = tuple(f.name for f in fields(Jobs) if f.type == "Ints")
"""The columns of integers; the others are floats."""
_columns: Callable[[Jobs], tuple[npt.NDArray[Any], ...]] = attrgetter(*COLUMNS)

DEFAULTS: dict[str, float] = {
    **dict.fromkeys(("min", "gpus"), 1),
    **dict.fromkeys(("remaining", "first_start", "promised"), math.inf),
    **dict.fromkeys(("priority", "submit", "attained", "waited", "ran", "size", "restart"), 0),
}
"""What `make_jobs` fills in; it computes the others."""


def make_jobs(
    names: Sequence[str], *, speedup: Sequence[Curve] | Curve = LINEAR, **given: npt.ArrayLike | None
) -> Jobs:
    """A table from lists, or from one value for all jobs. `requested` defaults to `min`, and `max` to `requested`.

    `given` are columns of `Jobs`, without those that follow from names and curves. `measured` defaults to the last
    point of the speed-up, `done` to the attained service at the speed of the requested size, and `delayed` to `waited`.
    """
    if unknown := given.keys() - set(COLUMNS) | given.keys() & {"rank", "offset", "reach"}:
        raise TypeError(f"unexpected columns: {', '.join(sorted(unknown))}")
    n = len(names)
    made = {name: _array(name, value, n) for name, value in {**DEFAULTS, **given}.items() if value is not None}
    least, asked = made["min"], made.get("requested", made["min"])
    most = made["max"] if "max" in made else np.maximum(asked, least)
    if n and (least.min() < 1 or made["gpus"].min() < 1):
        raise ValueError("`min` and `gpus` must be at least 1")
    rank = np.empty(n, dtype=np.int64)
    rank[sorted(range(n), key=names.__getitem__)] = np.arange(n)
    speedups = [speedup] * n if isinstance(speedup, Curve) else speedup
    curves, offset, reach = _stored(speedups, np.maximum(most, least))
    asked = np.maximum(np.minimum(asked, most), least)
    made.update(max=most, requested=asked, rank=rank, offset=offset, reach=reach)
    if "measured" not in made:
        made["measured"] = _array("measured", [found.workers[-1] if found.workers else 0 for found in speedups], n)
    if "done" not in made:
        made["done"] = made["attained"] / made["gpus"] * (curves[offset + asked] / asked)
    if "delayed" not in made:
        made["delayed"] = made["waited"].copy()
    return Jobs(tuple(names), curves, **made)


def filled(names: Sequence[str], curves: Floats, **columns: npt.NDArray[Any]) -> Jobs:
    """A table of these columns, in which the others have their defaults, or are 0. Nothing is checked."""
    rest = {name: _array(name, DEFAULTS.get(name, 0), len(names)) for name in COLUMNS if name not in columns}
    return Jobs(names, curves, **columns, **rest)


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


def _array(name: str, values: npt.ArrayLike, n: int) -> npt.NDArray[Any]:
    kind = np.int64 if name in WHOLE else np.float64
    return np.array(np.broadcast_to(np.asarray(values, dtype=kind), n))
