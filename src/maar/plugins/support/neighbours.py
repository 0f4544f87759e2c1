"""What placed pods show to the constraints of other pods, summed over the domains of a node label.

Used by the parts of `predicates` that depend on placed pods (ports, pod affinity, spread) and by preferences in
`nodeorder`. The columns of the session count for each node how many pods match each selector, repel by each term and
use each port. This module sums these counts by domain, for all nodes at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from maar.model.fitting import Mode
from maar.model.nodes import LabelColumn
from maar.model.resources import Ints, Mask
from maar.model.selectors import PodSelector, PodTerm, Port
from maar.model.shapes import Feature
from maar.model.tasks import NO_TASKS, Status
from maar.model.volumes import SharedVolume
from maar.session.session import Session

FEW = 16
"""Tasks up to which counting them one by one is faster than all at once. Measured."""


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


class Placed(NamedTuple):
    """The placed pods in a mode, without some tasks: now, after releasing pods are gone, or none at all."""

    neighbours: Neighbours
    mode: Mode
    gone: Ints

    def later(self) -> Placed:
        return self._replace(mode=Mode.LATER)

    def counts(self, feature: Feature, stay: bool = False) -> Ints | None:
        """How many pods on each node show a feature; `None` if none does. With `stay` no task is gone."""
        if self.mode is Mode.EMPTY:
            return None
        counts = self.neighbours.counts(feature, self.mode is Mode.LATER)
        if counts is None or stay or not len(self.gone):
            return counts
        return counts - self.neighbours.shown_by(feature, self.gone)

    def present(self, shapes: Iterable[int]) -> Ints:
        """How many pods of the given shapes are on each node."""
        return self.neighbours.present(shapes, self.mode is Mode.LATER, self.gone)


class Neighbours:
    """Placed pods, as the constraints of other pods see them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._feature = session.snapshot.shapes.feature
        self._domains: dict[str, Domains] = {}
        self._tasks: dict[frozenset[int], Ints] = {}
        self._repelling: dict[PodSelector, list[PodTerm]] | None = None
        self._ports: dict[tuple[int, str], list[Port]] | None = None
        self._shared: dict[str, list[SharedVolume]] | None = None

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

    def shown_by(self, feature: Feature, tasks: Ints) -> Ints:
        """How many of these tasks show a feature on each node."""
        table, number = self._session.snapshot, self._feature[feature]
        node, features = self._session.state.node, table.shapes.features
        if len(tasks) <= FEW:
            counts = np.zeros(len(table.nodes), dtype=np.int64)
            for task in tasks.tolist():
                if number in features[table.tasks.shape.item(task)]:
                    counts[node.item(task)] += 1
            return counts
        shapes = table.tasks.shape[tasks]
        showing = [shape for shape in np.unique(shapes).tolist() if number in features[shape]]
        rows = node[tasks[np.isin(shapes, showing)]]
        return np.bincount(rows, minlength=len(table.nodes))

    def present(self, shapes: Iterable[int], later: bool, gone: Ints = NO_TASKS) -> Ints:
        """How many pods of the given shapes are on each node, without the tasks `gone`."""
        wanted = frozenset(shapes)
        tasks = self._tasks.get(wanted)
        if tasks is None:
            task_shapes = self._session.snapshot.tasks.shape
            tasks = self._tasks[wanted] = np.flatnonzero(np.isin(task_shapes, sorted(wanted)))
        status, node = self._session.state.status[tasks], self._session.state.node[tasks]
        there = (status == Status.BOUND) | (status == Status.NOMINATED)
        if not later:
            there |= status == Status.RELEASING
        rows = node[there & (node >= 0) & ~np.isin(tasks, gone)]
        return np.bincount(rows, minlength=len(self._session.snapshot.nodes))

    def repelling(self, selector: PodSelector) -> list[PodTerm]:
        """Anti-affinity terms of any pods that repel the pods of a selector."""
        if self._repelling is None:
            self._repelling = {}
            for feature in self._feature:
                if isinstance(feature, PodTerm):
                    self._repelling.setdefault(feature.pods, []).append(feature)
        return self._repelling.get(selector, [])

    def shared(self, pool: str) -> list[SharedVolume]:
        """The volumes of a pool that several pods use."""
        if self._shared is None:
            self._shared = {}
            for feature in self._feature:
                if isinstance(feature, SharedVolume):
                    self._shared.setdefault(feature.pool, []).append(feature)
        return self._shared.get(pool, [])

    def conflicting(self, port: Port) -> list[Port]:
        """Host ports of any pods that conflict with a port."""
        if self._ports is None:
            self._ports = {}
            for feature in self._feature:
                if isinstance(feature, Port):
                    self._ports.setdefault((feature.port, feature.protocol), []).append(feature)
        return [other for other in self._ports.get((port.port, port.protocol), []) if port.conflicts(other)]
