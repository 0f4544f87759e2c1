"""Shapes: the needs that equal pods share.

Pods are counted, not looped over: everything that decides where a pod may run is in its shape, and a cluster
of 50,000 pods has a few dozen of them. A shape never holds raw labels (an index label would make every pod its
own shape); it holds which of the selectors in use anywhere match its pods. The shape table also numbers the
*features* that pods leave on a node for others to see: matched selectors, anti-affinity terms, host ports, volumes.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np

from maar.model.resources import PODS, Axes, Ints, Mask
from maar.model.selectors import NodeTerm, PodSelector, PodTerm, Port, Requirement, Spread, Toleration
from maar.model.volumes import Slot, VolumeNeed

Feature = PodSelector | PodTerm | Port | Slot
"""What a running pod makes visible on its node: it matches a selector, repels by a term, holds a port or a volume."""


class Shape(msgspec.Struct, frozen=True, cache_hash=True):
    """Requests and constraints of equal pods."""

    requests: tuple[tuple[str, int], ...] = ((PODS, 1),)
    """Sorted by name, the pod slot included."""
    node_selector: tuple[Requirement, ...] = ()
    node_terms: tuple[NodeTerm, ...] | None = None
    """Required node affinity: one of the terms; `None` where nothing is required."""
    node_preferences: tuple[tuple[int, NodeTerm], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[Port, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    pod_preferences: tuple[tuple[int, PodTerm], ...] = ()
    """Preferred pod affinity; a negative weight is a preferred anti-affinity."""
    spread: tuple[Spread, ...] = ()
    images: tuple[str, ...] = ()
    """Those of its images that some node already has."""
    matches: tuple[PodSelector, ...] = ()
    """Which selectors in use anywhere match these pods, sorted."""
    volume_terms: tuple[tuple[NodeTerm, ...], ...] = ()
    """From where its volumes can be reached: of each of these alternatives one term must hold."""
    volume_needs: tuple[VolumeNeed, ...] = ()
    """What it takes of volumes that nodes have only so many of."""

    @property
    def best_effort(self) -> bool:
        """Asks for nothing but its pod slot."""
        return all(name == PODS or amount == 0 for name, amount in self.requests)

    def features(self) -> Iterable[Feature]:
        """What a pod of this shape leaves on its node."""
        yield from self.matches
        yield from dict.fromkeys(self.anti_affinity)
        yield from self.ports
        for pool, count in {need.pool: need.count for need in self.volume_needs}.items():
            yield from (Slot(pool, number) for number in range(1, count + 1))


class ShapeTable:
    """All shapes of a snapshot, with their requests as rows and their features by number.

    It only grows: numbers stay what they are, so snapshots that follow each other share one table.
    """

    def __init__(self, shapes: Iterable[Shape], axes: Axes) -> None:
        self._axes = axes
        self.shapes: list[Shape] = []
        self.number: dict[Shape, int] = {}
        self.feature: dict[Feature, int] = {}
        self.features: list[list[int]] = []
        self.requests: Ints = np.zeros((0, len(axes)), dtype=np.int64)
        self.gpus: Ints = np.zeros(0, dtype=np.int64)
        self.best_effort: Mask = np.zeros(0, dtype=np.bool_)
        self.add(shapes)

    def __len__(self) -> int:
        return len(self.shapes)

    def add(self, shapes: Iterable[Shape]) -> None:
        """Number those that are new."""
        new = [shape for shape in dict.fromkeys(shapes) if shape not in self.number]
        if not new:
            return
        for shape in new:
            self.number[shape] = len(self.shapes)
            self.shapes.append(shape)
            self.features.append([self.feature.setdefault(f, len(self.feature)) for f in shape.features()])
        rows = np.array([self._axes.row(dict(shape.requests)) for shape in new], dtype=np.int64)
        self.requests = np.concatenate((self.requests, rows))
        gpus = rows[:, list(self._axes.accelerators)].sum(axis=1, dtype=np.int64)
        self.gpus = np.concatenate((self.gpus, gpus))
        self.best_effort = np.concatenate((self.best_effort, [shape.best_effort for shape in new]))
