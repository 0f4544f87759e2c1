"""Required pod affinity and anti-affinity: a part of `predicates`, by the rules of Kubernetes.

Affinity: for every term, the node's domain must hold a pod that matches all terms; a node without the label cannot
satisfy the term. If no such pod exists anywhere, a pod that matches all its own terms may be the first, and then
decides the domain of the others. Anti-affinity: the node's domain must hold no pod that matches a term, and no pod
whose own anti-affinity matches this pod; a node without the label is not restricted.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from maar.model.resources import UNLIMITED, Ints, Mask
from maar.model.selectors import PodTerm
from maar.model.shapes import Shape
from maar.plugins.support.neighbours import Neighbours
from maar.session.hooks import Limit, Obstacle, Rejection

MOST_SEEDS = 32
"""How many domains are tried for the first pod of a gang, those with most room first. Tuned by hand: if the largest
does not take the gang, the next rarely do, and a label with one domain per node would try them all."""


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

    def limit(self, later: bool) -> Limit:
        """Nodes near a pod that matches all terms; all nodes with a domain while no pod matches."""
        around = self._around(later)
        if self._may_begin(around):
            words = f"lack a label required by its pod affinity: {_quoted(self._keys)}"
            rejection = Rejection("PodAffinityLabel", words, ~self._keyed)
            return Limit(np.where(self._keyed, UNLIMITED, 0), coupled=True, causes=(rejection,))
        near = self._keyed.copy()
        for counts in around:
            near &= counts > 0
        words = f"have no pod required by its pod affinity in their {_quoted(self._keys)}"
        return Limit(np.where(near, UNLIMITED, 0), coupled=False, causes=(Rejection("PodAffinity", words, ~near),))

    def seeds(self, slots: Ints, later: bool) -> tuple[Mask, ...]:
        """The domains for the first pod, by their `slots`, most first; empty if it does not decide the domain."""
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
    """One number for each combination of domains; -1 if one is missing."""
    result = codes[0]
    for more in codes[1:]:
        both = np.where((result >= 0) & (more >= 0), result * (int(more.max(initial=0)) + 1) + more, -1)
        _, dense = np.unique(both, return_inverse=True)
        result = np.where(both < 0, -1, dense)
    return result


def most_room_first(codes: Ints, slots: Ints) -> tuple[Mask, ...]:
    """A mask for each domain with room, most room first; ties by the name of the first node."""
    usable = (codes >= 0) & (slots > 0)
    values, first, place = np.unique(codes[usable], return_index=True, return_inverse=True)
    room = np.bincount(place, weights=slots[usable], minlength=len(values))
    order = np.lexsort((first, -room))[:MOST_SEEDS]
    return tuple(codes == value for value in values[order].tolist())


class AntiAffinity:
    """Required pod anti-affinity: the terms of this shape, and those of running pods."""

    def __init__(self, shape: Shape, neighbours: Neighbours, nodes: int, untrusted: bool = False) -> None:
        self._neighbours = neighbours
        self._nodes = nodes
        self._untrusted = untrusted
        self._own = [(term, term.pods in shape.matches) for term in dict.fromkeys(shape.anti_affinity)]
        self.theirs: list[PodTerm] = [term for pods in shape.matches for term in neighbours.repelling(pods)]
        if untrusted:  # A pod of one tenant must not keep the pods of all others off its nodes.
            self.theirs = [term for term in self.theirs if not term.crosses]

    def limit(self, later: bool) -> Limit:
        """Nodes without a pod nearby that repels the shape or is repelled by it.

        Where tenants are not trusted, pods of other namespaces are no obstacles: they are not evicted for her terms.
        """
        room = np.full(self._nodes, UNLIMITED, dtype=np.int64)
        refused, coupled = np.zeros(self._nodes, dtype=np.bool_), False
        lasting, obstacles = np.zeros(self._nodes, dtype=np.bool_), list[Obstacle]()
        for term, self_match in self._own:
            domains = self._neighbours.domains(term.topology_key)
            counts = self._neighbours.counts(term.pods, later)
            if counts is not None:
                near = domains.around(counts)
                refused |= near > 0
                if self._untrusted and term.crosses:
                    lasting |= near > 0
                elif later and near.any():
                    obstacles.append(self._neighbours.obstacle(term.pods, near))
            if self_match:
                room[domains.has] = 1
                coupled |= not domains.single
        words = f"have a pod excluded by its anti-affinity{_near(self._own_keys())}"
        causes = [Rejection("PodAntiAffinity", words, refused)]
        repelled = np.zeros(self._nodes, dtype=np.bool_)
        for term in self.theirs:
            counts = self._neighbours.counts(term, later)
            if counts is not None:
                near = self._neighbours.domains(term.topology_key).around(counts)
                repelled |= near > 0
                if later and near.any():
                    obstacles.append(self._neighbours.obstacle(term, near))
        causes.append(Rejection("ExistingPodsAntiAffinity", "have a pod whose anti-affinity excludes it", repelled))
        cleared = np.where(lasting, 0, room) if obstacles else None
        room[refused | repelled] = 0
        return Limit(room, coupled, tuple(causes), obstacles=tuple(obstacles), cleared=cleared)

    def _own_keys(self) -> list[str]:
        return sorted({term.topology_key for term, _ in self._own})


def _near(keys: list[str]) -> str:
    return f" in their {_quoted(keys)}" if keys else ""


def _quoted(keys: Iterable[str]) -> str:
    return ", ".join(f"`{key}`" for key in keys)
