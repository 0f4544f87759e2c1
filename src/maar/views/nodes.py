"""Nodes: what each has and what is on it. Jobs that the viewer may not see are amounts."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from maar.model.nodes import Node
from maar.model.tasks import Status
from maar.views.records import Amounts, NodeJob, NodeView, Others
from maar.views.sight import Sight
from maar.views.tally import Tally

FAILED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Taints that the node controller sets on a node that does not answer."""
HARD = ("NoSchedule", "NoExecute")
NODE_STATES = ("failed", "cordoned", "locked", "tainted", "ready")
WHERE = ("topology.", "failure-domain.")
"""Prefixes of labels that say where a node is."""
RACKS = ("rack", "zone", "region", "block", "row", "superpod", "spine", "leaf", "switch", "pool", "accelerator")
"""The last parts of such labels."""


def node_state(node: Node, locked: bool) -> str:
    """The state of a node in one word; what matters most comes first."""
    keys = {taint.key for taint in node.taints}
    if keys.intersection(FAILED):
        return "failed"
    if node.unschedulable:
        return "cordoned"
    if locked:
        return "locked"
    return "tainted" if any(taint.effect in HARD for taint in node.taints) else "ready"


def node_views(tally: Tally, sight: Sight, rows: Iterable[int] | None = None) -> list[NodeView]:
    """The nodes of these rows, or all, by name."""
    snapshot = tally.snapshot
    chosen = list(range(len(snapshot.nodes))) if rows is None else list(rows)
    locks = {lock.node: lock.job for lock in snapshot.cluster.locks}
    on = _pods_on(tally, chosen)
    views = []
    for row in chosen:
        node = snapshot.nodes.nodes[row]
        lock = locks.get(node.name)
        jobs, others, system = _split(tally, on.get(row, {}), sight)
        views.append(
            NodeView(
                name=node.name,
                state=node_state(node, lock is not None),
                allocatable=tally.amounts(snapshot.nodes.allocatable[row]),
                used=tally.amounts(snapshot.used[row]),
                releasing=tally.amounts(snapshot.releasing[row]),
                promised=tally.amounts(snapshot.nominated[row] + tally.reserved[row]),
                taints=tuple(
                    f"{t.key}={t.value}:{t.effect}" if t.value else f"{t.key}:{t.effect}" for t in node.taints
                ),
                domains={key: value for key, value in sorted(node.labels.items()) if _says_where(key)},
                locked=lock is not None,
                locked_for=None if lock is None else sight.named(lock),
                jobs=jobs,
                others=others,
                system=system,
                shard=None if tally.sharing is None else tally.sharing.owners.owner_of(node.name),
            )
        )
    return views


Key = tuple[int, bool, bool]
"""A job, whether its pods leave, and whether they belong to the node or to another scheduler."""


def _pods_on(tally: Tally, rows: list[int]) -> dict[int, dict[Key, Others]]:
    """By node: the pods of each job, counted by shape first, so that equal pods cost one step."""
    snapshot = tally.snapshot
    tasks = snapshot.tasks
    wanted = np.zeros(len(snapshot.nodes) + 1, dtype=np.bool_)
    wanted[rows] = True
    there = np.isin(tasks.status, (Status.BOUND, Status.RELEASING)) & wanted[tasks.node] & (tasks.node >= 0)
    found = np.flatnonzero(there)
    columns = np.stack(
        (
            tasks.node[found],
            tasks.job[found],
            tasks.shape[found],
            (tasks.status[found] == Status.RELEASING).astype(np.int64),
            (tasks.foreign[found] | tasks.resident[found]).astype(np.int64),
        ),
        axis=1,
    )
    unique, counts = np.unique(columns, axis=0, return_counts=True)
    requests = [tally.amounts(row) for row in snapshot.shapes.requests]
    on: dict[int, dict[Key, Others]] = {}
    for (node, job, shape, leaving, system), count in zip(unique.tolist(), counts.tolist(), strict=True):
        jobs = on.setdefault(node, {})
        key = (job, bool(leaving), bool(system))
        jobs[key] = _more(jobs.get(key, Others()), count, requests[shape], count)
    return on


def _split(tally: Tally, pods: dict[Key, Others], sight: Sight) -> tuple[tuple[NodeJob, ...], Others, Others]:
    """The pods of jobs that the viewer sees, of the other jobs together, and of the node itself."""
    jobs, others, system = [], Others(), Others()
    for (row, leaving, of_node), has in sorted(pods.items()):
        job = tally.snapshot.jobs.jobs[row]
        if of_node:
            system = _more(system, has.pods, has.amounts)
        elif sight.of(job.key):
            jobs.append(NodeJob(job=job.key, queue=job.queue, pods=has.pods, amounts=has.amounts, leaving=leaving))
        else:
            others = _more(others, has.pods, has.amounts)
    return tuple(jobs), others, system


def _more(known: Others, pods: int, amounts: Amounts, times: int = 1) -> Others:
    both = dict(known.amounts)
    for name, amount in amounts.items():
        both[name] = both.get(name, 0) + amount * times
    return Others(pods=known.pods + pods, amounts=both)


def _says_where(label: str) -> bool:
    return label.startswith(WHERE) or label.rpartition("/")[2] in RACKS
