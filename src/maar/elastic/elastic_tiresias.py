"""elastic-tiresias: as tiresias, but lower queues shrink if many jobs wait, and free GPUs go where the gain is largest.

Source: Wu et al., "Elastic Deep Learning in Multi-Tenant GPU Clusters", IEEE TPDS 2021, as in Voda, but priority comes
before gain.
"""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace
from typing import Annotated

import msgspec
import numpy as np

from maar.elastic import tiresias
from maar.elastic.jobs import Ints, Jobs
from maar.elastic.order import Serve, fitting, give, in_order

NAME = "elastic-tiresias"


class Arguments(tiresias.Arguments, frozen=True, forbid_unknown_fields=True):
    """The queues of tiresias, and when to shrink."""

    compaction: Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)] = 10
    """Shrink if more jobs than this are left waiting. 10 is the value of the paper."""


def plan(jobs: Jobs, gpus: int, arguments: Arguments, serve: Serve = fitting) -> Ints:
    """Requested sizes by tiresias; shrink the lower queues if many jobs wait; then grow by priority, queue and gain.

    1. As tiresias.
    2. If more than `compaction` jobs are left waiting, jobs outside the first queue of the highest priority shrink to
       `min`.
    3. While GPUs are free: the job with the largest gain S(n+1) - S(n) in the highest priority and queue gets one more
       worker, or `min` if it waits. Jobs that do not fit are skipped; a job without gain, or at `max`, is done.
    """
    level = tiresias.levels(jobs, arguments.thresholds, arguments.knob)
    order = in_order(jobs, level, jobs.first_start)
    workers, left = give(jobs, order, jobs.requested, gpus, serve)
    if len(order) - np.count_nonzero(workers) > arguments.compaction:
        lower = (workers > 0) & ((level > 0) | (jobs.priority < jobs.priority[order[0]]))
        left += int(((workers - jobs.min) * jobs.gpus)[lower].sum())
        workers[lower] = jobs.min[lower]
    return _grown(jobs, in_order(jobs, level), level, workers, left)


def _grown(jobs: Jobs, order: Ints, level: Ints, workers: Ints, left: int) -> Ints:
    """Step 3. A heap holds each job once, by its next gain; a job that does not fit now never will."""
    size, least, most, width = workers.tolist(), jobs.min.tolist(), jobs.max.tolist(), jobs.gpus.tolist()
    speed, start = jobs.curves, jobs.offset.tolist()
    next_speed = jobs.speed(np.minimum(workers + 1, np.maximum(jobs.max, 1)))
    gains = (next_speed - jobs.speed(workers)).tolist()
    need = (np.where(workers > 0, 1, jobs.min) * jobs.gpus).tolist()
    urgency, queue = (-jobs.priority).tolist(), level.tolist()
    heap = [
        (urgency[row], queue[row], -gains[row], place, row)
        for place, row in enumerate(order.tolist())
        if size[row] < most[row] and gains[row] > 0 and need[row] <= left
    ]
    heapify(heap)
    while heap and left > 0:
        more, queue_of, _, place, row = heap[0]
        step = 1 if size[row] else least[row]
        if step * width[row] > left:
            heappop(heap)
            continue
        size[row] += step
        left -= step * width[row]
        at = start[row] + size[row]
        gain = float(speed[at + 1] - speed[at]) if size[row] < most[row] else 0.0
        if gain > 0:
            heapreplace(heap, (more, queue_of, -gain, place, row))
        else:
            heappop(heap)
    return np.array(size, dtype=np.int64)
