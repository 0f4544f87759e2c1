"""How full nodes are, for scores: used resources, without leaving pods, with nominated and reserved room.

Scores look ahead: a node whose pods all leave counts as empty, and a node whose free room is nominated counts as full.
Views, not this module, decide which nodes have room.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maar.model.fitting import columns_of
from maar.model.resources import Floats, Ints, Mask
from maar.session.session import Session

JUST_FULL = 1.0 + 1e-9
"""Tolerance for rounding: a node that would be exactly full does not overflow."""


class Term(NamedTuple):
    """The part of one resource in the score of a shape: the points of a full node, or of an empty one."""

    dim: int
    request: int
    full: float
    empty: float = 0.0


class FullnessTerms(NamedTuple):
    """All terms of a shape: a row for each resource."""

    dims: Ints
    request: Ints
    full: Floats
    empty: Floats | None
    """`None` if no term has points for an empty node."""
    unit: Floats
    """For each node, one unit of the resource as a fraction of its allocatable amount."""


class Fullness:
    """How full nodes are of some resources; values common to all shapes are computed once."""

    def __init__(self, session: Session) -> None:
        self._capacity = session.capacity
        self._allocatable = session.snapshot.nodes.allocatable
        self._units: dict[tuple[int, ...], Floats] = {}

    def taken(self, dims: Ints, rows: Ints | slice) -> Ints:
        """The used, nominated or reserved amounts of some resources on these nodes: a row for each resource."""
        return self._capacity.taken(rows).T.take(dims, axis=0)

    def terms(self, terms: list[Term]) -> FullnessTerms:
        dims = np.array([term.dim for term in terms], dtype=np.int64)
        request, full, empty = (np.array([[term[i]] for term in terms]).reshape(-1, 1) for i in (1, 2, 3))
        key = tuple(dims.tolist())
        if key not in self._units:
            self._units[key] = 1.0 / np.maximum(self._allocatable.T.take(dims, axis=0), 1)
        return FullnessTerms(dims, request, full, empty if empty.any() else None, self._units[key])

    def points(self, terms: FullnessTerms, rows: Ints | slice) -> Floats:
        """The points of each node, by how full or empty a task makes it; 0 where a resource would overflow."""
        full = (self.taken(terms.dims, rows) + terms.request) * columns_of(terms.unit, rows)
        exceeds: Mask = np.logical_or.reduce(full > JUST_FULL)
        points = full * terms.full
        if terms.empty is not None:
            points = np.where(terms.empty == 0.0, points, (1.0 - full) * terms.empty)
        scores = np.zeros(len(exceeds), dtype=np.float64)
        for row in points:  # one after the other: each node then has the same bits in any set of nodes
            scores += row
        scores[exceeds] = 0.0
        return scores
