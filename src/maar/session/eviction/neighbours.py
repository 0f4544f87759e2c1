"""Neighbours in the way: placed pods that close a node to a shape, and whose eviction would open it.

A pod is in the way if it uses a host port of the shape, or if the two exclude each other by required anti-affinity.
Only pods on the node itself are evicted for this, as in Kubernetes: a pod elsewhere in the domain of an anti-affinity
keeps the node closed. So does a pod in the way that may not be evicted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maar.model.resources import Ints
from maar.session.eviction.victims import Candidates
from maar.session.hooks import Limit
from maar.session.session import Session


class Neighbours:
    """The candidates in the way of one shape."""

    def __init__(self, session: Session, candidates: Candidates, limits: Sequence[Limit]) -> None:
        obstacles = [obstacle for limit in limits for obstacle in limit.obstacles]
        self._candidates = candidates
        self._shape_of = session.snapshot.tasks.shape
        left = candidates.left()
        shapes, rows = self._shape_of[left], session.state.node[left]
        features = {s: set(session.snapshot.shapes.features[s]) for s in np.unique(shapes).tolist()}
        self._ways: list[tuple[Ints, set[int]]] = []
        """For each obstacle how many pods are near each node, and the shapes of candidates among them."""
        self._now: Ints = np.min([limit.room for limit in limits], axis=0)
        self.room: Ints = np.min([limit.room if limit.cleared is None else limit.cleared for limit in limits], axis=0)
        """How many tasks each node takes beside the placed pods, without the candidates on it that are in the way."""
        for obstacle in obstacles:
            showing = {s for s, shown in features.items() if obstacle.feature in shown}
            here = np.bincount(rows[np.isin(shapes, list(showing))], minlength=len(self.room))
            self.room[obstacle.near > here] = 0
            self._ways.append((obstacle.near, showing))

    def here(self, row: int) -> frozenset[int]:
        """The candidates in the way on a node."""
        showing: set[int] = set()
        for near, shapes in self._ways:
            if near[row]:
                showing |= shapes
        if not showing:
            return frozenset()
        return frozenset(task for task in self._candidates.bound(row) if int(self._shape_of[task]) in showing)

    def room_around(self, row: int, leaving: Sequence[int]) -> tuple[int, int]:
        """How many tasks a node takes beside the placed pods: now, and without some tasks."""
        before = int(self._now[row])
        return before, int(self.room[row]) if self.here(row).issubset(leaving) else before
