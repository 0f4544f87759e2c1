"""Nodes as a table: a row per node, a column per resource.

Rows are sorted by name, so a row number is also the unique key that ends every ranking of nodes. Labels and taints are
encoded once and evaluated for all rows at once. The session copies what changes during a cycle (used, releasing,
nominated); everything here stays as the snapshot found it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import msgspec
import numpy as np
import numpy.typing as npt

from maar.model.resources import Axes, Ints, Mask, total
from maar.model.selectors import NodeTerm, Requirement, Taint

HOSTNAME = "kubernetes.io/hostname"


class Image(msgspec.Struct, frozen=True):
    """A container image that pods use, and the nodes that already have it."""

    name: str
    size: int
    """In bytes."""
    nodes: tuple[str, ...]


class Node(msgspec.Struct, frozen=True):
    """One node, as its object declares it."""

    name: str
    allocatable: dict[str, int]
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class LabelColumn(msgspec.Struct, frozen=True):
    """One label over all nodes: `codes[row]` is an index into `values`, or -1 if the label is missing."""

    codes: npt.NDArray[np.int32]
    values: tuple[str, ...]

    def one_of(self, wanted: Iterable[str]) -> Mask:
        chosen = set(wanted)
        hit = np.array([value in chosen for value in self.values] + [False])
        return np.asarray(hit[self.codes], dtype=np.bool_)


class NodeTable:
    """All nodes of a snapshot."""

    def __init__(self, nodes: Iterable[Node], axes: Axes) -> None:
        self.nodes: tuple[Node, ...] = tuple(sorted(nodes, key=lambda n: n.name))
        self.axes = axes
        self.names: tuple[str, ...] = tuple(n.name for n in self.nodes)
        self.row: dict[str, int] = {name: i for i, name in enumerate(self.names)}
        self.allocatable: Ints = np.array([axes.row(n.allocatable) for n in self.nodes], dtype=np.int64).reshape(
            len(self.nodes), len(axes)
        )
        self.unschedulable: Mask = np.array([n.unschedulable for n in self.nodes], dtype=np.bool_)
        self.taint_sets, self.taint_class = _classes([n.taints for n in self.nodes])
        self._columns: dict[str, LabelColumn] = {}
        self._labels = frozenset({HOSTNAME}.union(*(n.labels for n in self.nodes)))
        self._missing = LabelColumn(np.full(len(self.nodes), -1, dtype=np.int32), ())

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def total(self) -> list[int]:
        """The allocatable resources of all nodes, as Python integers."""
        return total(self.allocatable)

    @cached_property
    def largest(self) -> Ints:
        """The largest allocatable amount of each resource on any node."""
        return np.asarray(self.allocatable.max(axis=0, initial=0))

    def label(self, key: str) -> LabelColumn:
        """The column of one label, made on first use. A node without a hostname label has its name as the hostname."""
        if key not in self._labels:
            return self._missing  # one for all: pods may name any number of labels that no node has
        column = self._columns.get(key)
        if column is None:
            values: dict[str, int] = {}
            codes = np.full(len(self.nodes), -1, dtype=np.int32)
            for row, node in enumerate(self.nodes):
                value = node.labels.get(key)
                if value is None and key == HOSTNAME:
                    value = node.name
                if value is not None:
                    codes[row] = values.setdefault(value, len(values))
            column = self._columns[key] = LabelColumn(codes, tuple(values))
        return column

    def meets(self, requirement: Requirement) -> Mask:
        column = self.label(requirement.key)
        match requirement.operator:
            case "In":
                return column.one_of(requirement.values)
            case "NotIn":
                return ~column.one_of(requirement.values)
            case "Exists":
                return np.asarray(column.codes >= 0)
            case "DoesNotExist":
                return np.asarray(column.codes < 0)
            case _:
                return column.one_of(v for v in column.values if requirement.matches({requirement.key: v}))

    def meets_term(self, term: NodeTerm) -> Mask:
        """The rows that meet the node affinity term; a term without expressions meets none."""
        mask = np.full(len(self), bool(term.expressions or term.fields))
        for requirement in term.expressions:
            mask &= self.meets(requirement)
        for requirement in term.fields:
            names = np.isin(np.array(self.names, dtype=np.str_), requirement.values)
            mask &= names if requirement.operator == "In" else ~names
        return mask


def _classes(
    sets: Sequence[tuple[Taint, ...]],
) -> tuple[tuple[tuple[Taint, ...], ...], npt.NDArray[np.int32]]:
    known: dict[tuple[Taint, ...], int] = {}
    codes = np.array([known.setdefault(s, len(known)) for s in sets], dtype=np.int32)
    return tuple(known), codes
