"""How far protections that tenants state are believed.

A tenant can protect her own running pods: with `volcano.sh/preemptable: "false"`, a cooldown, a disruption budget, a
DaemonSet, a mirror annotation or a system priority class. By default that always holds, as in Volcano. With `tenants:
untrusted`, the protected jobs of a queue, the most important and oldest first, keep their protection while together
they are within what the queue deserves. Beyond that they are victims like all others, and no more likely ones.

The members of a gang's minimum count together, pods above it one by one. Without a plugin that defines
what queues deserve, every protection holds. Pods in `kube-system`, where tenants cannot write, and pods of other
schedulers are never affected.
"""

from __future__ import annotations

import numpy as np

from maar.config.config import Tenants
from maar.model.minimum import choose
from maar.model.resources import Ints, Mask
from maar.model.tasks import Status
from maar.session.hooks import Share
from maar.session.session import Session
from maar.session.state import queue_sums

SYSTEM = "kube-system/"
OWNER = "protection"


def limits_claims(session: Session) -> bool:
    """Whether what tenants state protects their jobs only up to the share of their queue."""
    return session.config.tenants is Tenants.UNTRUSTED and bool(session.hooks.deserved)


def beyond_share(session: Session) -> Mask | None:
    """Tasks whose stated protections do not count; `None` if all protections count."""
    if not limits_claims(session):
        return None
    return session.memo.fixed(OWNER, "beyond", lambda: _beyond(session))


def unprotected(session: Session, tasks: Ints) -> Mask:
    """Which of these tasks may be evicted whatever their tenant states."""
    beyond = beyond_share(session)
    return np.zeros(len(tasks), dtype=np.bool_) if beyond is None else np.asarray(beyond[tasks])


def is_beyond(session: Session, job: int) -> bool:
    """Whether the protections of a job do not count, or only for some of its pods."""
    beyond = beyond_share(session)
    return beyond is not None and bool(beyond[session.snapshot.jobs.members[job]].any())


def has_all_it_deserves(session: Session, queue: int) -> bool:
    """Whether a queue had its whole share of a resource, so that its tenants' statements get it no more."""
    if not limits_claims(session):
        return False

    def judge() -> bool:
        sums = session.memo.fixed(OWNER, "sums", lambda: queue_sums(session.snapshot, session.snapshot.jobs.allocated))
        has: list[int] = sums[queue].tolist()
        share = _share(session, queue)
        return any(due is not None and (due > 0 or got > 0) and got >= due for got, due in zip(has, share, strict=True))

    return session.memo.fixed(OWNER, ("full", queue), judge)


def _beyond(session: Session) -> Mask:
    snapshot = session.snapshot
    table, beyond = snapshot.tasks, np.zeros(len(snapshot.tasks), dtype=np.bool_)
    claimed = _ours(session) & _claims(session)
    jobs = [session.job(i) for i in np.unique(table.job[claimed]).tolist()]
    left: dict[int, list[int | None]] = {}
    for job in sorted(jobs, key=lambda job: (-job.priority, job.created, job.key)):
        queue = int(snapshot.jobs.queue[job.index])
        room = left.setdefault(queue, list(_share(session, queue)))
        members = snapshot.jobs.members[job.index]
        there = members[table.status[members] == Status.BOUND].tolist()
        least = [table.number[task.key] for task in choose(job, (), [table.tasks[task] for task in there])]
        for unit in (least, *([task] for task in there if task not in least)):
            asks = snapshot.shapes.requests[table.shape[unit]].sum(axis=0).tolist()
            if all(due is None or not amount or amount <= due for amount, due in zip(asks, room, strict=True)):
                room[:] = [due if due is None else due - amount for amount, due in zip(asks, room, strict=True)]
            else:
                beyond[unit] = True
                if unit is least:
                    beyond[there] = True  # the minimum is not protected, so its surplus is not either
                    break
    return beyond & claimed


def _ours(session: Session) -> Mask:
    """Running tasks that a tenant may have made, and that Maar schedules."""
    table = session.snapshot.tasks
    system = np.array([task.key.startswith(SYSTEM) for task in table.tasks], dtype=np.bool_)
    return np.asarray((table.status == Status.BOUND) & ~table.foreign & ~system)


def _claims(session: Session) -> Mask:
    """Tasks for which a protection is stated that holds now."""
    table, jobs = session.snapshot.tasks, session.snapshot.jobs
    stated = ~table.preemptable | table.resident | table.critical
    stated |= np.array([bool(task.budgets) for task in table.tasks], dtype=np.bool_)
    cooldown = np.array([task.cooldown for task in table.tasks], dtype=np.float64)
    stated |= (cooldown > 0) & (table.started + cooldown > session.now)
    for i in jobs.elastic:
        elastic = jobs.jobs[i].elastic
        if elastic is not None and elastic.restart is not None:
            stated[jobs.members[i]] = True
    return np.asarray(stated)


def _share(session: Session, queue: int) -> Share:
    """What a queue deserves by the strictest plugin; no queue deserves nothing."""
    nothing: list[int | None] = [0] * len(session.snapshot.axes)
    if queue < 0:
        return nothing
    shares = [entry.call(queue) for entry in session.hooks.deserved]
    return [min((due for due in of if due is not None), default=None) for of in zip(*shares, strict=True)]
