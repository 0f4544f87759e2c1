"""Who comes first: the orders that algorithms share, and the two passes that most of them are made of.

Every order begins with the priority that users give and ends with submit time and name, so that it is total and the
order of rows does not matter. Rows of jobs that cannot run now (`max` below `min`) are in no order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from maar.elastic.jobs import Ints, Jobs
from maar.elastic.speedup import Floats

Serve = Callable[[Ints, Ints, int], tuple[Ints, int]]
"""Decides which jobs of an order fit: (rows in that order, the GPUs each needs, the GPUs there are) to the places of
the order that are served, and the GPUs left. `fitting` counts GPUs; a caller may look at nodes too."""


def in_order(jobs: Jobs, *keys: Floats | Ints) -> Ints:
    """Rows by priority, then by these keys (smaller first, the first weighs most), then by submit time and name.

    Rows often stand in the order of submission, or nearly: sorting them is stable, which then costs little.
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
    """By keys, the last of which weighs most, then by submit time, then by rank: seldom are two equal until then."""
    if len(submit) > FEW:
        order: Ints = np.lexsort((submit, *by))
        if _equals_stand(order, [submit, *by], rank):
            return order
    return np.lexsort((rank, submit, *by))


def _equals_stand(order: Ints, keys: list[Any], rank: Ints) -> bool:
    """Whether those with equal keys stand in the order of rank."""
    before, after = order[:-1], order[1:]
    for key in keys:
        equal = key[before] == key[after]
        before, after = before[equal], after[equal]
        if len(before) == 0:
            return True
    return bool((rank[before] < rank[after]).all())


FEW = 200
"""Up to so many jobs, by measurement, a plain loop is faster than steps over arrays."""


def fitting(order: Ints, needs: Ints, gpus: int) -> tuple[Ints, int]:
    """The places of needs that are met, in their order, passing over what does not fit; and the GPUs left."""
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
    """As many as fit one after the other are taken at once. Who then does not fit never will, and nobody who needs as
    much: there are as many steps as needs of different size, however many jobs wait."""
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
    """Each job its size in this order, if that fits; what does not is passed over. Also the GPUs left."""
    workers = np.zeros(len(jobs), dtype=np.int64)
    needs = (sizes * jobs.gpus)[order]
    places, left = serve(order, needs, gpus)
    served = order[places]
    workers[served] = sizes[served]
    return workers, left


def round_robin(jobs: Jobs, order: Ints, workers: Ints, gpus: int) -> Ints:
    """One more worker for each running job in turn, until no more fits or all are at their max.

    Whole rounds are given at once. In the last, partial ones a job whose worker does not fit is passed over, for good:
    room only gets less.
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
    """Whether a job, or which of several, has waited `after` times as long as it last ran: then it comes first."""
    return (ran > 0) & (waited >= after * ran)
