"""Hierarchical dominant resource fairness: drf in a tree of queues with weights.

After Bhattacharya et al., "Hierarchical Scheduling for Diverse Datacenter Workloads" (SoCC 2013), as Volcano's drf with
`enableHierarchy`. The share of a job is its dominant share. A node of the tree has the sum of its children, after the
children that can still grow are scaled down to the smallest of their shares: what a child has above it is no burden to
its siblings. A node is *saturated* if nothing below it can grow, because it has all it requests or a resource it needs
is used up. Saturated children are not scaled. Scaling uses shares divided by weight. (Volcano ignores weights here, so
a branch whose children have unequal weights gets more than its own share.)

All numbers are exact: whole numbers in units of `Dominant.whole`, or fractions after scaling.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

from maar.model.queues import ROOT, QueueTree

Number = int | Fraction


class TreeStanding(NamedTuple):
    """The resources of one node of the tree."""

    parts: list[Number]
    """The part of each resource, in units of the whole."""
    share: Number
    """The largest part."""
    saturated: bool


class QueuePart(NamedTuple):
    """The resources of the jobs of one queue; jobs with equal standings are counted together."""

    full: list[int]
    """The sum over saturated jobs."""
    growing: tuple[tuple[tuple[int, ...], int], ...]
    """The resources of jobs that can grow, and how many jobs have exactly these."""


Path = tuple[str, ...]


class Tree:
    """The names and weights of the nodes, and where each queue is."""

    def __init__(self, queues: QueueTree) -> None:
        self.path: list[Path] = [_path(queues, q) for q in range(len(queues))]
        self.weight: dict[Path, int] = {(): 1}
        self.queues: dict[Path, list[int]] = {(): []}
        self.children: dict[Path, list[Path]] = {(): []}
        for q, path in enumerate(self.path):
            weights = _weights(queues, q)
            for depth in range(1, len(path) + 1):
                node = path[:depth]
                if node not in self.weight:
                    self.weight[node] = max(weights[depth - 1], 1)
                    self.queues[node], self.children[node] = [], []
                    self.children[node[:-1]].append(node)
            self.queues[path].append(q)
        deepest_first = sorted(self.weight, key=lambda node: (-len(node), node))
        self._order = [node for node in deepest_first if node]

    def standings(self, parts: Sequence[QueuePart]) -> dict[Path, TreeStanding]:
        """The standing of every node, computed from the jobs of each queue."""
        found: dict[Path, TreeStanding] = {}
        for node in self._order:
            below = [(found[child], self.weight[child]) for child in self.children[node]]
            found[node] = combine(below, [parts[q] for q in self.queues[node]])
        return found

    def key(self, queue: int, standings: dict[Path, TreeStanding]) -> tuple[tuple[bool, Fraction], ...]:
        """The sort key of a queue: from the root down, growing nodes first, then the smallest share per weight."""
        path = self.path[queue]
        nodes = (path[:depth] for depth in range(1, len(path) + 1))
        return tuple((standings[n].saturated, self.weighted(n, standings)) for n in nodes)

    def weighted(self, node: Path, standings: dict[Path, TreeStanding]) -> Fraction:
        """The share of a node divided by its weight."""
        return Fraction(standings[node].share) / self.weight[node]

    def rivals(self, queue: int, other: int) -> tuple[Path, Path] | None:
        """The nodes at which the paths of two queues part, or `None` if one path contains the other."""
        mine, theirs = self.path[queue], self.path[other]
        for depth, (a, b) in enumerate(zip(mine, theirs, strict=False), start=1):
            if a != b:
                return mine[:depth], theirs[:depth]
        return None


def combine(nodes: Iterable[tuple[TreeStanding, int]], parts: Iterable[QueuePart]) -> TreeStanding:
    """The standing of a node with these children: inner nodes with weights, and the jobs of its own queues."""
    full: list[Number] = []
    growing: list[tuple[Sequence[Number], Fraction, int]] = []
    saturated = True
    for node, weight in nodes:
        saturated &= node.saturated
        if node.saturated:
            full = _sum(full, node.parts)
        elif node.share:
            growing.append((node.parts, Fraction(node.share) / weight, 1))
    for part in parts:
        full = _sum(full, part.full)
        for own, count in part.growing:
            saturated = False
            if dominant := max(own, default=0):
                growing.append((own, Fraction(dominant), count))
    least = min((share for _, share, _ in growing), default=Fraction(0))
    for row, share, count in growing:
        scale: Number = count if share == least else least * count / share
        full = _sum(full, [amount * scale for amount in row])
    return TreeStanding(full, max(full, default=0), saturated)


def _sum(left: list[Number], right: Sequence[Number]) -> list[Number]:
    return [a + b for a, b in zip(left, right, strict=True)] if left else list(right)


def _path(queues: QueueTree, q: int) -> Path:
    """The path from below the root to the queue: by its annotation, otherwise by its parents."""
    names = queues.queues[q].hierarchy or tuple(queues.queues[above].name for above in reversed(queues.path[q]))
    return names[1:] if names[:1] == (ROOT,) else names


def _weights(queues: QueueTree, q: int) -> list[int]:
    """A weight for every step of the path; 1 if missing."""
    queue = queues.queues[q]
    if queue.hierarchy:
        weights = [*queue.hierarchy_weights, *[1] * len(queue.hierarchy)][: len(queue.hierarchy)]
        return weights[1:] if queue.hierarchy[:1] == (ROOT,) else weights
    return [queues.queues[above].weight for above in reversed(queues.path[q])][1:]
