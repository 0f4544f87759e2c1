"""What one shard decides on: the scope of its decision, from the ShardMap, its nodes and queues, and all wants."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from maar.model.minimum import with_minimum
from maar.model.plan import Evict
from maar.model.resources import Mask
from maar.model.scope import KeptNodes, Scope
from maar.model.snapshot import Snapshot
from maar.model.tasks import Status
from maar.shards.map import ShardMap
from maar.shards.wants import Want


def scope_of(
    snapshot: Snapshot,
    owners: ShardMap,
    uses: Collection[str],
    queues: Collection[str],
    wants: Sequence[Want],
    confined: Collection[tuple[str, str]] = (),
) -> Scope:
    """The scope of a shard that uses some nodes and decides for some queues.

    `wants` are those of all shards, in order; `confined` the jobs that may use only the shard's own nodes.
    """
    jobs = own_jobs(snapshot, uses, queues)
    foreign: Mask = ~rows_of(snapshot, uses)
    table, rows = snapshot.jobs, snapshot.jobs.number
    own = (row if (row := rows.get(want.job)) is not None and jobs[row] else None for want in wants)
    kept = tuple(KeptNodes(w.place, rows_of(snapshot, w.nodes), row) for w, row in zip(wants, own, strict=True))
    away = {rows[key] for key, uid in confined if key in rows and table.jobs[rows[key]].uid == uid}
    # A gang that runs in part may use any node: otherwise it would be released although it fits.
    whole = with_minimum(snapshot) if away else ()
    away = {row for row in away if whole[row] or not table.ready[row]}
    return Scope(jobs, foreign, kept, frozenset(away), _asked(snapshot, jobs, owners, wants))


def own_jobs(snapshot: Snapshot, uses: Collection[str], queues: Collection[str]) -> Mask:
    """The jobs of these queues. A pod tied to one node (of a DaemonSet) belongs to the user of that node."""
    tasks = snapshot.tasks
    own = np.array([queue.name in queues for queue in snapshot.queues.queues] + [False])
    jobs: Mask = own[snapshot.jobs.queue]
    # Somebody must say that a queue does not exist.
    for row in np.flatnonzero(snapshot.jobs.queue < 0).tolist():
        jobs[row] = snapshot.jobs.jobs[row].queue in queues
    waits = (tasks.status == Status.PENDING) | (tasks.status == Status.NOMINATED)
    for task in np.flatnonzero(tasks.resident & waits).tolist():
        node = tied_to(snapshot, task)
        if node:
            jobs[tasks.job[task]] = node in uses
    return jobs


def shard_of(snapshot: Snapshot, owners: ShardMap, row: int) -> int:
    """The shard that decides for a job: that of its queue, or of the node that its pod is tied to."""
    first = next(iter(snapshot.jobs.members[row].tolist()), None)
    node = tied_to(snapshot, first) if first is not None and snapshot.tasks.resident[first] else ""
    return owners.owner_of(node) if node else owners.shard_of(snapshot.jobs.jobs[row].queue)


def tied_to(snapshot: Snapshot, task: int) -> str:
    """The only node that a task may use by its name, or an empty text."""
    terms = snapshot.tasks.tasks[task].shape.node_terms or ()
    names = {value for term in terms for field in term.fields for value in field.values}
    return names.pop() if len(names) == 1 else ""


def rows_of(snapshot: Snapshot, nodes: Iterable[str]) -> Mask:
    """The nodes of these names that exist."""
    mask, row = np.zeros(len(snapshot.nodes), dtype=np.bool_), snapshot.nodes.row
    mask[[row[name] for name in nodes if name in row]] = True
    return mask


def _asked(snapshot: Snapshot, jobs: Mask, owners: ShardMap, wants: Sequence[Want]) -> tuple[tuple[Evict, ...], ...]:
    """The evictions of the shard's own tasks that wants ask for, while the map names the asker as owner (rule 7)."""
    number, of_job = snapshot.tasks.number if any(w.victims for w in wants) else {}, snapshot.tasks.job
    found = []
    for want in wants:
        if want.asks and all(owners.owner_of(node) == want.shard for node in want.nodes):
            own = tuple(e for e in want.victims if e.task in number and jobs[of_job[number[e.task]]])
            if own:
                found.append(own)
    return tuple(found)
