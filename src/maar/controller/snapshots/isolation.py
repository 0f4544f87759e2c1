"""Finds what makes a decision fail, and sets it aside, so that everything else is decided.

A decision that raises is a bug of ours, and the data of one object may trigger it in every cycle. Ending the process
would not help: it would start again, read the same object and end again. So the decision is repeated without some of
the suspects until the culprits are known. A job that is set aside is invalid with the reason, and keeps the room of its
running pods. Anything else is replaced by what does the least harm: a queue is invalid, a budget lets no pod go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from maar.model.facts import Fact
from maar.model.jobs import Job
from maar.model.queues import Queue
from maar.model.shapes import Shape
from maar.model.snapshot import Budget, Changed, Cluster
from maar.model.tasks import Status, Task
from maar.model.volumes import VolumeRoom

MOST = 16
"""Culprits that are searched for one by one; tuned by hand."""
BLOCKS = 32
"""Blocks in which the suspects are searched if there are more culprits; tuned by hand."""
TAKES_ROOM = (Status.BOUND, Status.RELEASING)


JOB, NODE, QUEUE, BUDGET, HYPERNODE = "job", "Node", "Queue", "PodDisruptionBudget", "HyperNode"
IMAGE, WEIGHT, QUOTA, ELECTION, POOL = "image", "namespace weight", "ResourceQuota", "election", "pool"
VOLUMES, LOAD, FACT = "volumes", "NodeMetrics", "fact"


class Suspect(NamedTuple):
    """Something without which the decision may work."""

    kind: str
    key: str


T = TypeVar("T", bound=Hashable)


def culprits(fails: Callable[[frozenset[T]], bool], suspects: Sequence[T], most: int = MOST) -> frozenset[T] | None:
    """A small set of suspects without which `fails` is false; the first suspects are preferred.

    All of them if more than `most` are to blame. `None` if it fails even without all: no suspect is to blame. Takes
    about log2 of the suspects attempts for each culprit.
    """
    found: frozenset[T] = frozenset()
    if not fails(found):
        return found
    if fails(frozenset(suspects)):
        return None
    for _ in range(most):
        low, high = 0, len(suspects)  # it fails without the first `low` suspects, and not without the first `high`
        while high - low > 1:
            middle = (low + high) // 2
            if fails(found | frozenset(suspects[:middle])):
                low = middle
            else:
                high = middle
        found |= {suspects[high - 1]}
        if not fails(found):
            return found
    return frozenset(suspects)


def many_culprits(fails: Callable[[frozenset[T]], bool], suspects: Sequence[T]) -> frozenset[T] | None:
    """The same if more than a few may be to blame: whole blocks of neighbours are set aside then, if that is enough.

    Objects that belong together (the jobs of a namespace, the nodes of a group) often have the same fault, and names
    that make them neighbours.
    """
    found = culprits(fails, suspects)
    if found is None or len(found) <= MOST:
        return found
    size = max(2, -(-len(suspects) // BLOCKS))
    blocks = [frozenset(suspects[i : i + size]) for i in range(0, len(suspects), size)]
    chosen = culprits(lambda aside: fails(frozenset[T]().union(*aside)), blocks)
    return found if chosen is None or len(chosen) > MOST else frozenset[T]().union(*chosen)


def surroundings(cluster: Cluster) -> list[Suspect]:
    """Everything but jobs that may be to blame; first what is missed least."""
    elected = [*((cluster.elect,) if cluster.elect else ()), *cluster.locks]
    keys: dict[str, list[str]] = {
        LOAD: [load.node for load in cluster.loads],
        IMAGE: [image.name for image in cluster.images],
        WEIGHT: list(cluster.namespace_weights),
        QUOTA: [quota.key for quota in cluster.quotas],
        POOL: list(cluster.resized),
        FACT: [_named(fact) for fact in cluster.facts],
        ELECTION: [one.job for one in elected],
        VOLUMES: [room.name for room in cluster.rooms],
        BUDGET: [budget.key for budget in cluster.budgets],
        HYPERNODE: [hypernode.name for hypernode in cluster.hypernodes],
        NODE: [node.name for node in cluster.nodes],
        QUEUE: [queue.name for queue in cluster.queues],
    }
    return [Suspect(kind, key) for kind in keys for key in sorted(set(keys[kind]))]


def bare_around(cluster: Cluster, reasons: Mapping[Suspect, str]) -> Cluster:
    """The cluster in which these suspects, except for jobs, are missing or protect what depends on them."""
    if all(suspect.kind == JOB for suspect in reasons):
        return cluster

    def kept(kind: str, key: str) -> bool:
        return Suspect(kind, key) not in reasons

    elect = cluster.elect
    return replace(
        cluster,
        loads=tuple(load for load in cluster.loads if kept(LOAD, load.node)),
        images=tuple(i for i in cluster.images if kept(IMAGE, i.name)),
        namespace_weights={k: w for k, w in cluster.namespace_weights.items() if kept(WEIGHT, k)},
        quotas=tuple(q for q in cluster.quotas if kept(QUOTA, q.key)),
        resized={k: at for k, at in cluster.resized.items() if kept(POOL, k)},
        elect=elect if elect is not None and kept(ELECTION, elect.job) else None,
        locks=tuple(lock for lock in cluster.locks if kept(ELECTION, lock.job)),
        facts=tuple(f for f in cluster.facts if kept(FACT, _named(f))),
        rooms=tuple(r if kept(VOLUMES, r.name) else _no_room(r) for r in cluster.rooms),
        budgets=tuple(b if kept(BUDGET, b.key) else Budget(b.key, 0) for b in cluster.budgets),
        hypernodes=tuple(h for h in cluster.hypernodes if kept(HYPERNODE, h.name)),
        nodes=tuple(n for n in cluster.nodes if kept(NODE, n.name)),
        queues=tuple(
            q if kept(QUEUE, q.name) else _bare_queue(q, reasons[Suspect(QUEUE, q.name)]) for q in cluster.queues
        ),
    )


def _named(fact: Fact) -> str:
    return " ".join(filter(None, (f"{fact.plugin}/{fact.name}", fact.key)))


def _bare_queue(queue: Queue, reason: str) -> Queue:
    """A queue whose jobs wait, and from which no other queue takes anything back."""
    return Queue(
        queue.name, parent=queue.parent, created=queue.created, uid=queue.uid, broken=reason, reclaimable=False
    )


def _no_room(room: VolumeRoom) -> VolumeRoom:
    """No node takes another volume, because how many it can take is not known."""
    return VolumeRoom(
        room.name, room.code, f"left out for volumes of `{room.name}` because of a bug", others=0, total=0
    )


def bare_job(job: Job, tasks: Collection[Task], reason: str) -> tuple[Job, tuple[Task, ...]]:
    """A job that is set aside: only its queue and the room of its pods are left of it."""
    kept = tuple(
        Task(
            task.key,
            job.key,
            Shape(requests=task.shape.requests),
            status=task.status,
            node=task.node,
            created=task.created,
            uid=task.uid,
            preemptable=False,
            foreign=True,  # never a victim, whatever is believed of tenants
            budgets=task.budgets,
        )
        for task in tasks
        if task.status in TAKES_ROOM
    )
    return Job(job.key, queue=job.queue, created=job.created, uid=job.uid, broken=reason), kept


def bare_change(change: Changed, reason: str) -> Changed:
    return None if change is None else bare_job(*change, reason)


def bare_cluster(cluster: Cluster, reasons: Mapping[Suspect, str]) -> Cluster:
    """The cluster with these suspects set aside, each for its reason."""
    cluster = bare_around(cluster, reasons)
    of_jobs = {suspect.key: reason for suspect, reason in reasons.items() if suspect.kind == JOB}
    if not of_jobs:
        return cluster
    tasks: dict[str, list[Task]] = {key: [] for key in of_jobs}
    others: list[Task] = []
    for task in cluster.tasks:
        tasks.get(task.job, others).append(task)
    jobs = []
    for job in cluster.jobs:
        if job.key in of_jobs:
            job, kept = bare_job(job, tasks[job.key], of_jobs[job.key])
            others.extend(kept)
        jobs.append(job)
    return replace(cluster, jobs=tuple(jobs), tasks=tuple(others))
