"""Which changes of size are worth it: a restart costs, so what brings little is left undone.

Pure, over columns. Starts always pass, and so do shrinks that somebody needs; the algorithm has decided who. What is
held back is growth that does not pay, and then shrinks that nobody needs any more.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from maar.elastic.jobs import Ints, Jobs
from maar.model.resources import Floats, Mask


class Damping(msgspec.Struct, frozen=True):
    """How much a change must bring. Zeros: every change is made."""

    hysteresis: int = 0
    """Changes of so many workers or fewer are not made."""
    horizon: float = 600.0
    """Seconds within which a change must have paid for its restart."""


def may_damp(changes: Sequence[tuple[int, int, int]], free: int) -> bool:
    """Whether any of some changes could be held back: a growth, or a shrink that nobody needs.

    Each is the size before and after, and the GPUs of one worker; `free` are those that are free before. For who asks
    often: to know that nothing is held back takes less than to ask for all jobs.
    """
    free -= sum((after - before) * width for before, after, width in changes)
    return any(before and (after > before or 0 < (before - after) * width <= free) for before, after, width in changes)


def damped(jobs: Jobs, now: Ints, target: Ints, gpus: int, restart: Floats, damping: Damping) -> Ints:
    """The sizes to make of the sizes planned: as they are now where a change is not worth it."""
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
    """Whether what is gained within the horizon, or until the job ends, is more than its restart costs.

    Both in seconds of one worker: the gain is the difference in speed, the cost that all its workers stand still.
    """
    fast, slow = jobs.speed(np.minimum(target, jobs.reach)), jobs.speed(np.minimum(now, jobs.reach))
    with np.errstate(divide="ignore", invalid="ignore"):
        lasts = np.minimum(horizon, np.where(fast > 0, jobs.remaining / fast, np.inf))
    return np.asarray((fast - slow) * lasts > restart * target)
