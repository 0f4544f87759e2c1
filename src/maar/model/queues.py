"""Queues: a tree with weights, guarantees and limits. Each job is charged to one queue.

Queue arithmetic (sums over a cluster, weights) uses Python integers, which do not overflow. An invalid queue (its
parent is missing, or the parents form a cycle) is kept with the reason, so that only its own jobs, and those of the
queues below it, wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from maar.model.codes import NAMESPACE, QUEUE_CLOSED
from maar.model.reasons import Reason

if TYPE_CHECKING:
    from maar.model.jobs import Job

ROOT = "root"
DEFAULT = "default"


class NodeGroups(msgspec.Struct, frozen=True):
    """The groups of nodes that jobs of a queue may use and should avoid, by name."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    avoided: tuple[str, ...] = ()
    """Allowed, but only if no other node fits."""

    def __bool__(self) -> bool:
        """Whether any group is named."""
        return bool(self.required or self.preferred or self.forbidden or self.avoided)


class GroupLimits(msgspec.Struct, frozen=True):
    """How much of each resource the jobs of a queue may have in node groups, or why that cannot be read."""

    amounts: dict[str, dict[str, int]] = {}
    """Amounts by node group, then by resource."""
    problem: str = ""


class Queue(msgspec.Struct, frozen=True):
    """One queue. Amounts are whole units; `None` means not specified."""

    name: str
    weight: int = 1
    capability: dict[str, int] | None = None
    deserved: dict[str, int] | None = None
    guarantee: dict[str, int] | None = None
    parent: str = ""
    priority: int = 0
    reclaimable: bool = True
    open: bool = True
    hierarchy: tuple[str, ...] = ()
    """The path for hdrf, from `volcano.sh/hierarchy`."""
    hierarchy_weights: tuple[int, ...] = ()
    created: float = 0.0
    uid: str = ""
    broken: str = ""
    """Why the queue is invalid; its jobs wait for this reason."""
    namespaces: tuple[str, ...] | None = None
    """The namespaces whose jobs it accepts; `None`: all."""
    priority_classes: tuple[str, ...] | None = None
    """The priority classes that it accepts besides the default class; `None`: all."""
    node_groups: NodeGroups | None = None
    """From `spec.affinity`; `None` if the queue has no affinity, so that it may inherit the one of its parent."""
    group_limits: GroupLimits = GroupLimits()
    """From `volcano.sh/nodegroup-resource-limits`."""
    pin: str = ""
    """The shard that should decide for a top-level queue, as written in `maar.dev/shard`."""


def closed(plugin: str, queue: str) -> Reason:
    """Why a plugin or an action gives nothing to the jobs of a closed queue."""
    return Reason(plugin, QUEUE_CLOSED.name, f"queue `{queue}` is closed", queue=queue)


class QueueTree:
    """All queues of a snapshot, sorted by name. `root` and `default` always exist."""

    def __init__(self, queues: Iterable[Queue]) -> None:
        known = {q.name: q for q in queues}
        known.setdefault(ROOT, Queue(ROOT, reclaimable=False))
        known.setdefault(DEFAULT, Queue(DEFAULT))
        self.queues: list[Queue] = [known[name] for name in sorted(known)]
        self.number: dict[str, int] = {q.name: i for i, q in enumerate(self.queues)}
        self.broken: list[str] = [q.broken for q in self.queues]
        self.path: list[tuple[int, ...]] = [self._path(i) for i in range(len(self.queues))]
        """For each queue: the queue itself, its parent, and so on up to the root."""
        self.children: list[list[int]] = [[] for _ in self.queues]
        for path in self.path:
            if len(path) > 1:
                self.children[path[1]].append(path[0])
        self._homes: dict[str, int] = {}
        """The first queue that lists each namespace."""
        for i, queue in enumerate(self.queues):
            for namespace in queue.namespaces or ():
                self._homes.setdefault(namespace, i)

    def __len__(self) -> int:
        return len(self.queues)

    @property
    def root(self) -> int:
        return self.number[ROOT]

    def refusal(self, job: Job) -> Reason | None:
        """Why a job may not be in the queue that it names; `None` if it may."""
        named = self.number.get(job.queue)
        if named is None:
            return Reason("maar", "QueueNotFound", f"queue `{job.queue}` does not exist", queue=job.queue)
        queue = self.queues[named]
        if queue.namespaces is not None and job.namespace not in queue.namespaces:
            what = f"queue `{queue.name}` accepts no jobs of namespace `{job.namespace}`"
            return Reason("maar", NAMESPACE.name, what, queue=job.queue)
        strange = self._strange_classes(job)
        if strange:
            what = f"queue `{queue.name}` does not accept priority class `{strange}`"
            return Reason("maar", "PriorityClassNotAccepted", what, queue=job.queue)
        return None

    def payer(self, job: Job) -> int:
        """The queue that pays for the running pods of a job, or -1.

        Anyone can create a pod that has a node already, and name any queue. So for a job that may not be in the queue
        that it names, the queue pays that lists its namespace, else `default`. For pods of other schedulers, which are
        in no queue, only a queue pays that lists their namespace.
        """
        named = self.number.get(job.queue)
        if named is not None:
            accepted = self.queues[named].namespaces
            if accepted is None or job.namespace in accepted:
                return named
        return self._homes.get(job.namespace, self.number[DEFAULT] if job.queue else -1)

    def demoted(self, job: Job) -> Job:
        """A job as its queue counts it: a priority class that the queue does not accept gives no priority."""
        return msgspec.structs.replace(job, priority=0) if job.priority > 0 and self._strange_classes(job) else job

    def _strange_classes(self, job: Job) -> str:
        payer = self.payer(job) if job.priority_classes else -1
        if payer < 0:
            return ""
        accepted = self.queues[payer].priority_classes
        return "" if accepted is None else next((c for c in job.priority_classes if c not in accepted), "")

    def is_leaf(self, queue: int) -> bool:
        return not self.children[queue]

    def _path(self, start: int) -> tuple[int, ...]:
        path = [start]
        while (queue := self.queues[path[-1]]).name != ROOT:
            parent = self.number.get(queue.parent or ROOT)
            if parent is None:
                self._break(start, f"parent queue `{queue.parent}` does not exist")
            elif parent in path:
                cycle = " -> ".join(self.queues[q].name for q in [*path[path.index(parent) :], parent])
                self._break(start, f"its parents form a cycle: {cycle}")
            else:
                path.append(parent)
                continue
            return (start, self.number[ROOT]) if start != self.number[ROOT] else (start,)
        # The limits of an invalid queue are unknown, so the queues below it wait too; root alone must not stop all.
        above = next((q for q in path[1:-1] if self.queues[q].broken), None)
        if above is not None:
            self._break(start, f"parent queue `{self.queues[above].name}` is invalid: {self.queues[above].broken}")
        return tuple(path)

    def _break(self, queue: int, why: str) -> None:
        self.broken[queue] = self.broken[queue] or why
