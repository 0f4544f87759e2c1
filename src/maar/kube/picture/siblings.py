"""Siblings: pods that belong together, which the plugin `nodeorder` spreads unless they are a gang.

A part of the picture. Pods with the same ReplicaSet, StatefulSet or ReplicationController as their controller are
siblings, and so are pods that a Service selects. Kubernetes' scheduler reads the selectors of controllers; the owner
references of pods say the same, without a watch on objects that hold a whole pod template each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from maar.kube.read.tasks import Member
from maar.kube.wire.api_resources import api_group
from maar.kube.wire.cluster import Service
from maar.kube.wire.pods import Pod

CONTROLLERS = frozenset({("apps", "ReplicaSet"), ("apps", "StatefulSet"), ("", "ReplicationController")})
"""The controllers whose pods Kubernetes spreads, by group and kind."""

MOST_SERVICES = 1000
"""Services of a namespace up to which they count; tuned by hand. Anyone can create thousands that select every pod of
hers, and pods with more Services than that have controllers."""
MOST_IN_COMMON = 16
"""Services that count for one pod, the first by name; tuned by hand."""
MOST_CHANGED = 16
"""Changed selectors of a namespace that are compared with its pods; with more, all its pods are concerned."""
EVERY_POD: Mapping[str, str] = {}

Label = tuple[str, str]


class Siblings:
    """Services, found by the labels that they select."""

    def __init__(self) -> None:
        self._by_label: dict[str, dict[Label, dict[str, Mapping[str, str]]]] = {}
        """The selectors of Services by namespace, by the first label of the selector, and by name."""
        self._numbers: Counter[str] = Counter()
        """How many Services with selectors a namespace has."""
        self._changed: dict[str, list[Mapping[str, str]]] = {}
        """Selectors by namespace that came or went since pods were last asked for."""

    def note(self, before: Service | None, after: Service | None) -> None:
        """A Service came, went or changed."""
        if before is not None and after is not None and before.spec.selector == after.spec.selector:
            return
        for item in (before, after):
            if item is not None and item.spec.selector:
                counted = self._counts(item.namespace)
                self._enter(item, there=item is after)
                self._change(item, counted != self._counts(item.namespace))

    def _counts(self, namespace: str) -> bool:
        """Whether the Services of a namespace count."""
        return self._numbers[namespace] <= MOST_SERVICES

    def _change(self, item: Service, everything: bool) -> None:
        changed = self._changed.setdefault(item.namespace, [])
        if everything or len(changed) >= MOST_CHANGED:
            changed[:] = [EVERY_POD]
        elif EVERY_POD not in changed:
            changed.append(item.spec.selector)

    def _enter(self, item: Service, there: bool) -> None:
        self._numbers[item.namespace] += 1 if there else -1
        labels = self._by_label.setdefault(item.namespace, {})
        first = min(item.spec.selector.items())
        services = labels.setdefault(first, {})
        if there:
            services[item.name] = item.spec.selector
            return
        del services[item.name]
        if not services:
            del labels[first]
        if not labels:
            del self._by_label[item.namespace], self._numbers[item.namespace]

    def concerned(self, members: Collection[Member]) -> Iterator[str]:
        """The pods whose Services have changed since the last call."""
        changed, self._changed = self._changed, {}
        for member in members if changed else ():
            pod = member.pod
            if any(_selects(wanted, pod.metadata.labels) for wanted in changed.get(pod.namespace, ())):
                yield pod.key

    def of(self, pod: Pod) -> tuple[str, ...]:
        """What a pod has in common with its siblings: its controller, then its Services."""
        return (*self._controllers(pod), *sorted(self._services(pod))[:MOST_IN_COMMON])

    def _controllers(self, pod: Pod) -> Iterator[str]:
        # The namespace keeps a pod that names the controller of another tenant away from its pods.
        for owner in pod.metadata.owner_references:
            if owner.controller and (api_group(owner.api_version), owner.kind) in CONTROLLERS:
                yield f"{owner.kind} {pod.namespace}/{owner.uid or owner.name}"

    def _services(self, pod: Pod) -> Iterator[str]:
        there = self._by_label.get(pod.namespace, {}) if self._counts(pod.namespace) else {}
        for label in pod.metadata.labels.items() if there else ():
            for name, wanted in there.get(label, {}).items():
                if _selects(wanted, pod.metadata.labels):
                    yield f"Service {pod.namespace}/{name}"


def _selects(wanted: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in wanted.items())
