"""binpack: prefer nodes that are already in use, so that whole nodes stay free for large pods.

The score of a node is how full it would be with the pod: the weighted mean over the requested resources that have a
weight, 0 to 100, times the weight of the plugin. A node on which a resource would overflow scores 0.
"""

from __future__ import annotations

import msgspec

from maar.config.config import OpenArguments
from maar.model.resources import CPU, MEMORY, Floats, Ints
from maar.plugins.support.fullness import Fullness, FullnessTerms, Term
from maar.plugins.support.weights import gather_weights
from maar.session.register import Register
from maar.session.session import Session

NAME = "binpack"
RESOURCES = "binpack.resources"


class Arguments(OpenArguments, frozen=True, forbid_unknown_fields=True):
    """The weight of each resource. As in Volcano, a negative weight counts as 1."""

    weight: float = msgspec.field(name="binpack.weight", default=1.0)
    cpu: float = msgspec.field(name="binpack.cpu", default=1.0)
    memory: float = msgspec.field(name="binpack.memory", default=1.0)
    resources: dict[str, float] = msgspec.field(name=RESOURCES, default_factory=dict)

    @classmethod
    def normalise(cls, raw: dict[str, object]) -> dict[str, object]:
        """Combine `binpack.resources` (`a, b`) and `binpack.resources.<name>` into one mapping."""
        return gather_weights(raw, RESOURCES)

    def weights(self) -> dict[str, float]:
        """Resource to its weight, without weights of 0."""
        given = {**self.resources, CPU: self.cpu, MEMORY: self.memory}
        return {name: 1.0 if weight < 0 else weight for name, weight in given.items() if weight != 0}


class Binpack:
    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments
        self._terms: dict[int, FullnessTerms] = {}

    def open(self, session: Session, on: Register) -> None:
        self._session = session
        self._fullness = Fullness(session)
        if self._arguments.weight != 0:
            on.score(self._score)

    def _score(self, shape: int, rows: Ints | slice) -> Floats:
        terms = self._terms.get(shape)
        if terms is None:
            terms = self._terms[shape] = self._fullness.terms(self._terms_of(shape))
        return self._fullness.points(terms, rows)

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
