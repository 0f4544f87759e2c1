"""Selectors of other pods: affinity, anti-affinity and spread, with their namespaces resolved.

Once all pods have been read, `Matcher` finds the selectors in use that match each pod. The matches become part of its
shape; its labels never do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from maar.kube.read.selectors import same_labels, selector
from maar.kube.wire.cluster import Namespace
from maar.kube.wire.pods import PodAffinityTerm, TopologySpread
from maar.model.selectors import Labels, PodSelector, PodTerm, Selector, Spread

NAME_LABEL = "kubernetes.io/metadata.name"


class Namespaces:
    """All namespaces with their labels."""

    def __init__(self, objects: Iterable[Namespace], mentioned: Iterable[str]) -> None:
        self._labels: dict[str, dict[str, str]] = {name: {NAME_LABEL: name} for name in mentioned}
        for namespace in objects:
            self._labels[namespace.name] = {NAME_LABEL: namespace.name, **namespace.metadata.labels}
        self._found: dict[Selector, frozenset[str]] = {}

    def of(self, term: PodAffinityTerm, own: str) -> tuple[str, ...] | None:
        """The namespaces of a term, sorted; `None` means all."""
        wanted = term.namespace_selector
        if wanted is None:
            return tuple(sorted(set(term.namespaces))) or (own,)
        if not wanted.match_labels and not wanted.match_expressions:
            return None
        return tuple(sorted(self._matching(selector(wanted)).union(term.namespaces)))

    def _matching(self, chosen: Selector) -> frozenset[str]:
        found = self._found.get(chosen)
        if found is None:
            found = frozenset(name for name, labels in self._labels.items() if chosen.matches(labels))
            self._found[chosen] = found
        return found


def pod_term(term: PodAffinityTerm, own: str, labels: Labels, namespaces: Namespaces) -> PodTerm:
    """One term of pod affinity or anti-affinity."""
    more = same_labels(term.match_label_keys, term.mismatch_label_keys, labels)
    pods = PodSelector(selector(term.label_selector, more), namespaces.of(term, own))
    return PodTerm(pods, term.topology_key, pods.namespaces != (own,))


def spread(wire: TopologySpread, own: str, labels: Labels) -> Spread:
    """One topology spread constraint; it selects pods of its own namespace."""
    more = same_labels(wire.match_label_keys, (), labels)
    return Spread(
        pods=PodSelector(selector(wire.label_selector, more), (own,)),
        topology_key=wire.topology_key,
        max_skew=wire.max_skew,
        hard=wire.when_unsatisfiable == "DoNotSchedule",
        min_domains=wire.min_domains,
        honor_affinity=wire.node_affinity_policy == "Honor",
        honor_taints=wire.node_taints_policy == "Honor",
    )


class Matcher:
    """All selectors in use, indexed to find the selectors that match a pod.

    Most selectors require one value of one label and are found by that label: with 2,500 gangs that each repel
    themselves, a pod costs one look-up and not 2,500.
    """

    def __init__(self, selectors: Iterable[PodSelector]) -> None:
        self._by_label: dict[str, dict[str, list[PodSelector]]] = {}
        self._others: list[PodSelector] = []
        for wanted in sorted(set(selectors), key=_order):
            one = next((r for r in wanted.selector.requirements if r.operator == "In" and r.values), None)
            if one is None:
                self._others.append(wanted)
                continue
            values = self._by_label.setdefault(one.key, {})
            for value in one.values:
                values.setdefault(value, []).append(wanted)
        self.empty = not self._others and not self._by_label

    def matches(self, namespace: str, labels: Mapping[str, str]) -> tuple[PodSelector, ...]:
        """The selectors that match a pod, sorted."""
        candidates = list(self._others)
        for key, values in self._by_label.items():
            candidates += values.get(labels.get(key, ""), ()) if key in labels else ()
        found = {c for c in candidates if c.matches(namespace, labels)}
        return tuple(sorted(found, key=_order)) if found else ()


def _order(wanted: PodSelector) -> tuple[object, ...]:
    """A total order; `None` (all namespaces) comes first."""
    return (wanted.selector, wanted.namespaces is not None, wanted.namespaces or ())
