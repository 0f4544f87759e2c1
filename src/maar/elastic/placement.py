"""Where the workers of an elastic job go: as few nodes as possible, and whole ones where possible.

Pure functions over columns of nodes. `best_fit` chooses nodes for workers to come; `reshuffle` finds out which workers
would have to move so that jobs lie on fewer nodes, and moves as few of them as possible.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


ANCHOR = 1e4
"""What keeping worker 0 in its place is worth, in workers kept: more than any job has."""


def best_fit(fits: Ints, wanted: int, own: Ints, score: Floats | None = None) -> tuple[Ints, Ints]:
    """Nodes for up to `wanted` workers, and how many on each: `fits[row]` are how many a node takes.

    First the nodes that have workers of the job already (`own`, a count by row), fullest of them first. Then the node
    that takes all the rest with least to spare; where none does, the one that takes most. The last node is where the
    remainder lies: the highest indices go there, so that a shrink gives it back whole. Ties go to the better score,
    then to the lower row.
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
    """A layout of the same workers on fewer nodes: workers by job and node, as `now` is.

    `gpus` is what a worker of each job takes, `room` what each node has for all of them, `anchors` the node of each
    job's worker 0, which had better stay. Jobs are laid out anew by best
    fit, the largest first; then the anonymous nodes of that layout are given to real ones by the assignment that keeps
    most workers where they are. Gives `now` back where the new layout does not lie on fewer nodes, job by job, in sum.
    """
    jobs, nodes = now.shape
    sizes = now.sum(axis=1)
    free = room.copy()
    laid = np.zeros_like(now)
    for job in sorted(range(jobs), key=lambda j: (-int(sizes[j] * gpus[j]), -int(gpus[j]), j)):
        rows, counts = best_fit(free // gpus[job], int(sizes[job]), np.zeros(nodes, dtype=np.int64))
        if counts.sum() < sizes[job]:
            return now
        laid[job, rows] = counts
        free[rows] -= counts * gpus[job]
    named = _rename(now, laid, gpus, room, anchors)
    return named if (named > 0).sum() < (now > 0).sum() else now


def _rename(now: Ints, laid: Ints, gpus: Ints, room: Ints, anchors: Ints) -> Ints:
    """The same layout on the real nodes that keep most of what is there, each with room for its part."""
    from scipy.optimize import linear_sum_assignment  # here, since it takes a fifth of a second and few need it

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
    """How many workers have to leave the node they are on."""
    return int(np.maximum(now - then, 0).sum())
