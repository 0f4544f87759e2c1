"""The whole cluster in one answer. Its totals are for every viewer."""

from __future__ import annotations

from collections import Counter

import numpy as np

from maar.model.tasks import Status
from maar.shards.sharing import Sharing
from maar.views.jobs import WAITS
from maar.views.nodes import node_state
from maar.views.records import ClusterView, ElectView, Others, ShardView
from maar.views.sight import Sight
from maar.views.tally import AWAITED, STATES, Tally, by_status


def cluster_view(tally: Tally, sight: Sight) -> ClusterView:
    snapshot = tally.snapshot
    states = Counter(node_state(node, node.name in tally.locked) for node in snapshot.nodes.nodes)
    seen = tally.seen(sight)
    waiting = np.isin(tally.states, AWAITED)
    hidden = ~seen & ~tally.is_foreign
    tasks, elect = snapshot.tasks, snapshot.cluster.elect
    theirs = hidden[tasks.job] & np.isin(tasks.status, (Status.BOUND, Status.NOMINATED))
    return ClusterView(
        nodes=dict(sorted(states.items())),
        allocatable=tally.total(snapshot.nodes.allocatable),
        used=tally.total(snapshot.used),
        releasing=tally.total(snapshot.releasing),
        waiting=tally.total(tally.pending[waiting]),
        pods=by_status(tasks.status),
        jobs=tally.by_state(np.ones(len(snapshot.jobs), dtype=np.bool_)),
        visible=tally.by_state(seen),
        others=Others(pods=int(theirs.sum()), amounts=tally.total(snapshot.jobs.allocated[hidden])),
        queues=len(snapshot.queues),
        accelerators=tuple(snapshot.axes.names[i] for i in snapshot.axes.accelerators),
        reserved=None
        if elect is None
        else ElectView(job=sight.named(elect.job), since=elect.since, nodes=len(tally.locked)),
        shards=() if tally.sharing is None else shard_views(tally, tally.sharing, sight),
    )


def shard_views(tally: Tally, sharing: Sharing, sight: Sight) -> tuple[ShardView, ...]:
    """All shards that are wanted or own something. Holders are pods of Maar's own namespace."""
    snapshot, owners = tally.snapshot, sharing.owners
    figures = sharing.figures(snapshot.nodes.names)
    queues = Counter(owners.shard_of(queue.name) for queue in snapshot.queues.queues)
    waits = np.isin(tally.states, [STATES.index(state) for state in WAITS]) & ~tally.is_foreign
    waiting = Counter(owners.shard_of(snapshot.jobs.jobs[row].queue) for row in np.flatnonzero(waits).tolist())
    wants = Counter(want.shard for want in tally.wants.values())
    return tuple(
        ShardView(
            shard=shard,
            wanted=shard < owners.shards,
            holder=owners.holders.get(shard, "") if sight.everything else None,
            epoch=owners.epochs.get(shard, 0),
            nodes=figures[shard].nodes,
            lent=figures[shard].lent,
            borrowed=figures[shard].borrowed,
            queues=queues[shard],
            waiting=waiting[shard],
            wants=wants[shard],
        )
        for shard in owners.members()
    )
