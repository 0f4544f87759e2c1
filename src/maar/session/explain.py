"""Why a gang does not fit, counted over the nodes, in one line.

    0/500 nodes fit: 312 short of nvidia.com/gpu (needs 4, best has 2 free), 188 tainted

Each node is counted once, under the first cause that applies: nodes closed to the job (locks), predicates in plugin
order, resources (the scarcest first), limits by placed pods. Jobs with the same shape share one count. What can be
proved impossible on today's nodes is said so (`never`).
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from msgspec.structs import replace

from maar.model.jobs import Job
from maar.model.reasons import LOCKED, Reason
from maar.model.resources import PODS, Ints, Mask, in_words, scarce_first
from maar.model.tasks import Status
from maar.model.words import count as counted
from maar.model.words import number
from maar.session import never
from maar.session.hooks import Limit, Rejection
from maar.session.placement import (
    Group,
    Terms,
    both,
    capped,
    domains_of,
    domains_of_part,
    groups_of,
    lack_of,
    missing,
    place,
    put,
)
from maar.session.session import Session
from maar.session.subgroups import PROMISED, USABLE, Assembly, Part, subgroups_of

OWNER = "explain"
NEIGHBOUR = "PodAffinity"
"""The code of nodes that are not near a pod that the pod affinity of a job requires."""


def why_waiting(session: Session, job: Job) -> list[Reason]:
    """Everything that keeps a job's pending tasks from starting, in the current state of the session."""
    if job.subgroups:
        return why_subgroups_wait(session, job)
    kind = _kind_of(session, job)
    found = _why(session, job) if kind is None else session.memo.current(OWNER, kind, lambda: _why(session, job))
    since = session.waiting_since(job)
    return [replace(reason, since=since) for reason in found]


def _kind_of(session: Session, job: Job) -> Hashable | None:
    """What the reasons of a job depend on: thousands of jobs that wait for the same share them.

    `None` for jobs that are looked at one by one: their reasons also depend on where their pods run.
    """
    if job.closeness is not None or job.is_elastic:
        return None
    tables, own = session.snapshot, slice(*session.snapshot.jobs.members.span(job.index))
    gang = job.queue, job.namespace, job.priority, job.min_member, tuple(job.role_min.items())
    roles = tables.jobs.role_names[job.index]
    columns = session.state.status, tables.tasks.shape, tables.tasks.priority, tables.jobs.own_role
    closed = tuple((r.code, r.words, r.nodes.tobytes()) for _, r in session.closed_to(job))
    return gang, roles, tuple(column[own].tobytes() for column in columns), closed


def _why(session: Session, job: Job) -> list[Reason]:
    """The same without the time since when it waits."""
    nodes: list[Reason] = []
    queues: list[Reason] = []
    lacking, roles = missing(session, job)
    groups = groups_of(session, job)
    counts = never.needed(groups, lacking, roles)
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
    reasons = _without_the_obvious(session, nodes, queues)
    if not reasons and lacking > 1:
        what = f"its {counted(lacking, 'missing pod')} fit one by one but not together"
        reasons.append(Reason("allocate", "NotTogether", what))
    if not reasons and not session.state.job_nominated[job.index]:
        reasons.append(Reason("allocate", "NotReached", "fits, but was not reached in this cycle"))
    return reasons


def why_subgroups_wait(session: Session, job: Job) -> list[Reason]:
    """The same for a job with subgroups: why its next subgroup, or its next task in none, does not start."""
    reasons: list[Reason] = []
    lacking, _ = missing(session, job)
    terms = Terms(within=both(next(domains_of(session, job), None), session.open_to(job)))

    def try_(part: Part) -> int:
        placed = put(session, job, part, terms)
        if not placed and not reasons:
            reasons.extend(_why_part(session, job, part, terms.within, bool(lacking) and assembly.is_typical(part)))
        return placed

    assembly = Assembly(session, job, groups_of(session, job), try_)
    with session.statement():  # not committed: place part after part to find the first that does not fit
        if lacking:
            assembly.complete(lack_of(session, job))
        else:
            assembly.grow(1, int(session.state.job_pending[job.index]), lambda _: True)
    if not reasons and session.state.job_pending[job.index]:
        reasons.extend(_too_few_pods(session, job))
    overused = session.overused.get(job.queue)
    if overused is not None and not reasons:
        reasons.append(overused)
    if not reasons and lacking > 1:
        what = f"its {counted(lacking, 'missing pod')} fit one by one but not together"
        reasons.append(Reason("allocate", "NotTogether", what))
    if not reasons and not session.state.job_nominated[job.index]:
        reasons.append(Reason("allocate", "NotReached", "fits, but was not reached in this cycle"))
    return [replace(reason, since=session.waiting_since(job)) for reason in reasons]


def _why_part(session: Session, job: Job, part: Part, within: Mask | None, is_needed: bool) -> list[Reason]:
    """Why nodes or the queue refuse a part, with the name of its subgroup. A proof needs all parts to be alike."""
    nodes: list[Reason] = []
    queues: list[Reason] = []
    book = subgroups_of(session, job)
    closeness = book.closeness(part.subgroup)
    domains = [both(within, domain) for domain in domains_of_part(session, job, part, within)]
    close = [mask for mask in domains if mask is not None]
    for group, count in part.needs:
        wanted = count if part.whole else 1
        asks = (wanted * session.snapshot.shapes.requests[group.shape]).tolist()
        refusals = session.hooks.refusals(job, group.shape, wanted)
        queues.extend(never.by_queue(session, reason, asks) for reason in refusals)
        reason = _count_nodes(session, job, group, wanted, 0, close)
        if reason is not None and is_needed:
            reason = never.by_nodes(session, job, group, wanted, reason, alone=False)
            alone = len(part.needs) == 1 and not len(book.tasks(part.subgroup, *PROMISED))
            if alone and reason.never is None and closeness is not None and closeness.hard:
                masks = [mask for mask in domains_of_part(session, job, part, None) if mask is not None]
                reason = never.by_domains(session, group, wanted, closeness, masks, reason)
        if reason is not None:
            nodes.append(reason)
    found = _without_the_obvious(session, nodes, queues)
    if not found and part.whole:
        what = f"its {counted(part.size, 'missing pod')} fit one by one but not together"
        found.append(Reason("allocate", "NotTogether", what))
    if part.subgroup < 0:
        return found
    near = f" within one {closeness.words}" if closeness is not None and closeness.hard else ""
    pods = "1 more pod" if not part.whole else f"{counted(part.size, 'pod')}{near}"
    head = f"subgroup `{book.names[part.subgroup]}` ({pods})"
    policy = book.policies[int(book.policy[part.subgroup])]
    lasting = f"a subgroup of `{policy.name}`"
    return [
        replace(
            reason,
            message=f"{head}: {reason.message}",
            lasting=f"{lasting}: {reason.lasting}" if reason.lasting else reason.lasting,
        )
        for reason in found
    ]


def _too_few_pods(session: Session, job: Job) -> list[Reason]:
    """The first subgroup that cannot start because some of its pods do not exist."""
    book = subgroups_of(session, job)
    there, pending = book.count(USABLE), book.count((Status.PENDING,))
    for s in np.flatnonzero((pending > 0) & (there < book.size)).tolist():
        size = counted(int(book.size[s]), "pod")
        needs = f"subgroup `{book.names[s]}` needs {size}, only {number(int(there[s]))} can be placed"
        others = "the others do not exist, are blocked or have ended"
        lasting = f"a subgroup of `{book.policies[int(book.policy[s])].name}` has too few pods"
        return [
            Reason(
                "gang",
                "NotEnoughPodsOfSubgroup",
                f"{needs} ({others})",
                needs=int(book.size[s]),
                has=int(there[s]),
                lasting=lasting,
            )
        ]
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
    if not session.limits(group.shape, False):
        if job.closeness is not None:
            return _count_nodes(session, job, group, wanted, 0)
        closed = tuple((r.words, r.nodes.tobytes()) for _, r in session.closed_to(job))
        closed += tuple((f"{r.words} {r.count}", r.nodes.tobytes()) for r in session.shared_rooms(job, group.shape))
        asked = (group.shape, wanted, closed)
        return session.memo.current(OWNER, asked, lambda: _count_nodes(session, job, group, wanted, 0))
    if session.hooks.allowed(job, group.shape, wanted) < wanted:
        return None  # the queue is the limit, not the nodes
    domain = next(domains_of(session, job), None)
    with session.statement():  # not committed: place pods one by one to find where and why placement stops
        placed = place(session, job, group, wanted, Terms(within=both(domain, session.open_to(job))))
        if placed >= wanted:
            return None
        reason = _count_nodes(session, job, group, wanted, placed)
    if reason is not None and _has_locks(session, job):
        with session.statement():
            if place(session, job, group, wanted, Terms(within=both(domain, _unlocked(session, job)))) >= wanted:
                return _locked(session, group, wanted, reason)
    return reason


def _has_locks(session: Session, job: Job) -> bool:
    return any(rejection.code == LOCKED for _, rejection in session.closed_to(job))


def _unlocked(session: Session, job: Job) -> Mask | None:
    """The nodes that a job might use if no node were locked; `None` means all."""
    mask: Mask | None = None
    for _, rejection in session.closed_to(job):
        if rejection.code != LOCKED:
            mask = both(mask, ~rejection.nodes)
    return mask


def _locked(session: Session, group: Group, wanted: int, reason: Reason) -> Reason:
    """The reason of a job that would start if no node were locked: it waits for the locks, not for nodes."""
    lasting = f"nodes with room are kept for a job that has waited longer: asks for {_asks(session, group, wanted)}"
    return replace(reason, plugin="allocate", code=LOCKED, lasting=lasting)


def _count_nodes(
    session: Session, job: Job, group: Group, wanted: int, placed: int, close: list[Mask] | None = None
) -> Reason | None:
    """Nodes counted by what refuses one more task; `placed` of the wanted tasks have room already.

    `close` are the domains in which all must be; by default those of the gang.
    """
    view = session.view(group.shape)
    limits = session.limits(group.shape, False)
    fits = view.fits
    for _, limit in limits:
        fits = np.minimum(fits, limit.room)
    close = [m for m in domains_of(session, job) if m is not None] if close is None else close
    unlocked, fits = fits.copy(), fits.copy()
    for _, rejection in session.closed_to(job):
        fits[rejection.nodes] = 0
        if rejection.code != LOCKED:
            unlocked[rejection.nodes] = 0
    shared = session.shared_rooms(job, group.shape)
    fits, unlocked = capped(fits, shared), capped(unlocked, shared)
    room = placed or _room(fits, close)
    if room >= wanted:
        return None
    causes = _causes(session, job, group, fits, limits)
    total, fitting = len(fits), int((fits > 0).sum())
    counts = {code: n for code, _, n, _ in causes}
    words = ", ".join(f"{number(n)} {text}" for _, text, n, _ in causes)
    scarce = next((c for c in causes if c[0].startswith("short:")), None)
    resource = scarce[0].removeprefix("short:") if scarce else ""
    head = f"{number(fitting)}/{number(total)} nodes fit"
    if room > 0:
        where = "the best domain has room for" if close else "there is room for"
        head = f"needs {counted(wanted, 'pod', 'pods together')}, {where} {number(min(room, wanted))}: {head}"
    dim = session.snapshot.axes.index[resource] if resource else -1
    # What it waits for besides locks: these come and go with other jobs.
    own = _causes(session, job, group, unlocked, limits, locks=False) if LOCKED in counts else causes
    short = any(code.startswith("short:") for code, _, _, _ in own) or placed > 0 or _room(unlocked, close) > 0
    refused = not short and bool(own)
    code = own[0][0] if refused else "NotEnoughResources"
    texts = sorted(text for _, text, _, _ in own) if refused else None
    if lonely := _no_neighbour(limits):
        code, refused, texts = NEIGHBOUR, True, [lonely]
    elif code == NEIGHBOUR:  # some nodes are near enough, and refuse it for another reason
        code = next((other for other, _, _, _ in own if other != NEIGHBOUR), code)
    reason = Reason(
        "predicates" if refused else "allocate",
        code,
        f"{head}: {words}" if words else head,
        resource=resource,
        needs=int(view.request[dim]) if resource else None,
        has=scarce[3] if scarce else None,
        nodes={k.removeprefix("short:"): n for k, n in counts.items()},
        lasting=_lasting(session, group, wanted, texts),
    )
    return _locked(session, group, wanted, reason) if not placed and _room(unlocked, close) >= wanted else reason


def _no_neighbour(limits: list[tuple[str, Limit]]) -> str:
    """The text of a pod affinity that no node satisfies, or an empty text. New nodes do not help such a job."""
    causes = (cause for _, limit in limits for cause in limit.causes if cause.code == NEIGHBOUR)
    return next((cause.words for cause in causes if len(cause.nodes) and cause.nodes.all()), "")


def _room(fits: Ints, close: list[Mask]) -> int:
    """How many tasks fit, in the best of the domains if there are any."""
    return max((int(fits[m].sum()) for m in close), default=int(fits.sum()))


def _asks(session: Session, group: Group, wanted: int) -> str:
    """What a job asks for: `4 pods with 2 nvidia.com/gpu, 8 cpu each`."""
    request, names = session.view(group.shape).request, session.snapshot.axes.names
    dims = [d for d in scarce_first(session.snapshot.axes, request) if names[d] != PODS]
    each = ", ".join(f"{in_words(names[d], int(request[d]))} {names[d]}" for d in dims)
    pods = counted(wanted, "pod")
    return f"{pods} with {each}{' each' if wanted > 1 else ''}" if each else pods


def _lasting(session: Session, group: Group, wanted: int, refusals: list[str] | None) -> str:
    """Why nodes refuse it, as far as other jobs do not change it: what it asks for, and its own constraints.

    `refusals` are the words of all nodes, if not one of them is only short of room.
    """
    asks = f"asks for {_asks(session, group, wanted)}"
    if refusals is not None:
        return f"no node fits: {', '.join(dict.fromkeys(refusals))}; {asks}"
    words = ", ".join(dict.fromkeys(rejection.words for _, rejection in session.view(group.shape).causes))
    return f"no nodes with enough free room: {asks}" + (f"; other nodes: {words}" if words else "")


Cause = tuple[str, str, int, int | None]
"""Code, words, number of nodes, and the best free amount if the cause is a resource."""


def _causes(
    session: Session, job: Job, group: Group, fits: Ints, limits: list[tuple[str, Limit]], locks: bool = True
) -> list[Cause]:
    view = session.view(group.shape)
    left: Mask = fits == 0
    causes: list[Cause] = []
    closed = [r for _, r in session.closed_to(job) if locks or r.code != LOCKED]
    refusals = closed + [r for _, r in view.causes]
    for rejection in refusals:
        here = left & rejection.nodes
        if here.any():
            causes.append((rejection.code, rejection.words, int(here.sum()), None))
            left &= ~rejection.nodes
    for dim in scarce_first(session.snapshot.axes, view.request):
        free = view.free(slice(None), dim)
        here = left & (free < view.request[dim])
        if here.any():
            name = session.snapshot.axes.names[dim]
            need, best = int(view.request[dim]), max(int(free[here].max()), 0)
            text = f"short of {name} (needs {in_words(name, need)}, best has {in_words(name, best)} free)"
            causes.append((f"short:{name}", text, int(here.sum()), best))
            left &= ~here
    shared = [Rejection(r.code, r.words, r.nodes) for r in session.shared_rooms(job, group.shape)]
    for rejection in (*shared, *(cause for _, limit in limits for cause in limit.causes)):
        here = left & rejection.nodes
        if here.any():
            causes.append((rejection.code, rejection.words, int(here.sum()), None))
            left &= ~here
    return sorted(causes, key=lambda c: (-c[2], c[0]))
