"""binpack: fill nodes that are already in use, so that whole nodes stay free for large pods.

A score: for each resource that a pod asks for and the configuration weighs, how full the node would be with the pod on
it; their weighted mean, 0 to 100, times the plugin's weight. A node on which one of them would exceed scores 0.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

from maar.config.config import OpenArguments
from maar.model.resources import CPU, MEMORY, Floats, Ints
from maar.plugins.support.fullness import Fullness
from maar.plugins.support.weights import gather_weights
from maar.session.register import Register
from maar.session.session import Session

NAME = "binpack"
RESOURCES = "binpack.resources"

JUST_FULL = 1.0 + 1e-9
"""A node that would be full to the last unit does not exceed, whatever a division rounds to."""


class Arguments(OpenArguments, frozen=True, forbid_unknown_fields=True):
    """How much each resource weighs. As in Volcano, a negative weight of a resource counts as 1."""

    weight: float = msgspec.field(name="binpack.weight", default=1.0)
    cpu: float = msgspec.field(name="binpack.cpu", default=1.0)
    memory: float = msgspec.field(name="binpack.memory", default=1.0)
    resources: dict[str, float] = msgspec.field(name=RESOURCES, default_factory=dict)

    @classmethod
    def normalise(cls, raw: dict[str, object]) -> dict[str, object]:
        """Gather `binpack.resources` (`a, b`) and `binpack.resources.<name>` in one mapping."""
        return gather_weights(raw, RESOURCES)

    def weights(self) -> dict[str, float]:
        """Resource to its weight, without those that weigh nothing."""
        given = {**self.resources, CPU: self.cpu, MEMORY: self.memory}
        return {name: 1.0 if weight < 0 else weight for name, weight in given.items() if weight != 0}


class Term(NamedTuple):
    """One resource's part in a shape's score."""

    dim: int
    request: int
    points: float
    """What a node gets that would be full of it."""


class Binpack:
    """Wires the packing of nodes to their scores."""

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments
        self._terms: dict[int, list[Term]] = {}

    def open(self, session: Session, on: Register) -> None:
        """Register."""
        self._session = session
        self._fullness = Fullness(session)
        if self._arguments.weight != 0:
            on.score(self._score)

    def _score(self, shape: int, rows: Ints | slice) -> Floats:
        terms = self._terms.get(shape)
        if terms is None:
            terms = self._terms[shape] = self._terms_of(shape)
        return packed(self._fullness, terms, rows)

    def _terms_of(self, shape: int) -> list[Term]:
        axes = self._session.snapshot.axes
        request = self._session.snapshot.shapes.requests[shape]
        weights = {
            dim: weight
            for name, weight in self._arguments.weights().items()
            if (dim := axes.index.get(name)) is not None and request[dim] > 0
        }
        points = 100.0 * self._arguments.weight / sum(weights.values()) if weights else 0.0
        return [Term(dim, int(request[dim]), points * weight) for dim, weight in weights.items()]


def packed(fullness: Fullness, terms: list[Term], rows: Ints | slice) -> Floats:
    """How full each of those nodes would be, in points."""
    taken = fullness.taken(rows)
    scores = np.zeros(len(taken), dtype=np.float64)
    exceeds = np.zeros(len(taken), dtype=np.bool_)
    for dim, request, points in terms:
        full = (taken[:, dim] + request) * fullness.unit(dim)[rows]
        scores += full * points
        exceeds |= full > JUST_FULL
    scores[exceeds] = 0.0
    return scores
