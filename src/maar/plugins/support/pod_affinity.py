"""Required pod affinity and anti-affinity: a part of `predicates`, by the rules of Kubernetes.

Affinity: for every term, the node's domain must hold a pod that matches all terms; a node without the label cannot
satisfy the term. If no such pod exists anywhere, a pod that matches all its own terms may be the first, and then
decides the domain of the others. Anti-affinity: the node's domain must hold no pod that matches a term, and no pod
whose own anti-affinity matches this pod; a node without the label is not restricted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from maar.model.codes import NODES, Code, Meaning
from maar.model.reasons import Refusal
from maar.model.resources import UNLIMITED, Ints, Mask
from maar.model.selectors import PodTerm
from maar.model.shapes import Shape
from maar.plugins.support.names import PREDICATES
from maar.plugins.support.neighbours import Neighbours, Placed
from maar.session.hooks import Limit

UNLABELLED = Code("PodAffinityLabel", NODES)
ALONE = Code(
    "PodAffinity", Meaning("NeighbourNotFound", "the pods that it must be near have to run first", 150), everywhere=True
)
"""Nodes that are not near a required pod. If no node is, new nodes do not help."""
EXCLUDED = Code("PodAntiAffinity", NODES)
REPELLED = Code("ExistingPodsAntiAffinity", NODES)
CODES = (EXCLUDED, REPELLED, ALONE, UNLABELLED)


class Affinity:
    """Required pod affinity: how many more pods of a shape each node takes."""

    def __init__(self, number: int, shapes: list[Shape], neighbours: Neighbours, nodes: int) -> None:
        shape = shapes[number]
        self._neighbours = neighbours
        self._keys = sorted({term.topology_key for term in shape.affinity})
        self._domains = [neighbours.domains(key) for key in self._keys]
        self._selectors = {term.pods for term in shape.affinity}
        self._self_match = self._selectors <= set(shape.matches)
        self._meant: list[int] | None = None
        """Shapes that match all terms, if there is more than one selector."""
        if len(self._selectors) > 1:
            self._meant = [i for i, s in enumerate(shapes) if self._selectors <= set(s.matches)]
        self._keyed: Mask = np.ones(nodes, dtype=np.bool_)
        for domains in self._domains:
            self._keyed &= domains.has

    def limit(self, there: Placed) -> Limit:
        """Nodes near a pod that matches all terms; all nodes with a domain while no pod matches."""
        around = self._around(there)
        if self._self_match and not any(counts.any() for counts in around):
            words = f"lack a label required by its pod affinity: {_quoted(self._keys)}"
            refusal = Refusal(PREDICATES, UNLABELLED, words, ~self._keyed)
            room = np.where(self._keyed, UNLIMITED, 0)
            return Limit(room, coupled=True, causes=(refusal,), seeds=combined([d.codes for d in self._domains]))
        near = self._keyed.copy()
        for counts in around:
            near &= counts > 0
        words = f"have no pod required by its pod affinity in their {_quoted(self._keys)}"
        refusal = Refusal(PREDICATES, ALONE, words, ~near)
        return Limit(np.where(near, UNLIMITED, 0), coupled=False, causes=(refusal,))

    def _around(self, there: Placed) -> list[Ints]:
        if self._meant is None:
            counts = there.counts(next(iter(self._selectors)))
        else:
            counts = there.present(self._meant)
        if counts is None:
            return [np.zeros_like(self._keyed, dtype=np.int64) for _ in self._domains]
        return [domains.around(counts) for domains in self._domains]


def combined(codes: Sequence[npt.NDArray[np.int32]]) -> Ints:
    """One number for each combination of domains; -1 if one is missing."""
    result: Ints = codes[0].astype(np.int64)
    for more in codes[1:]:
        both = np.where((result >= 0) & (more >= 0), result * (int(more.max(initial=0)) + 1) + more, -1)
        _, dense = np.unique(both, return_inverse=True)
        result = np.where(both < 0, -1, dense)
    return result


class AntiAffinity:
    """Required pod anti-affinity: the terms of this shape, and those of running pods."""

    def __init__(self, shape: Shape, neighbours: Neighbours, nodes: int, untrusted: bool = False) -> None:
        self._neighbours = neighbours
        self._nodes = nodes
        self._untrusted = untrusted
        self._own = [(term, term.pods in shape.matches) for term in dict.fromkeys(shape.anti_affinity)]
        self.theirs: list[PodTerm] = [term for pods in shape.matches for term in neighbours.repelling(pods)]
        terms = (*shape.anti_affinity, *self.theirs)
        self._local = all(neighbours.domains(term.topology_key).single for term in terms)
        if untrusted:  # A pod of one tenant must not keep the pods of all others off its nodes.
            self.theirs = [term for term in self.theirs if not term.crosses]

    def limit(self, there: Placed) -> Limit:
        """Nodes without a pod nearby that repels the shape or is repelled by it.

        Where tenants are not trusted, pods of other namespaces are not evicted for her terms.
        """
        room = np.full(self._nodes, UNLIMITED, dtype=np.int64)
        refused, coupled = np.zeros(self._nodes, dtype=np.bool_), False
        for term, self_match in self._own:
            domains = self._neighbours.domains(term.topology_key)
            counts = there.counts(term.pods, stay=self._untrusted and term.crosses)
            if counts is not None:
                refused |= domains.around(counts) > 0
            if self_match:
                room[domains.has] = 1
                coupled |= not domains.single
        words = f"have a pod excluded by its anti-affinity{_near(self._own_keys())}"
        causes = [Refusal(PREDICATES, EXCLUDED, words, refused)]
        repelled = np.zeros(self._nodes, dtype=np.bool_)
        for term in self.theirs:
            counts = there.counts(term)
            if counts is not None:
                repelled |= self._neighbours.domains(term.topology_key).around(counts) > 0
        causes.append(Refusal(PREDICATES, REPELLED, "have a pod whose anti-affinity excludes it", repelled))
        room[refused | repelled] = 0
        return Limit(room, coupled, tuple(causes), self._local)

    def _own_keys(self) -> list[str]:
        return sorted({term.topology_key for term, _ in self._own})


def _near(keys: list[str]) -> str:
    return f" in their {_quoted(keys)}" if keys else ""


def _quoted(keys: Iterable[str]) -> str:
    return ", ".join(f"`{key}`" for key in keys)
