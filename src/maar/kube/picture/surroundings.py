"""Everything around jobs: nodes and locks, queues, budgets, hypernodes, namespace weights, images, room for volumes,
the real load of nodes.

A part of the picture, which tells it what watches say and takes all of it once a cycle. Nodes and locks are read as
they come, since most of what is said about a node changes nothing; the rest is small and is read when it is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec

from maar.kube.kinds.cluster import BUDGETS, HYPERNODES, NODE_METRICS, NODES, QUEUES, QUOTAS, STATE
from maar.kube.picture.images import Images
from maar.kube.picture.problems import Problems
from maar.kube.picture.store import Store
from maar.kube.read.budgets import budget, cover
from maar.kube.read.hypernodes import checked, hypernode
from maar.kube.read.loads import load
from maar.kube.read.nodes import lock, node
from maar.kube.read.queues import namespace_weight, namespace_weights, queue, quota
from maar.kube.read.state import State, read_state
from maar.kube.read.storage.state import Storage
from maar.kube.read.tasks import Member
from maar.kube.wire import cluster as wire
from maar.kube.wire.errors import FieldError
from maar.model.loads import Load
from maar.model.nodes import Node
from maar.model.plan import Lock
from maar.model.queues import Queue
from maar.model.resources import PODS
from maar.model.snapshot import Budget, Cluster, Quota
from maar.model.topology import HyperNode
from maar.model.volumes import Room


class Surroundings:
    """Everything but jobs and tasks."""

    def __init__(
        self,
        store: Store,
        storage: Storage,
        images: Images,
        problems: Problems,
        ours: Callable[[wire.Node], bool],
        scheduler_names: frozenset[str] | None,
    ) -> None:
        self.nodes: dict[str, Node] = {}
        """Nodes that are ours."""
        self.covered: dict[str, tuple[str, ...]] = {}
        """The budgets of each covered pod."""
        self.rebuild = True
        """Whether nodes or queues have changed, so that tables must be built again."""
        self._stale = True
        """Whether anything has changed since it was last taken."""
        self._store = store
        self._storage = storage
        self._images = images
        self._problems = problems
        self._ours = ours
        self._names = scheduler_names
        self.locks: dict[str, Lock] = {}
        """Locks by node."""
        self._full: frozenset[str] = frozenset()
        """Nodes with pods whose requests are unknown."""
        self._budgets: tuple[Budget, ...] = ()
        self._measured: tuple[Load, ...] = ()
        self._last = Cluster()

    # -- what watches say

    def note(self) -> None:
        """An object changed that is read once a cycle."""
        self._stale = True

    def note_queue(self) -> None:
        """A queue changed."""
        self._stale = self.rebuild = True

    def measured(self, loads: tuple[Load, ...]) -> None:
        """What monitoring other than the metrics API has measured; replaces all earlier figures of it."""
        self._stale = True
        self._measured = loads

    def close_nodes(self, names: frozenset[str]) -> None:
        """These nodes, and no others, take no more pods: what their pods request is unknown."""
        if names != self._full:
            self._full = names
            self._stale = self.rebuild = True

    def note_node(self, name: str, after: wire.Node | None) -> bool:
        """A node changed; false if nothing that counts did."""
        was = (self.nodes.pop(name, None), self.locks.pop(name, None))
        if after is not None and self._ours(after):
            try:
                if (NODES, name) not in self._problems.undecoded:
                    self.nodes[name] = node(after)
            except FieldError as error:
                self._problems.found(NODES, after, error, "it takes no pods")
            held = lock(after)
            if held is not None:
                self.locks[name] = held
        is_ = (self.nodes.get(name), self.locks.get(name))
        self._stale |= name in self._store.of(NODE_METRICS)  # its capacity may have changed
        if was == is_:
            return False
        self._stale = True
        if was[0] != is_[0]:
            self.rebuild = self._storage.stale = True
        return True

    # -- what a cycle takes

    def cover(self, members: Collection[Member]) -> set[str]:
        """Find again what budgets cover; returns the pods whose budgets changed."""
        found: list[Budget] = []
        by_pod: dict[str, list[str]] = {}
        budgets = self._store.of(BUDGETS).values()
        there: dict[str, list[Member]] = {item.namespace: [] for item in budgets}
        for m in members if there else ():
            if (near := there.get(m.pod.namespace)) is not None:
                near.append(m)
        for item in budgets:
            inside = there[item.namespace]
            try:
                if (BUDGETS, item.key) in self._problems.undecoded:
                    found.append(Budget(item.key, 0))
                else:
                    inside = cover(item, inside)
                    found.append(budget(item, inside))
            except FieldError as error:
                self._problems.found(BUDGETS, item, error, "it lets no pod go")
                found.append(Budget(item.key, 0))
            except Exception as error:
                self._problems.bug(BUDGETS, item.key, error)
                found.append(Budget(item.key, 0))
            for m in inside:
                by_pod.setdefault(m.pod.key, []).append(item.key)
        covered = {key: tuple(sorted(keys)) for key, keys in by_pod.items()}
        before, self.covered, self._budgets = self.covered, covered, tuple(found)
        return {key for key in before.keys() | covered.keys() if before.get(key) != covered.get(key)}

    def take(self, now: float) -> Cluster:
        """Everything but jobs and tasks. `now` is the creation time of a queue that states none."""
        if self._stale or self._budgets or self._storage.stale or self._images.stale:
            state = self._state()
            self._last = Cluster(
                nodes=tuple(_closed(n) if n.name in self._full else n for n in self.nodes.values()),
                queues=tuple(self._queue(q, now) for q in self._store.of(QUEUES).values()),
                budgets=self._budgets,
                hypernodes=tuple(
                    h for item in self._store.of(HYPERNODES).values() if (h := self._hypernode(item)) is not None
                ),
                namespace_weights=namespace_weights(map(self._weight, self._store.of(QUOTAS).values())),
                quotas=tuple(q for item in self._store.of(QUOTAS).values() if (q := self._quota(item)) is not None),
                elect=state.elect,
                locks=tuple(self.locks.values()),
                expired=state.expired,
                resized=state.resized,
                rounds=state.rounds,
                rooms=self._rooms(),
                images=self._images.take(),
                loads=self._loads(),
            )
            self._stale = False
        return self._last

    def _state(self) -> State:
        """What Maar remembers; in files, the namespace of the ConfigMap does not matter."""
        for item in self._store.of(STATE).values():
            try:
                return read_state(item, self._names)
            except FieldError as error:
                self._problems.found(
                    STATE,
                    item,
                    error,
                    "elections, the last changes of pools and the last rounds of evictions are forgotten",
                )
            except Exception as bug:
                self._problems.bug(STATE, item.key, bug)
        return State()

    def _queue(self, of: wire.Queue, now: float) -> Queue:
        """A queue; one that cannot be read keeps its jobs waiting, and no other queue takes back what they have."""
        error = self._problems.undecoded.get((QUEUES, of.name), "")
        try:
            made = queue(of, now)
        except Exception as bug:
            made = Queue(of.name, parent=of.spec.parent)
            error = error or self._problems.bug(QUEUES, of.name, bug)
        error = error or made.broken
        if error:
            self._problems.invalid(QUEUES, of.name, error, "its jobs wait")
            made = msgspec.structs.replace(made, broken=error, reclaimable=False)
        return made

    def _hypernode(self, item: wire.HyperNode) -> HyperNode | None:
        try:
            return checked(item)
        except FieldError as error:
            self._problems.found(HYPERNODES, item, error, "no node belongs to it by this pattern")
            return hypernode(item)
        except Exception as bug:
            self._problems.bug(HYPERNODES, item.name, bug)
            return None

    def _weight(self, quota: wire.ResourceQuota) -> tuple[str, int | None]:
        """The namespace of a quota, and the weight that it states."""
        try:
            return quota.namespace, namespace_weight(quota)
        except FieldError as error:
            self._problems.found(QUOTAS, quota, error, "it gives no weight")
        except Exception as bug:
            self._problems.bug(QUOTAS, quota.key, bug)
        return quota.namespace, None

    def _quota(self, item: wire.ResourceQuota) -> Quota | None:
        try:
            return quota(item)
        except FieldError as error:
            self._problems.found(QUOTAS, item, error, "groups are admitted without it")
        except Exception as bug:
            self._problems.bug(QUOTAS, item.key, bug)
        return None

    def _loads(self) -> tuple[Load, ...]:
        found = {load.node: load for load in self._measured}
        for item in self._store.of(NODE_METRICS).values():
            if item.name in self.nodes and (made := self._load(item)) is not None:
                found[item.name] = made
        return tuple(found.values())

    def _load(self, item: wire.NodeMetrics) -> Load | None:
        try:
            return load(item, self._store.of(NODES)[item.name])
        except FieldError as error:
            self._problems.found(NODE_METRICS, item, error, "the load of the node is unknown")
        except Exception as bug:
            self._problems.bug(NODE_METRICS, item.name, bug)
        return None

    def _rooms(self) -> tuple[Room, ...]:
        """The room for volumes; the last known one if it cannot be counted."""
        try:
            rooms = self._storage.rooms(self.nodes)
        except Exception as bug:
            self._problems.bug("volumes", "all nodes", bug)
            return self._last.rooms
        self._problems.valid("volumes", "all nodes")
        return rooms


def _closed(of: Node) -> Node:
    """A node that takes no more pods. Every pod needs a slot, whatever plugins are configured."""
    return msgspec.structs.replace(of, allocatable={**of.allocatable, PODS: 0})
