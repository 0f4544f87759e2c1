"""A rough end of a roll-out, where no roll-out was finished in time: by the work that is ahead of each waiting job.

Nothing is decided here. Waiting jobs are taken in the order of priority and age, as if all nodes were always full and
every job fitted. So the typical start is early, and the late one, when all known work would be done, is wide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from maar.model.jobs import Job
from maar.model.nodes import Node
from maar.model.resources import Floats
from maar.model.tasks import Status, Task


class WorkLeft(NamedTuple):
    """A job that has work left."""

    job: Job
    tasks: Sequence[Task]
    left: float
    """Seconds that it has to run, at its requested size; may be infinite."""
    runs: bool


def rough_starts(nodes: Iterable[Node], jobs: Iterable[WorkLeft], now: float) -> dict[str, tuple[float, float]]:
    """When each waiting job starts, and when it does at the latest; infinite where it depends on unknown run times.

    A job of unknown run time keeps its room for ever.
    """
    room: Counter[str] = Counter()
    for node in nodes:
        room.update(node.allocatable)
    names = sorted(name for name, amount in room.items() if amount > 0)
    order = sorted(jobs, key=lambda one: (not one.runs, -one.job.priority, one.job.waits_since, one.job.key))
    needs = np.array([[asked[name] for name in names] for asked in map(_needs, order)], dtype=np.float64)
    needs = needs.reshape(len(order), len(names))
    left = np.array([one.left for one in order])
    ends = np.isfinite(left)
    work = np.cumsum(needs * np.where(ends, left, 0.0)[:, None], axis=0)
    taken = np.cumsum(needs * ~ends[:, None], axis=0)
    before, kept = (np.vstack((np.zeros((1, len(names))), column)) for column in (work, taken))
    free = np.array([room[name] for name in names], dtype=np.float64) - kept
    soon = _passes(before[:-1], free[:-1], needs)
    late = np.maximum(soon, _passes(before[-1:], free[-1:] + needs * ~ends[:, None], needs))
    return {one.job.key: (now + soon.item(row), now + late.item(row)) for row, one in enumerate(order) if not one.runs}


def _passes(work: Floats, room: Floats, needs: Floats) -> Floats:
    """After how many seconds this work is done by this room, which then has what is needed; else infinite."""
    fits = (room >= needs).all(axis=1)
    return np.where(fits, (work / np.maximum(room, 1.0)).max(axis=1, initial=0.0), np.inf)


def _needs(one: WorkLeft) -> Counter[str]:
    """What a job requests in all: of its pods, or as declared if it has none."""
    needs: Counter[str] = Counter()
    elastic, tasks = one.job.elastic, [t for t in one.tasks if t.status not in (Status.SUCCEEDED, Status.FAILED)]
    for task in tasks:
        needs.update(dict(task.shape.requests))
    if not tasks and elastic is not None:
        workers = elastic.requested or elastic.min
        needs.update({name: amount * workers for name, amount in elastic.shape.requests})
    elif not tasks:
        needs.update(one.job.min_resources or {})
    return needs
