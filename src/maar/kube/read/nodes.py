"""Nodes: allocatable resources, taints and locks."""

from __future__ import annotations

from maar.kube.read.requests import quantity_error
from maar.kube.wire import annotations as known
from maar.kube.wire.base import Quantities
from maar.kube.wire.cluster import Node as WireNode
from maar.kube.wire.values import moment
from maar.model.nodes import Node
from maar.model.plan import Lock
from maar.model.resources import LARGEST_NODE, PODS, QuantityError, allocatable
from maar.model.selectors import Taint

DEFAULT_PODS = 110
"""The kubelet's default of maxPods."""

NOT_READY = {"False": "node.kubernetes.io/not-ready", "Unknown": "node.kubernetes.io/unreachable"}


def node(wire: WireNode) -> Node:
    return Node(
        name=wire.name,
        allocatable=_allocatable(wire),
        labels=wire.metadata.labels,
        taints=_taints(wire),
        unschedulable=wire.spec.unschedulable or wire.metadata.deletion_timestamp is not None,
    )


def lock(wire: WireNode) -> Lock | None:
    """The job for which a node is locked; a lock without a time is older than any other."""
    job = wire.metadata.annotations.get(known.LOCKED_FOR)
    if not job:
        return None
    try:
        since = moment(wire.metadata.annotations.get(known.LOCKED_SINCE, ""))
    except ValueError:
        since = 0.0
    return Lock(wire.name, job, since, wire.metadata.annotations.get(known.LOCKED_UID, ""))


def _allocatable(wire: WireNode) -> dict[str, int]:
    field, quantities = _stated(wire)
    try:
        amounts = allocatable(quantities)
    except QuantityError:
        raise quantity_error(quantities, field) from None
    amounts = {name: min(max(amount, 0), LARGEST_NODE) for name, amount in amounts.items()}
    amounts.setdefault(PODS, DEFAULT_PODS)
    return amounts


def _stated(wire: WireNode) -> tuple[str, Quantities]:
    status = wire.status
    if status.allocatable is not None:
        return "status.allocatable", status.allocatable
    return "status.capacity", status.capacity or {}


def _taints(wire: WireNode) -> tuple[Taint, ...]:
    """The taints of a node, with the taint that the node controller gives a node that is not ready."""
    taints = {Taint(t.key, t.value, t.effect) for t in wire.spec.taints}
    for condition in wire.status.conditions:
        key = NOT_READY.get(condition.status) if condition.type == "Ready" else None
        if key:
            taints.add(Taint(key))
    return tuple(sorted(taints)) if taints else ()
