"""Which waiting gangs take part in a decision of a roll-out: those that it could start, in the order of their queues.

A decision asks every gang that takes part, and most of the gangs in a long backlog have no chance. So a gang takes part
only if the free room of all nodes holds its minimum. Of these, each queue sends as many as the free room could hold
together, in its order; the next ones are asked in another decision. The first gangs of each queue always take part once
at each moment, because evictions may make room for them. All others rest. Their requests still count for the shares of
queues.

A gang that has no room is never started, so in one queue without evictions nothing changes. Two things may: a queue
that is served first has sent only some of its gangs, and a gang far behind in its queue may find victims that the first
ones do not. `python -m bench.rollouts --error` measures that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import groupby
from typing import NamedTuple

import numpy as np

from maar.model.fitting import Mode, count
from maar.model.jobs import Job, Phase
from maar.model.minimum import lacking
from maar.model.resources import Ints, Mask
from maar.model.snapshot import Snapshot
from maar.model.tasks import Status, Task

FRONT = 2
"""Gangs of each queue that take part once at each moment, also without room. Tuned by hand."""


class _Gang(NamedTuple):
    """A waiting gang; sorts in the order of service of its queue."""

    queue: str
    importance: int
    since: float
    key: str
    pods: int
    request: tuple[tuple[str, int], ...]
    """What each of its pods requests at least."""
    promises: bool
    """Whether something says how long it runs: it may then use locked nodes before the elected job does."""


class _Columns(NamedTuple):
    """The waiting gangs by queue, in their order."""

    keys: list[str]
    importance: Ints
    promises: Mask
    place: Ints
    """In the queue, from 0."""
    begins: Ints
    """The row of the first gang of the queue."""
    kind: Ints
    """The row of its request in `requests`."""
    pods: Ints
    requests: Ints


class StartCandidates:
    """The waiting gangs of a roll-out."""

    def __init__(self, waiting: Iterable[tuple[Job, tuple[Task, ...]]]) -> None:
        self._gangs: dict[str, _Gang] = {}
        self._columns: _Columns | None = None
        for job, tasks in waiting:
            self.add(job, tasks)

    def add(self, job: Job, tasks: tuple[Task, ...]) -> None:
        """Note a job that waits. One that is not a plain gang always takes part."""
        plain = not job.is_elastic and job.phase is not Phase.PENDING
        pods = lacking(job, ()) if plain else 0
        if 0 < pods <= len(tasks) and all(task.status is Status.PENDING for task in tasks):
            promises = job.estimate is not None or job.promise is not None or any(t.promise is not None for t in tasks)
            self._gangs[job.key] = _Gang(
                job.queue, -job.priority, job.waits_since, job.key, pods, _least(tasks), promises
            )
            self._columns = None

    def started(self, job: str) -> None:
        if self._gangs.pop(job, None) is not None:
            self._columns = None

    def chosen(self, snapshot: Snapshot, refused: Collection[str], more: float = 1.0) -> frozenset[str]:
        """The gangs that take part, without those that were `refused` at this moment.

        Each queue sends as many as `more` times the free room could hold.
        """
        if not self._gangs:
            return frozenset()
        columns = self._columns = self._columns or self._made(snapshot)
        elect = snapshot.cluster.elect
        target = None if elect is None else self._gangs.get(elect.job)
        asks = np.array([key not in refused for key in columns.keys], dtype=np.bool_)
        free = np.maximum(snapshot.free(Mode.UNNOMINATED), 0)
        fits = asks & (self._room(snapshot, columns, free, target) >= columns.pods)
        takes = (asks & (columns.place < FRONT)) | _at_once(columns, fits, more * free.sum(axis=0))
        taking = {columns.keys[row] for row in np.flatnonzero(takes).tolist()}
        return frozenset(taking if target is None else {*taking, target.key})  # it may have got its last lock

    def _room(self, snapshot: Snapshot, columns: _Columns, free: Ints, target: _Gang | None) -> Ints:
        """How many pods of each gang fit, at most: without locked nodes, where locks hold against the gang."""
        rows = snapshot.nodes.row
        locked = [rows[lock.node] for lock in snapshot.cluster.locks if lock.node in rows]
        unlocked = np.delete(free, locked, axis=0)
        some, every = (
            np.array([count(room, request).sum() for request in columns.requests]) for room in (unlocked, free)
        )
        passes = columns.promises.copy()
        if target is not None:
            passes |= columns.importance < target.importance
        return np.where(passes, every[columns.kind], some[columns.kind])

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(self._gangs)

    def resting(self, taking_part: Collection[str]) -> set[str]:
        return self._gangs.keys() - taking_part

    def _made(self, snapshot: Snapshot) -> _Columns:
        gangs = sorted(self._gangs.values())
        sizes = [len(list(members)) for _, members in groupby(gangs, key=lambda gang: gang.queue)]
        begins = np.repeat(np.cumsum([0, *sizes[:-1]]), sizes)
        kinds = {request: number for number, request in enumerate(dict.fromkeys(gang.request for gang in gangs))}
        return _Columns(
            [gang.key for gang in gangs],
            np.array([gang.importance for gang in gangs]),
            np.array([gang.promises for gang in gangs]),
            np.arange(len(gangs)) - begins,
            begins,
            np.array([kinds[gang.request] for gang in gangs]),
            np.array([gang.pods for gang in gangs]),
            np.array([snapshot.axes.row(dict(request)) for request in kinds], dtype=np.int64),
        )


def _at_once(columns: _Columns, fits: Mask, free: Ints) -> Mask:
    """Of the gangs that fit alone, in each queue the first ones: as many as fit together, and one more."""
    needs = columns.requests[columns.kind] * columns.pods[:, None] / np.maximum(free, 1)
    parts = np.where(fits, needs.max(axis=1), 0.0)
    before = np.concatenate(([0.0], np.cumsum(parts)))
    return np.asarray(fits & (before[:-1] - before[columns.begins] < 1.0))


def _least(tasks: tuple[Task, ...]) -> tuple[tuple[str, int], ...]:
    """What every pod of a gang requests at least."""
    shapes = [dict(shape.requests) for shape in {task.shape for task in tasks}]
    names = sorted(set.intersection(*(set(shape) for shape in shapes)))
    return tuple((name, min(shape[name] for shape in shapes)) for name in names)
