"""Speed-up: how many times as fast a job trains on n workers as on one.

Comes before every algorithm that weighs what one more worker brings. A curve knows measured sizes only. Between them it
is straight, outside of them it goes on from the nearest one; without any it is linear. Nothing here knows where the
points come from (a file, history).

A curve is monotone and concave: one worker more never slows a job down, and never brings more than the one before it.
Points that say otherwise are noise. They are fitted by the least sum of squared relative errors, which a bad point can
bend but not take over; the least concave majorant, which is simpler, would follow the worst outlier of all.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class Curve(msgspec.Struct, frozen=True):
    """S(n) of one job, or of all jobs of its category. `curve` makes it; equal ones are equal, and hashable."""

    workers: tuple[int, ...] = ()
    """The measured sizes, rising."""
    speeds: tuple[float, ...] = ()
    """S at each of them, rising and concave, from S(0) = 0."""

    def values(self, most: int) -> Floats:
        """S(0), S(1), ... S(most)."""
        sizes = np.arange(most + 1, dtype=np.float64)
        if not self.workers:
            return sizes
        last, speed = self.workers[-1], self.speeds[-1]
        values: Floats = np.interp(sizes, (0, *self.workers), (0.0, *self.speeds))
        beyond = sizes[last + 1 :]
        values[last + 1 :] = speed + (beyond - last) * self._last_slope()
        return values

    def _last_slope(self) -> float:
        """What the last measured step brought for each worker; with one point, that from nothing to it."""
        before, slower = (self.workers[-2], self.speeds[-2]) if len(self.workers) > 1 else (0, 0.0)
        return (self.speeds[-1] - slower) / (self.workers[-1] - before)


KNOWN = 4096
"""Curves that are remembered, by taste: the same are asked for in every cycle."""

LINEAR = Curve()
"""What is assumed before anything is measured: S(n) = n."""


def curve(points: Mapping[int, float]) -> Curve:
    """The curve through measured points (workers: speed-up); through none, the linear one."""
    return _curve(tuple(sorted(points.items())))


@lru_cache(KNOWN)
def _curve(points: tuple[tuple[int, float], ...]) -> Curve:
    workers = tuple(n for n, _ in points)
    speeds = tuple(float(speed) for _, speed in points)
    for n, speed in zip(workers, speeds, strict=True):
        if n < 1 or not 0.0 < speed < np.inf:
            raise ValueError(f"speed-up of {n} workers: expected a number above 0 for at least 1 worker, got `{speed}`")
    if not workers:
        return LINEAR
    return Curve(workers, speeds if _is_concave(workers, speeds) else _fitted(workers, speeds))


def _is_concave(workers: tuple[int, ...], speeds: tuple[float, ...]) -> bool:
    """Whether the points are what they should be: slopes from the origin on fall, and not below zero."""
    slopes = np.diff(speeds, prepend=0.0) / np.diff(workers, prepend=0)
    return bool(slopes[-1] >= 0.0 and np.all(slopes[1:] <= slopes[:-1] * (1 + 1e-9)))


def _fitted(workers: tuple[int, ...], speeds: tuple[float, ...]) -> tuple[float, ...]:
    """The nearest values that rise and are concave, by relative error.

    Such a function with S(0) = 0 is a sum of ramps, min(n, k) for each measured size k, none of them negative: finding
    the nearest is a least-squares problem with non-negative unknowns.
    """
    from scipy.optimize import nnls  # only for noisy points: it takes longer to import than all else here

    ramps = np.minimum.outer(np.array(workers), np.array(workers)).astype(np.float64)
    measured = np.array(speeds)
    heights, _ = nnls(ramps / measured[:, None], np.ones(len(measured)))
    return tuple(float(speed) for speed in ramps @ heights)
