"""Step 4 of the cycle: read the plan from the session.

The plan is the difference between the columns of the session and those of the snapshot, so it contains only what was
committed. Waiting jobs get their reasons here, once, from the final state of the cycle.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec.structs import replace

from maar.model.codes import Meaning
from maar.model.jobs import Job
from maar.model.plan import Admit, Bind, Cause, Deserves, Evict, Nominate, Plan, Target, Ungate, Wait
from maar.model.reasons import UNREAD, Reason
from maar.model.tasks import QUEUE_GATE, Gate, Status
from maar.model.verdicts import verdict
from maar.model.words import count as counted
from maar.session import never
from maar.session.eviction.making_room import needs_of
from maar.session.eviction.protection import beyond_share
from maar.session.explain import why_waiting
from maar.session.gangs import missing
from maar.session.long_deletions import longest_grace
from maar.session.reserving import reserved_room
from maar.session.resizing.changes import SizeChanges
from maar.session.resizing.workers import coming, old_pods
from maar.session.session import Session

OWNER = "plan"


def plan_of(session: Session) -> Plan:
    sizes = SizeChanges(session)
    meanings = session.config.meanings
    waiting = [w for job in session.waiting() if (w := _wait(session, job, meanings)) is not None]
    return Plan(
        bind=_binds(session),
        nominate=_nominations(session),
        evict=_evictions(session, sizes),
        admit=tuple(Admit(job.key) for job in sorted(session.admitted.values(), key=lambda j: j.key)),
        ungate=tuple(Ungate(session.snapshot.tasks.tasks[t].key) for t in sorted(session.ungated)),
        reserve=(*sizes.reserves(), *reserved_room(session)),
        resize=tuple(sizes.resizes),
        suspend=tuple(sizes.suspends),
        resume=tuple(sizes.resumes),
        targets=_with_reasons(session, sizes, waiting),
        elect=session.elect,
        locks=tuple(session.locks[node] for node in sorted(session.locks)),
        facts=session.memory.facts(),
        wake_at=session.wake_at,
        waiting=tuple(waiting),
        deserved=_deserved(session) if session.snapshot.is_read else (),
    )


def _with_reasons(session: Session, sizes: SizeChanges, waiting: list[Wait]) -> tuple[Target, ...]:
    """What owners of elastic jobs read; of a job without workers, why it waits.

    About a job in no pool that rests, nothing was decided: what its owner reads still holds.
    """
    why = {wait.job: verdict(wait.reasons).details for wait in waiting} if sizes.targets else {}
    number, resting = session.snapshot.jobs.number, session.snapshot.resting
    return tuple(
        replace(target, why=why[target.job]) if not target.size and target.job in why else target
        for target in sizes.targets
        if target.size or target.pool or target.job in why or number[target.job] not in resting
    )


def _deserved(session: Session) -> tuple[Deserves, ...]:
    """What each queue deserves by the first plugin that defines it. Pod slots do not count."""
    if not session.hooks.deserved:
        return ()
    share, axes = session.hooks.deserved[0].call, session.snapshot.axes
    counted = [(d, name) for d, name in enumerate(axes.names) if d != axes.pods]
    found = []
    for q, queue in enumerate(session.snapshot.queues.queues):
        due = share(q)
        amounts = {name: amount for d, name in counted if (amount := due[d]) is not None and amount > 0}
        found.append(Deserves(queue.name, amounts))
    return tuple(found)


def _binds(session: Session) -> tuple[Bind, ...]:
    now, before = session.state.status, session.snapshot.tasks.status
    unborn = session.snapshot.tasks.unborn  # their job is resumed, and their room is kept
    chosen = np.flatnonzero((now == int(Status.BOUND)) & (before != int(Status.BOUND)) & ~unborn)
    tasks, names = session.snapshot.tasks.tasks, session.snapshot.nodes.names
    rows, numbers = session.state.node[chosen].tolist(), chosen.tolist()
    binds = zip(numbers, rows, session.capacity.chosen(numbers), strict=True)
    return tuple(Bind(tasks[t].key, names[row], what) for t, row, what in binds)


def _nominations(session: Session) -> tuple[Nominate, ...]:
    chosen = np.flatnonzero((session.state.status == Status.NOMINATED) & ~session.snapshot.tasks.unborn)
    tasks, names = session.snapshot.tasks.tasks, session.snapshot.nodes.names
    return tuple(Nominate(tasks[t].key, names[session.state.node[t]]) for t in chosen.tolist())


def _evictions(session: Session, sizes: SizeChanges) -> tuple[Evict, ...]:
    """Running tasks to evict. Tasks that only this cycle had bound stay pending instead (`_gave_way`).

    Workers of a job that shrinks or stops, now or by an earlier plan, are not evicted: their operator deletes them. One
    of several shards is told about them too: it may have to ask another shard for them, or to wait. Workers of a job
    that grows elsewhere are evicted: their operator creates them again.
    """
    everything = session.snapshot.scope is not None
    now, before = session.state.status, session.snapshot.tasks.status
    evictions, beyond = [], beyond_share(session)
    for t in np.flatnonzero((now == Status.RELEASING) & (before == Status.BOUND)).tolist():
        job = int(session.snapshot.tasks.job[t])
        if t not in session.evictions:
            continue
        why = session.evictions[t]
        if job in sizes.changed and why.cause is not Cause.MIGRATED and not everything:
            continue
        task = session.snapshot.tasks.tasks[t]
        apply = not (task.budgets and beyond is not None and beyond[t])
        grace = longest_grace(session, task)
        evictions.append(Evict(task.key, why.beneficiary.key, why.reason, why.cause, apply, grace))
    return tuple(evictions)


def _wait(session: Session, job: Job, meanings: Mapping[str, Meaning]) -> Wait | None:
    """Why a job waits, each reason once, with since when and with what its plugin declares of its code."""
    once = {(r.plugin, r.code, r.message): r for r in _reasons(session, job)}
    if not once:
        return None
    told = (
        r if r is UNREAD else replace(r, since=job.waits_since, meaning=meanings.get(r.code, r.meaning))
        for r in once.values()
    )
    return Wait(job.key, tuple(told), _surplus(session, job))


def _surplus(session: Session, job: Job) -> tuple[str, ...]:
    """The pending tasks that the minimum does not need; none if autoscalers are to create nodes for them too."""
    pending = int(session.state.job_pending[job.index])
    if session.config.autoscaling.surplus or pending <= missing(session, job).total:
        return ()
    needed = {t for group, count in needs_of(session, job) for t in group.tasks[:count].tolist()}
    if not missing(session, job).total:
        # It runs with its minimum, or has none: then it starts pod by pod, and the first one is its minimum.
        needed = needed if not session.state.job_ready[job.index] + session.state.job_nominated[job.index] else set()
    tasks = session.snapshot.tasks.tasks
    pods = (t for t in session.tasks_of(job, Status.PENDING).tolist() if not tasks[t].unborn)
    return tuple(tasks[t].key for t in pods if t not in needed)


def _reasons(session: Session, job: Job) -> list[Reason]:
    trouble = session.trouble(job)
    if trouble is not None:
        return [trouble]
    notes = list(session.notes.get(job.index, ()))
    if session.is_pending(job):
        return _not_admitted(session, job, notes) or [Reason("enqueue", "NotAdmitted", "its group was not admitted")]
    reasons: list[Reason] = []
    if job.is_suspended and job.is_elastic:
        return [] if job.index in session.sizes and session.sizes[job.index].size else notes
    if session.snapshot.jobs.sizes[job.index] == 0:
        return [Reason("maar", "NoPods", "its pods are not created yet")]
    nominated = session.nominated(job)
    if len(nominated):
        names = session.snapshot.nodes.names
        nodes = ", ".join(dict.fromkeys(names[row] for row in session.state.node[nominated].tolist()))
        what = f"{counted(len(nominated), 'pod waits', 'pods wait')} for room that is being freed on {nodes}"
        lasting = "room is being freed for its pods"
        reasons.append(Reason("allocate", "Nominated", what, lasting=lasting))
    if len(coming(session, job)) > len(nominated) and (leaving := old_pods(session, job)):
        reasons.append(leaving)
    if session.evictions:
        reasons.extend(_gave_way(session, job))
    if session.state.job_pending[job.index]:
        reasons.extend(_why_pending(session, job, notes))
    if session.snapshot.jobs.blocked[job.index]:
        reasons.extend(_why_blocked(session, job))
    return reasons


def _why_blocked(session: Session, job: Job) -> list[Reason]:
    """Why tasks may not be placed at all; those with only the gate of their queue have one reason together."""
    tasks = session.snapshot.tasks
    blocked = session.tasks_of(job, Status.BLOCKED)
    closed = tasks.gate[blocked] == Gate.CLOSED
    others = (tasks.tasks[t] for t in blocked[~closed].tolist())
    reasons = [Reason("maar", "Blocked", f"pod `{task.pod}` is held back: {task.blocked}") for task in others]
    if closed.any():
        opened = sum(t in session.ungated for t in blocked.tolist())
        until = f", removed from {opened} in this cycle" if opened else " until the queue admits them"
        count = int(closed.sum())
        what = f"{counted(count, 'pod')} gated by `{QUEUE_GATE}`{until}"
        lasting = f"pods are gated by `{QUEUE_GATE}` until the queue admits them"
        reasons.extend(session.gated.get(job.index, ()))
        reasons.append(Reason("maar", "Gated", what, queue=job.queue, lasting=lasting))
    return reasons


def _not_admitted(session: Session, job: Job, notes: list[Reason]) -> list[Reason]:
    """Why a group is not admitted: also whether it never can be."""
    asks = session.snapshot.axes.row(job.min_resources or {})
    queues = [never.by_queue(session, reason, asks) for reason in notes]
    return [reason if reason.never is not None else never.by_total(session, reason, asks) for reason in queues]


def _gave_way(session: Session, job: Job) -> list[Reason]:
    """The reason for tasks that got room in this cycle and then lost it to a more important job."""
    table = session.snapshot.tasks
    losers = session.memo.current(OWNER, "losers", lambda: set(table.job[list(session.evictions)].tolist()))
    gone = session.tasks_of(job, Status.RELEASING).tolist() if job.index in losers else []
    gone = [t for t in gone if table.status[t] <= Status.NOMINATED]
    gone = [t for t in gone if t in session.evictions]  # not workers removed by a smaller size
    if not gone:
        return []
    takers = ", ".join(dict.fromkeys(f"`{session.evictions[t].beneficiary.key}`" for t in gone))
    what = f"{counted(len(gone), 'pod')} would fit, but the room goes to {takers}"
    lasting = "its pods would fit, but a more important job takes their room"
    return [Reason("allocate", "GaveWay", what, lasting=lasting)]


def _why_pending(session: Session, job: Job, notes: list[Reason]) -> list[Reason]:
    if not session.snapshot.is_read:
        return [UNREAD]
    invalid = session.hooks.is_valid(job)
    if invalid is not None:
        return [invalid]
    return [*why_waiting(session, job), *notes]
