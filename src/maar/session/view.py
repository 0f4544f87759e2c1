"""One shape compared with all nodes: which nodes take it, how many tasks, and how well.

A view is made when a shape is first asked about in a session, and kept. Predicates run once for all nodes; after a
placement only changed rows are counted again, and scored only when scores are asked for. *Room now* can be bound at
once; *room to come* adds releasing room. Both exclude room of nominated tasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from maar.model.fitting import EVERY, Mode, count, free, rows_of
from maar.model.resources import Floats, Ints, Mask

if TYPE_CHECKING:
    from maar.model.reasons import Refusal
    from maar.session.session import Session

NO_ROWS: Ints = np.zeros(0, dtype=np.int64)
NO_SCORES: Floats = np.zeros(0)


class NodesView:
    """The nodes as one shape sees them, now or (`later`) after releasing pods are gone."""

    def __init__(self, session: Session, shape: int, later: bool) -> None:
        self._session = session
        self._state = session.state
        self._later = later
        self.shape = shape
        self.request: Ints = session.snapshot.shapes.requests[shape]
        self.dims: list[int] = self.request.nonzero()[0].tolist()
        """The requested resources."""
        self.causes: list[Refusal] = session.refusals(shape)
        self.open: Mask = session.usable(shape)
        self._cursor = self._state.cursor
        self.fits: Ints = self._count(EVERY)
        """How many tasks of the shape each node takes."""
        self.total = int(self.fits.sum())
        """How many tasks all nodes take together."""
        self._most = int(self.fits.max(initial=0))
        """How many tasks of the shape a node takes at most, when the view was made: only to choose the faster way."""
        self._scores: Floats = NO_SCORES
        self._unscored: Ints | None = None
        """The rows that changed since scores were asked for; `None`: never. Many views are only asked what fits."""

    def refresh(self) -> NodesView:
        """Count the rows that changed since the last call."""
        rows, self._cursor = self._state.touched_since(self._cursor)
        if rows is not None:
            fits = self._count(rows)
            self.total += int(np.add.reduce(fits - self.fits.take(rows)))
            self.fits[rows] = fits
            if self._unscored is NO_ROWS:
                self._unscored = rows
            elif self._unscored is not None:
                self._unscored = np.union1d(self._unscored, rows)
        return self

    @property
    def score(self) -> Floats:
        """The score of each node. Only the rows that changed since the last time are scored again."""
        rows = self._unscored
        if rows is None:
            self._scores = self._score(EVERY, len(self.fits))
            self._ranked: Floats = _ranked(self.fits, self._scores)
        elif rows is not NO_ROWS:
            score = self._score(rows, len(rows))
            self._scores[rows] = score
            self._ranked[rows] = _ranked(self.fits.take(rows), score)
        self._unscored = NO_ROWS
        return self._scores

    def best(self, fits: Ints, score: Floats, wanted: int) -> tuple[Ints, Ints]:
        """`best_first`, faster if fits and scores are those of this view: nothing else limits the tasks."""
        if fits is not self.fits or score is not self._scores:
            return best_first(fits, score, wanted)
        few = _few(fits, self._ranked, wanted) if self._most * FEW >= wanted else None
        return _sorted(fits, score, wanted) if few is None else few

    def free(self, rows: Ints | slice, dim: int) -> Ints:
        """The free amount of one resource on these nodes for tasks of this shape; may be negative."""
        return free(self._mode, self._session.snapshot.nodes.allocatable, self._state, rows, dim)

    @property
    def _mode(self) -> Mode:
        if not self._state.soft:
            return Mode.IDLE
        return Mode.LATER if self._later else Mode.NOW

    def _count(self, rows: Ints | slice) -> Ints:
        room = free(self._mode, self._session.snapshot.nodes.allocatable, self._state, rows)
        counts = count(room, self.request)
        counts *= rows_of(self.open, rows)
        return counts

    def _score(self, rows: Ints | slice, nodes: int) -> Floats:
        scores = np.zeros(nodes, dtype=np.float64)
        for entry in self._session.hooks.scores:
            scores += entry.call(self.shape, rows)
        return scores


def best_first(fits: Ints, score: Floats, wanted: int) -> tuple[Ints, Ints]:
    """Up to `wanted` tasks on the best nodes, each filled before the next: rows and how many tasks on each.

    Ties go to the lower row, which is the earlier name.
    """
    few = _few(fits, _ranked(fits, score), wanted) if int(fits.max(initial=0)) * FEW >= wanted else None
    return _sorted(fits, score, wanted) if few is None else few


def _sorted(fits: Ints, score: Floats, wanted: int) -> tuple[Ints, Ints]:
    """`best_first` by sorting all nodes."""
    rows = fits.nonzero()[0]
    if len(rows) > wanted:
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


def _few(fits: Ints, ranked: Floats, wanted: int) -> tuple[Ints, Ints] | None:
    """`best_first` where a few nodes are enough; `None` where they are not."""
    taken: list[int] = []
    counts: list[int] = []
    left = ranked
    for _ in range(FEW):
        row = int(left.argmax())
        if left.item(row) == -np.inf:
            break  # no other node has room
        taken.append(row)
        counts.append(min(fits.item(row), wanted))
        wanted -= counts[-1]
        if not wanted:
            break
        if left is ranked:
            left = ranked.copy()
        left[row] = -np.inf
    else:
        return None
    return np.array(taken, dtype=np.int64), np.array(counts, dtype=np.int64)


def _ranked(fits: Ints, score: Floats) -> Floats:
    """The score of nodes that take a task."""
    return np.where(fits > 0, score, -np.inf)
