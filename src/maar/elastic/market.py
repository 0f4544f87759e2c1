"""Choices of sizes with values under a limit of GPUs: the knapsack behind `price`.

Every job takes at most one of its choices, and the sum of values is maximised. Small problems are solved exactly, by
dynamic programming. Large ones are solved by prices: each job takes the steps of its concave hull that are worth the
price of a GPU at which the room is full, and the jobs nearest to that price are then solved exactly again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maar.elastic.jobs import Ints, Mask
from maar.elastic.speedup import Floats

EXACT = 10_000_000
"""Sums (choices times room) up to which a problem is solved exactly: about 0.1 s. Found by measurement."""
CORE = 2_000_000
"""The same for the jobs that are solved again after pricing: about 20 ms. Found by measurement."""
GAP = 0.01
"""The largest part of the value that pricing may lose, by its upper bound, before more is solved exactly."""


@dataclass(slots=True)
class Choices:
    """What jobs may take, as columns with a row per choice; the rows of a job are together, and its sizes rise."""

    job: Ints
    """The number of the job, rising."""
    gpus: Ints
    """At least 1; the choice of nothing, with the value 0, is not listed."""
    value: Floats

    def only(self, rows: Mask | Ints) -> Choices:
        return Choices(self.job[rows], self.gpus[rows], self.value[rows])

    def starts(self) -> Ints:
        """The first row of each job."""
        return np.flatnonzero(np.diff(self.job, prepend=-1))


def choose(choices: Choices, room: int, exact: int = EXACT) -> Ints:
    """The rows of the chosen choices, rising. On equal values, the smaller size."""
    useful = np.flatnonzero(_is_useful(choices, room))
    part = choices.only(useful)
    if len(part.job) == 0:
        return useful
    last = _last_of_each(part.job)  # the best choice of each job: values rise with sizes
    if int(part.gpus[last].sum()) <= room:
        return useful[last]
    unit = int(np.gcd.reduce(part.gpus))
    part.gpus //= unit
    room //= unit
    if len(part.job) * room <= exact:
        return useful[_exactly(part, room)]
    rows, bound = _by_price(part, room)
    value = float(part.value[rows].sum())
    if value < (1 - GAP) * bound and len(part.job) * room <= 10 * exact:
        rows = _exactly(part, room)
    return useful[rows]


def _is_useful(choices: Choices, room: int) -> Mask:
    """Choices that fit, and are worth more than all smaller ones of the same job."""
    fits: Mask = (choices.gpus <= room) & (choices.value > 0)
    value = np.where(fits, choices.value, 0.0)
    starts = choices.starts()
    if len(starts) == 0:
        return fits
    first = np.repeat(starts, np.diff(np.append(starts, len(value))))
    best, step = value.copy(), 1  # the best of the rows so far of the same job, in doubling steps
    place = np.arange(len(value)) - first
    while step <= int(place.max()):
        before = best[:-step].copy()
        reaches = place[step:] >= step
        best[step:] = np.where(reaches, np.maximum(best[step:], before), best[step:])
        step *= 2
    smaller = np.where(place > 0, np.concatenate(([0.0], best[:-1])), 0.0)
    fits &= value > smaller
    return fits


def _last_of_each(job: Ints) -> Ints:
    return np.flatnonzero(np.append(np.diff(job) != 0, True))


def _exactly(choices: Choices, room: int) -> Ints:
    """The best rows, by dynamic programming over jobs: the best sum for every number of GPUs up to the room."""
    best = np.zeros(room + 1)
    kept = np.full(2 * room + 1, -np.inf)
    """The sums without the current job, after a margin for negative numbers of GPUs."""
    starts = choices.starts().tolist()
    taken = []
    for first, end in zip(starts, [*starts[1:], len(choices.job)], strict=True):
        kept[room:] = best
        windows = np.lib.stride_tricks.sliding_window_view(kept, room + 1)
        sums = windows[room - choices.gpus[first:end]] + choices.value[first:end, None]
        at = sums.argmax(axis=0)
        most = np.take_along_axis(sums, at[None], axis=0)[0]
        better = most > best
        np.copyto(best, most, where=better)
        taken.append(np.where(better, at + first, -1).astype(np.int32))
    rows = []
    for chosen in reversed(taken):
        row = int(chosen[room])
        if row >= 0:
            rows.append(row)
            room -= int(choices.gpus[row])
    return np.array(rows[::-1], dtype=np.int64)


def _by_price(choices: Choices, room: int) -> tuple[Ints, float]:
    """Rows at the price at which the room is full, repaired; and an upper bound of the best sum."""
    hull = _hull(choices)
    before = np.concatenate(([0], hull[:-1]))
    starts = np.diff(choices.job[hull], prepend=-1) != 0
    gpus = choices.gpus[hull] - np.where(starts, 0, choices.gpus[before])
    gain = choices.value[hull] - np.where(starts, 0.0, choices.value[before])
    slope = gain / gpus
    order = np.lexsort((hull, -slope))
    sums = np.cumsum(gpus[order])
    count = int(np.searchsorted(sums, room, side="right"))
    used = int(sums[count - 1]) if count else 0
    bound = float(gain[order[:count]].sum())
    if count < len(order):
        bound += float(slope[order[count]]) * (room - used)
    jobs = int(choices.job[-1]) + 1
    chosen = np.full(jobs, -1, dtype=np.int64)
    taken = np.sort(order[:count])
    chosen[choices.job[hull[taken]]] = hull[taken]  # the last step of a job overwrites the earlier ones
    near = np.concatenate((order[count:], order[:count][::-1]))[np.argsort(_zigzag(len(order) - count, count))]
    return _repaired(choices, chosen, choices.job[hull[near]], room - used), bound


def _zigzag(after: int, before: int) -> Ints:
    """Ranks that alternate between the next rows after a place and the last rows before it."""
    return np.concatenate((2 * np.arange(after), 2 * np.arange(before) + 1))


def _repaired(choices: Choices, chosen: Ints, near: Ints, left: int) -> Ints:
    """Solve the jobs nearest to the price again, exactly, in the room that they have and the room that is left."""
    jobs = list(dict.fromkeys(near[: 4 * 1024].tolist()))
    has = np.where(chosen >= 0, choices.gpus[chosen], 0)
    counts = np.bincount(choices.job, minlength=len(chosen))
    rows = np.cumsum(counts[jobs])
    room = left + np.cumsum(has[jobs])
    core = jobs[: max(int(np.searchsorted(rows * room, CORE, side="right")), 1)]
    if int((counts[core]).sum()) * int(left + has[core].sum()) <= 10 * CORE:
        inside = np.zeros(len(chosen), dtype=np.bool_)
        inside[core] = True
        part = np.flatnonzero(inside[choices.job])
        part = part[choices.gpus[part] <= left + int(has[core].sum())]
        again = part[_exactly(choices.only(part), left + int(has[core].sum()))]
        chosen[core] = -1
        chosen[choices.job[again]] = again
    return chosen[chosen >= 0]


def _hull(choices: Choices) -> Ints:
    """The rows on the upper concave hull of each job's choices, from nothing on."""
    rows: Ints = np.arange(len(choices.job))
    while True:
        starts = np.diff(choices.job[rows], prepend=-1) != 0
        before = np.concatenate(([0], rows[:-1]))
        gpus = choices.gpus[rows] - np.where(starts, 0, choices.gpus[before])
        gain = choices.value[rows] - np.where(starts, 0.0, choices.value[before])
        slope = gain / gpus
        ends = np.append(starts[1:], True)
        following = np.append(slope[1:], 0.0)
        below = ~ends & (following > slope)  # the step to it gains less per GPU than the step from it
        if not below.any():
            return rows
        rows = rows[~below]
