"""A rough forecast, where no roll-out was finished in time: by the work that is ahead of a job.

Nothing is decided here. Waiting jobs are taken in the order of priority and age, as if all nodes were always full and
every job fitted. So the typical start is early, and the late one, when all known work would be done, is wide.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from maar.forecast.start import Begin, StartState
from maar.model.snapshot import Cluster
from maar.model.tasks import Status, Task


def rough_starts(
    cluster: Cluster, begins: Mapping[str, Begin], seconds: Mapping[str, float | None], now: float
) -> dict[str, tuple[float, float]]:
    """When each waiting job starts, and when it does at the latest; infinite where it depends on unknown run times.

    `begins` has the jobs that count; `seconds` their run times, from their start, at their requested size.
    """
    room: Counter[str] = Counter()
    for node in cluster.nodes:
        room.update(node.allocatable)
    names = sorted(name for name, amount in room.items() if amount > 0)
    members: dict[str, list[Task]] = {key: [] for key in begins}
    for task in cluster.tasks:
        if task.job in members and task.status not in (Status.SUCCEEDED, Status.FAILED):
            members[task.job].append(task)
    running = [key for key, b in begins.items() if b.state is StartState.RUNNING]
    waiting = [key for key, b in begins.items() if b.state is StartState.WAITING]
    waiting.sort(key=lambda key: (-begins[key].job.priority, begins[key].job.waits_since, key))
    order = [*running, *waiting]
    work = np.zeros((len(order) + 1, len(names)))
    for row, key in enumerate(order):
        needs = _needs(begins[key], members[key])
        length = seconds.get(key)
        left = math.inf if length is None else max(length - begins[key].elapsed, 0.0)
        work[row + 1] = [needs[name] * left / room[name] if needs[name] else 0.0 for name in names]
    ahead = np.cumsum(work, axis=0).max(axis=1, initial=0.0)
    last = float(ahead[-1])
    return {key: (now + float(ahead[len(running) + i]), now + last) for i, key in enumerate(waiting)}


def _needs(begin: Begin, tasks: Sequence[Task]) -> Counter[str]:
    """What a job requests in all: of its pods, or as declared if it has none."""
    needs: Counter[str] = Counter()
    elastic = begin.job.elastic
    for task in tasks:
        needs.update(dict(task.shape.requests))
    if not tasks and elastic is not None:
        workers = elastic.requested or elastic.min
        needs.update({name: amount * workers for name, amount in elastic.shape.requests})
    elif not tasks:
        needs.update(begin.job.min_resources or {})
    return needs
