"""The scope of one shard: for which jobs it decides, which nodes it uses, and what it must leave to other shards.

A shard decides on the snapshot of the whole cluster. Jobs of other shards keep what they have, so that shares, limits
and budgets count everything. All nodes are open, the shard's own ones first: a gang that needs others borrows them
(docs/shards.md). Without a scope a decision is about everything.
"""

from __future__ import annotations

import msgspec

from maar.model.jobs import Job
from maar.model.plan import Elect, Evict, Lock
from maar.model.resources import Mask

Place = tuple[int, float, str, str]
"""A place in the one order of all waiting jobs of a cluster; smaller goes first."""


def place_of(job: Job) -> Place:
    """Priority, creation time, uid, and the key for jobs without a uid."""
    return -job.priority, job.created, job.uid, job.key


class KeptNodes(msgspec.Struct, frozen=True):
    """Nodes that are kept for a job that waits for nodes of other shards: later jobs may not use them."""

    place: Place
    nodes: Mask
    own: int | None = None
    """The row of the job, if this shard decides for it: kept until the decision has given it its minimum."""


class Scope(msgspec.Struct, frozen=True):
    """What one shard decides on, by rows of one snapshot."""

    jobs: Mask
    """The jobs that it decides for."""
    foreign: Mask
    """The nodes that it does not use. They are used only if its own nodes do not suffice."""
    kept: tuple[KeptNodes, ...] = ()
    """In the order of their places."""
    confined: frozenset[int] = frozenset()
    """Waiting jobs that may not use nodes of other shards now."""
    asked: tuple[tuple[Evict, ...], ...] = ()
    """Evictions of its own tasks for jobs of other shards, in the order of these jobs."""
    elect: Elect | None = None
    """The one election of the cluster, of a job of this shard or of another."""
    locks: tuple[Lock, ...] = ()
    """The locks of the elected job."""
