"""A shard as the objects of the cluster show it, for those who decide in its place: `maar plan --shard`.

Its holder knows more: what it has sent, what it gives away at this moment, and which wants were not served in time.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from maar.model.plan import Nominate, Plan, Reserve
from maar.model.resources import Mask
from maar.model.snapshot import Snapshot
from maar.model.tasks import Status
from maar.shards.proposals import proposals, rack_homes, racks_of
from maar.shards.shard import Standing, Step
from maar.shards.sharing import Sharing


def standing_of(sharing: Sharing, shard: int, snapshot: Snapshot, rack_label: str = "") -> Standing:
    """What the holder of a shard knows if it uses everything that the map gives it."""
    owners = sharing.owners
    racks = racks_of(snapshot.nodes, snapshot.cluster.hypernodes, rack_label)
    queues = {queue.name for queue in snapshot.queues.queues} | {job.queue for job in snapshot.jobs.jobs}
    own = frozenset(queue for queue in queues if owners.shard_of(queue) == shard)
    return Standing(
        shards=frozenset({shard}),
        owners=owners,
        uses=frozenset(name for name in snapshot.nodes.names if owners.owner_of(name) == shard),
        queues=own,
        leaving=own & proposals(owners, racks, snapshot.queues).leaving_queues(),
        homes=rack_homes(owners, racks),
        wants=sharing.wants,
    )


def after(sharing: Sharing, shard: int, taken: Step) -> Sharing:
    """What the objects show after a step of a shard: its wants are written, and its lends are done."""
    owners = sharing.owners
    for lend in taken.lends:
        owners = owners.lent(lend.node, lend.to)
    others = tuple(want for want in sharing.wants if want.shard != shard)
    return Sharing(owners, (*others, *taken.wants))


def with_room_of_others(plan: Plan, snapshot: Snapshot, own: Mask) -> Plan:
    """The plan of a shard with the room of the jobs of others: a plan carried out states all of it."""
    tasks, names = snapshot.tasks, snapshot.nodes.names
    theirs = np.flatnonzero((tasks.status == Status.NOMINATED) & ~own[tasks.job]).tolist()
    nominate = [Nominate(tasks.tasks[t].key, names[tasks.node[t]]) for t in theirs]
    reserve = []
    for row in snapshot.jobs.elastic:
        job = snapshot.jobs.jobs[row]
        if job.elastic is not None and not own[row]:
            reserve += [Reserve.at(job.key, place, count) for place, count in job.elastic.reserved]
    return replace(plan, nominate=(*plan.nominate, *nominate), reserve=(*plan.reserve, *reserve))


def grown(standing: Standing, nodes: frozenset[str], queues: frozenset[str]) -> Standing:
    """The view with new nodes and queues; each shard gets those that the map gives it."""
    owners, held = standing.owners, standing.shards
    uses = standing.uses.union(name for name in nodes if owners.owner_of(name) in held)
    decides = standing.queues.union(name for name in queues if owners.shard_of(name) in held)
    return replace(standing, uses=uses, queues=decides)
