"""The reference: a numpy loop that places one gang after the other by best fit, without a policy.

It has no queues, plugins, constraints, reasons or rollback: it is the minimum cost of a decision in this language.
"""

from __future__ import annotations

import numpy as np

from maar.model.snapshot import Snapshot


def best_fit(snapshot: Snapshot) -> int:
    """Place every job completely or not at all, on the fullest nodes with room. Returns the number of placed pods."""
    free = snapshot.nodes.allocatable - snapshot.used
    placed = 0
    for members in snapshot.jobs.members:
        count = len(members)
        request = snapshot.shapes.requests[snapshot.tasks.shape[members[0]]]
        dims = np.flatnonzero(request)
        fits = (free[:, dims] // request[dims]).min(axis=1)
        rows = np.flatnonzero(fits > 0)
        order = rows[np.argsort(free[rows][:, dims[0]], kind="stable")]
        reached = np.cumsum(fits[order])
        last = int(np.searchsorted(reached, count))
        if last == len(order):
            continue
        chosen = order[: last + 1]
        counts = fits[chosen]
        counts[-1] -= reached[last] - count
        free[chosen] -= counts[:, None] * request
        snapshot.tasks.node[members] = np.repeat(chosen, counts)
        placed += count
    return placed
