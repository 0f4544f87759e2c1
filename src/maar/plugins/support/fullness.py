"""How full nodes are, as scores see it: used, without what is leaving, with what is promised.

Scores look ahead: a node whose pods are all leaving is as good as empty, and one whose free room is promised is full.
Which nodes have room at all is not decided here but by views.
"""

from __future__ import annotations

import numpy as np

from maar.model.resources import Floats, Ints
from maar.session.session import Session


class Fullness:
    """The nodes' resources, one at a time; what all shapes share is made once."""

    def __init__(self, session: Session) -> None:
        self._state = session.state
        self._allocatable = session.snapshot.nodes.allocatable
        self._units: dict[int, Floats] = {}

    def taken(self, rows: Ints | slice) -> Ints:
        """What those nodes have given away of each resource."""
        state = self._state
        used = state.used[rows]
        if not state.soft:
            return used
        return used - state.releasing[rows] + state.nominated[rows]

    def unit(self, dim: int) -> Floats:
        """For each node, which part of all it has one unit of a resource is."""
        found = self._units.get(dim)
        if found is None:
            found = self._units[dim] = 1.0 / np.maximum(self._allocatable[:, dim], 1)
        return found
