"""Required pod affinity and anti-affinity: a part of `predicates`.

Kubernetes' rules. Affinity: for every term the node's domain must hold a pod that all terms mean, and a node without
the label cannot satisfy it; if no such pod is anywhere, a pod that all its own terms mean may be the first. The first
then decides the domain of the others. Anti-affinity: no pod that a term means in the node's domain, nor one whose own
anti-affinity means this pod; a node without the label is not restricted.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from maar.model.resources import UNLIMITED, Ints, Mask
from maar.model.selectors import PodTerm
from maar.model.shapes import Shape
from maar.plugins.support.neighbours import Neighbours
from maar.session.hooks import Limit, Rejection

MOST_SEEDS = 32
"""How many domains are tried for the first pod of a gang, those with most room first. By taste: if the roomiest
does not take the gang the next ones rarely do, and a label with a domain for each node would try them all."""


class Affinity:
    """Pods that must be near: what is left of each node for a shape."""

    def __init__(self, number: int, shapes: list[Shape], neighbours: Neighbours, nodes: int) -> None:
        shape = shapes[number]
        self._neighbours = neighbours
        self._keys = sorted({term.topology_key for term in shape.affinity})
        self._domains = [neighbours.domains(key) for key in self._keys]
        self._selectors = {term.pods for term in shape.affinity}
        self._self_match = self._selectors <= set(shape.matches)
        self._meant: list[int] | None = None
        """Shapes that all terms mean, where that is not the same as one selector."""
        if len(self._selectors) > 1:
            self._meant = [i for i, s in enumerate(shapes) if self._selectors <= set(s.matches)]
        self._keyed: Mask = np.ones(nodes, dtype=np.bool_)
        for domains in self._domains:
            self._keyed &= domains.has

    def limit(self, later: bool) -> Limit:
        """Where a pod that all terms mean is near; where there is none yet, wherever there is a domain."""
        around = self._around(later)
        if self._may_begin(around):
            words = f"lack a label of its pod affinity: {_quoted(self._keys)}"
            rejection = Rejection("PodAffinity", words, ~self._keyed)
            return Limit(np.where(self._keyed, UNLIMITED, 0), coupled=True, causes=(rejection,))
        near = self._keyed.copy()
        for counts in around:
            near &= counts > 0
        words = f"have no pod that it must be near in their {_quoted(self._keys)}"
        return Limit(np.where(near, UNLIMITED, 0), coupled=False, causes=(Rejection("PodAffinity", words, ~near),))

    def seeds(self, slots: Ints, later: bool) -> tuple[Mask, ...]:
        """Where the first pod would decide the domain of all: the domains by the `slots` they have, most first."""
        if not self._may_begin(self._around(later)):
            return ()
        codes = combined([domains.codes.astype(np.int64) for domains in self._domains])
        return most_room_first(codes, slots)

    def _around(self, later: bool) -> list[Ints]:
        if self._meant is None:
            counts = self._neighbours.counts(next(iter(self._selectors)), later)
        else:
            counts = self._neighbours.present(self._meant, later)
        if counts is None:
            return [np.zeros_like(self._keyed, dtype=np.int64) for _ in self._domains]
        return [domains.around(counts) for domains in self._domains]

    def _may_begin(self, around: list[Ints]) -> bool:
        return self._self_match and not any(counts.any() for counts in around)


def combined(codes: list[Ints]) -> Ints:
    """One number for each combination of domains; -1 where one is missing."""
    result = codes[0]
    for more in codes[1:]:
        both = np.where((result >= 0) & (more >= 0), result * (int(more.max(initial=0)) + 1) + more, -1)
        _, dense = np.unique(both, return_inverse=True)
        result = np.where(both < 0, -1, dense)
    return result


def most_room_first(codes: Ints, slots: Ints) -> tuple[Mask, ...]:
    """A mask for each domain that takes anything, the one that takes most first; ties by the first node's name."""
    usable = (codes >= 0) & (slots > 0)
    values, first, place = np.unique(codes[usable], return_index=True, return_inverse=True)
    room = np.bincount(place, weights=slots[usable], minlength=len(values))
    order = np.lexsort((first, -room))[:MOST_SEEDS]
    return tuple(codes == value for value in values[order].tolist())


class AntiAffinity:
    """Pods that must be apart, by this shape's terms or by those of pods already there."""

    def __init__(self, shape: Shape, neighbours: Neighbours, nodes: int) -> None:
        self._neighbours = neighbours
        self._nodes = nodes
        self._own = [(term, term.pods in shape.matches) for term in dict.fromkeys(shape.anti_affinity)]
        self.theirs: list[PodTerm] = [term for pods in shape.matches for term in neighbours.repelling(pods)]

    def limit(self, later: bool) -> Limit:
        """Where none that repel or are repelled are near."""
        room = np.full(self._nodes, UNLIMITED, dtype=np.int64)
        refused, coupled = np.zeros(self._nodes, dtype=np.bool_), False
        for term, self_match in self._own:
            domains = self._neighbours.domains(term.topology_key)
            counts = self._neighbours.counts(term.pods, later)
            if counts is not None:
                refused |= domains.around(counts) > 0
            if self_match:
                room[domains.has] = 1
                coupled |= not domains.single
        causes = [Rejection("PodAntiAffinity", f"have a pod that it keeps away from{_near(self._own_keys())}", refused)]
        repelled = np.zeros(self._nodes, dtype=np.bool_)
        for term in self.theirs:
            counts = self._neighbours.counts(term, later)
            if counts is not None:
                repelled |= self._neighbours.domains(term.topology_key).around(counts) > 0
        causes.append(Rejection("ExistingPodsAntiAffinity", "have a pod that keeps it away", repelled))
        room[refused | repelled] = 0
        return Limit(room, coupled, tuple(causes))

    def _own_keys(self) -> list[str]:
        return sorted({term.topology_key for term, _ in self._own})


def _near(keys: list[str]) -> str:
    return f" in their {_quoted(keys)}" if keys else ""


def _quoted(keys: Iterable[str]) -> str:
    return ", ".join(f"`{key}`" for key in keys)
