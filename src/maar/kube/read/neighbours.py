"""Selectors of other pods: affinity, anti-affinity and spread, with their namespaces resolved.

Once all pods have been read, `Matcher` finds the selectors in use that match each pod. The matches become part of its
shape; its labels never do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from maar.kube.read.selectors import Test, same_labels, selector
from maar.kube.wire.cluster import Namespace
from maar.kube.wire.pods import PodAffinityTerm, TopologySpread
from maar.model.selectors import Labels, PodSelector, PodTerm, Selector, Spread

NAME_LABEL = "kubernetes.io/metadata.name"
EVERYWHERE = ""
"""In the place of a namespace: all of them."""
MOST_FOUND = 100
"""Selectors of namespaces whose namespaces are kept; tuned by hand. Clusters use a few, and each may be large."""


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
            test = Test(chosen)
            found = frozenset(name for name, labels in self._labels.items() if test.matches(labels))
            if len(self._found) >= MOST_FOUND:
                self._found.clear()
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
        self._by_label: dict[str, dict[str, dict[_Chosen, None]]] = {}
        self._others: dict[str, dict[_Chosen, None]] = {}
        self._tests: dict[PodSelector, _Chosen] = {}
        self.change((), selectors)

    @property
    def empty(self) -> bool:
        return not self._tests

    def change(self, gone: Iterable[PodSelector], new: Iterable[PodSelector]) -> None:
        """Selectors that no pod uses any more, and new ones; the others stay the same objects."""
        for wanted in gone:
            if (found := self._tests.pop(wanted, None)) is not None:
                self._enter(found, False)
        for wanted in new:
            if wanted not in self._tests:
                made = self._tests[wanted] = _Chosen(wanted)
                self._enter(made, True)

    def _enter(self, of: _Chosen, there: bool) -> None:
        """A selector is found by each value of its first label, or else by the namespaces of its pods."""
        wanted = of.wanted
        one = next((r for r in wanted.selector.requirements if r.operator == "In" and r.values), None)
        if one is None:
            spaces = (EVERYWHERE,) if wanted.namespaces is None else wanted.namespaces
            _list(self._others, spaces, of, there)
            return
        _list(self._by_label.setdefault(one.key, {}), one.values, of, there)
        if not self._by_label[one.key]:
            del self._by_label[one.key]

    def matches(self, namespace: str, labels: Mapping[str, str]) -> tuple[PodSelector, ...]:
        """The selectors that match a pod, sorted."""
        candidates = [*self._others.get(namespace, ()), *self._others.get(EVERYWHERE, ())]
        for key, values in self._by_label.items():
            candidates += values.get(labels[key], ()) if key in labels else ()
        found = [c.wanted for c in candidates if c.matches(namespace, labels)]
        return tuple(sorted(found, key=_order)) if found else ()


def _list(table: dict[str, dict[_Chosen, None]], names: Iterable[str], of: _Chosen, there: bool) -> None:
    """List a selector under these names, or not any more."""
    for name in set(names):
        if there:
            table.setdefault(name, {})[of] = None
            continue
        del table[name][of]
        if not table[name]:
            del table[name]


class _Chosen:
    """A selector in use, made ready to be compared with many pods."""

    __slots__ = ("_namespaces", "_test", "wanted")

    def __init__(self, wanted: PodSelector) -> None:
        self.wanted = wanted
        self._namespaces = None if wanted.namespaces is None else frozenset(wanted.namespaces)
        self._test = Test(wanted.selector)

    def matches(self, namespace: str, labels: Labels) -> bool:
        return (self._namespaces is None or namespace in self._namespaces) and self._test.matches(labels)


def _order(wanted: PodSelector) -> tuple[object, ...]:
    """A total order; `None` (all namespaces) comes first."""
    return (wanted.selector, wanted.namespaces is not None, wanted.namespaces or ())
