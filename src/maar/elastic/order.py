"""Who comes first: the orders that algorithms share, and the two passes that most of them are made of.

Every order begins with the priority that users give and ends with submit time and name, so that it is total and the
order of rows does not matter. Rows of jobs that cannot run now (`max` below `min`) are in no order.
"""

from __future__ import annotations

import numpy as np

from maar.elastic.jobs import Ints, Jobs
from maar.elastic.speedup import Floats


def in_order(jobs: Jobs, *keys: Floats | Ints) -> Ints:
    """Rows by priority, then by these keys (smaller first, the first weighs most), then by submit time and name."""
    order = np.lexsort((jobs.rank, jobs.submit, *keys[::-1], -jobs.priority))
    runnable = jobs.max >= jobs.min
    return order if runnable.all() else order[runnable[order]]


def give(jobs: Jobs, order: Ints, sizes: Ints, gpus: int) -> tuple[Ints, int]:
    """Each job its size in this order, if that fits; what does not is passed over. Also the GPUs left."""
    workers = np.zeros(len(jobs), dtype=np.int64)
    needs = (sizes * jobs.gpus)[order]
    if len(needs) == 0:
        return workers, gpus
    total = int(needs.sum())
    if total <= gpus:
        workers[order] = sizes[order]
        return workers, gpus - total
    smallest = int(needs.min())
    served = []
    for row, need in zip(order.tolist(), needs.tolist(), strict=True):
        if need <= gpus:
            served.append(row)
            gpus -= need
            if gpus < smallest:
                break
    workers[served] = sizes[served]
    return workers, gpus


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
