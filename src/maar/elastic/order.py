"""The orders that algorithms share, and the two passes that most of them consist of.

Every order begins with the user's priority and ends with submit time and name, so it is total and the order of rows
does not matter. Jobs that cannot run now (`max` below `min`) are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from maar.elastic.jobs import Ints, Jobs
from maar.elastic.speedup import Floats

Serve = Callable[[Ints, Ints, int], tuple[Ints, int]]
"""Decides which jobs fit: takes rows in order, the GPUs each needs and the available GPUs; returns the served positions
and the GPUs left. `fitting` counts GPUs; a caller may also check nodes."""


def in_order(jobs: Jobs, *keys: Floats | Ints) -> Ints:
    """Rows by priority, then by these keys (smaller first, the first weighs most), then by submit time and name.

    Rows are often nearly in submission order, and a stable sort is then cheap.
    """
    submit, rank, priority, by = jobs.submit, jobs.rank, jobs.priority, list(keys)
    rows = None
    if np.count_nonzero(jobs.max < jobs.min):
        rows = np.flatnonzero(jobs.max >= jobs.min)
        submit, rank, priority, by = submit[rows], rank[rows], priority[rows], [key[rows] for key in by]
    if np.count_nonzero(priority) and np.count_nonzero(priority == priority[0]) < len(priority):
        by.insert(0, -priority)
    order = _sorted(by[::-1], submit, rank)
    return order if rows is None else rows[order]


def _sorted(by: list[Any], submit: Floats, rank: Ints) -> Ints:
    """Sort by keys (the last weighs most), then submit time, then rank. Ties up to the rank are rare."""
    if len(submit) > FEW:
        order: Ints = np.lexsort((submit, *by))
        if _equals_stand(order, [submit, *by], rank):
            return order
    return np.lexsort((rank, submit, *by))


def _equals_stand(order: Ints, keys: list[Any], rank: Ints) -> bool:
    """Whether rows with equal keys are in the order of rank."""
    before, after = order[:-1], order[1:]
    for key in keys:
        equal = key[before] == key[after]
        before, after = before[equal], after[equal]
        if len(before) == 0:
            return True
    return bool((rank[before] < rank[after]).all())


FEW = 200
"""Up to this many jobs a plain loop is faster than array operations; found by measurement."""


def fitting(order: Ints, needs: Ints, gpus: int) -> tuple[Ints, int]:
    """The positions of needs that are met in order, skipping what does not fit; and the GPUs left."""
    if len(needs) > FEW:
        return _fitting_many(needs, gpus)
    served = []
    for place, need in enumerate(needs.tolist()):
        if need <= gpus:
            served.append(place)
            gpus -= need
            if not gpus:
                break
    return np.array(served, dtype=np.int64), gpus


def _fitting_many(needs: Ints, gpus: int) -> tuple[Ints, int]:
    """Take the longest prefix that fits at once. A need that then does not fit never will, nor an equal or larger one,
    so the number of steps is bounded by the number of distinct needs, not of jobs."""
    served: list[Ints] = []
    places: Ints = np.arange(len(needs))
    while True:
        open_ = needs <= gpus
        if not open_.all():
            places, needs = places[open_], needs[open_]
        if len(needs) == 0:
            return np.concatenate(served) if served else places, gpus
        sums = np.cumsum(needs)
        count = int(np.searchsorted(sums, gpus, side="right"))
        served.append(places[:count])
        gpus -= int(sums[count - 1])
        places, needs = places[count:], needs[count:]


def give(jobs: Jobs, order: Ints, sizes: Ints, gpus: int, serve: Serve = fitting) -> tuple[Ints, int]:
    """The size of each job in this order if it fits, otherwise 0; and the GPUs left."""
    workers = np.zeros(len(jobs), dtype=np.int64)
    needs = (sizes * jobs.gpus)[order]
    places, left = serve(order, needs, gpus)
    served = order[places]
    workers[served] = sizes[served]
    return workers, left


def round_robin(jobs: Jobs, order: Ints, workers: Ints, gpus: int) -> Ints:
    """One more worker for each running job in turn, until no more fits or all are at their max.

    Whole rounds are given at once. In partial rounds a job whose worker does not fit is skipped for good, since the
    room only shrinks.
    """
    workers = workers.copy()
    rows = order[workers[order] > 0]
    while True:
        rows = rows[(workers[rows] < jobs.max[rows]) & (jobs.gpus[rows] <= gpus)]
        if len(rows) == 0:
            return workers
        round_costs = int(jobs.gpus[rows].sum())
        if round_costs <= gpus:
            rounds = min(int((jobs.max[rows] - workers[rows]).min()), gpus // round_costs)
            workers[rows] += rounds
            gpus -= rounds * round_costs
            continue
        for row, need in zip(rows.tolist(), jobs.gpus[rows].tolist(), strict=True):
            if need <= gpus:
                workers[row] += 1
                gpus -= need


def is_promoted(ran: Any, waited: Any, after: float) -> Any:
    """Whether a job (or which jobs) waited `after` times as long as the last run: it is then served first."""
    return (ran > 0) & (waited >= after * ran)
