"""optimus: each job gets its minimum, then one worker at a time goes to the job whose remaining time drops most.

Source: Peng et al., "Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning Clusters", EuroSys 2018.
"""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace

import numpy as np

from maar.config.config import NoArguments
from maar.elastic.jobs import Ints, Jobs
from maar.elastic.order import Serve, fitting, give, in_order

NAME = "optimus"


def plan(jobs: Jobs, gpus: int, arguments: NoArguments, serve: Serve = fitting) -> Ints:
    """`min` by priority, submit time and name; then one more worker to the job with the largest drop, if any.

    The drop is remaining / S(n) - remaining / S(n+1). Jobs with unknown remaining time count as endless: they come
    before all others, by the drop of 1 / S. A worker that does not fit is skipped.
    """
    order = in_order(jobs)
    workers, left = give(jobs, order, jobs.min, gpus, serve)
    rows = order[(workers[order] > 0) & (workers[order] < jobs.max[order]) & (jobs.gpus[order] <= left)]
    size, most, width = workers.tolist(), jobs.max.tolist(), jobs.gpus.tolist()
    speed, start, remaining = jobs.curves, jobs.offset.tolist(), jobs.remaining.tolist()

    def drop(row: int) -> tuple[bool, float]:
        at = start[row] + size[row]
        now, then = float(speed[at]), float(speed[at + 1])
        if remaining[row] == np.inf:
            return False, 1 / then - 1 / now
        return True, remaining[row] / then - remaining[row] / now

    heap = [(*drop(row), place, row) for place, row in enumerate(rows.tolist())]
    heap = [entry for entry in heap if entry[1] < 0]
    heapify(heap)
    while heap and left > 0:
        _, _, place, row = heap[0]
        if width[row] > left:
            heappop(heap)
            continue
        size[row] += 1
        left -= width[row]
        known, change = drop(row) if size[row] < most[row] else (True, 0.0)
        if change < 0:
            heapreplace(heap, (known, change, place, row))
        else:
            heappop(heap)
    return np.array(size, dtype=np.int64)
