"""What placed pods show to the constraints of other pods, summed over the domains of a node label.

Used by the parts of `predicates` that depend on placed pods (ports, pod affinity, spread) and by preferences in
`nodeorder`. The columns of the session count for each node how many pods match each selector, repel by each term and
use each port. This module sums these counts by domain, for all nodes at once.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from maar.model.nodes import LabelColumn
from maar.model.resources import Ints, Mask
from maar.model.selectors import PodSelector, PodTerm, Port
from maar.model.shapes import Feature
from maar.model.tasks import Status
from maar.session.hooks import Obstacle
from maar.session.session import Session


class Domains:
    """The domains defined by one node label."""

    def __init__(self, column: LabelColumn) -> None:
        self.codes = column.codes
        """The domain of each node, -1 if the label is missing."""
        self.size = len(column.values)
        self.has: Mask = np.asarray(self.codes >= 0)
        self.single = bool(self.has.sum() == self.size)
        """Whether every domain is one node, as with the hostname."""
        self._all = bool(self.has.all())
        self._known = self.codes if self._all else self.codes[self.has]

    def sums(self, counts: Ints) -> Ints:
        known = counts if self._all else counts[self.has]
        return np.bincount(self._known, weights=known, minlength=self.size).astype(np.int64)

    def at_nodes(self, sums: Ints) -> Ints:
        """The count of each node's domain, from counts by domain; 0 without a domain."""
        return np.asarray(sums[self.codes] if self._all else np.append(sums, 0)[self.codes])

    def around(self, counts: Ints) -> Ints:
        """The count of each node's whole domain, from node counts; 0 without a domain."""
        if self.single:
            return counts if self._all else counts * self.has
        return self.at_nodes(self.sums(counts))


class Neighbours:
    """Placed pods, as the constraints of other pods see them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._feature = session.snapshot.shapes.feature
        self._domains: dict[str, Domains] = {}
        self._tasks: dict[frozenset[int], Ints] = {}
        self._repelling: dict[PodSelector, list[PodTerm]] | None = None
        self._ports: dict[tuple[int, str], list[Port]] | None = None

    def domains(self, key: str) -> Domains:
        found = self._domains.get(key)
        if found is None:
            found = self._domains[key] = Domains(self._session.snapshot.nodes.label(key))
        return found

    def counts(self, feature: Feature, later: bool) -> Ints | None:
        """How many pods on each node show a feature (`later`: without leaving pods); `None` if no pod ever does."""
        number = self._feature.get(feature)
        if number is None:
            return None
        state = self._session.state
        there = state.features[number]
        return np.asarray(there - state.leaving[number] if later else there)

    def obstacle(self, feature: Feature, near: Ints) -> Obstacle:
        """The pods that show a feature, as an obstacle: `near` says how many there are in the domain of each node."""
        return Obstacle(self._feature[feature], near)

    def present(self, shapes: Iterable[int], later: bool) -> Ints:
        """How many pods of the given shapes are on each node."""
        wanted = frozenset(shapes)
        tasks = self._tasks.get(wanted)
        if tasks is None:
            task_shapes = self._session.snapshot.tasks.shape
            tasks = self._tasks[wanted] = np.flatnonzero(np.isin(task_shapes, sorted(wanted)))
        status, node = self._session.state.status[tasks], self._session.state.node[tasks]
        there = (status == Status.BOUND) | (status == Status.NOMINATED)
        if not later:
            there |= status == Status.RELEASING
        rows = node[there & (node >= 0)]
        return np.bincount(rows, minlength=len(self._session.snapshot.nodes))

    def repelling(self, selector: PodSelector) -> list[PodTerm]:
        """Anti-affinity terms of any pods that repel the pods of a selector."""
        if self._repelling is None:
            self._repelling = {}
            for feature in self._feature:
                if isinstance(feature, PodTerm):
                    self._repelling.setdefault(feature.pods, []).append(feature)
        return self._repelling.get(selector, [])

    def conflicting(self, port: Port) -> list[Port]:
        """Host ports of any pods that conflict with a port."""
        if self._ports is None:
            self._ports = {}
            for feature in self._feature:
                if isinstance(feature, Port):
                    self._ports.setdefault((feature.port, feature.protocol), []).append(feature)
        return [other for other in self._ports.get((port.port, port.protocol), []) if port.conflicts(other)]
