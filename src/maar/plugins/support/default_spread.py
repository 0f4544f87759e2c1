"""Default topology spread: pods of one controller or Service prefer nodes and zones with few of them.

A part of `nodeorder`, by the system defaults of Kubernetes' PodTopologySpread: `maxSkew` 3 over nodes and 5 over zones,
both `ScheduleAnyway`. A node without a zone counts as a node only. Only pods that are no gang have siblings, so gangs
stay packed; a pod with spread constraints of its own has these alone.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from maar.model.jobs import Job
from maar.model.resources import Floats, Ints, Mask
from maar.model.tasks import Status
from maar.plugins.support.neighbour_scores import NeighbourScores, fewest_first
from maar.session.session import Session

ZONE = "topology.kubernetes.io/zone"
NODE_SKEW, ZONE_SKEW = 3, 5


class Reach(NamedTuple):
    """Where the pods of a shape may run, and the weights of a sibling on the node and in the zone."""

    usable: Mask
    counted: Mask
    """Nodes whose siblings count for their zone."""
    on_node: float
    in_zone: float


class DefaultSpread:
    """The score of nodes for a job that is one pod with siblings."""

    def __init__(self, session: Session, near: NeighbourScores, weight: float) -> None:
        self._session = session
        self._near = near
        self._weight = weight
        self._zones = near.neighbours.domains(ZONE)
        self._reach: dict[int, Reach | None] = {}
        self._tasks: dict[tuple[str, ...], Ints] = {}
        self._jobs: dict[str, list[int]] | None = None

    def score(self, job: Job) -> Floats | None:
        """Fewest siblings first; `None` if it has none on nodes."""
        if not job.siblings:
            return None
        snapshot = self._session.snapshot
        shape = snapshot.tasks.shape.item(snapshot.jobs.members.span(job.index)[0])
        if shape not in self._reach:
            self._reach[shape] = self._reach_of(shape)
        reach, counts = self._reach[shape], self._counts(job.siblings)
        if reach is None or not counts.any():
            return None
        raw: Floats = counts * np.float64(reach.on_node) + (NODE_SKEW - 1)
        if self._zones.size:
            near = self._zones.around(counts * reach.counted) * reach.in_zone
            raw += self._zones.has * (near + (ZONE_SKEW - 1))
        return fewest_first(raw, reach.usable, self._weight)

    def _reach_of(self, shape: int) -> Reach | None:
        """`None` if the shape may run nowhere, or has constraints of its own."""
        of, usable = self._session.snapshot.shapes.shapes[shape], self._session.usable(shape)
        if of.spread or not usable.any():
            return None
        zones = len(np.unique(self._zones.codes[usable]))
        weights = math.log(np.count_nonzero(usable) + 2), math.log(zones + 2)
        return Reach(usable, self._near.masks.accepted(of), *weights)

    def _counts(self, siblings: tuple[str, ...]) -> Ints:
        """How many siblings each node has or is promised, without leaving ones."""
        tasks = self._tasks.get(siblings)
        if tasks is None:
            tasks = self._tasks[siblings] = self._tasks_with(siblings)
        state = self._session.state
        status, node = state.status[tasks], state.node[tasks]
        there = ((status == Status.BOUND) | (status == Status.NOMINATED)) & (node >= 0)
        return np.bincount(node[there], minlength=len(self._session.snapshot.nodes))

    def _tasks_with(self, siblings: tuple[str, ...]) -> Ints:
        """The pods that have all of these in common."""
        table = self._session.snapshot.jobs
        if self._jobs is None:
            self._jobs = {}
            for row, job in enumerate(table.jobs):
                for name in job.siblings:
                    self._jobs.setdefault(name, []).append(row)
        rows = set(self._jobs[siblings[0]]).intersection(*(self._jobs[name] for name in siblings[1:]))
        return np.array([table.members.span(row)[0] for row in sorted(rows)], dtype=np.int64)
