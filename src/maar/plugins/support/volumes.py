"""Volumes: a part of `predicates`. A node attaches limited numbers per driver; a free local volume serves one pod."""

from __future__ import annotations

import numpy as np

from maar.model.resources import UNLIMITED, Ints
from maar.model.selectors import NodeTerm
from maar.model.shapes import Shape
from maar.model.volumes import Room, Slot
from maar.plugins.support.neighbours import Neighbours
from maar.session.hooks import Limit, Rejection
from maar.session.session import Session

LIMIT = "NodeVolumeLimits"
"""The code of driver limits, the only rooms that the configuration can disable."""


class Volumes:
    """Room for a shape with volumes."""

    def __init__(self, shape: Shape, session: Session, neighbours: Neighbours, limited: bool) -> None:
        self._neighbours = neighbours
        self._row = session.snapshot.nodes.row
        found = ((need, session.snapshot.rooms.get(need.room)) for need in shape.volume_needs)
        self._rooms = [
            (need.pool, need.count, room, self._most(room))
            for need, room in found
            if room is not None and (limited or room.code != LIMIT)
        ]

    def limit(self, later: bool) -> Limit:
        """How many more pods find room for all their volumes."""
        left = np.full(len(self._row), UNLIMITED, dtype=np.int64)
        coupled = False
        causes = []
        for pool, count, room, most in self._rooms:
            used = self._used(pool, later)
            here = np.maximum(most - used, 0) // count
            if room.total is not None:
                together = max(room.total - int(used.sum()), 0) // count
                here = np.minimum(here, together)
                coupled |= int(here.sum()) > together
            causes.append(Rejection(room.code, room.words, here == 0))
            left = np.minimum(left, here)
        return Limit(left, coupled, tuple(causes))

    def _most(self, room: Room) -> Ints:
        most = np.full(len(self._row), UNLIMITED if room.others is None else room.others, dtype=np.int64)
        for name, count in room.nodes.items():
            row = self._row.get(name)
            if row is not None:
                most[row] = count
        return most

    def _used(self, pool: str, later: bool) -> Ints:
        """How many volumes of a pool the pods on each node use."""
        used = np.zeros(len(self._row), dtype=np.int64)
        number = 1
        while (counts := self._neighbours.counts(Slot(pool, number), later)) is not None:
            used += counts
            number += 1
        return used


def reach_words(terms: tuple[NodeTerm, ...]) -> str:
    """Words for nodes that cannot reach a volume, with its location if a single label defines it."""
    ways = [[*term.fields, *term.expressions] for term in terms]
    # Old volumes name the zone twice, by the old and the new label, and have a term for nodes with neither.
    named = [way for way in ways if any(r.values for r in way)]
    if not named or any(len(way) != 1 for way in named):
        return "cannot reach its volume"
    names = ", ".join(f"`{value}`" for value in dict.fromkeys(value for (r,) in named for value in r.values))
    match named[0][0].operator, named[0][0].key:
        case "In", "metadata.name":
            return f"are not {names}, where its volume is being created"
        case "NotIn", "metadata.name":
            return "recently failed to provide its volume"
        case "In", _:
            return f"cannot reach its volume at {names}"
        case _:
            return "cannot reach its volume"
