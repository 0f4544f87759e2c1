"""Shapes: the needs that equal pods share.

Pods are counted, not looped over: everything that decides where a pod may run is in its shape, and a cluster
of 50,000 pods has a few dozen of them. A shape never holds raw labels (an index label would make every pod its
own shape); it holds which of the selectors in use anywhere match its pods. The shape table also numbers the
*features* that pods leave on a node for others to see: matched selectors, anti-affinity terms, host ports.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np

from maar.model.resources import PODS, Axes, Ints
from maar.model.selectors import NodeTerm, PodSelector, PodTerm, Port, Requirement, Spread, Toleration

Feature = PodSelector | PodTerm | Port
"""What a running pod makes visible on its node: it matches a selector, it repels by a term, it holds a port."""


class Shape(msgspec.Struct, frozen=True):
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

    @property
    def best_effort(self) -> bool:
        """Asks for nothing but its pod slot."""
        return all(name == PODS or amount == 0 for name, amount in self.requests)

    def features(self) -> Iterable[Feature]:
        """What a pod of this shape leaves on its node."""
        yield from self.matches
        yield from dict.fromkeys(self.anti_affinity)
        yield from self.ports


class ShapeTable:
    """All shapes of a snapshot, with their requests as rows and their features by number."""

    def __init__(self, shapes: Iterable[Shape], axes: Axes) -> None:
        self.shapes: list[Shape] = list(dict.fromkeys(shapes))
        self.number: dict[Shape, int] = {shape: i for i, shape in enumerate(self.shapes)}
        self.requests: Ints = np.array([axes.row(dict(s.requests)) for s in self.shapes], dtype=np.int64).reshape(
            len(self.shapes), len(axes)
        )
        self.feature: dict[Feature, int] = {}
        for shape in self.shapes:
            for feature in shape.features():
                self.feature.setdefault(feature, len(self.feature))
        self.features: list[list[int]] = [[self.feature[f] for f in s.features()] for s in self.shapes]
        self.gpus: Ints = self.requests[:, list(axes.accelerators)].sum(axis=1, dtype=np.int64)
        self.best_effort = np.array([s.best_effort for s in self.shapes], dtype=np.bool_)

    def __len__(self) -> int:
        return len(self.shapes)
