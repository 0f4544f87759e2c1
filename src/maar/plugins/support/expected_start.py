"""When the elected job is expected to start, and on which nodes: the fewest that it needs then.

Running work is expected to end when it promises to, or when half of similar jobs have ended, whichever is sooner. What
has run longer than that is expected to end when nine in ten have ended (`Estimate`), and after that in a tenth of the
time that it has run, again and again: a node on which others had to wait is not given up because its work takes longer.
So other work may use locked nodes if it ends before the expected start, and locks keep only the nodes that the job
will use. If nothing says when it can start, nodes on which its pods fit now are kept, and the idlest others that it
needs once they are empty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from maar.model import fitting
from maar.model.fitting import Mode, fraction
from maar.model.resources import Floats, Ints, Mask
from maar.model.tasks import Status
from maar.plugins.support.promises import Beside, fits, promised_ends
from maar.session.placement import Group
from maar.session.session import Session
from maar.session.subgroups import bundles

LONGER = 1.1
"""Work that takes longer than nine in ten of its kind is expected to take this much longer. Tuned by hand."""
SOON = 1.0
"""It ends in a second at the earliest."""

Needs = list[tuple[Group, int]]


class Expected(NamedTuple):
    at: float | None
    """`None`: unknown."""
    nodes: Mask


class RoomThen(NamedTuple):
    """What is free at one moment."""

    free: Ints
    beside: Beside


class Ranked(NamedTuple):
    """The nodes that the job may use at one moment, those on which most tasks of its first group fit first."""

    room: RoomThen
    nodes: Ints
    takes: Ints
    """How many of these tasks each of them takes."""


def expected_start(session: Session, needs: Needs, empty: RoomThen, rows: Mask, locked: Mask, most: float) -> Expected:
    """The start of the elected job on some of the nodes `rows`, on which it fits when they are `empty`.

    It uses at most the part `most` of these nodes, or as many as it needs when they are empty. Locked nodes come first
    where others are not better.
    """
    group, tasks = needs[0]
    idle = fraction(session.capacity.free(Mode.IDLE), session.snapshot.shapes.requests[group.shape])
    is_simple = len(needs) == 1 and all(part.subgroup < 0 for part in bundles(needs))

    def ranked(room: RoomThen) -> Ranked:
        takes = _takes(session, group.shape, room)
        order = np.lexsort((np.arange(len(idle)), -idle, ~locked, -takes))
        order = order[rows[order]]
        return Ranked(room, order, takes[order])

    def fewest(found: Ranked, limit: int) -> int:
        """How many of the first nodes hold the job; more than `limit` if they do not."""
        if is_simple:
            return int(np.searchsorted(np.cumsum(found.takes[:limit]), tasks)) + 1
        end = min(limit, len(found.nodes)) + 1
        return _least(end, lambda n: _fits(session, needs, found.room, found.nodes[:n]))

    every = int(rows.sum())
    limit = min(max(int(most * every), fewest(ranked(empty), every)), every)
    running = np.flatnonzero((session.state.status == Status.BOUND) & (session.state.node >= 0))
    ends = likely_ends(session)[running]

    known: dict[int, Ranked] = {}

    def at(moment: float) -> Ranked:
        gone = running[ends <= moment]
        if len(gone) not in known:
            free = session.capacity.free(Mode.UNNOMINATED, gone)
            room = RoomThen(free, lambda shape: session.capacity.beside_at_best(shape, gone, proven=True))
            known[len(gone)] = ranked(room)
        return known[len(gone)]

    moments = [session.now, *sorted(set(ends[np.isfinite(ends) & (ends > session.now)].tolist()))]
    first = _least(len(moments), lambda n: fewest(at(moments[n]), limit) <= limit)
    if first < len(moments):
        found = at(moments[first])
        return Expected(moments[first], _mask(len(idle), found.nodes[: fewest(found, limit)]))
    now = at(-np.inf)
    emptied = Ranked(empty, now.nodes, _takes(session, group.shape, empty)[now.nodes])
    kept = now.nodes[: fewest(emptied, every)]
    useful = now.nodes[:limit][now.takes[:limit] > 0]
    return Expected(None, _mask(len(idle), kept) | _mask(len(idle), useful))


def likely_ends(session: Session) -> Floats:
    """When each task is expected to end; infinite if unknown."""
    return session.memo.fixed("expected", "ends", lambda: _likely_ends(session))


def _likely_ends(session: Session) -> Floats:
    table, now = session.snapshot.tasks, session.now
    ends = promised_ends(session)
    ends = np.where(ends < now, np.inf, ends)
    known = [job.estimate for job in session.snapshot.jobs.jobs]
    if not any(known):
        return ends
    half, most = (
        np.array([np.inf if e is None else getattr(e, name) for e in known], dtype=np.float64)[table.job]
        for name in ("half", "most")
    )
    began = np.where((table.status == Status.BOUND) & ~table.unstarted, table.started, now)
    ran = now - began
    times = np.ceil(np.log(np.maximum(ran / np.maximum(most, 1.0), 1.0)) / np.log(LONGER))
    usual, late = began + half, began + most * LONGER**times
    return np.minimum(ends, np.where(usual >= now, usual, np.maximum(late, now + SOON)))


def _takes(session: Session, shape: int, room: RoomThen) -> Ints:
    takes = fitting.count(room.free, session.snapshot.shapes.requests[shape]) * session.view(shape).open
    beside = room.beside(shape)
    return takes if beside is None else np.minimum(takes, beside)


def _fits(session: Session, needs: Needs, room: RoomThen, nodes: Ints) -> bool:
    return fits(session, needs, room.free, room.beside, _mask(len(room.free), nodes))


def _mask(size: int, nodes: Ints) -> Mask:
    mask = np.zeros(size, dtype=np.bool_)
    mask[nodes] = True
    return mask


def _least(end: int, holds: Callable[[int], bool]) -> int:
    """The least number below `end` for which something holds that then holds for all larger ones; `end` if none."""
    low, high = 0, end
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
