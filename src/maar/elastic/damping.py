"""Which size changes are worth it: a restart costs, so changes with little gain are not made.

Pure, over columns. Starts always pass, and so do shrinks that free needed GPUs: the algorithm has decided them. Growth
that does not pay is held back, and then shrinks that are no longer needed.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from maar.elastic.jobs import Ints, Jobs
from maar.model.resources import Floats, Mask


class Damping(msgspec.Struct, frozen=True):
    """How much a change must gain. With zeros every change is made."""

    hysteresis: int = 0
    """Changes of this many workers or fewer are not made."""
    horizon: float = 600.0
    """Seconds within which a change must pay for its restart."""


def may_damp(changes: Sequence[tuple[int, int, int]], free: int) -> bool:
    """Whether any change could be held back: a growth, or a shrink whose GPUs are not needed.

    A change is the size before and after, and the GPUs of one worker; `free` are the GPUs that are free before. This
    check is cheaper than `damped`, for callers that ask often.
    """
    free -= sum((after - before) * width for before, after, width in changes)
    return any(before and (after > before or 0 < (before - after) * width <= free) for before, after, width in changes)


def damped(jobs: Jobs, now: Ints, target: Ints, gpus: int, restart: Floats, damping: Damping) -> Ints:
    """The sizes to apply: the target, or the current size if a change is not worth it."""
    grows = target > now
    grows &= now > 0
    if not np.count_nonzero(grows):
        given = (now - target) * jobs.gpus
        unneeded = given <= gpus - int(target @ jobs.gpus)
        unneeded &= given > 0
        if not np.count_nonzero(unneeded):
            return target
    if not damping.hysteresis and not restart.any():
        return target
    sizes = target.copy()
    small = np.abs(target - now) <= damping.hysteresis
    idle = grows & (small | ~pays(jobs, now, target, restart, damping.horizon))
    sizes[idle] = now[idle]
    free = gpus - int((sizes * jobs.gpus).sum())
    less = np.flatnonzero(sizes < now)
    for row in less[np.lexsort((jobs.rank[less], jobs.submit[less], -jobs.priority[less]))].tolist():
        back = int((now[row] - sizes[row]) * jobs.gpus[row])
        if 0 < back <= free and now[row] <= jobs.max[row]:
            sizes[row] = now[row]
            free -= back
    return sizes


def pays(jobs: Jobs, now: Ints, target: Ints, restart: Floats, horizon: float) -> Mask:
    """Whether the gain within the horizon, or until the job ends, exceeds the cost of a restart.

    Both in seconds of one worker: the gain is the difference in speed, the cost is the idle time of all workers.
    """
    fast, slow = jobs.speed(np.minimum(target, jobs.reach)), jobs.speed(np.minimum(now, jobs.reach))
    with np.errstate(divide="ignore", invalid="ignore"):
        lasts = np.minimum(horizon, np.where(fast > 0, jobs.remaining / fast, np.inf))
    return np.asarray((fast - slow) * lasts > restart * target)
