"""predicates: on which nodes a pod may run, by the rules of Kubernetes.

Constraints fixed by the snapshot (unschedulable nodes, node selector and affinity, reach of volumes, taints) are
evaluated once per shape, for all nodes at once. Constraints that depend on placed pods (host ports, volumes, pod
affinity and anti-affinity, topology spread) are evaluated at every placement, by counting; for shapes without them this
is one lookup. The limit of pods per node is a resource and needs no predicate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from maar.config.config import Tenants
from maar.model.codes import NODES, Code, Meaning
from maar.model.fitting import Mode
from maar.model.reasons import Refusal
from maar.model.resources import Ints
from maar.model.selectors import NodeTerm, Taint
from maar.model.shapes import Shape
from maar.plugins.support import pod_affinity, ports, spread, volumes
from maar.plugins.support.names import PREDICATES
from maar.plugins.support.neighbours import Neighbours, Placed
from maar.plugins.support.node_masks import NodeMasks, refusing
from maar.plugins.support.pod_affinity import Affinity, AntiAffinity
from maar.plugins.support.ports import HostPorts
from maar.plugins.support.spread import HardSpread, NominatedSpread
from maar.plugins.support.volumes import UNREACHED, Volumes, reach_words
from maar.session.counters import Counter
from maar.session.hooks import Limit
from maar.session.register import Register
from maar.session.session import Session

NAME = PREDICATES

CORDONED = Code("NodeUnschedulable", NODES)
UNSELECTED = Code("NodeSelector", NODES, lasting=True)
UNLIKED = Code("NodeAffinity", NODES, lasting=True)
UNNAMED = Code("NodeName", Meaning("NodeNotFound", "the owner names nodes that exist", 140), lasting=True)
TAINTED = Code("TaintToleration", NODES)
CODES = (
    *(UNNAMED, UNSELECTED, UNLIKED, TAINTED, CORDONED),
    *(*volumes.CODES, ports.TAKEN, *pod_affinity.CODES, spread.SKEWED),
)

UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", effect="NoSchedule")
"""A pod that tolerates this taint may use unschedulable nodes."""


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Switches for each part, except for the reach of volumes: a pod that cannot reach its volume never starts."""

    node_affinity: bool = msgspec.field(name="predicate.NodeAffinityEnable", default=True)
    node_ports: bool = msgspec.field(name="predicate.NodePortsEnable", default=True)
    taints: bool = msgspec.field(name="predicate.TaintTolerationEnable", default=True)
    pod_affinity: bool = msgspec.field(name="predicate.PodAffinityEnable", default=True)
    spread: bool = msgspec.field(name="predicate.PodTopologySpreadEnable", default=True)
    volume_limits: bool = msgspec.field(name="predicate.NodeVolumeLimitsEnable", default=True)


class Rule(Protocol):
    """One constraint of a shape that depends on placed pods."""

    def limit(self, there: Placed) -> Limit | None:
        """How many more pods each node takes beside the pods that are there; `None`: any number."""


class ByPlacedPods(Counter):
    """One kind of constraint that depends on placed pods: `make` has the rule of a shape, or `None`.

    The state counts what pods show on nodes, so there is nothing to take.
    """

    def __init__(self, make: Callable[[int], Rule | None], neighbours: Neighbours, only_takes: bool = True) -> None:
        self._make = make
        self._neighbours = neighbours
        self._rules: dict[int, Rule | None] = {}
        self.only_takes = only_takes

    def applies(self, shape: int) -> bool:
        return self._rule(shape) is not None

    def limit(self, shape: int, mode: Mode, gone: Ints) -> Limit | None:
        rule = self._rule(shape)
        if rule is None or (mode is Mode.EMPTY and not self.only_takes):
            return None
        return rule.limit(Placed(self._neighbours, mode, gone))

    def _rule(self, shape: int) -> Rule | None:
        if shape not in self._rules:
            self._rules[shape] = self._make(shape)
        return self._rules[shape]


class Predicates:
    def __init__(self, arguments: Arguments) -> None:
        self._enabled = arguments

    def open(self, session: Session, on: Register) -> None:
        self._session = session
        self._shapes = session.snapshot.shapes.shapes
        self._masks = NodeMasks(session.snapshot.nodes)
        self._neighbours = Neighbours(session)
        self._untrusted = session.config.tenants is Tenants.UNTRUSTED
        on.predicate(self._refuse)
        for make in (self._ports, self._volumes, self._apart):
            on.counter(ByPlacedPods(make, self._neighbours))
        # For these a pod makes room for another: near it, or in other domains.
        for make in (self._near, self._spread, self._nominated_spread):
            on.counter(ByPlacedPods(make, self._neighbours, only_takes=False))

    # -- constraints fixed by the snapshot

    def _refuse(self, number: int) -> Iterator[Refusal]:
        shape, nodes = self._shapes[number], self._session.snapshot.nodes
        if nodes.unschedulable.any() and not any(t.tolerates(UNSCHEDULABLE) for t in shape.tolerations):
            yield Refusal(NAME, CORDONED, "unschedulable", nodes.unschedulable)
        if self._enabled.node_affinity:
            if shape.node_selector:
                refused = ~self._masks.selected(shape.node_selector)
                yield Refusal(NAME, UNSELECTED, "do not match the node selector", refused)
            if shape.node_terms is not None:
                code, words = affinity_words(shape.node_terms)
                yield Refusal(NAME, code, words, ~self._masks.liked(shape.node_terms))
        for terms in shape.volume_terms:
            yield Refusal(NAME, UNREACHED, reach_words(terms), ~self._masks.liked(terms))
        if self._enabled.taints:
            refused = ~self._masks.tolerated(shape.tolerations)
            if refused.any():
                yield Refusal(NAME, TAINTED, self._taint_words(shape), refused)

    def _taint_words(self, shape: Shape) -> str:
        sets = self._session.snapshot.nodes.taint_sets
        keys = {taint.key for taints in sets for taint in refusing(taints, shape.tolerations)}
        return f"tainted with `{keys.pop()}`" if len(keys) == 1 else "tainted"

    # -- constraints by placed pods

    def _ports(self, number: int) -> Rule | None:
        shape = self._shapes[number]
        if not shape.ports or not self._enabled.node_ports:
            return None
        return HostPorts(shape, self._neighbours, len(self._session.snapshot.nodes))

    def _volumes(self, number: int) -> Rule | None:
        shape = self._shapes[number]
        return Volumes(shape, self._session, self._enabled.volume_limits) if shape.volume_needs else None

    def _apart(self, number: int) -> Rule | None:
        if not self._enabled.pod_affinity:
            return None
        shape, nodes = self._shapes[number], len(self._session.snapshot.nodes)
        apart = AntiAffinity(shape, self._neighbours, nodes, self._untrusted)
        return apart if shape.anti_affinity or apart.theirs else None

    def _near(self, number: int) -> Rule | None:
        if not self._enabled.pod_affinity or not self._shapes[number].affinity:
            return None
        return Affinity(number, self._shapes, self._neighbours, len(self._session.snapshot.nodes))

    def _spread(self, number: int) -> Rule | None:
        shape = self._shapes[number]
        if not self._enabled.spread or not any(c.hard for c in shape.spread):
            return None
        return HardSpread(shape, self._neighbours, self._masks, len(self._session.snapshot.nodes))

    def _nominated_spread(self, number: int) -> Rule | None:
        shape = self._shapes[number]
        if not self._enabled.spread or not shape.matches:
            return None
        return NominatedSpread(shape, self._session, self._neighbours, self._masks) or None


def affinity_words(terms: tuple[NodeTerm, ...]) -> tuple[Code, str]:
    """Code and words for nodes that required node affinity refuses; it often only names nodes."""
    if terms and all(term.fields and not term.expressions for term in terms):
        return UNNAMED, "do not have the required name"
    return UNLIKED, "do not match the node affinity"
