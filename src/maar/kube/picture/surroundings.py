"""The live picture's surroundings of jobs: nodes, locks, queues, budgets, hypernodes, weights and rooms for volumes.

A part of `maar.kube.picture.picture`, which tells it what watches say and takes all of it once a cycle. Nodes and locks
are read as they come, since most of what is said of a node changes nothing; the rest is few and is read when it is
taken.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

import msgspec

from maar.kube.read.budgets import budget, cover
from maar.kube.read.hypernodes import hypernode
from maar.kube.read.nodes import lock, node
from maar.kube.read.queues import namespace_weight, namespace_weights, queue
from maar.kube.read.storage import Storage
from maar.kube.read.tasks import Member
from maar.kube.wire import cluster as wire
from maar.kube.wire.base import Object
from maar.kube.wire.errors import FieldError
from maar.model.nodes import Node
from maar.model.plan import Lock
from maar.model.queues import Queue
from maar.model.snapshot import Budget, Cluster

W = TypeVar("W", bound=Object)

log = logging.getLogger(__name__)


class Surroundings:
    """Everything but jobs and tasks."""

    def __init__(
        self,
        objects: Mapping[str, Mapping[str, Object]],
        storage: Storage,
        ours: Callable[[wire.Node], bool],
    ) -> None:
        self.nodes: dict[str, Node] = {}
        """Those of ours."""
        self.covered: dict[str, tuple[str, ...]] = {}
        """The budgets of each pod that has some."""
        self.anew = True
        """Whether nodes or queues have changed; who has heeded it says so."""
        self._stale = True
        """Whether anything has changed since it was last taken."""
        self._objects = objects
        self._storage = storage
        self._ours = ours
        self._locks: dict[str, Lock] = {}
        self._broken_queues: dict[str, str] = {}
        self._budgets: tuple[Budget, ...] = ()
        self._last = Cluster()
        self._told: dict[str, str] = {}
        """The versions of objects that make no sense of which it was said."""

    # -- what watches say

    def note(self) -> None:
        """Something came, went or changed that is read when it is taken."""
        self._stale = True

    def note_queue(self, name: str, error: str = "") -> None:
        """A queue came, went or changed, or cannot be read."""
        self._stale = self.anew = True
        self._broken_queues.pop(name, None)
        if error:
            self._broken_queues[name] = error

    def note_node(self, name: str, after: Object | None) -> bool:
        """A node came, went or changed; false if in nothing that counts."""
        was = (self.nodes.pop(name, None), self._locks.pop(name, None))
        if isinstance(after, wire.Node) and self._ours(after):
            try:
                # Images change whenever a pod starts; they would make tables anew all the time for a small score.
                self.nodes[name] = msgspec.structs.replace(node(after), images={})
            except FieldError as error:
                self._tell(after, error, "it takes no pods")
            held = lock(after)
            if held is not None:
                self._locks[name] = held
        is_ = (self.nodes.get(name), self._locks.get(name))
        if was == is_:
            return False
        self._stale = True
        if was[0] != is_[0]:
            self.anew = self._storage.stale = True
        return True

    # -- what a cycle takes

    def cover(self, members: Collection[Member]) -> set[str]:
        """Count anew what budgets cover; the pods that have others now."""
        found: list[Budget] = []
        covered: dict[str, tuple[str, ...]] = {}
        for item in self._all("budgets", wire.PodDisruptionBudget):
            inside: list[Member] = []
            try:
                inside = cover(item, (m for m in members if m.pod.namespace == item.namespace))
                found.append(budget(item, inside))
            except FieldError as error:
                self._tell(item, error, "it lets no pod go")
                found.append(Budget(item.key, 0))
            for m in inside:
                covered[m.pod.key] = (*covered.get(m.pod.key, ()), item.key)
        covered = {key: tuple(sorted(keys)) for key, keys in covered.items()}
        before, self.covered, self._budgets = self.covered, covered, tuple(found)
        return {key for key in before.keys() | covered.keys() if before.get(key) != covered.get(key)}

    def take(self, now: float) -> Cluster:
        """All of it. `now` is when a queue that does not say so was created."""
        if self._stale or self._budgets or self._storage.stale:
            self._last = Cluster(
                nodes=tuple(self.nodes.values()),
                queues=tuple(self._queue(q, now) for q in self._all("queues", wire.Queue)),
                budgets=self._budgets,
                hypernodes=tuple(hypernode(h) for h in self._all("hypernodes", wire.HyperNode)),
                namespace_weights=namespace_weights(map(self._weight, self._all("quotas", wire.ResourceQuota))),
                locks=tuple(self._locks.values()),
                rooms=self._storage.rooms(self.nodes),
            )
            self._stale = False
        return self._last

    def _queue(self, of: wire.Queue, now: float) -> Queue:
        made, error = queue(of, now), self._broken_queues.get(of.name)
        return made if error is None else msgspec.structs.replace(made, broken=error)

    def _weight(self, quota: wire.ResourceQuota) -> tuple[str, int | None]:
        """The namespace of a quota, and the weight that it states."""
        try:
            return quota.namespace, namespace_weight(quota)
        except FieldError as error:
            self._tell(quota, error, "it gives no weight")
            return quota.namespace, None

    def _tell(self, item: Object, error: FieldError, what: str) -> None:
        """Log that an object makes no sense, once for each of its versions."""
        key, version = f"{type(item).__name__} `{item.key}`", item.metadata.resource_version
        if self._told.get(key) != version:
            self._told[key] = version
            log.warning("%s: %s: %s", key, error, what)

    def _all(self, home: str, struct: type[W]) -> list[W]:
        return [item for item in self._objects.get(home, {}).values() if isinstance(item, struct)]
