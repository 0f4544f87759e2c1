"""How much one pod, or one disruption budget, may ask of the scheduler.

The API server limits only the size of an object, and 1.5 MB are enough for tens of thousands of host ports or
expressions. Each of them is compared with every node, or with every pod, so one such pod would delay all others for
seconds and cost gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterator

from maar.kube.wire.base import LabelSelector
from maar.kube.wire.errors import FieldError
from maar.kube.wire.pods import Affinity, NodeSelectorTerm, PodAffinityTerm, PodSpec

MOST = 500
"""Entries of one kind that a pod may state; tuned by hand, far above what people write. The values of an expression
count where it selects pods. They do not where it selects nodes: a pod may exclude thousands of nodes by name."""


class TooMuch(FieldError):
    """A field with more entries than a pod may state."""


def check(spec: PodSpec) -> None:
    """Raises `TooMuch` for the first field with too many entries."""
    for field, what, count in _counts(spec):
        if count > MOST:
            raise TooMuch(field, f"expected at most {MOST} {what}, got {count}")


def check_selector(field: str, selector: LabelSelector | None) -> None:
    """Raises `TooMuch` for a selector with too many labels and values: it is compared with pods in every cycle."""
    if (count := _size(selector)) > MOST:
        raise TooMuch(field, f"expected at most {MOST} labels and values, got {count}")


def _counts(spec: PodSpec) -> Iterator[tuple[str, str, int]]:
    """Each field that is compared with nodes or pods, what it has, and how many."""
    with_ports = [c for c in (*spec.containers, *spec.init_containers) if c.ports]
    if with_ports:
        ports = sum(1 for c in with_ports for p in c.ports if p.host_port or spec.host_network)
        yield "spec.containers.ports", "host ports", ports
    yield "spec.nodeSelector", "labels", len(spec.node_selector)
    yield "spec.tolerations", "tolerations", len(spec.tolerations)
    yield "spec.volumes", "volumes", len(spec.volumes)
    if spec.topology_spread_constraints:
        spread = sum(1 + _size(s.label_selector) + len(s.match_label_keys) for s in spec.topology_spread_constraints)
        yield "spec.topologySpreadConstraints", "constraints, labels and values", spread
    if spec.affinity is not None:
        yield "spec.affinity", "terms, labels and values", _affinity(spec.affinity)


def _affinity(of: Affinity) -> int:
    nodes, pods = of.node_affinity, (of.pod_affinity, of.pod_anti_affinity)
    required = () if nodes.required is None else nodes.required.node_selector_terms
    total = sum(map(_node_term, (*required, *(p.preference for p in nodes.preferred))))
    terms = (t for a in pods for t in (*a.required, *(p.pod_affinity_term for p in a.preferred)))
    return total + sum(map(_pod_term, terms))


def _node_term(term: NodeSelectorTerm) -> int:
    return 1 + len(term.match_expressions) + len(term.match_fields)


def _pod_term(term: PodAffinityTerm) -> int:
    keys = len(term.match_label_keys) + len(term.mismatch_label_keys)
    return 1 + _size(term.label_selector) + _size(term.namespace_selector) + len(term.namespaces) + keys


def _size(selector: LabelSelector | None) -> int:
    """How many labels a selector names, and values of them."""
    if selector is None:
        return 0
    return len(selector.match_labels) + sum(max(len(e.values), 1) for e in selector.match_expressions)
