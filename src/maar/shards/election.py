"""The one elected job of a cluster with several shards, for which nodes of any of them are locked.

Each shard elects among its own jobs, and asks by a want that names the nodes. Of several such wants the first in the
order counts, for every shard: the owners lock their own nodes for that job and lend them as they empty, and the other
elections end.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from maar.model.plan import Elect, Lock, Plan
from maar.model.scope import Scope, place_of
from maar.model.snapshot import Snapshot
from maar.shards.map import ShardMap
from maar.shards.scope import shard_of
from maar.shards.wants import ELECTED, Want, want_of


def first_elected(snapshot: Snapshot, wants: Iterable[Want]) -> Want | None:
    """The want of the first elected job of another shard, among these that are in order. It must still exist."""
    return next((w for w in wants if w.elected is not None and _row(snapshot, w.job, w.uid) is not None), None)


def with_election(snapshot: Snapshot, scope: Scope, other: Want | None, now: float) -> Scope:
    """The scope with the election that counts for all shards: that of an own job, or of the first one of others.

    The locks of a job of another shard are the nodes of its want.
    """
    cluster, own = snapshot.cluster, snapshot.cluster.elect
    row = None if own is None else _row(snapshot, own.job, own.uid)
    is_own = row is not None and bool(scope.jobs[row])
    if other is None or other.elected is None:
        return replace(scope, elect=own if is_own else None, locks=cluster.locks)
    if row is not None and is_own and place_of(snapshot.jobs.jobs[row]) < other.place:
        return replace(scope, elect=own, locks=cluster.locks)
    since = {lock.node: lock.since for lock in cluster.locks if (lock.job, lock.uid) == other.id}
    locks = (Lock(node, other.job, since.get(node, now), other.uid) for node in other.nodes)
    known = own is not None and (own.job, own.uid) == other.id
    return replace(scope, elect=own if known else Elect(other.job, other.elected, other.uid), locks=tuple(locks))


def want_of_elected(
    snapshot: Snapshot, scope: Scope, plan: Plan, owners: ShardMap, wants: Iterable[Want], now: float
) -> Want | None:
    """The want of the job that the plan elects, if it is an own one: its nodes are those that the plan locks."""
    row = None if plan.elect is None else _row(snapshot, plan.elect.job, plan.elect.uid)
    if plan.elect is None or row is None or not scope.jobs[row]:
        return None
    job, shard = snapshot.jobs.jobs[row], shard_of(snapshot, owners, row)
    nodes = (lock.node for lock in plan.locks)
    made = replace(want_of(shard, job, nodes, None, now), elected=plan.elect.since, deadline=now + ELECTED)
    before = next((w for w in wants if w.id == made.id and w.shard == shard and w.elected is not None), made)
    return replace(made, deadline=before.deadline) if now < before.renewed_at else made


def _row(snapshot: Snapshot, job: str, uid: str) -> int | None:
    """The row of the very job, not of a later one of the same name."""
    row = snapshot.jobs.number.get(job)
    return row if row is not None and snapshot.jobs.jobs[row].uid == uid else None
