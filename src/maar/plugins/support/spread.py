"""Hard topology spread (`DoNotSchedule`): a part of `predicates`, by the rules of Kubernetes.

A node without the label is refused. Matching pods are counted by domain, over the nodes that have all labels of the
pod's constraints and that its selectors (and, if configured, its tolerations) accept. One more pod may not make its
domain exceed the smallest by more than `maxSkew`. With fewer domains than `minDomains` the smallest counts as empty.
Leaving pods are not counted.
"""

from __future__ import annotations

import numpy as np

from maar.model.codes import NODES, Code
from maar.model.reasons import Refusal
from maar.model.resources import UNLIMITED, Ints, Mask
from maar.model.selectors import Spread
from maar.model.shapes import Shape
from maar.model.tasks import Status
from maar.plugins.support.names import PREDICATES
from maar.plugins.support.neighbours import Domains, Neighbours, Placed
from maar.plugins.support.node_masks import NodeMasks
from maar.session.hooks import Limit
from maar.session.session import Session

SKEWED = Code("PodTopologySpread", NODES)


class HardSpread:
    """How many more pods of a shape each node takes under its spread constraints."""

    def __init__(self, shape: Shape, neighbours: Neighbours, masks: NodeMasks, nodes: int) -> None:
        self._nodes = nodes
        self._constraints = [c for c in shape.spread if c.hard]
        self._domains = [neighbours.domains(c.topology_key) for c in self._constraints]
        keyed: Mask = np.ones(nodes, dtype=np.bool_)
        for domains in self._domains:
            keyed &= domains.has
        self._eligible = [keyed & masks.eligible(shape, c) for c in self._constraints]
        self._self_match = [c.pods in shape.matches for c in self._constraints]

    def limit(self, there: Placed) -> Limit:
        """Nodes where one more pod keeps every skew; placed one at a time, since each pod changes the domain counts."""
        room = np.full(self._nodes, UNLIMITED, dtype=np.int64)
        causes = []
        rules = zip(self._constraints, self._domains, self._eligible, self._self_match, strict=True)
        for constraint, domains, eligible, self_match in rules:
            key = constraint.topology_key
            counts = there.later().counts(constraint.pods)
            left = room_left(constraint, domains, eligible, self_match, counts)
            words = f"lack the label `{key}` of its topology spread"
            causes.append(Refusal(PREDICATES, SKEWED, words, ~domains.has))
            words, crowded = f"would exceed `maxSkew` of its spread over `{key}`", domains.has & (left <= 0)
            causes.append(Refusal(PREDICATES, SKEWED, words, crowded))
            np.minimum(room, left, out=room)
        return Limit(np.maximum(room, 0), any(self._self_match), tuple(causes))


class NominatedSpread:
    """How many more pods that match the spread of nominated pods their domains take.

    Otherwise room that is freed for a pod with a spread is lost: other pods enter its domain before it starts, and more
    has to be freed.
    """

    def __init__(self, shape: Shape, session: Session, neighbours: Neighbours, masks: NodeMasks) -> None:
        self._state = session.state
        self._nodes = len(session.snapshot.nodes)
        self._kept: list[tuple[Ints, Spread, Domains, Mask]] = []
        """Tasks of each shape with a constraint that counts these pods."""
        for number, other in enumerate(session.snapshot.shapes.shapes):
            for constraint in (c for c in other.spread if c.hard and c.pods in shape.matches):
                domains = neighbours.domains(constraint.topology_key)
                tasks = np.flatnonzero(session.snapshot.tasks.shape == number)
                self._kept.append((tasks, constraint, domains, masks.eligible(other, constraint) & domains.has))

    def __bool__(self) -> bool:
        return bool(self._kept)

    def limit(self, there: Placed) -> Limit | None:
        room = np.full(self._nodes, UNLIMITED, dtype=np.int64)
        for tasks, constraint, domains, eligible in self._kept:
            rows = self._state.node[tasks[self._state.status[tasks] == Status.NOMINATED]]
            if len(rows):
                left = room_left(constraint, domains, eligible, True, there.later().counts(constraint.pods))
                kept = np.isin(domains.codes, domains.codes[rows]) & domains.has
                room[kept] = np.minimum(room, np.maximum(left, 0))[kept]
        if (room == UNLIMITED).all():
            return None
        words = "would exceed `maxSkew` of a pod that gets room there"
        return Limit(room, True, (Refusal(PREDICATES, SKEWED, words, room == 0),))


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
