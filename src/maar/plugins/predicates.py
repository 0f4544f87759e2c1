"""predicates: on which nodes a pod may run, by the rules of Kubernetes.

Constraints fixed by the snapshot (unschedulable nodes, node selector and affinity, reach of volumes, taints) are
evaluated once per shape, for all nodes at once. Constraints that depend on placed pods (host ports, volumes, pod
affinity and anti-affinity, topology spread) are evaluated at every placement, by counting; for shapes without them this
is one lookup. The limit of pods per node is a resource and needs no predicate.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import msgspec
import numpy as np

from maar.config.config import Tenants
from maar.model.resources import Ints, Mask
from maar.model.selectors import NodeTerm, Taint
from maar.model.shapes import Shape
from maar.plugins.support.neighbours import Neighbours
from maar.plugins.support.node_masks import NodeMasks, refusing
from maar.plugins.support.pod_affinity import Affinity, AntiAffinity
from maar.plugins.support.ports import HostPorts
from maar.plugins.support.spread import HardSpread
from maar.plugins.support.volumes import Volumes, reach_words
from maar.session.hooks import Limit, Rejection
from maar.session.register import Register
from maar.session.session import Session

NAME = "predicates"

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

    def limit(self, later: bool) -> Limit:
        """How many more pods each node takes."""


class Predicates:
    def __init__(self, arguments: Arguments) -> None:
        self._enabled = arguments
        self._rules: dict[int, tuple[Rule, ...]] = {}
        self._last: tuple[tuple[int, bool, int], Limit] | None = None

    def open(self, session: Session, on: Register) -> None:
        self._session = session
        self._shapes = session.snapshot.shapes.shapes
        self._masks = NodeMasks(session.snapshot.nodes)
        self._neighbours = Neighbours(session)
        self._untrusted = session.config.tenants is Tenants.UNTRUSTED
        on.predicate(self._refuse)
        on.limit(self._limit)

    # -- constraints fixed by the snapshot

    def _refuse(self, number: int) -> Iterator[Rejection]:
        shape, nodes = self._shapes[number], self._session.snapshot.nodes
        if nodes.unschedulable.any() and not any(t.tolerates(UNSCHEDULABLE) for t in shape.tolerations):
            yield Rejection("NodeUnschedulable", "unschedulable", nodes.unschedulable)
        if self._enabled.node_affinity:
            if shape.node_selector:
                refused = ~self._masks.selected(shape.node_selector)
                yield Rejection("NodeSelector", "do not match the node selector", refused)
            if shape.node_terms is not None:
                code, words = affinity_words(shape.node_terms)
                yield Rejection(code, words, ~self._masks.liked(shape.node_terms))
        for terms in shape.volume_terms:
            yield Rejection("VolumeBinding", reach_words(terms), ~self._masks.liked(terms))
        if self._enabled.taints:
            refused = ~self._masks.tolerated(shape.tolerations)
            if refused.any():
                yield Rejection("TaintToleration", self._taint_words(shape), refused)

    def _taint_words(self, shape: Shape) -> str:
        sets = self._session.snapshot.nodes.taint_sets
        keys = {taint.key for taints in sets for taint in refusing(taints, shape.tolerations)}
        return f"tainted with `{keys.pop()}`" if len(keys) == 1 else "tainted"

    # -- constraints by placed pods

    def _limit(self, number: int, later: bool) -> Limit | None:
        rules = self._rules.get(number)
        if rules is None:
            rules = self._rules[number] = tuple(self._rules_of(number))
        if not rules:
            return None
        # The answer is the same until a placement changes or is undone.
        question = (number, later, self._session.state.cursor)
        if self._last is None or self._last[0] != question:
            self._last = (question, self._combine(number, rules, later))
        return self._last[1]

    def _rules_of(self, number: int) -> Iterator[Rule]:
        shape, nodes = self._shapes[number], len(self._session.snapshot.nodes)
        if shape.ports and self._enabled.node_ports:
            yield HostPorts(shape, self._neighbours, nodes)
        if shape.volume_needs:
            yield Volumes(shape, self._session, self._neighbours, limited=self._enabled.volume_limits)
        if self._enabled.pod_affinity:
            apart = AntiAffinity(shape, self._neighbours, nodes, self._untrusted)
            if shape.anti_affinity or apart.theirs:
                yield apart
            if shape.affinity:
                yield Affinity(number, self._shapes, self._neighbours, nodes)
        if self._enabled.spread and any(c.hard for c in shape.spread):
            yield HardSpread(shape, self._neighbours, self._masks, nodes)

    def _combine(self, number: int, rules: tuple[Rule, ...], later: bool) -> Limit:
        limits = [rule.limit(later) for rule in rules]
        room = limits[0].room
        for limit in limits[1:]:
            room = np.minimum(room, limit.room)
        seeds: tuple[Mask, ...] = ()
        for rule in rules:
            if isinstance(rule, Affinity):
                slots = np.minimum(self._session.view(number, later).fits, room)
                seeds = rule.seeds(slots, later)
        causes, obstacles = (tuple(c for x in limits for c in x.causes), tuple(o for x in limits for o in x.obstacles))
        cleared: Ints | None = None
        if obstacles:
            cleared = np.min([x.room if x.cleared is None else x.cleared for x in limits], axis=0)
        return Limit(room, any(x.coupled for x in limits), causes, seeds, obstacles, cleared)


def affinity_words(terms: tuple[NodeTerm, ...]) -> tuple[str, str]:
    """Code and words for nodes that required node affinity refuses; it often only names nodes."""
    if terms and all(term.fields and not term.expressions for term in terms):
        return "NodeName", "do not have the required name"
    return "NodeAffinity", "do not match the node affinity"
