"""Buckets: the pods of a job that should share a node, by the affinities that its owner states between roles.

Pure functions over columns, a row per pod. Running pods are in the bucket of their node. Each waiting pod joins the
bucket whose roles it likes best: one point for each pod of a role with affinity, minus one for each with anti-affinity.
If all buckets have less than no points, it begins a new one. Of equal buckets, the one whose pods request least.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from maar.model.jobs import TaskTopology
from maar.model.resources import Floats, Ints

OUTSIDE = -1
"""The bucket of pods whose role states nothing."""
SELF_APART, TOGETHER, SELF_TOGETHER, APART = 4, 3, 2, 1
"""How early the pods of a role are placed, by the strongest wish that names it, as in Volcano."""


class RoleWishes(NamedTuple):
    """The wishes between the roles of a job, by role."""

    likes: Ints
    """Points that a pod of the first role has for a pod of the second: 1, 0, -1, or 0 if it has both wishes."""
    dislikes: Ints
    """1 where the first role should not be with the second."""
    rank: Ints
    """Roles with a lower rank are placed first."""
    named: Ints
    """The strongest wish that names a role; 0: none."""


class Buckets(NamedTuple):
    """The bucket of each pod, and the pods in the largest one."""

    of_pod: Ints
    largest: int


def wishes_of(topology: TaskTopology, roles: Sequence[str]) -> RoleWishes:
    """The wishes of a topology as matrices over the roles of a job."""
    number = {role: i for i, role in enumerate(roles) if role}
    together, apart = (np.zeros((len(roles), len(roles)), dtype=np.int64) for _ in range(2))
    named = np.zeros(len(roles), dtype=np.int64)
    stated = (
        (topology.affinity, together, SELF_TOGETHER, TOGETHER),
        (topology.anti_affinity, apart, SELF_APART, APART),
    )
    for lists, matrix, alone, shared in stated:
        for names in lists:
            rows = [number[name] for name in names if name in number]
            if len(names) == 1:
                matrix[rows, rows] = 1
            else:
                matrix[np.ix_(rows, rows)] |= ~np.eye(len(rows), dtype=np.bool_)
            named[rows] = np.maximum(named[rows], alone if len(names) == 1 else shared)
    order = {role: i for i, role in enumerate(topology.order)}
    keys = [(order.get(role, len(order)), -int(named[i])) for i, role in enumerate(roles)]
    places = {key: place for place, key in enumerate(sorted(set(keys)))}
    return RoleWishes(together - apart, apart, np.array([places[key] for key in keys], dtype=np.int64), named)


def unknown_role(topology: TaskTopology, roles: Sequence[str]) -> str | None:
    """A role that a topology names and the job does not have."""
    known = set(roles)
    lists = (*topology.affinity, *topology.anti_affinity, topology.order)
    return next((name for names in lists for name in names if name and name not in known), None)


def fill(wishes: RoleWishes, role: Ints, node: Ints, size: Floats) -> Buckets:
    """The buckets of pods with these roles, nodes (-1: waiting) and sizes of request, in the order of their keys."""
    of_pod = np.full(len(role), OUTSIDE, dtype=np.int64)
    inside = np.flatnonzero(wishes.named[role] > 0)
    running, waiting = inside[node[inside] >= 0], inside[node[inside] < 0]
    likes = np.zeros((len(inside), len(wishes.likes)), dtype=np.int64)
    """Points of each bucket for each role."""
    load = np.zeros(len(inside), dtype=np.float64)
    nodes, bucket = np.unique(node[running], return_inverse=True)
    of_pod[running] = bucket
    np.add.at(likes, bucket, wishes.likes[:, role[running]].T)
    count = len(nodes)
    for pod in waiting[np.argsort(wishes.rank[role[waiting]], kind="stable")].tolist():
        chosen, points = count, likes[:count, role[pod]]
        if count and (best := points.max()) >= 0:
            equal = np.flatnonzero(points == best)
            chosen = int(equal[np.argmin(load[equal])])
        count += chosen == count
        of_pod[pod] = chosen
        likes[chosen] += wishes.likes[:, role[pod]]
        load[chosen] += size[pod]
    return Buckets(of_pod, int(np.bincount(of_pod[inside]).max()) if len(inside) else 0)
