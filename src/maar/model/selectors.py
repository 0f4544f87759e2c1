"""Label selectors, taints, and the terms by which pods select nodes and other pods.

Plain, hashable data: equal constraints are equal objects, so pods with the same constraints share one shape, and a
selector is evaluated once per cluster, not once per pod. This module evaluates one map of labels; the node table
evaluates requirements over all nodes at once.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

Labels = Mapping[str, str]


class Requirement(msgspec.Struct, frozen=True, order=True):
    """One requirement of a selector. Operators: In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case _:
                return value is not None and self._compares(value)

    def _compares(self, value: str) -> bool:
        try:
            left, right = int(value), int(self.values[0])
        except (ValueError, IndexError):
            return False
        return left > right if self.operator == "Gt" else left < right


class Selector(msgspec.Struct, frozen=True, order=True):
    """A label selector: all requirements must hold. Without requirements, it matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Labels) -> bool:
        return all(r.matches(labels) for r in self.requirements)


class NodeTerm(msgspec.Struct, frozen=True, order=True):
    """One term of node affinity: all expressions over labels and over the node's name must hold."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


class PodSelector(msgspec.Struct, frozen=True, order=True, cache_hash=True):
    """Pods with matching labels in some namespaces (`None`: in all)."""

    selector: Selector
    namespaces: tuple[str, ...] | None = None

    def matches(self, namespace: str, labels: Labels) -> bool:
        if self.namespaces is not None and namespace not in self.namespaces:
            return False
        return self.selector.matches(labels)


class PodTerm(msgspec.Struct, frozen=True, order=True):
    """One term of pod affinity or anti-affinity: the selected pods, in the same domain of a node label."""

    pods: PodSelector
    topology_key: str
    crosses: bool = False
    """It selects pods outside the namespace of the pod that states it."""


class Spread(msgspec.Struct, frozen=True, order=True):
    pods: PodSelector
    topology_key: str
    max_skew: int
    hard: bool
    """True for DoNotSchedule; false for ScheduleAnyway, which only affects scores."""
    min_domains: int = 1
    honor_affinity: bool = True
    """nodeAffinityPolicy: only nodes that the pod's own selectors accept count as domains."""
    honor_taints: bool = False


class Taint(msgspec.Struct, frozen=True, order=True):
    """Keeps pods off a node. Effects: NoSchedule, PreferNoSchedule, NoExecute."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class Toleration(msgspec.Struct, frozen=True, order=True):
    """Lets a pod run on a tainted node; an empty key with Exists tolerates every taint."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        return bool(self.key) and self.value == taint.value


class Port(msgspec.Struct, frozen=True, order=True):
    """A host port; the address `0.0.0.0` conflicts with every address."""

    port: int
    protocol: str = "TCP"
    address: str = "0.0.0.0"  # noqa: S104 compared, not bound

    def conflicts(self, other: Port) -> bool:
        if self.port != other.port or self.protocol != other.protocol:
            return False
        return self.address == other.address or "0.0.0.0" in (self.address, other.address)  # noqa: S104 compared, not bound
