"""Pods that are deleted and stay: the owner of a pod decides how long it takes to stop, and may decide for years.

Such a pod still takes its room, so no gang is nominated for it, and its queue still pays: otherwise a tenant could
delete her own pods with a long grace period and run them beside her queue's limit. A pod that should be gone for long
is stuck, mostly on a lost node: its room is not nominated either, but its queue no longer pays. Such room is no part of
what queues share: nobody gets it.
"""

from __future__ import annotations

import numpy as np

from maar.config.config import Tenants
from maar.model.tasks import Status, Task
from maar.session.session import Session

LONG = 600.0
"""Seconds after which a pod that is being deleted counts as staying, and the longest grace period of a victim with
`tenants: untrusted`. Tuned by hand: long enough to save a large model."""


def count_lingering(session: Session) -> None:
    """Count the pods whose deletion takes too long as staying, at the beginning of a session."""
    table = session.snapshot.tasks
    with session.statement() as statement:
        for number in np.flatnonzero(table.status == int(Status.RELEASING)).tolist():
            leaves = table.tasks[number].leaves
            if leaves is None:
                continue
            if leaves > session.now + LONG:
                session.state.linger(number, charged=not table.foreign[number])
                session.wake(leaves - LONG)
            elif leaves < session.now - LONG:
                session.state.linger(number, charged=False)
            else:
                session.wake(leaves + LONG)
        statement.commit()


def without_stuck(session: Session) -> list[int]:
    """The resources of all nodes without those of stuck pods: what queues can share."""
    table, found = session.snapshot.tasks, list(session.total)
    for number in np.flatnonzero((table.status == int(Status.RELEASING)) & (table.node >= 0)).tolist():
        leaves = table.tasks[number].leaves
        if leaves is not None and leaves < session.now - LONG:
            requests = session.snapshot.shapes.requests[table.shape[number]].tolist()
            found = [max(all_ - taken, 0) for all_, taken in zip(found, requests, strict=True)]
    return found


def longest_grace(session: Session, task: Task) -> int | None:
    """The grace period of a victim; `None`: its own."""
    return int(LONG) if session.config.tenants is Tenants.UNTRUSTED and task.grace > LONG else None
