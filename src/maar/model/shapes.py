"""Shapes: the requests and constraints that equal pods share.

Pods are counted, not looped over: everything that decides where a pod may run is in its shape, and a cluster of 50,000
pods has a few dozen shapes. A shape never holds raw labels (an index label would give every pod its own shape); it
holds which of the selectors in use match its pods. The shape table also numbers *features*: what a pod on a node makes
visible to other pods (matched selectors, anti-affinity terms, host ports, volumes).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np

from maar.model.resources import PODS, Axes, Ints, Mask
from maar.model.selectors import NodeTerm, PodSelector, PodTerm, Port, Requirement, Spread, Toleration
from maar.model.volumes import SharedVolume, Slot, VolumeNeed

Feature = PodSelector | PodTerm | Port | Slot | SharedVolume
"""What a pod makes visible on its node: a matched selector, an anti-affinity term, a host port or a volume."""


MOST_NEW = 2000
"""Shapes and features that are added to a table of any size before it is made again; tuned by hand."""


class FillStrategy(msgspec.Struct, frozen=True):
    """How full the nodes of a pod should be, if its owner says so; `None` and empty: as configured."""

    pack: bool | None = None
    """True: full nodes first. False: empty nodes first."""
    weights: tuple[tuple[str, float], ...] = ()
    """The resources that count, each with its weight, sorted."""


class Shape(msgspec.Struct, frozen=True, cache_hash=True):
    """Requests and constraints of equal pods."""

    requests: tuple[tuple[str, int], ...] = ((PODS, 1),)
    """Sorted by name, including the pod slot."""
    node_selector: tuple[Requirement, ...] = ()
    node_terms: tuple[NodeTerm, ...] | None = None
    """Required node affinity: one of the terms must hold; `None` if nothing is required."""
    node_preferences: tuple[tuple[int, NodeTerm], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[Port, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    pod_preferences: tuple[tuple[int, PodTerm], ...] = ()
    """Preferred pod affinity; a negative weight is preferred anti-affinity."""
    spread: tuple[Spread, ...] = ()
    images: tuple[str, ...] = ()
    """The images of its containers that at least one node already has."""
    matches: tuple[PodSelector, ...] = ()
    """The selectors in use anywhere that match these pods, sorted."""
    volume_terms: tuple[tuple[NodeTerm, ...], ...] = ()
    """Where its volumes can be reached: one term of each group must hold."""
    volume_needs: tuple[VolumeNeed, ...] = ()
    """Volumes that it takes and whose number on a node is limited."""
    strategy: FillStrategy | None = None
    limits: tuple[tuple[str, int], ...] = ()
    """What a pod may use of CPU and memory, where that is more than it requests."""
    revocable: bool = False
    """Whether it may use nodes of revocable zones, which it must leave when their hours end (plugin `tdm`)."""

    @property
    def best_effort(self) -> bool:
        """Whether it requests nothing but its pod slot."""
        return all(name == PODS or amount == 0 for name, amount in self.requests)

    def features(self) -> Iterable[Feature]:
        """What a pod of this shape makes visible on its node."""
        yield from self.matches
        yield from dict.fromkeys(self.anti_affinity)
        yield from self.ports
        for pool, count in {need.pool: need.count for need in self.volume_needs}.items():
            yield from (Slot(pool, number) for number in range(1, count + 1))
        for need in self.volume_needs:
            yield from (SharedVolume(need.pool, name) for name in need.shared)


class ShapeTable:
    """All shapes of a snapshot, with their requests as rows and their features by number.

    It only grows and numbers never change, so successive snapshots share one table until it is `crowded`.
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
        self._first = len(self.shapes) + len(self.feature)

    def __len__(self) -> int:
        return len(self.shapes)

    @property
    def crowded(self) -> bool:
        """Whether most of it may belong to pods that are gone: a new table costs less than to keep it."""
        return len(self.shapes) + len(self.feature) > 2 * self._first + MOST_NEW

    def add(self, shapes: Iterable[Shape]) -> None:
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
