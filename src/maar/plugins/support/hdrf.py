"""Hierarchical dominant resource fairness: drf in a tree of queues with weights.

After Bhattacharya et al., "Hierarchical Scheduling for Diverse Datacenter Workloads" (SoCC 2013), as Volcano's drf
does with `enableHierarchy`. A job's share is its dominant share. Inside the tree a node has the sum of what its
children have, where first the children that still want and can get something are scaled down to the least of their
shares: what a child has beyond that is no burden to its siblings. A node is *saturated* when nothing below it can
grow, because it has all that it asks for or because a resource that it needs is used up; saturated children are not
scaled. Shares are for a child's weight there too (Volcano leaves weights out when it scales, so that a branch whose
children have unequal weights gets more than its own).

Exact throughout: parts of the cluster are whole numbers in units of `Dominant.whole`, or fractions after scaling.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

from maar.model.queues import ROOT, QueueTree

Number = int | Fraction


class Standing(NamedTuple):
    """What one node of the tree has."""

    parts: list[Number]
    """Of each resource, in units of the whole."""
    share: Number
    """The largest of them."""
    saturated: bool


class Part(NamedTuple):
    """What the jobs of one queue have, jobs with equal standings counted together."""

    full: list[int]
    """All that saturated jobs have."""
    growing: tuple[tuple[tuple[int, ...], int], ...]
    """What jobs have that can grow, and how many jobs have just that."""


Path = tuple[str, ...]


class Tree:
    """The names and weights of the nodes, and which queue is where."""

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

    def standings(self, parts: Sequence[Part]) -> dict[Path, Standing]:
        """The standing of every node, from what the jobs of each queue have."""
        found: dict[Path, Standing] = {}
        for node in self._order:
            below = [(found[child], self.weight[child]) for child in self.children[node]]
            found[node] = combine(below, [parts[q] for q in self.queues[node]])
        return found

    def key(self, queue: int, standings: dict[Path, Standing]) -> tuple[tuple[bool, Fraction], ...]:
        """A queue's place: from the root down, those that can grow first, then the least share for its weight."""
        path = self.path[queue]
        nodes = (path[:depth] for depth in range(1, len(path) + 1))
        return tuple((standings[n].saturated, self.weighted(n, standings)) for n in nodes)

    def weighted(self, node: Path, standings: dict[Path, Standing]) -> Fraction:
        """A node's share for its weight."""
        return Fraction(standings[node].share) / self.weight[node]

    def rivals(self, queue: int, other: int) -> tuple[Path, Path] | None:
        """The nodes at which two queues' paths part, or nothing if one lies on the other's path."""
        mine, theirs = self.path[queue], self.path[other]
        for depth, (a, b) in enumerate(zip(mine, theirs, strict=False), start=1):
            if a != b:
                return mine[:depth], theirs[:depth]
        return None


def combine(nodes: Iterable[tuple[Standing, int]], parts: Iterable[Part]) -> Standing:
    """The standing of a node with such children: inner nodes with their weights, and jobs of its own queues."""
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
    return Standing(full, max(full, default=0), saturated)


def _sum(left: list[Number], right: Sequence[Number]) -> list[Number]:
    return [a + b for a, b in zip(left, right, strict=True)] if left else list(right)


def _path(queues: QueueTree, q: int) -> Path:
    """From below the root down to the queue: by its annotation, else by its parents."""
    names = queues.queues[q].hierarchy or tuple(queues.queues[above].name for above in reversed(queues.path[q]))
    return names[1:] if names[:1] == (ROOT,) else names


def _weights(queues: QueueTree, q: int) -> list[int]:
    """A weight for every step of the path; a missing one is 1."""
    queue = queues.queues[q]
    if queue.hierarchy:
        weights = [*queue.hierarchy_weights, *[1] * len(queue.hierarchy)][: len(queue.hierarchy)]
        return weights[1:] if queue.hierarchy[:1] == (ROOT,) else weights
    return [queues.queues[above].weight for above in reversed(queues.path[q])][1:]
