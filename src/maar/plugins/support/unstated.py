"""How many pods of each node do not say what they need: a part of `nodeorder`.

Scores of Kubernetes take a pod without a CPU or memory request as one with a small request: otherwise a node with a
hundred such pods looks empty. Only scores do; what fits is decided by what pods request.
"""

from __future__ import annotations

import numpy as np

from maar.model.resources import CPU, MEMORY, Floats, Ints
from maar.model.tasks import Status
from maar.session.session import Session

ASSUMED: Floats = np.array([[100.0], [200.0 * 2**20]])
"""What Kubernetes assumes: 0.1 CPU and 200 MiB, in a column."""

NOTHING = 2
"""The row of pods that request nothing at all, after those without CPU and without memory."""


class Unstated:
    """Counts of pods by node: without CPU, without memory, without anything. Leaving pods do not count."""

    def __init__(self, session: Session) -> None:
        snapshot, self._state = session.snapshot, session.state
        wanted = [snapshot.axes.index[name] for name in (CPU, MEMORY)]
        lacks = np.column_stack((snapshot.shapes.requests[:, wanted] == 0, snapshot.shapes.best_effort))
        self._counts: Ints | None = None
        if not lacks.any():
            return
        self._lacks: list[list[int]] = [np.flatnonzero(row).tolist() for row in lacks]
        """For each shape, the rows in which its pods count."""
        self._counts = self._state.column((3, len(snapshot.nodes)))
        status, node = self._state.status, self._state.node
        there = ((status == Status.BOUND) | (status == Status.NOMINATED)) & (node >= 0)
        for row in range(3):
            chosen = there & lacks[snapshot.tasks.shape, row]
            self._counts[row] = np.bincount(node[chosen], minlength=len(snapshot.nodes))
        self._state.listen(self._note)

    def _note(self, job: int, shape: int, rows: Ints, counts: Ints, sign: int) -> None:
        del job
        assert self._counts is not None
        if self._lacks[shape] and len(rows) and rows.item(0) >= 0:
            for row in self._lacks[shape]:
                self._state.add(self._counts, (row, rows), sign * counts)

    def assumed(self, shape: int, rows: Ints | slice) -> Floats | None:
        """CPU and memory that count on nodes beside what is requested, with one more pod; `None`: nothing."""
        if self._counts is None:
            return None
        mine = np.array([[row in self._lacks[shape]] for row in range(NOTHING)])
        return np.asarray((self._counts[:NOTHING, rows] + mine) * ASSUMED)

    def crowd(self, shape: int, rows: Ints | slice) -> Ints | None:
        """How many pods without requests nodes have, if this shape is one of them."""
        if self._counts is None or NOTHING not in self._lacks[shape]:
            return None
        return np.asarray(self._counts[NOTHING, rows])
