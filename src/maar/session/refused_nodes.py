"""The nodes that refuse a group of tasks, counted by cause.

Each node is counted once, under the first cause that applies: nodes closed to the job (locks), predicates in plugin
order, resources (the scarcest first), nodes that take no more together, limits by placed pods. Every cause is a
`Refusal` of the plugin that refuses; the one that decides gives the reason its plugin and its code.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from msgspec.structs import replace

from maar.model.codes import LOCKED, SHORT
from maar.model.jobs import Job
from maar.model.reasons import Reason, Refusal
from maar.model.resources import PODS, Ints, Mask, in_words, scarce_first
from maar.model.words import count as counted
from maar.model.words import number
from maar.session.placement import Group, both, domains_of
from maar.session.session import Session

PLACING = "allocate"
"""Who refuses where nodes are only short of room."""


class RefusalCount(NamedTuple):
    """Nodes that refuse one more task, counted under one refusal."""

    refusal: Refusal
    nodes: int
    """How many they are."""
    resource: str = ""
    """The resource that they are short of."""
    needs: int | None = None
    """What one task needs of it."""
    best: int | None = None
    """The most that is free of it."""

    @property
    def name(self) -> str:
        return self.resource or self.refusal.code.name


class NodeRoom:
    """How many tasks of a shape of a job each node takes, now and if no node were locked.

    `close` are the domains in which all must be; by default those of the gang.
    """

    def __init__(self, session: Session, job: Job, shape: int, close: list[Mask] | None = None) -> None:
        self._session = session
        self.view = session.view(shape)
        self.limits = [limit for _, limit in session.capacity.limits(shape)]
        self.closed = session.closed_to(job)
        self.shared = session.shared_rooms(job, shape)
        self.close = [m for m in domains_of(session, job) if m is not None] if close is None else close
        # Copies: without limits, these are columns that follow the state.
        self.now = session.capacity.room(job, shape, within=session.open_to(job)).copy()
        self.unlocked = session.capacity.room(job, shape, within=unlocked(session, job)).copy()

    def closing(self, locks: bool) -> list[Refusal]:
        """What closes nodes to the job, with or without locks: these come and go with other jobs."""
        return [refusal for refusal in self.closed if locks or refusal.code != LOCKED]

    @cached_property
    def causes(self) -> list[RefusalCount]:
        return _causes(self._session, self, self.now)

    @cached_property
    def own_causes(self) -> list[RefusalCount]:
        """The causes if no node were locked."""
        has_locks = any(cause.refusal.code == LOCKED for cause in self.causes)
        return _causes(self._session, self, self.unlocked, locks=False) if has_locks else self.causes

    def most(self, fits: Ints) -> int:
        """How many tasks fit, in the best of the domains if there are any."""
        return max((int(fits[mask].sum()) for mask in self.close), default=int(fits.sum()))


def count_nodes(
    session: Session, job: Job, group: Group, wanted: int, placed: int = 0, room: NodeRoom | None = None
) -> Reason | None:
    """Why nodes refuse one more task, `None` if all fit; `placed` of the wanted tasks have room already."""
    room = room or NodeRoom(session, job, group.shape)
    most = placed or room.most(room.now)
    if most >= wanted:
        return None
    causes = room.causes
    unlocked = room.most(room.unlocked)
    deciding = _deciding(room, room.own_causes, is_short=placed > 0 or unlocked > 0)
    reason = Reason(
        PLACING,
        SHORT.name,
        _message(room, causes, most, wanted),
        nodes={cause.name: cause.nodes for cause in causes},
        lasting=_lasting(session, group, wanted, deciding),
    )
    if deciding:
        first = deciding[0]
        reason = replace(reason, plugin=first.plugin, code=first.code.name, meaning=first.code.meaning)
    if scarce := next((cause for cause in causes if cause.resource), None):
        reason = replace(reason, resource=scarce.resource, needs=scarce.needs, has=scarce.best)
    return locked(session, job, group, wanted, reason) if not placed and unlocked >= wanted else reason


def _deciding(room: NodeRoom, own: list[RefusalCount], is_short: bool) -> list[Refusal]:
    """What refuses the job besides locks, the refusal that gives the reason first; none if nodes are short of room."""
    everyone = (*room.closed, *room.view.causes, *(cause for limit in room.limits for cause in limit.causes))
    for refusal in everyone:
        if refusal.code.everywhere and len(refusal.nodes) and refusal.nodes.all():
            return [refusal]
    if is_short or any(cause.resource for cause in own):
        return []
    # Where a refusal that decides only everywhere is not everywhere, the other nodes refuse for another cause.
    return sorted((cause.refusal for cause in own), key=lambda refusal: refusal.code.everywhere)


def _message(room: NodeRoom, causes: list[RefusalCount], most: int, wanted: int) -> str:
    """`0/500 nodes fit: 312 short of nvidia.com/gpu (needs 4, best has 2 free), 188 tainted`."""
    head = f"{number(int((room.now > 0).sum()))}/{number(len(room.now))} nodes fit"
    if most > 0:
        where = "the best domain has room for" if room.close else "there is room for"
        head = f"needs {counted(wanted, 'pod', 'pods together')}, {where} {number(min(most, wanted))}: {head}"
    words = ", ".join(f"{number(cause.nodes)} {cause.refusal.words}" for cause in causes)
    return f"{head}: {words}" if words else head


def _lasting(session: Session, group: Group, wanted: int, deciding: list[Refusal]) -> str:
    """Why nodes refuse it, as far as other jobs do not change it: what it asks for, and its own constraints."""
    asks = f"asks for {_asks(session, group, wanted)}"
    if deciding:
        return f"no node fits: {', '.join(sorted({refusal.words for refusal in deciding}))}; {asks}"
    words = ", ".join(dict.fromkeys(refusal.words for refusal in session.view(group.shape).causes))
    return f"no nodes with enough free room: {asks}" + (f"; other nodes: {words}" if words else "")


def _asks(session: Session, group: Group, wanted: int) -> str:
    """What a job asks for: `4 pods with 2 nvidia.com/gpu, 8 cpu each`."""
    request, names = session.view(group.shape).request, session.snapshot.axes.names
    dims = [d for d in scarce_first(session.snapshot.axes, request) if names[d] != PODS]
    each = ", ".join(f"{in_words(names[d], int(request[d]))} {names[d]}" for d in dims)
    pods = counted(wanted, "pod")
    return f"{pods} with {each}{' each' if wanted > 1 else ''}" if each else pods


# -- the causes


def _causes(session: Session, room: NodeRoom, fits: Ints, locks: bool = True) -> list[RefusalCount]:
    """The nodes that take no task, by cause; most nodes first."""
    found: list[RefusalCount] = []
    left: Mask = fits == 0
    for refusal in (*room.closing(locks), *room.view.causes):
        left = _count(found, left, RefusalCount(refusal, 0))
    for dim in scarce_first(session.snapshot.axes, room.view.request):
        left = _count(found, left, _short_of(session, room, left, dim))
    together = (shared.refusal for shared in room.shared)
    for refusal in (*together, *(cause for limit in room.limits for cause in limit.causes)):
        left = _count(found, left, RefusalCount(refusal, 0))
    return sorted(found, key=lambda cause: (-cause.nodes, bool(cause.resource), cause.name))


def _count(found: list[RefusalCount], left: Mask, cause: RefusalCount) -> Mask:
    """Count the nodes of a cause among those that are left; returns the rest."""
    count = int((left & cause.refusal.nodes).sum())
    if not count:
        return left
    found.append(cause._replace(nodes=count))
    return left & ~cause.refusal.nodes


def _short_of(session: Session, room: NodeRoom, left: Mask, dim: int) -> RefusalCount:
    """The nodes among those left that are short of one resource."""
    name, needs, free = session.snapshot.axes.names[dim], int(room.view.request[dim]), room.view.free(slice(None), dim)
    here = left & (free < needs)
    best = max(int(free[here].max(initial=0)), 0)
    words = f"short of {name} (needs {in_words(name, needs)}, best has {in_words(name, best)} free)"
    return RefusalCount(Refusal(PLACING, SHORT, words, here), 0, name, needs, best)


# -- locks


def has_locks(session: Session, job: Job) -> bool:
    return any(refusal.code == LOCKED for refusal in session.closed_to(job))


def unlocked(session: Session, job: Job) -> Mask | None:
    """The nodes that a job might use if no node were locked; `None` means all."""
    mask: Mask | None = None
    for refusal in session.closed_to(job):
        if refusal.code != LOCKED:
            mask = both(mask, ~refusal.nodes)
    return mask


def locked(session: Session, job: Job, group: Group, wanted: int, reason: Reason) -> Reason:
    """The reason of a job that would start if no node were locked: it waits for the locks, not for nodes."""
    plugin = next(refusal.plugin for refusal in session.closed_to(job) if refusal.code == LOCKED)
    lasting = f"nodes with room are kept for a job that has waited longer: asks for {_asks(session, group, wanted)}"
    return replace(reason, plugin=plugin, code=LOCKED.name, lasting=lasting, meaning=None)
