"""Network domains and pools: groups of nodes that decisions treat as one.

A HyperNode (from Volcano) is a network domain with a tier: the lower, the closer. Its members are nodes and other
HyperNodes. A pool is the nodes of one accelerator kind. Both are resolved to rows of the node table on demand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec
import numpy as np

from maar.model.nodes import NodeTable
from maar.model.resources import Mask
from maar.model.selectors import Selector


class Member(msgspec.Struct, frozen=True):
    """A member of a HyperNode: by exact name, by pattern, or (nodes only) by labels."""

    kind: str = "Node"
    name: str = ""
    pattern: str = ""
    labels: Selector | None = None


class HyperNode(msgspec.Struct, frozen=True):
    """One network domain."""

    name: str
    tier: int
    members: tuple[Member, ...] = ()
    tier_name: str = ""


class Pool(msgspec.Struct, frozen=True):
    """The nodes of one accelerator kind: nodes with `label` equal to `value`; without a label, all nodes."""

    name: str
    label: str = ""
    value: str = ""

    def rows(self, nodes: NodeTable) -> Mask:
        if not self.label:
            return np.ones(len(nodes), dtype=np.bool_)
        return nodes.label(self.label).one_of([self.value])


ACCELERATOR_LABELS = ("maar.dev/accelerator", "nvidia.com/gpu.product", "vodascheduler/accelerator")
"""Node labels that name an accelerator kind; the first one that a node has counts."""


def pools(nodes: NodeTable) -> list[Pool]:
    """The pools from the nodes' own labels, sorted by name; nodes without a label are in no pool."""
    found: dict[tuple[str, str], Pool] = {}
    for node in nodes.nodes:
        for label in ACCELERATOR_LABELS:
            if label in node.labels:
                value = node.labels[label]
                found.setdefault((label, value), Pool(value, label, value))
                break
    return [found[k] for k in sorted(found)]


def hypernode_rows(hypernodes: Iterable[HyperNode], nodes: NodeTable) -> dict[str, Mask]:
    """The nodes of each HyperNode, including those of nested HyperNodes (a cycle adds nothing)."""
    known = {h.name: h for h in hypernodes}
    return {name: _rows(name, known, nodes, frozenset()) for name in sorted(known)}


def _rows(name: str, known: dict[str, HyperNode], nodes: NodeTable, above: frozenset[str]) -> Mask:
    mask = np.zeros(len(nodes), dtype=np.bool_)
    for member in known[name].members:
        if member.kind == "HyperNode":
            for child in known:
                if child not in above and child != name and _named(member, child):
                    mask |= _rows(child, known, nodes, above | {name})
        elif member.labels is not None:
            mask |= np.array([member.labels.matches(n.labels) for n in nodes.nodes], dtype=np.bool_)
        elif member.name:
            if member.name in nodes.row:
                mask[nodes.row[member.name]] = True
        else:
            mask |= np.array([_named(member, n) for n in nodes.names], dtype=np.bool_)
    return mask


def _named(member: Member, name: str) -> bool:
    if member.name:
        return member.name == name
    return bool(member.pattern) and re.fullmatch(member.pattern, name) is not None
