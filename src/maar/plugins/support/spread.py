"""Hard topology spread (`DoNotSchedule`): a part of `predicates`, by the rules of Kubernetes.

A node without the label is refused. Matching pods are counted by domain, over the nodes that have all labels of the
pod's constraints and that its selectors (and, if configured, its tolerations) accept. One more pod may not make its
domain exceed the smallest by more than `maxSkew`. With fewer domains than `minDomains` the smallest counts as empty.
Leaving pods are not counted.
"""

from __future__ import annotations

import numpy as np

from maar.model.resources import UNLIMITED, Ints, Mask
from maar.model.selectors import Spread
from maar.model.shapes import Shape
from maar.plugins.support.neighbours import Domains, Neighbours
from maar.plugins.support.node_masks import NodeMasks
from maar.session.hooks import Limit, Rejection


class HardSpread:
    """How many more pods of a shape each node takes under its spread constraints."""

    def __init__(self, shape: Shape, neighbours: Neighbours, masks: NodeMasks, nodes: int) -> None:
        self._neighbours = neighbours
        self._nodes = nodes
        self._constraints = [c for c in shape.spread if c.hard]
        self._domains = [neighbours.domains(c.topology_key) for c in self._constraints]
        keyed: Mask = np.ones(nodes, dtype=np.bool_)
        for domains in self._domains:
            keyed &= domains.has
        self._eligible = [keyed & masks.eligible(shape, c) for c in self._constraints]
        self._self_match = [c.pods in shape.matches for c in self._constraints]

    def limit(self, later: bool) -> Limit:
        """Nodes where one more pod keeps every skew; placed one at a time, since each pod changes the domain counts."""
        room = np.full(self._nodes, UNLIMITED, dtype=np.int64)
        causes = []
        rules = zip(self._constraints, self._domains, self._eligible, self._self_match, strict=True)
        for constraint, domains, eligible, self_match in rules:
            key = constraint.topology_key
            counts = self._neighbours.counts(constraint.pods, later=True)
            left = room_left(constraint, domains, eligible, self_match, counts)
            causes.append(
                Rejection("PodTopologySpread", f"lack the label `{key}` of its topology spread", ~domains.has)
            )
            crowded = domains.has & (left <= 0)
            causes.append(Rejection("PodTopologySpread", f"would exceed `maxSkew` of its spread over `{key}`", crowded))
            np.minimum(room, left, out=room)
        return Limit(np.maximum(room, 0), any(self._self_match), tuple(causes))


def room_left(constraint: Spread, domains: Domains, eligible: Mask, self_match: bool, counts: Ints | None) -> Ints:
    """How many more pods each node takes if no other domain changes; 0 without the label."""
    there = np.zeros(len(eligible), dtype=np.int64) if counts is None else counts * eligible
    sums = domains.sums(there)
    counted = domains.sums(eligible.astype(np.int64)) > 0
    enough = np.count_nonzero(counted) >= constraint.min_domains
    smallest = int(sums[counted].min(initial=UNLIMITED)) if enough and counted.any() else 0
    left = domains.at_nodes(constraint.max_skew + smallest - sums)
    if not self_match:
        left = np.where(left >= 0, UNLIMITED, 0)
    return np.where(domains.has, left, 0)
