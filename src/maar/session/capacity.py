"""What fits in this cycle: free room, how many tasks of a shape nodes take, and the whole pipeline of limits.

    free    amounts of resources, in a mode, with some tasks gone
    fits    how many tasks of a shape each node has resources for, among the nodes that its predicates allow
    limits  how many each node takes by the counters: volumes, ports, affinity, what plugins add
    room    all of it for a job: resources, usable nodes, counters, rooms that nodes share

Everything that asks how many tasks fit asks here. The arithmetic is in `maar.model.fitting`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from maar.model.fitting import EVERY, Mode, count, count_columns, free, give, rows_of, taken
from maar.model.jobs import Job
from maar.model.resources import Floats, Ints, Mask
from maar.model.tasks import NO_TASKS
from maar.session.counters import Counter
from maar.session.hooks import Limit, SharedRoom

if TYPE_CHECKING:
    from maar.session.session import Session

OWNER = "capacity"


class SessionRoom:
    """The room of one session, in its current state."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._has: Ints = session.snapshot.nodes.allocatable
        self._counters: dict[int, list[tuple[str, Counter]]] = {}
        """By shape: the counters that may ever limit it, with their plugins."""

    # -- resources

    def free(self, mode: Mode, gone: Ints | None = None) -> Ints:
        """The free amounts of each node, as if the tasks `gone` were gone; may be negative."""
        room = np.array(free(mode, self._has, self._session.state))
        if gone is not None:
            self.give(room, gone)
        return room

    def give(self, room: Ints, tasks: Ints) -> None:
        """Add to amounts of nodes what tasks take of them."""
        snapshot = self._session.snapshot
        give(room, self._session.state.node[tasks], snapshot.shapes.requests[snapshot.tasks.shape[tasks]])

    def taken(self, rows: Ints | slice | int = EVERY) -> Ints:
        """What is used, nominated or reserved, without releasing tasks."""
        state = self._session.state
        return taken(state, rows) if state.soft else rows_of(state.used, rows)

    def of(self, tasks: Ints) -> Ints:
        """What tasks take of each node."""
        room = np.zeros_like(self._has)
        self.give(room, tasks)
        return room

    # -- shapes

    def on_empty(self, shape: int, stay: Ints = NO_TASKS) -> Ints:
        """How many tasks of a shape each node takes if only the tasks `stay` run: by resources and counters.

        Predicates are not asked, and counters do not see the tasks that stay.
        """

        def ask() -> Ints:
            fits = count(self._has - self.of(stay), self._session.snapshot.shapes.requests[shape])
            beside = self.beside(shape, Mode.EMPTY)
            return fits if beside is None else np.minimum(fits, beside)

        return self._session.memo.fixed(OWNER, (shape, stay.tobytes()), ask)

    def fits(self, shape: int, mode: Mode = Mode.NOW, gone: Ints | None = None) -> Ints:
        """How many tasks of a shape each node has resources for, with the tasks `gone` gone, by its predicates.

        Of empty nodes also counters are asked: all that they take.
        """
        view = self._session.view(shape, mode is Mode.LATER)
        if mode is Mode.EMPTY:
            return self.on_empty(shape) * view.open
        if gone is None:
            return view.fits
        fits = view.fits.copy()
        at = self._session.state.node[gone]
        rows, extra = np.bincount(at[at >= 0], minlength=len(fits)).nonzero()[0], self.of(gone)
        columns = ((view.free(rows, dim) + extra[rows, dim], view.request.item(dim)) for dim in view.dims)
        fits[rows] = count_columns(len(rows), columns) * view.open[rows]
        return fits

    def total(self, shape: int) -> int:
        """How many tasks of a shape all nodes have resources for now, by its predicates."""
        return self._session.view(shape).total

    def limits(self, shape: int, mode: Mode = Mode.NOW, gone: Ints = NO_TASKS) -> list[tuple[str, Limit]]:
        """How many more tasks of a shape nodes take by each counter that limits it, with its plugin."""

        counters = self._counters_of(shape)
        if not counters:
            return []

        def ask() -> list[tuple[str, Limit]]:
            found = ((plugin, counter.limit(shape, mode, gone)) for plugin, counter in counters)
            return [(plugin, limit) for plugin, limit in found if limit is not None]

        return ask() if len(gone) else self._session.memo.current(OWNER, (shape, mode), ask)

    def _counters_of(self, shape: int) -> list[tuple[str, Counter]]:
        found = self._counters.get(shape)
        if found is None:
            every = self._session.hooks.counters
            found = self._counters[shape] = [(plugin, counter) for plugin, counter in every if counter.applies(shape)]
        return found

    def beside(self, shape: int, mode: Mode = Mode.NOW, gone: Ints = NO_TASKS) -> Ints | None:
        """How many more tasks each node takes by all counters together; `None`: any number."""
        limits = self.limits(shape, mode, gone)
        if len(limits) < 2:
            return limits[0][1].room if limits else None
        return np.asarray(np.minimum.reduce([limit.room for _, limit in limits]))

    def chosen(self, tasks: list[int]) -> list[tuple[tuple[str, str], ...]]:
        """What counters chose for each of some tasks that came in this session, by plugin."""
        choosing = [(plugin, counter) for plugin, counter in self._session.hooks.counters if counter.listens]
        if not choosing:
            return [()] * len(tasks)
        return [tuple((plugin, what) for plugin, c in choosing if (what := c.chosen(task))) for task in tasks]

    def room(
        self,
        job: Job,
        shape: int,
        mode: Mode = Mode.NOW,
        within: Mask | None = None,
        most: Ints | None = None,
        score: Floats | None = None,
    ) -> Ints:
        """How many more tasks of a shape of a job each node takes, on the nodes `within` and at most `most`.

        Where nodes share room, those with the better score get it first.
        """
        fits = self.fits(shape, mode)
        if within is not None:
            fits = fits * within
        for _, limit in self.limits(shape, mode):
            fits = np.minimum(fits, limit.room)
        if most is not None:
            fits = np.minimum(fits, most)
        return _capped(fits, self._session.shared_rooms(job, shape), score)

    def after(self, job: Job, shape: int, gone: Ints, within: Mask | None) -> Ints:
        """The same later, at most, if any of the tasks `gone` may go."""
        fits = self.at_best(shape, gone, proven=False)
        return _capped(fits if within is None else fits * within, self._session.shared_rooms(job, shape))

    def at_best(self, shape: int, gone: Ints, *, proven: bool) -> Ints:
        """At most how many tasks of a shape each node takes later if any of the tasks `gone` may go.

        `proven`: also if other tasks come first. Counters that may gain room by that do not count.
        """
        beside = self.beside_at_best(shape, gone, proven=proven)
        fits = self.fits(shape, Mode.LATER, gone)
        return fits if beside is None else np.minimum(fits, beside)

    def beside_at_best(self, shape: int, gone: Ints, *, proven: bool) -> Ints | None:
        """The same by the counters alone; `None`: any number."""
        most: Ints | None = None
        for _, counter in self._counters_of(shape):
            if counter.only_takes or not proven:
                then = counter.limit(shape, Mode.LATER, gone)
                if then is not None:
                    room = then.room if counter.only_takes else self._best(counter, shape, then)
                    most = room if most is None else np.minimum(most, room)
        return most

    def _best(self, counter: Counter, shape: int, then: Limit) -> Ints:
        """The room with or without the tasks that may go: some pods must be near others."""
        now = counter.limit(shape, Mode.LATER, NO_TASKS)
        return then.room if now is None else np.maximum(now.room, then.room)


def _capped(fits: Ints, rooms: Sequence[SharedRoom], score: Floats | None = None) -> Ints:
    """How many tasks fit on each node if nodes share room: the best nodes get it first."""
    for room in rooms:
        rows = np.flatnonzero(room.nodes & (fits > 0))
        if int(fits[rows].sum()) <= room.count:
            continue
        if score is not None:
            rows = rows[np.argsort(-score[rows], kind="stable")]
        fits = fits.copy()
        before = np.cumsum(fits[rows]) - fits[rows]
        fits[rows] = np.clip(room.count - before, 0, fits[rows])
    return fits
