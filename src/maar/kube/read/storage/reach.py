"""The nodes from which a volume can be reached: by its node affinity, and by the zone labels of older volumes.

The terms become part of the shapes of pods (`Shape.volume_terms`). Nodes are looked up here only outside decisions: how
many free volumes each node has, and whether a pod's node still fits the volume that was created for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from maar.kube.read.selectors import has, node_term
from maar.kube.wire.volumes import PersistentVolume, StorageClass
from maar.model.nodes import HOSTNAME, Node
from maar.model.selectors import NodeTerm, Requirement

Ways = tuple[NodeTerm, ...]
"""Alternative terms: one of them must hold."""

NAME = "metadata.name"
ZONE_LABELS = {
    "topology.kubernetes.io/zone": "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/region": "failure-domain.beta.kubernetes.io/region",
}
"""Each label, with its former name."""
NO_ZONE = NodeTerm(tuple(Requirement(key, "DoesNotExist") for pair in ZONE_LABELS.items() for key in pair))
"""Nodes without a zone: Kubernetes lets them use volumes of any zone."""


def volume_ways(volume: PersistentVolume) -> tuple[Ways, ...]:
    found: list[Ways] = []
    required = volume.spec.node_affinity.required
    if required is not None:
        found.append(tuple(map(node_term, required.node_selector_terms)))
    labels = volume.metadata.labels
    for key, of_old in ZONE_LABELS.items():
        said = labels.get(key) or labels.get(of_old)
        if said:
            values = tuple(said.split("__"))
            alike = (NodeTerm((Requirement(name, "In", values),)) for name in (key, of_old))
            found.append((*alike, NO_ZONE))
    return tuple(found)


def class_ways(storage_class: StorageClass) -> tuple[Ways, ...]:
    """Where the volumes of a class can be created."""
    if not storage_class.allowed_topologies:
        return ()
    terms = (t.match_label_expressions for t in storage_class.allowed_topologies)
    return (tuple(NodeTerm(tuple(Requirement(e.key, "In", e.values) for e in term)) for term in terms),)


def only(node: str) -> Ways:
    return (NodeTerm(fields=(has(NAME, node),)),)


def none_of(nodes: Iterable[str]) -> Ways:
    return (NodeTerm(fields=(Requirement(NAME, "NotIn", tuple(sorted(nodes))),)),)


def reaches(ways: Iterable[Ways], node: Node) -> bool:
    """Whether a node meets one term of each."""
    return all(any(_meets(term, node) for term in terms) for terms in ways)


def _meets(term: NodeTerm, node: Node) -> bool:
    labels = node.labels if HOSTNAME in node.labels else {**node.labels, HOSTNAME: node.name}
    return bool(term.expressions or term.fields) and (
        all(r.matches(labels) for r in term.expressions) and all(r.matches({NAME: node.name}) for r in term.fields)
    )


class Reach:
    """Nodes that meet terms, looked up once for equal terms; most local volumes only name a host."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes
        self._hosts: dict[str, list[str]] = {}
        for name, node in nodes.items():
            self._hosts.setdefault(node.labels.get(HOSTNAME, name), []).append(name)
        self._known: dict[tuple[Ways, ...], tuple[str, ...]] = {}

    def nodes(self, ways: tuple[Ways, ...]) -> tuple[str, ...]:
        """The names of the nodes that meet one term of each."""
        found = self._known.get(ways)
        if found is None:
            hosts = _hosts(ways)
            if hosts is not None:
                found = tuple(name for host in hosts for name in self._hosts.get(host, ()))
            else:
                found = tuple(name for name, node in self._nodes.items() if reaches(ways, node))
            self._known[ways] = found
        return found


def _hosts(ways: tuple[Ways, ...]) -> tuple[str, ...] | None:
    """The hosts, if the terms only name hosts."""
    match ways:
        case ((NodeTerm(expressions=(Requirement(key=key, operator="In", values=values),), fields=()),),) if (
            key == HOSTNAME
        ):
            return tuple(dict.fromkeys(values))
        case _:
            return None
