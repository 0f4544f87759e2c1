"""How full nodes are, for scores: used resources, without leaving pods, with promised room.

Scores look ahead: a node whose pods all leave counts as empty, and a node whose free room is promised counts as full.
Views, not this module, decide which nodes have room.
"""

from __future__ import annotations

import numpy as np

from maar.model.resources import Floats, Ints
from maar.session.session import Session


class Fullness:
    """The resources of nodes, one at a time; values common to all shapes are computed once."""

    def __init__(self, session: Session) -> None:
        self._state = session.state
        self._allocatable = session.snapshot.nodes.allocatable
        self._units: dict[int, Floats] = {}

    def taken(self, rows: Ints | slice) -> Ints:
        """The used or promised amount of each resource on these nodes."""
        state = self._state
        used = state.used[rows]
        if not state.soft:
            return used
        return used - state.releasing[rows] + state.nominated[rows]

    def unit(self, dim: int) -> Floats:
        """For each node, one unit of a resource as a fraction of its allocatable amount."""
        found = self._units.get(dim)
        if found is None:
            found = self._units[dim] = 1.0 / np.maximum(self._allocatable[:, dim], 1)
        return found
