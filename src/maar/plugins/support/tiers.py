"""Tiers of domains: a part of `topology`. A tier is a list of network domains that are equally close.

A tier sums node counts by domain, for all domains at once; the mask of a domain is made when it is first used.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from maar.model.nodes import NodeTable
from maar.model.resources import Ints, Mask
from maar.model.topology import HyperNode, hypernode_rows


class Tier:
    """Domains sorted by name, none of them empty. A node may be in several domains, or in none."""

    def __init__(self, number: int, domains: dict[str, Ints], nodes: int) -> None:
        self.number = number
        self.names: list[str] = sorted(domains)
        self._rows = [domains[name] for name in self.names]
        self._nodes = nodes
        self._all: Ints = np.concatenate(self._rows)
        self._starts: Ints = np.cumsum([0, *(len(rows) for rows in self._rows[:-1])])
        self._masks: dict[int, Mask] = {}
        self._parents: dict[int, Ints] = {}
        """By the number of a higher tier: the domain there that contains each domain, or -1."""

    def sums(self, counts: Ints) -> Ints:
        return np.asarray(np.add.reduceat(counts[self._all], self._starts))

    def of_parents(self, upper: Tier, values: Ints, otherwise: Ints) -> Ints:
        """For each domain the value of the domain of a higher tier that contains it, or its own (`otherwise`)."""
        parents = self._parents.get(upper.number)
        if parents is None:
            inside = np.full(self._nodes, -1, dtype=np.int64)
            inside[upper._all] = np.repeat(np.arange(len(upper.names)), [len(rows) for rows in upper._rows])
            of_nodes = inside[self._all]
            least, most = np.minimum.reduceat(of_nodes, self._starts), np.maximum.reduceat(of_nodes, self._starts)
            parents = self._parents[upper.number] = np.where(least == most, least, -1)
        return np.where(parents < 0, otherwise, values[parents])

    def mask(self, domain: int) -> Mask:
        mask = self._masks.get(domain)
        if mask is None:
            mask = np.zeros(self._nodes, dtype=np.bool_)
            mask[self._rows[domain]] = True
            self._masks[domain] = mask
        return mask


def by_label(nodes: NodeTable, key: str) -> list[Tier]:
    """The domains given by the values of a node label: one tier, or none if no node has the label."""
    column = nodes.label(key)
    if not column.values:
        return []
    order = np.argsort(column.codes, kind="stable")
    bounds = np.searchsorted(column.codes[order], np.arange(len(column.values) + 1))
    rows = [order[a:b] for a, b in pairwise(bounds.tolist())]
    return [Tier(0, dict(zip(column.values, rows, strict=True)), len(nodes))]


def by_hypernodes(nodes: NodeTable, hypernodes: Iterable[HyperNode]) -> list[Tier]:
    """HyperNodes by tier, the lowest (closest) first; HyperNodes without nodes are left out."""
    known = list(hypernodes)
    rows = {name: np.flatnonzero(mask) for name, mask in hypernode_rows(known, nodes).items()}
    tiers: dict[int, dict[str, Ints]] = {}
    for hypernode in known:
        if len(rows[hypernode.name]):
            tiers.setdefault(hypernode.tier, {})[hypernode.name] = rows[hypernode.name]
    return [Tier(number, tiers[number], len(nodes)) for number in sorted(tiers)]


def whole_cluster(number: int, nodes: int) -> Tier:
    """A tier of one domain: all nodes, also those in no HyperNode."""
    return Tier(number, {"": np.arange(nodes)}, nodes)
