"""What the objects of a cluster show of its shards, for everybody who only looks: owners, wants, figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from maar.model.reasons import Reason
from maar.model.words import count
from maar.shards.map import ShardMap
from maar.shards.slots import slot_of
from maar.shards.wants import Want


class Figures(NamedTuple):
    """How many nodes a shard owns, has lent to others, and has from others."""

    nodes: int = 0
    lent: int = 0
    borrowed: int = 0


class Sharing(msgspec.Struct, frozen=True):
    """The ShardMap of a cluster, and the wants in all Shards."""

    owners: ShardMap
    wants: tuple[Want, ...] = ()

    def figures(self, names: Iterable[str]) -> dict[int, Figures]:
        """The figures of these nodes, by shard. A node that is elsewhere because of its rack counts as lent."""
        owners = self.owners
        nodes, lent, borrowed = Counter[int](), Counter[int](), Counter[int]()
        for name in names:
            home, owner = owners.slots[slot_of(name)], owners.owner_of(name)
            nodes[owner] += 1
            lent[home] += home != owner
            borrowed[owner] += home != owner
        return {shard: Figures(nodes[shard], lent[shard], borrowed[shard]) for shard in owners.members()}

    def standing(self, now: float) -> dict[str, Want]:
        """The wants that stand, by job, of jobs that fit. Nobody ends the wants of a dead shard."""
        return {want.job: want for want in self.wants if now < want.deadline and want.elected is None}

    def why(self, want: Want, since: float) -> Reason:
        """Why a job with a want waits."""
        away = sum(self.owners.owner_of(node) != want.shard for node in want.nodes)
        return borrowing(want, away, since)


def borrowing(want: Want, away: int, since: float) -> Reason:
    """Why a job with a want waits. `away`: how many of its nodes belong to other shards."""
    what = f"its pods fit, and {away} of their nodes are being borrowed from other shards"
    if want.asks:
        others = count(len(want.victims), "pod of other shards has", "pods of other shards have")
        what = f"its pods fit when {others} left"
    return Reason("shards", "Borrowing", what, since=since, lasting="borrows nodes from other shards")


def full(queue: str, since: float) -> Reason:
    """Why a job waits whose queue has no room before pods leave it for a job that borrows."""
    what = f"queue `{queue}` has no room before pods leave it for a job that borrows nodes from other shards"
    return Reason("shards", "Borrowing", what, queue=queue, since=since)
