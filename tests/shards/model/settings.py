"""The clusters that are explored: each has the faults that can break what it is about.

Most have two shards, A and B. `LARGE` takes minutes: `python -m tests.shards.model --large`.
"""

from __future__ import annotations

from dataclasses import replace

from tests.shards.model.setting import Gang, Node, Queue, Setting

A, B, C = 0, 1, 2
ONE_EACH = (Queue(A), Queue(B))

FAIL_OVER = Setting(
    "fail-over",
    nodes=(Node(A), Node(A)),
    queues=(Queue(A),),
    gangs=(Gang(0, 1, late=True), Gang(0, 2)),
    shards=1,
    take_overs=3,
)
"""Holders crash, freeze and resume up to three times in a row, also during a take-over; pods are created meanwhile."""

NEIGHBOURS = Setting(
    "neighbours",
    nodes=(Node(A), Node(A), Node(B)),
    queues=ONE_EACH,
    gangs=(Gang(0, 2), Gang(0, 1, late=True)),
    take_overs=1,
    short_deadlines=False,
)
"""One take-over of either shard, while a job that is created then borrows a node."""

LENDING = Setting(
    "lending",
    nodes=(Node(A), Node(B), Node(B)),
    queues=ONE_EACH,
    gangs=(Gang(0, 2), Gang(1, 2)),
    take_overs=2,
    lag=False,
    short_deadlines=False,
)
"""Two gangs of two compete for three nodes, one must borrow; two take-overs, also of the same shard."""

SHARED = Setting(
    "shared node",
    nodes=(Node(A), Node(B, room=2)),
    queues=ONE_EACH,
    gangs=(Gang(0, 3), Gang(1, 1)),
    take_overs=1,
    short_deadlines=False,
)
"""A node is lent while a pod of its owner is on it, or on its way to it."""

WANTS = Setting(
    "wants",
    nodes=(Node(A), Node(B), Node(B)),
    queues=ONE_EACH,
    gangs=(Gang(0, 2), Gang(1, 3)),
    lag=False,
)
"""Both gangs need nodes of the other shard; any want may miss its deadline."""

WANTS_FAIL_OVER = replace(
    WANTS, name="wants, fail-over", nodes=WANTS.nodes[:2], gangs=(Gang(0, 2), Gang(1, 2)), take_overs=1
)
"""The same with a take-over of either shard, on two nodes."""

ORDER = replace(WANTS, name="order", lag=True, short_deadlines=False)
"""The same with views that are behind; all wants must be served without any deadline."""

KEPT = Setting(
    "kept node",
    nodes=(Node(A), Node(B), Node(B, kept=True)),
    queues=ONE_EACH,
    gangs=(Gang(0, 3), Gang(1, 1)),
)
"""The want of the first gang looks possible, but one of its nodes never comes; the second gang must not wait for it."""

HOPELESS = Setting(
    "hopeless",
    nodes=(Node(A), Node(B), Node(B)),
    queues=ONE_EACH,
    gangs=(Gang(0, 4), Gang(1, 2)),
    take_overs=1,
    elect=True,
)
"""The first gang fits nowhere, also not on empty nodes."""

NODES = Setting(
    "nodes",
    nodes=(Node(A), Node(B), Node(B)),
    queues=ONE_EACH,
    gangs=(Gang(0, 2), Gang(1, 1)),
    deletions=1,
    relabelled=(B, A, A),
    short_deadlines=False,
)
"""A node is deleted, and created again, before, during and after it is lent."""

NODES_FAIL_OVER = Setting(
    "nodes, fail-over",
    nodes=(Node(A), Node(B)),
    queues=ONE_EACH,
    gangs=(Gang(0, 2), Gang(1, 1)),
    deletions=1,
    take_overs=1,
    relabelled=(B, A),
    lag=False,
    short_deadlines=False,
)
"""The same with a take-over, on two nodes."""

PREEMPTION = Setting(
    "preemption",
    nodes=(Node(A), Node(B)),
    queues=ONE_EACH,
    gangs=(Gang(0, 2), Gang(1, 1, on=(1,))),
    preempt=True,
    take_overs=1,
)
"""A gang needs the node of a running job of another shard."""

SURPLUS = Setting(
    "surplus",
    nodes=(Node(A), Node(B), Node(B)),
    queues=ONE_EACH,
    gangs=(Gang(1, 1), Gang(0, 1), Gang(1, 3, least=2, on=(0, 1, 2))),
    preempt=True,
    lag=False,
    short_deadlines=False,
)
"""Jobs of two shards need nodes of one gang that can spare one pod."""

DECIDED = Setting(
    "decided",
    nodes=(Node(A), Node(A), Node(A)),
    queues=(Queue(A),),
    gangs=(Gang(0, 1, tied=1, late=True), Gang(0, 1), Gang(0, 3, least=2, on=(0, 1, 2))),
    shards=1,
    take_overs=2,
    preempt=True,
    restless=True,
    lag=False,
    short_deadlines=False,
)
"""A gang can spare one pod, and its owner changes it all the time; a job that needs another node is created then."""

DECIDED_ELSEWHERE = replace(PREEMPTION, name="decided, shards", restless=True, lag=False, short_deadlines=False)
"""The victim is of another shard, and its owner changes it all the time."""

ROUTING = Setting(
    "routing",
    nodes=(Node(A), Node(B), Node(B)),
    queues=(Queue(A, limit=1), Queue(B)),
    gangs=(Gang(0, 1, late=True), Gang(0, 1)),
    moves=1,
    take_overs=1,
    short_deadlines=False,
)
"""A queue with a limit gets another shard, with a take-over of either shard."""

ROUTING_GANGS = Setting(
    "routing, gangs",
    nodes=(Node(A), Node(B), Node(B)),
    queues=ONE_EACH,
    gangs=(Gang(0, 2), Gang(1, 2)),
    moves=1,
    lag=False,
    short_deadlines=False,
)
"""Either queue gets another shard while its gang borrows, is bound in part, or waits."""

ROUTING_PREEMPTION = replace(PREEMPTION, name="routing, preemption", take_overs=0, moves=1)
"""The queue of the asker or of the victim gets another shard."""

STREAM = Setting(
    "stream",
    nodes=(Node(A), Node(B)),
    queues=ONE_EACH,
    gangs=(Gang(0, 2), Gang(0, 1, on=(0,), again=True), Gang(1, 1, on=(1,), again=True)),
    elect=True,
    lag=False,
    short_deadlines=False,
)
"""A gang needs two nodes that small jobs of both shards use again and again."""

STREAM_FAIL_OVER = replace(STREAM, name="stream, fail-over", take_overs=1)
"""The same with a take-over of either shard."""

STREAM_BEHIND = replace(STREAM, name="stream, behind", lag=True)
"""The same with views that are behind."""

TWO_ELECTIONS = replace(
    STREAM, name="two elections", gangs=(Gang(0, 2), Gang(1, 1, again=True), Gang(1, 1, on=(1,), again=True))
)
"""The small jobs are of one shard, so that one of them waits and is elected too."""

TIED = Setting(
    "tied",
    nodes=(Node(A), Node(B)),
    queues=ONE_EACH,
    gangs=(Gang(0, 1, tied=1), Gang(1, 1)),
    take_overs=1,
    short_deadlines=False,
)
"""A pod that may use one node only, which is of another shard than its queue."""

THREE = Setting(
    "three shards",
    nodes=(Node(A), Node(B), Node(C)),
    queues=(Queue(A), Queue(B), Queue(C)),
    gangs=(Gang(0, 2), Gang(1, 2), Gang(2, 1, on=(2,))),
    shards=3,
    preempt=True,
    take_overs=1,
    lag=False,
    short_deadlines=False,
)
"""Two gangs ask two other shards for nodes; one node has a running job of the third shard."""

SMALL = (
    FAIL_OVER,
    NEIGHBOURS,
    LENDING,
    SHARED,
    WANTS_FAIL_OVER,
    ORDER,
    KEPT,
    HOPELESS,
    NODES,
    NODES_FAIL_OVER,
    PREEMPTION,
    SURPLUS,
    DECIDED,
    DECIDED_ELSEWHERE,
    ROUTING,
    ROUTING_GANGS,
    ROUTING_PREEMPTION,
    TIED,
    STREAM,
    STREAM_FAIL_OVER,
    STREAM_BEHIND,
    TWO_ELECTIONS,
    THREE,
)
LARGE = (
    WANTS,
    replace(LENDING, name="lending, large", take_overs=3),
    replace(LENDING, name="lending, with lag", take_overs=1, lag=True),
    replace(NODES, name="nodes, with take-over", take_overs=1, lag=False),
    replace(ROUTING_GANGS, name="routing, gangs, large", take_overs=1),
    replace(ROUTING, name="routing, large", moves=2, take_overs=2),
    replace(PREEMPTION, name="preemption, large", take_overs=2, lag=False),
    replace(ROUTING_PREEMPTION, name="routing, preemption, large", take_overs=1, lag=False),
    replace(STREAM, name="stream, routing", moves=1),
    replace(STREAM, name="stream, large", take_overs=2),
    replace(TWO_ELECTIONS, name="two elections, behind", lag=True),
    replace(TWO_ELECTIONS, name="two elections, large", take_overs=1),
)
