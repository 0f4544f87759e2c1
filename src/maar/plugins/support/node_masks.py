"""Nodes that the selectors, affinity and tolerations of a shape accept, whatever runs there.

Used by `predicates`, which refuses the other nodes, and by topology spread, which counts only domains among these.
Equal selectors are evaluated once per session, and taints once per distinct set.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from maar.model.nodes import NodeTable
from maar.model.resources import Mask
from maar.model.selectors import NodeTerm, Requirement, Spread, Taint, Toleration
from maar.model.shapes import Shape

REFUSING = ("NoSchedule", "NoExecute")
"""Taint effects that keep pods off a node; PreferNoSchedule only affects scores."""


class NodeMasks:
    """Masks over one node table, each computed once."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._selected: dict[tuple[Requirement, ...], Mask] = {}
        self._near: dict[tuple[NodeTerm, ...], Mask] = {}
        self._tolerated: dict[tuple[Toleration, ...], Mask] = {}

    def selected(self, selector: tuple[Requirement, ...]) -> Mask:
        """The nodes that match a node selector."""
        mask = self._selected.get(selector)
        if mask is None:
            mask = np.ones(len(self._nodes), dtype=np.bool_)
            for requirement in selector:
                mask &= self._nodes.meets(requirement)
            self._selected[selector] = mask
        return mask

    def liked(self, terms: tuple[NodeTerm, ...]) -> Mask:
        """The nodes that match one of the required node affinity terms."""
        mask = self._near.get(terms)
        if mask is None:
            mask = np.zeros(len(self._nodes), dtype=np.bool_)
            for term in terms:
                mask |= self._meets(term)
            self._near[terms] = mask
        return mask

    def _meets(self, term: NodeTerm) -> Mask:
        """The same result as the node table's, but names are looked up instead of compared with every node."""
        mask = np.full(len(self._nodes), bool(term.expressions or term.fields))
        for requirement in term.expressions:
            mask &= self._nodes.meets(requirement)
        for requirement in term.fields:
            named = np.zeros(len(self._nodes), dtype=np.bool_)
            named[[self._nodes.row[name] for name in requirement.values if name in self._nodes.row]] = True
            mask &= named if requirement.operator == "In" else ~named
        return mask

    def tolerated(self, tolerations: tuple[Toleration, ...]) -> Mask:
        """The nodes without a taint that these tolerations do not cover."""
        mask = self._tolerated.get(tolerations)
        if mask is None:
            by_set = [next(refusing(taints, tolerations), None) is None for taints in self._nodes.taint_sets]
            mask = np.array(by_set, dtype=np.bool_)[self._nodes.taint_class]
            self._tolerated[tolerations] = mask
        return mask

    def eligible(self, shape: Shape, constraint: Spread) -> Mask:
        """The nodes that count for a spread constraint of the shape."""
        mask = self.accepted(shape) if constraint.honor_affinity else np.ones(len(self._nodes), dtype=np.bool_)
        return mask & self.tolerated(shape.tolerations) if constraint.honor_taints else mask

    def accepted(self, shape: Shape) -> Mask:
        """The nodes that the selector and the required affinity of a shape accept."""
        mask = self.selected(shape.node_selector)
        return mask if shape.node_terms is None else mask & self.liked(shape.node_terms)


def refusing(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> Iterator[Taint]:
    """The taints that keep a pod with these tolerations off a node."""
    for taint in taints:
        if taint.effect in REFUSING and not any(t.tolerates(taint) for t in tolerations):
            yield taint
