"""Waiting gangs that are alike but for their age: only the oldest of them need to be looked at.

Two gangs of one queue with the same priority, pods and rules differ only in their turn, so a younger one cannot start
before an older one. In a roll-out, of each set of alike gangs only as many take part in a cycle as the idle room of the
whole cluster could hold, and a few more; the others rest. Their requests still count for the shares of queues.

The one exception is a promise to end in time, which may let a younger gang use locked nodes first. The accuracy that
`make bench-forecast` measures includes this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from maar.model.fitting import Mode, how_many
from maar.model.jobs import Job, Phase
from maar.model.minimum import lacking
from maar.model.snapshot import Snapshot
from maar.model.tasks import Status, Task

MORE = 2
"""Gangs of each set that take part beyond what idle room could hold: evictions may make room. Tuned by hand."""


class Alike:
    """The waiting gangs of a roll-out, in sets."""

    def __init__(self, waiting: Iterable[tuple[Job, tuple[Task, ...]]]) -> None:
        self._sets: dict[object, dict[str, None]] = {}
        self._needs: dict[object, Counter[str]] = {}
        self._set_of: dict[str, object] = {}
        for job, tasks in sorted(waiting, key=lambda pair: (pair[0].created, pair[0].key)):
            self.add(job, tasks)

    def add(self, job: Job, tasks: tuple[Task, ...]) -> None:
        """Note a gang that is younger than all others."""
        if not job.is_elastic and job.phase is Phase.INQUEUE and all(t.status is Status.PENDING for t in tasks):
            key = _key(job, tasks)
            self._sets.setdefault(key, {})[job.key] = None
            self._set_of[job.key] = key
            self._needs[key] = _minimum(job, tasks)

    def started(self, job: str) -> None:
        if job in self._set_of:
            self._sets[self._set_of.pop(job)].pop(job)

    def resting(self, snapshot: Snapshot) -> set[str]:
        """The gangs that cannot start in this cycle, because older gangs like them come first."""
        idle = np.maximum(snapshot.free(Mode.UNNOMINATED), 0).sum(axis=0).tolist()
        rest: set[str] = set()
        for key, jobs in self._sets.items():
            first = how_many(idle, snapshot.axes.row(self._needs[key]), len(jobs)) + MORE
            if first < len(jobs):
                rest.update(list(jobs)[first:])
        return rest


def _key(job: Job, tasks: tuple[Task, ...]) -> object:
    pods = Counter((t.shape, t.role, t.subgroup, t.priority, t.preempts) for t in tasks)
    limits = (*sorted(job.role_min.items()), *job.subgroups)
    own = (job.queue, job.namespace, job.priority, job.min_member, job.closeness, job.sla, job.preempts)
    return (*own, limits, frozenset(pods.items()), job.broken, job.on_hold, job.settles, job.rests)


def _minimum(job: Job, tasks: tuple[Task, ...]) -> Counter[str]:
    """At least what the gang needs to start: its smallest pods, as many as its minimum has."""
    needs: Counter[str] = Counter()
    names = {name for task in tasks for name, _ in task.shape.requests}
    for name in sorted(names):
        amounts = sorted(dict(task.shape.requests).get(name, 0) for task in tasks)
        needs[name] = sum(amounts[: lacking(job, ())])
    return +needs
