"""The real load of nodes: NodeMetrics, and figures of monitoring."""

from __future__ import annotations

import math

from maar.kube.wire.cluster import Node as WireNode
from maar.kube.wire.cluster import NodeMetrics
from maar.kube.wire.errors import FieldError
from maar.kube.wire.values import seconds
from maar.model.loads import Load
from maar.model.resources import CPU, MEMORY, QuantityError, parse_quantity, units

MOST = 2.0
"""Fractions above this are not believed. Short windows measure a little more than a node has. Tuned by hand."""


def load(metrics: NodeMetrics, node: WireNode) -> Load:
    """The load of a node by its NodeMetrics; `FieldError` if a figure cannot be true."""
    if metrics.timestamp is None:
        raise FieldError("timestamp", "missing")
    cpu, memory = (_used(metrics, node, name) for name in (CPU, MEMORY))
    return _made(node, cpu, memory, seconds(metrics.timestamp))


def measured(node: WireNode, cpu: float | None, memory: float | None, at: float) -> Load | None:
    """The load of a node as fractions of what it has; figures that cannot be true are left out, `None` without any."""
    cpu, memory = (None if value is None or not believed(value) else value for value in (cpu, memory))
    return None if cpu is None and memory is None else _made(node, cpu, memory, at)


def believed(fraction: float) -> bool:
    return math.isfinite(fraction) and 0.0 <= fraction <= MOST


def _made(node: WireNode, cpu: float | None, memory: float | None, at: float) -> Load:
    return Load(node.name, cpu, memory, at, _capacity(node, CPU), _capacity(node, MEMORY))


def _used(metrics: NodeMetrics, node: WireNode, name: str) -> float | None:
    """The used fraction of a resource; `None` if the figure or the capacity is missing."""
    value, capacity = metrics.usage.get(name), _capacity(node, name)
    if value is None or not capacity:
        return None
    try:
        used = float(parse_quantity(value)) * (1000 if name == CPU else 1) / capacity
    except (QuantityError, OverflowError) as error:
        raise FieldError(f"usage.{name}", str(error)) from None
    if not believed(used):
        raise FieldError(f"usage.{name}", f"`{value}` cannot be true: the node has {_stated(node, name)}")
    return used


def _capacity(node: WireNode, name: str) -> int:
    """What the whole machine has, in milli or bytes; 0 if that is not known."""
    stated = _stated(node, name)
    try:
        return 0 if stated is None else max(units(name, stated, up=False), 0)
    except QuantityError:
        return 0


def _stated(node: WireNode, name: str) -> str | int | float | None:
    for amounts in (node.status.capacity, node.status.allocatable):
        if amounts and name in amounts:
            return amounts[name]
    return None
