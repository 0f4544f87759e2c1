"""Volumes: a part of `predicates`.

A node attaches a limited number per driver; a volume that its pods share counts once. A free local volume serves one
pod, and so does a claim for one pod only, wherever that runs.
"""

from __future__ import annotations

import numpy as np

from maar.model import volumes
from maar.model.codes import BEFORE_NODES, NODES, Code, Meaning
from maar.model.fitting import Mode, count_columns, how_many
from maar.model.reasons import Refusal
from maar.model.resources import UNLIMITED, Ints
from maar.model.selectors import NodeTerm
from maar.model.shapes import Shape
from maar.model.volumes import SharedVolume, Slot, VolumeNeed, VolumeRoom
from maar.plugins.support.names import PREDICATES
from maar.plugins.support.neighbours import Placed
from maar.session.hooks import Limit
from maar.session.session import Session

UNREACHED = Code("VolumeBinding", NODES, lasting=True)
FULL = Code(volumes.LIMIT, NODES)
NONE_FREE = Code(volumes.NO_VOLUME, Meaning("VolumeNotFound", "the cluster's owner adds volumes", BEFORE_NODES))
IN_USE = Code(volumes.IN_USE, Meaning("ClaimInUse", "wait for the pod that has the claim, or use another claim"))
OF_ROOM = {code.name: code for code in (FULL, NONE_FREE, Code(volumes.NO_STORAGE, NODES), IN_USE)}
"""Only driver limits can be disabled by the configuration."""
CODES = (UNREACHED, *OF_ROOM.values())


class Volumes:
    """Room for a shape with volumes."""

    def __init__(self, shape: Shape, session: Session, limited: bool) -> None:
        self._row = session.snapshot.nodes.row
        found = ((need, session.snapshot.rooms.get(need.room)) for need in shape.volume_needs)
        self._rooms = [
            (need, room, self._most(room))
            for need, room in found
            if room is not None and (limited or room.code != volumes.LIMIT)
        ]

    def limit(self, there: Placed) -> Limit:
        """How many more pods find room for all their volumes. Of empty nodes only the driver limits are known."""
        left = np.full(len(self._row), UNLIMITED, dtype=np.int64)
        coupled = False
        causes = []
        for need, room, most in self._rooms:
            if there.mode is Mode.EMPTY and room.code != volumes.LIMIT:
                continue
            used = self._used(need.pool, there)
            here = self._fits(need, most - used, there)
            if room.total is not None:
                together = how_many([room.total - int(used.sum())], [need.count])
                here = np.minimum(here, together)
                coupled |= int(here.sum()) > together
            causes.append(Refusal(PREDICATES, OF_ROOM.get(room.code, NONE_FREE), room.words, here == 0))
            left = np.minimum(left, here)
        return Limit(left, coupled, tuple(causes), local=all(room.total is None for _, room, _ in self._rooms))

    def _fits(self, need: VolumeNeed, left: Ints, there: Placed) -> Ints:
        """How many pods with a need fit into the volumes left on each node; shared volumes already there count as 0."""
        if not need.shared:
            return count_columns(len(left), [(left, need.count)])
        new = np.full(len(left), len(need.shared), dtype=np.int64)
        for name in need.shared:
            counts = there.counts(SharedVolume(need.pool, name))
            if counts is not None:
                new -= counts > 0
        left = left - new
        if need.count:
            return count_columns(len(left), [(left, need.count)])
        return np.where((left >= 0) | (new == 0), UNLIMITED, 0)

    def _most(self, room: VolumeRoom) -> Ints:
        most = np.full(len(self._row), UNLIMITED if room.others is None else room.others, dtype=np.int64)
        for name, count in room.nodes.items():
            row = self._row.get(name)
            if row is not None:
                most[row] = count
        return most

    def _used(self, pool: str, there: Placed) -> Ints:
        """How many volumes of a pool the pods on each node use."""
        used = np.zeros(len(self._row), dtype=np.int64)
        number = 1
        while (counts := there.counts(Slot(pool, number))) is not None:
            used += counts
            number += 1
        for volume in there.neighbours.shared(pool):
            counts = there.counts(volume)
            if counts is not None:
                used += counts > 0
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
