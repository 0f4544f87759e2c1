"""Where the workers of an elastic job go: on as few nodes as possible, and on whole nodes if possible.

Pure functions over columns of nodes. `best_fit` chooses nodes for new workers; `reshuffle` finds a layout of jobs on
fewer nodes with as few moves as possible.
"""

from __future__ import annotations

import numpy as np

from maar.model.fitting import count
from maar.model.resources import Floats, Ints

ANCHOR = 1e4
"""The value of keeping worker 0 in place, in kept workers: more than any job has."""


def best_fit(fits: Ints, wanted: int, own: Ints, score: Floats | None = None) -> tuple[Ints, Ints]:
    """Nodes for up to `wanted` workers, and how many on each; `fits[row]` is how many a node takes.

    First the nodes that already have workers of the job (`own`, a count by row), fullest first. Then the node that
    takes all the rest with least to spare; if none does, the node that takes most. The remainder, with the highest
    indices, is on the last node, so that a shrink frees it whole. Ties go to the better score, then to the lower row.
    """
    left = fits.copy()
    rows: list[int] = []
    counts: list[int] = []
    better = np.zeros(len(fits)) if score is None else score

    def take(row: int) -> None:
        count = min(int(left[row]), wanted - sum(counts))
        rows.append(row)
        counts.append(count)
        left[row] = 0

    for row in _order(np.flatnonzero((own > 0) & (fits > 0)), -own, better):
        if sum(counts) < wanted:
            take(row)
    while (rest := wanted - sum(counts)) > 0:
        there = np.flatnonzero(left)
        if len(there) == 0:
            break
        enough = there[left[there] >= rest]
        take(_order(enough, left, better)[0] if len(enough) else _order(there, -left, better)[0])
    return np.array(rows, dtype=np.int64), np.array(counts, dtype=np.int64)


def _order(rows: Ints, key: Ints, score: Floats) -> list[int]:
    """Rows with the smaller key first, then the better score, then the lower row."""
    order: list[int] = rows[np.lexsort((rows, -score[rows], key[rows]))].tolist()
    return order


def reshuffle(now: Ints, gpus: Ints, room: Ints, anchors: Ints) -> Ints:
    """A layout of the same workers on fewer nodes: workers by job and node, like `now`.

    `gpus` is what a worker of each job takes, `room` what each node has for all of them, `anchors` the node of each
    job's worker 0, which should stay. Jobs are placed again by best fit, the largest first. Then the nodes of this
    layout are assigned to real nodes so that most workers stay in place. Returns `now` if the new layout does not use
    fewer nodes, summed over jobs.
    """
    jobs, nodes = now.shape
    sizes = now.sum(axis=1)
    free = room.copy()
    laid = np.zeros_like(now)
    for job in sorted(range(jobs), key=lambda j: (-int(sizes[j] * gpus[j]), -int(gpus[j]), j)):
        fits = count(free[:, None], gpus[job : job + 1])
        rows, counts = best_fit(fits, int(sizes[job]), np.zeros(nodes, dtype=np.int64))
        if counts.sum() < sizes[job]:
            return now
        laid[job, rows] = counts
        free[rows] -= counts * gpus[job]
    named = _rename(now, laid, gpus, room, anchors)
    return named if (named > 0).sum() < (now > 0).sum() else now


def _rename(now: Ints, laid: Ints, gpus: Ints, room: Ints, anchors: Ints) -> Ints:
    """The same layout on real nodes that have room for it, such that most workers stay."""
    from scipy.optimize import linear_sum_assignment  # imported here: it takes 0.2 s and is rarely needed

    kept = np.minimum(now[:, :, None], laid[:, None, :]).sum(axis=0).astype(np.float64)
    for job, node in enumerate(anchors.tolist()):
        kept[node] += np.where(laid[job] > 0, ANCHOR, 0)
    needs = (laid * gpus[:, None]).sum(axis=0)
    impossible = needs[None, :] > room[:, None]
    kept[impossible] = -1e9
    real, anonymous = linear_sum_assignment(kept, maximize=True)
    if impossible[real, anonymous].any():
        return laid
    named = np.zeros_like(now)
    named[:, real] = laid[:, anonymous]
    return named


def moved(now: Ints, then: Ints) -> int:
    """How many workers must leave their node."""
    return int(np.maximum(now - then, 0).sum())
