"""Queues: what each has, deserves, borrows and waits for. Every viewer sees their totals."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from maar.session.state import queue_sums
from maar.views.records import QueueView, State
from maar.views.sight import Sight
from maar.views.tally import STATES, Tally


def queue_views(tally: Tally, sight: Sight, rows: Iterable[int] | None = None) -> list[QueueView]:
    """The queues of these rows, or all, by name; amounts include the queues below."""
    snapshot, tree = tally.snapshot, tally.snapshot.queues
    waiting = tally.pending.copy()
    waiting[np.isin(tally.states, (STATES.index(State.INVALID), STATES.index(State.FINISHED)))] = 0
    allocated, wanted = (queue_sums(snapshot, table) for table in (snapshot.jobs.allocated, waiting))
    due = {share.queue: share.amounts for share in tally.plan.deserved}
    counts = np.zeros((len(tree), len(STATES)), dtype=np.int64)
    own = (snapshot.jobs.queue >= 0) & ~tally.is_foreign
    np.add.at(counts, (snapshot.jobs.queue[own], tally.states[own].astype(np.int64)), 1)
    views = []
    for q in range(len(tree)) if rows is None else rows:
        queue = tree.queues[q]
        has = tally.amounts(allocated[q])
        deserved = due.get(queue.name, queue.deserved or {})
        views.append(
            QueueView(
                name=queue.name,
                parent=queue.parent or ("" if q == tree.root else tree.queues[tree.root].name),
                weight=queue.weight,
                priority=queue.priority,
                open=queue.open,
                reclaimable=queue.reclaimable,
                broken=sight.said(tree.broken[q], tally.namespaces),
                capability=queue.capability or {},
                guarantee=queue.guarantee or {},
                deserved=deserved,
                allocated=has,
                borrowed={name: has[name] - due for name, due in deserved.items() if has.get(name, 0) > due},
                waiting=tally.amounts(wanted[q]),
                jobs={state.value: int(counts[q, i]) for i, state in enumerate(STATES)},
            )
        )
    return views
