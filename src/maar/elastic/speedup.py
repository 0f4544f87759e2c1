"""Speed-up: how many times faster a job trains on n workers than on one.

Input of every algorithm that weighs the gain of one more worker. A curve has measured sizes only: it is linear between
them, continues from the nearest one outside, and is S(n) = n without any. This module does not know where the points
come from (a file, history).

A curve is monotone and concave: one more worker never slows a job down, and never gains more than the one before. Other
points are noise, and are fitted by least squares of relative errors: a bad point bends the curve but does not dominate
it. The least concave majorant is simpler but would follow the worst outlier.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class Curve(msgspec.Struct, frozen=True):
    """S(n) of one job, or of all jobs of its category, made by `curve`. Comparable and hashable."""

    workers: tuple[int, ...] = ()
    """The measured sizes, ascending."""
    speeds: tuple[float, ...] = ()
    """S at each size, ascending and concave, from S(0) = 0."""

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
        """The gain per worker in the last measured step; with one point, from zero to it."""
        before, slower = (self.workers[-2], self.speeds[-2]) if len(self.workers) > 1 else (0, 0.0)
        return (self.speeds[-1] - slower) / (self.workers[-1] - before)


KNOWN = 4096
"""How many curves are cached, since every cycle asks for the same ones. Tuned by hand."""

LINEAR = Curve()
"""The default before anything is measured: S(n) = n."""


def curve(points: Mapping[int, float]) -> Curve:
    """The curve through measured points (workers: speed-up); without points, the linear one."""
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
    """Whether the slopes from the origin on decrease and stay non-negative."""
    slopes = np.diff(speeds, prepend=0.0) / np.diff(workers, prepend=0)
    return bool(slopes[-1] >= 0.0 and np.all(slopes[1:] <= slopes[:-1] * (1 + 1e-9)))


def _fitted(workers: tuple[int, ...], speeds: tuple[float, ...]) -> tuple[float, ...]:
    """The nearest ascending and concave values, by relative error.

    Such a function with S(0) = 0 is a non-negative sum of ramps min(n, k), one for each measured size k. So the nearest
    one is a least-squares problem with non-negative unknowns.
    """
    from scipy.optimize import nnls  # imported only for noisy points: the import takes longer than the rest

    ramps = np.minimum.outer(np.array(workers), np.array(workers)).astype(np.float64)
    measured = np.array(speeds)
    heights, _ = nnls(ramps / measured[:, None], np.ones(len(measured)))
    return tuple(float(speed) for speed in ramps @ heights)
