"""The cost of an eviction: the one order in which victims are compared.

Fields are compared from first to last; smaller is cheaper:

    field         meaning                                               source
    ------------  ----------------------------------------------------  --------------------------------------------
    evicts        pods are evicted; otherwise elastic jobs only shrink  `Unit.shrinks`
    breaks        a whole gang leaves; otherwise only surplus pods      `Unit.whole`
    queue         the place of the last victim queue, for reclaim only  `Hooks.victim_places`
    priority      the highest priority among the victims' jobs          `Job.priority`
    shortfall     how far below its share a queue is left, as a part    `Hooks.excess`, for reclaim only
                  of that share
    gangs         gangs and subgroups that leave, per task that fits    their units, and the room that they free
    pod_priority  the priority of the pod itself                        `Task.priority`; when single pods of one node,
                                                                        or all units of a claim are sorted
    work          GPU seconds lost, then CPU seconds                    time since the start or the last checkpoint;
                                                                        a job that shrinks loses none

A `Rank` is a cost with a tie-breaker, so that every order is total.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from maar.model.resources import CPU, Floats, Ints
from maar.model.snapshot import Snapshot
from maar.model.tasks import Status


class LostWork(NamedTuple):
    """Lost work; CPU seconds distinguish pods without GPUs."""

    gpu_seconds: float
    cpu_seconds: float


NO_WORK = LostWork(0.0, 0.0)


class Cost(NamedTuple):
    """The cost of evicting some pods."""

    evicts: bool
    breaks: bool = False
    queue: tuple[Any, ...] = ()
    priority: int = 0
    shortfall: Fraction | int = 0
    gangs: float | Fraction = 0
    pod_priority: int = 0
    work: LostWork = NO_WORK

    def shared(self, tasks: int) -> Cost:
        """The same where the gangs make room for that many tasks."""
        return self._replace(gangs=self.gangs / tasks, pod_priority=0)


TieKey = tuple[tuple[str, int], ...]
"""Jobs by key and, within a job, the highest index first: worker 0 hosts the rendezvous."""


class Rank(NamedTuple):
    """The sort key of a choice."""

    cost: Cost
    key: TieKey
    number: int
    """The number of the chosen task, job, node or domain."""


def work_lost(snapshot: Snapshot, tasks: Ints | slice, now: float) -> tuple[Floats, Floats]:
    """The GPU seconds and CPU seconds that each task has done since its start or its last checkpoint."""
    table = snapshot.tasks
    saved: Floats = table.checkpoint[tasks]
    since = np.maximum(table.started[tasks], np.where(np.isnan(saved), -np.inf, saved))
    seconds = np.maximum(now - since, 0.0)
    seconds[table.status[tasks] != Status.BOUND] = 0.0  # bound in this cycle: nothing has run
    shapes = table.shape[tasks]
    gpus: Ints = snapshot.shapes.gpus[shapes]
    cpu: Ints = snapshot.shapes.requests[shapes, snapshot.axes.index[CPU]]
    return np.asarray(gpus * seconds), np.asarray(cpu * seconds)
