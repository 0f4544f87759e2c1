"""ffdl: the sizes with the highest total training speed, found by dynamic programming.

Source: Saxena et al., "Effective Elastic Scaling of Deep Learning Workloads", MASCOTS 2020 (the optimiser of IBM's
FfDL), as in Voda.

Speeds are whole units, so that sums are exact in any order and ties are exact. The lowest bits of each sum hold the
size, with smaller sizes as larger numbers. So one maximum finds the best sum and, among equals, the smallest size. This
halves the passes over memory, which dominate the cost.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from maar.config.config import NoArguments
from maar.elastic.jobs import Ints, Jobs
from maar.elastic.order import in_order

NAME = "ffdl"

FINEST = 30
"""Bits after the binary point of a speed, at most: about a billionth."""
BITS = 61
"""Bits of a sum, including the size."""
NEVER = -(1 << 62)
"""A sum that stays below all others, whatever is added."""
TOGETHER = 32
"""Sizes tried in one step: 32 times 10,000 GPUs still fit into a processor cache."""


def plan(jobs: Jobs, gpus: int, arguments: NoArguments) -> Ints:
    """Maximise the sum of S(n) over the first K jobs by priority, submit time and name; K is the number of GPUs.

    Every n is 0 or from `min` to `max`; on ties the smallest, decided from the last job to the first. The highest
    priority is served first, and the next shares what is left.
    """
    workers = np.zeros(len(jobs), dtype=np.int64)
    order = in_order(jobs)[: max(gpus, 0)]
    priorities = jobs.priority[order]
    left = gpus
    for rows in np.split(order, np.flatnonzero(np.diff(priorities)) + 1):
        workers[rows] = _best(jobs.only(rows), left)
        left -= int((workers * jobs.gpus)[rows].sum())
    return workers


def _best(jobs: Jobs, gpus: int) -> Ints:
    """The best sizes of jobs of one priority."""
    n = len(jobs)
    workers = np.zeros(n, dtype=np.int64)
    if n == 0:
        return workers
    unit = int(np.gcd.reduce(jobs.gpus))
    most = np.minimum(jobs.max, gpus // jobs.gpus)
    wanted = int((most * jobs.gpus).sum())
    size_bits = int(most.max(initial=1)).bit_length()
    highest = float(jobs.speed(most).sum())
    fraction = min(FINEST, BITS - size_bits - math.ceil(math.log2(highest + 1)))
    units = np.rint(np.ldexp(np.minimum(jobs.curves, highest), fraction)).astype(np.int64)
    speeds = np.maximum(units, 1) << size_bits  # even a relatively slow job is better than nothing
    bounds = list(
        zip(jobs.min.tolist(), most.tolist(), (jobs.gpus // unit).tolist(), jobs.offset.tolist(), strict=True)
    )
    if wanted <= gpus:  # enough for all jobs: each gets the smallest size with its highest speed
        sizes_of = [(least, speeds[start + least : start + largest + 1]) for least, largest, _, start in bounds]
        return np.array([least + int(part.argmax()) if len(part) else 0 for least, part in sizes_of], dtype=np.int64)
    room = gpus // unit
    table = _Table(room, size_bits)
    steps = [
        (width, table.add(speeds[start + least : start + largest + 1], least, width))
        for least, largest, width, start in bounds
    ]
    for row in range(n - 1, -1, -1):
        width, sizes = steps[row]
        workers[row] = sizes[room]
        room -= int(workers[row]) * width
    return workers


class _Table:
    """The best sum for every number of GPUs from 0 to `room`, with the jobs so far; sizes in the lowest bits."""

    __slots__ = ("_before", "_best", "_kept", "_low", "_sums")

    def __init__(self, room: int, size_bits: int) -> None:
        self._low = (1 << size_bits) - 1
        self._kept = np.full(2 * room + 1, NEVER, dtype=np.int64)
        """The sums without the current job, after a margin for negative numbers of GPUs."""
        self._before = self._kept[room:]
        self._best = np.zeros(room + 1, dtype=np.int64)
        self._sums = np.empty((TOGETHER, room + 1), dtype=np.int64)

    def add(self, speeds: Ints, least: int, width: int) -> npt.NDArray[np.unsignedinteger]:
        """Add a job with sizes from `least` on and workers of this width; returns its best size for every room."""
        best, room = self._best, len(self._best) - 1
        np.bitwise_and(best, ~self._low, out=self._before)
        np.bitwise_or(self._before, self._low, out=best)
        worth = speeds | (self._low - least - np.arange(len(speeds)))
        for first in range(0, len(worth), TOGETHER):
            part = worth[first : first + TOGETHER, None]
            offset = room - (least + first) * width
            shape, strides = (len(part), room + 1), (-8 * width, 8)
            shifted: Ints = np.ndarray(shape, np.int64, self._kept, 8 * offset, strides)
            sums = np.add(shifted, part, out=self._sums[: len(part)])
            np.maximum(best, np.maximum.reduce(sums, axis=0), out=best)
        return (self._low - (best & self._low)).astype(np.min_scalar_type(self._low))
