"""How much of the cluster is in use: one point of a series. These totals are for every viewer."""

from __future__ import annotations

import numpy as np

from maar.model.resources import Ints
from maar.session.state import queue_sums
from maar.views.records import UtilisationView
from maar.views.tally import AWAITED, Tally

QUEUES = 12
"""Queues that a point names, those with the most in use; the others are one number. Tuned by hand."""


def utilisation_view(tally: Tally) -> UtilisationView:
    """The accelerators of all nodes, in use and waited for; CPU where there are none."""
    snapshot, tree = tally.snapshot, tally.snapshot.queues

    def amount(table: Ints) -> int:
        return int(table[:, tally.devices].sum())

    used = amount(snapshot.used)
    by_queue = queue_sums(snapshot, snapshot.jobs.allocated)[:, tally.devices].sum(axis=1).tolist()
    root = tree.queues[tree.root].name
    top = {
        queue.name: int(by_queue[q])
        for q, queue in enumerate(tree.queues)
        if q != tree.root and queue.parent in ("", root) and by_queue[q] > 0
    }
    named = dict(sorted(top.items(), key=lambda item: (-item[1], item[0]))[:QUEUES])
    return UtilisationView(
        at=round(tally.now, 3),
        total=amount(snapshot.nodes.allocatable),
        used=used,
        waiting=amount(tally.pending[np.isin(tally.states, AWAITED)]),
        queues=named,
        others=max(used - sum(named.values()), 0),
    )
