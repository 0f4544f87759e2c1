"""One shape compared with all nodes: which nodes take it, how many tasks, and how well.

A view is made when a shape is first placed in a session, and kept. Predicates run once for all nodes; after a placement
only changed rows are counted and scored again. *Room now* can be bound at once; *room to come* adds releasing room.
Both exclude room promised to nominated tasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from maar.model.resources import Floats, Ints, Mask

if TYPE_CHECKING:
    from maar.session.hooks import Rejection
    from maar.session.session import Session


class View:
    """The nodes as one shape sees them, now or (`later`) after releasing pods are gone."""

    def __init__(self, session: Session, shape: int, later: bool) -> None:
        self._session = session
        self._state = session.state
        self._later = later
        self.shape = shape
        self.request: Ints = session.snapshot.shapes.requests[shape]
        self._dims: list[int] = np.flatnonzero(self.request).tolist()
        self.causes: list[tuple[str, Rejection]] = session.rejections(shape)
        self.open: Mask = np.ones(len(session.snapshot.nodes), dtype=np.bool_)
        for _, rejection in self.causes:
            self.open &= ~rejection.nodes
        self._cursor = self._state.cursor
        self.fits: Ints = self._count(slice(None))
        """How many tasks of the shape each node takes."""
        self.score: Floats = self._score(slice(None))

    def refresh(self) -> View:
        """Count and score the rows that changed since the last call."""
        rows, self._cursor = self._state.touched_since(self._cursor)
        if rows is not None:
            self.fits[rows] = self._count(rows)
            self.score[rows] = self._score(rows)
        return self

    def free(self, rows: Ints | slice, dim: int) -> Ints:
        """The free amount of one resource on these nodes for tasks of this shape; may be negative."""
        state, table = self._state, self._session.snapshot.nodes.allocatable
        idle = table[rows, dim] - state.used[rows, dim]
        if not state.soft:
            return idle
        promised = state.nominated[rows, dim] - state.releasing[rows, dim]
        return idle - (promised if self._later else np.maximum(promised, 0))

    def _count(self, rows: Ints | slice) -> Ints:
        counts: Ints | None = None
        for dim in self._dims:
            fit = self.free(rows, dim) // self.request[dim]
            counts = fit if counts is None else np.minimum(counts, fit, out=counts)
        if counts is None:
            counts = np.full(self.open[rows].shape, len(self._state.status), dtype=np.int64)
        np.maximum(counts, 0, out=counts)
        counts *= self.open[rows]
        return counts

    def _score(self, rows: Ints | slice) -> Floats:
        scores = np.zeros(self.open[rows].shape, dtype=np.float64)
        for entry in self._session.hooks.scores:
            scores += entry.call(self.shape, rows)
        return scores


def best_first(fits: Ints, score: Floats, wanted: int) -> tuple[Ints, Ints]:
    """Up to `wanted` tasks on the best nodes, each filled before the next: rows and how many tasks on each.

    Ties go to the lower row, which is the earlier name.
    """
    rows = fits.nonzero()[0]
    if len(rows) > wanted:
        if (few := _few(rows, fits, score, wanted)) is not None:
            return few
        # At most `wanted` nodes are needed: drop the nodes that score less than the last of them.
        scores = score[rows]
        lowest = np.partition(scores, len(rows) - wanted)[len(rows) - wanted]
        rows = rows[scores >= lowest]
    rows = rows[np.argsort(-score[rows], kind="stable")][:wanted]
    counts = np.minimum(fits[rows], wanted)
    reached = np.cumsum(counts)
    last = int(np.searchsorted(reached, wanted))
    if last < len(rows):
        rows, counts = rows[: last + 1], counts[: last + 1]
        counts[-1] -= reached[last] - wanted
    return rows, counts


FEW = 8
"""Nodes up to which taking the best one again and again is faster than sorting. Measured."""


def _few(rows: Ints, fits: Ints, score: Floats, wanted: int) -> tuple[Ints, Ints] | None:
    """The same as `best_first` where a few nodes are enough; `None` where they are not."""
    if fits.max() * FEW < wanted:
        return None
    scores, taken, counts = score[rows], [], []
    for _ in range(FEW):
        at = scores.argmax()
        row = rows.item(at)
        most = fits.item(row)
        taken.append(row)
        counts.append(min(most, wanted))
        wanted -= most
        if wanted <= 0:
            return np.array(taken, dtype=np.int64), np.array(counts, dtype=np.int64)
        scores[at] = -np.inf
    return None
