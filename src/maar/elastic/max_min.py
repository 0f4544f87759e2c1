"""max-min: each job gets its minimum, then one worker at a time goes to the job with the fewest GPUs.

Source: max-min fairness counted in GPUs, as in the baselines of Gavel and Themis.
"""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace

import numpy as np

from maar.config.config import NoArguments
from maar.elastic.jobs import Ints, Jobs
from maar.elastic.order import Serve, fitting, give, in_order

NAME = "max-min"


def plan(jobs: Jobs, gpus: int, arguments: NoArguments, serve: Serve = fitting) -> Ints:
    """`min` by priority, submit time and name; then one more worker to the job with the fewest GPUs, up to `max`.

    A worker that does not fit is skipped.
    """
    order = in_order(jobs)
    workers, left = give(jobs, order, jobs.min, gpus, serve)
    rows = order[(workers[order] > 0) & (workers[order] < jobs.max[order]) & (jobs.gpus[order] <= left)]
    size, most, width = workers.tolist(), jobs.max.tolist(), jobs.gpus.tolist()
    heap = [(size[row] * width[row], place, row) for place, row in enumerate(rows.tolist())]
    heapify(heap)
    while heap and left > 0:
        has, place, row = heap[0]
        if width[row] > left:
            heappop(heap)
            continue
        size[row] += 1
        left -= width[row]
        if size[row] < most[row]:
            heapreplace(heap, (has + width[row], place, row))
        else:
            heappop(heap)
    return np.array(size, dtype=np.int64)
