"""Priorities: a pod's own number, else its class, else the default class, else 0."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from maar.kube.wire.cluster import PriorityClass
from maar.kube.wire.pods import PodSpec

SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""The classes that every cluster has."""


class Priority(msgspec.Struct, frozen=True, gc=False):
    """A priority value, and whether it may preempt."""

    value: int = 0
    preempts: bool = True
    problem: str = ""


class Priorities:
    """All priority classes."""

    def __init__(self, stated: Iterable[PriorityClass]) -> None:
        classes = list(stated)
        self._known = {name: Priority(value) for name, value in SYSTEM.items()}
        defaults = []
        for wire in sorted(classes, key=lambda c: (c.value, c.name)):
            self._known[wire.name] = Priority(wire.value, wire.preemption_policy != "Never")
            if wire.global_default:
                defaults.append(self._known[wire.name])
        # Of several defaults Kubernetes takes the lowest.
        self.default = defaults[0] if defaults else Priority()
        self.unstated = frozenset(("", *(wire.name for wire in classes if wire.global_default)))
        """Classes that nobody has to ask for: none, and the default."""

    def named(self, name: str) -> Priority:
        """A class by name; if it does not exist, the default class with a problem."""
        found = self._known.get(name)
        if found is None:
            return msgspec.structs.replace(self.default, problem=f"priority class `{name}` does not exist")
        return found

    def of(self, spec: PodSpec) -> Priority:
        """The priority of a pod. A number on the pod wins: the API server resolved it from the class."""
        if spec.priority is None:
            found = self.named(spec.priority_class_name) if spec.priority_class_name else self.default
        else:
            named = self._known.get(spec.priority_class_name)
            found = Priority(spec.priority, named.preempts if named is not None else True)
        if spec.preemption_policy == "Never" and found.preempts:
            found = msgspec.structs.replace(found, preempts=False)
        elif spec.preemption_policy and not found.preempts and spec.preemption_policy != "Never":
            found = msgspec.structs.replace(found, preempts=True)
        return found

    def of_template(self, spec: PodSpec) -> Priority:
        """The priority of pods that do not exist yet: that of their class.

        The API server refuses pods with another number or policy than that of their class; it does not check templates.
        """
        policy = "Never" if spec.preemption_policy == "Never" else ""
        return self.of(msgspec.structs.replace(spec, priority=None, preemption_policy=policy))
