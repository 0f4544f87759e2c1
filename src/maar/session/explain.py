"""Why a gang does not fit, counted over the nodes, in one line.

    0/500 nodes fit: 312 short of nvidia.com/gpu (needs 4, best has 2 free), 188 tainted

Each node is counted once, under the first cause that applies (`refused_nodes`). Jobs with the same shape share one
count. What can be proved impossible on today's nodes is said so (`never`).
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from msgspec.structs import replace

from maar.model.jobs import Job
from maar.model.minimum import needed
from maar.model.reasons import Reason
from maar.model.resources import Mask
from maar.model.tasks import Status
from maar.model.words import count as counted
from maar.model.words import number
from maar.session import never
from maar.session.gangs import missing
from maar.session.placement import (
    Group,
    Terms,
    both,
    domains_of,
    domains_of_part,
    groups_of,
    place_part,
    place_tasks,
)
from maar.session.plain import PlainKind, plain_kind
from maar.session.refused_nodes import NodeRoom, count_nodes, has_locks, locked, unlocked
from maar.session.session import Session
from maar.session.subgroups import USABLE, WITH_ROOM, Assembly, Part, subgroups_of

OWNER = "explain"


def why_waiting(session: Session, job: Job) -> list[Reason]:
    """Everything that keeps a job's pending tasks from starting, in the current state of the session."""
    if job.subgroups:
        return why_subgroups_wait(session, job)
    kind = _kind_of(session, job)
    return _why(session, job) if kind is None else session.memo.current(OWNER, kind, lambda: _why(session, job))


def _kind_of(session: Session, job: Job) -> Hashable | None:
    """What the reasons of a job depend on: thousands of jobs that wait for the same share them.

    `None` for jobs that are looked at one by one: their reasons also depend on where their pods run.
    """
    if job.closeness is not None or job.is_elastic:
        return None
    if (plain := plain_kind(session, job)) is not None:
        return plain, _closed(session, job)
    tables, own = session.snapshot, slice(*session.snapshot.jobs.members.span(job.index))
    gang = job.queue, job.namespace, job.priority, job.min_member, tuple(job.role_min.items())
    roles = tables.jobs.role_names[job.index]
    columns = session.state.status, tables.tasks.shape, tables.tasks.priority, tables.jobs.own_role
    return gang, roles, tuple(column[own].tobytes() for column in columns), _closed(session, job)


def _closed(session: Session, job: Job) -> Hashable:
    """What closes nodes to a job."""
    return tuple((r.code, r.words, r.nodes.tobytes()) for r in session.closed_to(job))


def _why_plain(session: Session, job: Job, kind: PlainKind) -> list[Reason]:
    """The same for a plain gang. What nodes say of it, other gangs with as many of the same pods share too."""
    wanted, memo = kind.needs, session.memo

    def ask() -> Reason | None:
        group = Group(0, kind.shape, session.tasks_of(job, Status.PENDING))
        reason = _why_nodes(session, job, group, wanted)
        return None if reason is None else never.by_nodes(session, job, group, kind.least, reason, alone=True)

    is_shared = not (session.closed_to(job) or session.hooks.shared_rooms or session.capacity.limits(kind.shape))
    asked = ("plain", kind.shape, wanted, kind.least)
    found = memo.current(OWNER, asked, ask) if is_shared else ask()
    nodes, queues = [] if found is None else [found], session.hooks.refusals(job, kind.shape, wanted)
    if queues:
        asks = [kind.least * amount for amount in session.snapshot.shapes.requests[kind.shape].tolist()]
        queues = [never.by_queue(session, reason, asks) for reason in queues]
    elif (overused := session.overused.get(job.queue)) is not None:
        queues.append(overused)
    return _without_the_obvious(session, nodes, queues) or _though_it_fits(session, job, kind.least)


def _why(session: Session, job: Job) -> list[Reason]:
    if (kind := plain_kind(session, job)) is not None:
        return _why_plain(session, job, kind)
    nodes: list[Reason] = []
    queues: list[Reason] = []
    lack, groups = missing(session, job), groups_of(session, job)
    lacking = lack.total
    counts = needed(lack, [group.role for group in groups], [len(group.tasks) for group in groups])
    asks = [0] * len(session.snapshot.axes.names)
    for group, count in zip(groups, counts, strict=True):
        wanted = min(len(group.tasks), max(lacking, 1))
        queues.extend(session.hooks.refusals(job, group.shape, wanted))
        reason = _why_nodes(session, job, group, wanted)
        if reason is not None:
            nodes.append(never.by_nodes(session, job, group, count, reason, alone=len(groups) == 1))
        request = session.snapshot.shapes.requests[group.shape].tolist()
        asks = [a + count * n for a, n in zip(asks, request, strict=True)]
    queues = [never.by_queue(session, reason, asks) for reason in queues]
    overused = session.overused.get(job.queue)
    if overused is not None and not queues:
        queues.append(overused)
    return _without_the_obvious(session, nodes, queues) or _though_it_fits(session, job, lacking)


def _though_it_fits(session: Session, job: Job, lacking: int) -> list[Reason]:
    """Why a job waits although neither nodes nor its queue refuse any of its pods."""
    if lacking > 1:
        return [_not_together(lacking)]
    if session.state.job_nominated[job.index]:
        return []
    return [Reason("allocate", "NotReached", "fits, but was not reached in this cycle")]


def _not_together(count: int) -> Reason:
    what = f"its {counted(count, 'missing pod')} fit one by one but not together"
    return Reason("allocate", "NotTogether", what)


def why_subgroups_wait(session: Session, job: Job) -> list[Reason]:
    """The same for a job with subgroups: why its next subgroup, or its next task in none, does not start."""
    reasons: list[Reason] = []
    lack = missing(session, job)
    lacking = lack.total
    terms = Terms(within=both(next(domains_of(session, job), None), session.open_to(job)))

    def try_(part: Part) -> int:
        placed = place_part(session, job, part, terms)
        if not placed and not reasons:
            reasons.extend(_why_part(session, job, part, terms.within, bool(lacking) and assembly.is_typical(part)))
        return placed

    assembly = Assembly(session, job, groups_of(session, job), try_)
    with session.statement():  # not committed: place part after part to find the first that does not fit
        if lacking:
            assembly.complete(lack)
        else:
            assembly.grow(1, int(session.state.job_pending[job.index]), lambda _: True)
    if not reasons and session.state.job_pending[job.index]:
        reasons.extend(_too_few_pods(session, job))
    overused = session.overused.get(job.queue)
    if overused is not None and not reasons:
        return [overused]
    return reasons or _though_it_fits(session, job, lacking)


def _why_part(session: Session, job: Job, part: Part, within: Mask | None, is_needed: bool) -> list[Reason]:
    """Why nodes or the queue refuse a part, with the name of its subgroup. A proof needs all parts to be alike."""
    nodes: list[Reason] = []
    queues: list[Reason] = []
    domains = [both(within, domain) for domain in domains_of_part(session, job, part, within)]
    close = [mask for mask in domains if mask is not None]
    for group, count in part.needs:
        wanted = count if part.whole else 1
        asks = (wanted * session.snapshot.shapes.requests[group.shape]).tolist()
        refusals = session.hooks.refusals(job, group.shape, wanted)
        queues.extend(never.by_queue(session, reason, asks) for reason in refusals)
        reason = count_nodes(session, job, group, wanted, room=NodeRoom(session, job, group.shape, close))
        if reason is not None:
            nodes.append(_proved(session, job, part, group, wanted, reason) if is_needed else reason)
    found = _without_the_obvious(session, nodes, queues)
    if not found and part.whole:
        found.append(_not_together(part.size))
    return found if part.subgroup < 0 else [_of_subgroup(session, job, part, reason) for reason in found]


def _proved(session: Session, job: Job, part: Part, group: Group, wanted: int, reason: Reason) -> Reason:
    """The reason why nodes refuse a part, with the proof if there is one."""
    book = subgroups_of(session, job)
    closeness = book.closeness(part.subgroup)
    reason = never.by_nodes(session, job, group, wanted, reason, alone=False)
    alone = len(part.needs) == 1 and not len(book.tasks(part.subgroup, *WITH_ROOM))
    if not alone or reason.never is not None or closeness is None or not closeness.hard:
        return reason
    masks = [mask for mask in domains_of_part(session, job, part, None) if mask is not None]
    return never.by_domains(session, group, wanted, closeness, masks, reason)


def _of_subgroup(session: Session, job: Job, part: Part, reason: Reason) -> Reason:
    """The reason with the name of the subgroup that does not start."""
    book = subgroups_of(session, job)
    closeness = book.closeness(part.subgroup)
    near = f" within one {closeness.words}" if closeness is not None and closeness.hard else ""
    pods = "1 more pod" if not part.whole else f"{counted(part.size, 'pod')}{near}"
    message = f"subgroup `{book.names[part.subgroup]}` ({pods}): {reason.message}"
    policy = book.policies[int(book.policy[part.subgroup])]
    lasting = f"a subgroup of `{policy.name}`: {reason.lasting}" if reason.lasting else reason.lasting
    return replace(reason, message=message, lasting=lasting)


def _too_few_pods(session: Session, job: Job) -> list[Reason]:
    """The first subgroup that cannot start because some of its pods do not exist."""
    book = subgroups_of(session, job)
    there, pending = book.count(USABLE), book.count((Status.PENDING,))
    for s in np.flatnonzero((pending > 0) & (there < book.size)).tolist():
        size = counted(int(book.size[s]), "pod")
        placed = f"subgroup `{book.names[s]}` needs {size}, only {number(int(there[s]))} can be placed"
        what = f"{placed} (the others do not exist, are blocked or have ended)"
        needs, has = int(book.size[s]), int(there[s])
        lasting = f"a subgroup of `{book.policies[int(book.policy[s])].name}` has too few pods"
        return [Reason("maar", "NotEnoughPodsOfSubgroup", what, needs=needs, has=has, lasting=lasting)]
    return []


def _without_the_obvious(session: Session, nodes: list[Reason], queues: list[Reason]) -> list[Reason]:
    """The reasons of nodes, and those of queues that say more than the nodes do."""
    return [*nodes, *(r for r in queues if r.never is not None or not nodes or not _is_whole_cluster(session, r))]


def _is_whole_cluster(session: Session, refusal: Reason) -> bool:
    """Whether the limit of the queue is the whole cluster: the nodes then refuse the same request."""
    dim = session.snapshot.axes.index.get(refusal.resource)
    return dim is not None and refusal.limit is not None and refusal.limit >= session.total[dim]


def _why_nodes(session: Session, job: Job, group: Group, wanted: int) -> Reason | None:
    """Why nodes refuse `wanted` tasks of the group, or `None` if they fit."""
    if not session.capacity.limits(group.shape):
        if job.closeness is not None:
            return count_nodes(session, job, group, wanted)
        closed = tuple((r.words, r.nodes.tobytes()) for r in session.closed_to(job))
        shared = session.shared_rooms(job, group.shape)
        closed += tuple((f"{r.refusal.words} {r.count}", r.nodes.tobytes()) for r in shared)
        memo, shape = session.memo, group.shape
        room = memo.current(OWNER, ("room", shape, closed), lambda: NodeRoom(session, job, shape))
        asked = (shape, wanted, closed)
        return memo.current(OWNER, asked, lambda: count_nodes(session, job, group, wanted, room=room))
    if session.hooks.allowed(job, group.shape, wanted) < wanted:
        return None  # the queue is the limit, not the nodes
    domain = next(domains_of(session, job), None)
    with session.statement():  # not committed: place pods one by one to find where and why placement stops
        placed = place_tasks(session, job, group, wanted, Terms(within=both(domain, session.open_to(job))))
        if placed >= wanted:
            return None
        reason = count_nodes(session, job, group, wanted, placed)
    if reason is not None and has_locks(session, job):
        with session.statement():
            if place_tasks(session, job, group, wanted, Terms(within=both(domain, unlocked(session, job)))) >= wanted:
                return locked(session, job, group, wanted, reason)
    return reason
