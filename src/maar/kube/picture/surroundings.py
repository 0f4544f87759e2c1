"""Everything around jobs: nodes and locks, queues, budgets, hypernodes, namespace weights, images, room for volumes,
the real load of nodes.

A part of the picture, which tells it what watches say and takes all of it once a cycle. Nodes and locks are read as
they come, since most of what is said about a node changes nothing; the rest is small and is read when it is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from maar.kube.kinds.cluster import BUDGETS, HYPERNODES, NODE_METRICS, NODES, QUEUES, QUOTAS, STATE
from maar.kube.kinds.kind import Kind
from maar.kube.picture.images import Images
from maar.kube.picture.problems import Problems
from maar.kube.picture.store import Store
from maar.kube.read.budgets import budget, cover
from maar.kube.read.facts import facts_on
from maar.kube.read.hypernodes import checked, hypernode
from maar.kube.read.loads import load
from maar.kube.read.nodes import lock, node
from maar.kube.read.queues import namespace_weight, namespace_weights, queue, quota
from maar.kube.read.state import State, read_state
from maar.kube.read.storage.state import Storage
from maar.kube.read.tasks import Member
from maar.kube.wire import cluster as wire
from maar.kube.wire.base import Object
from maar.kube.wire.errors import FieldError
from maar.model.facts import About, Fact
from maar.model.loads import Load
from maar.model.nodes import Node
from maar.model.plan import Lock
from maar.model.queues import Queue
from maar.model.resources import PODS
from maar.model.snapshot import Budget, Cluster
from maar.model.topology import HyperNode
from maar.model.volumes import VolumeRoom

T = TypeVar("T")
W = TypeVar("W", bound=Object)


@dataclass(eq=False, slots=True)
class Surroundings:
    """Everything but jobs and tasks."""

    _store: Store
    _storage: Storage
    _images: Images
    _problems: Problems
    _ours: Callable[[wire.Node], bool]
    _names: frozenset[str] | None
    nodes: dict[str, Node] = field(default_factory=dict)
    """Nodes that are ours."""
    covered: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The budgets of each covered pod."""
    rebuild: bool = True
    """Whether nodes or queues have changed, so that tables must be built again."""
    _stale: bool = True
    """Whether anything has changed since it was last taken."""
    locks: dict[str, Lock] = field(default_factory=dict)
    """Locks by node."""
    facts: dict[str, tuple[Fact, ...]] = field(default_factory=dict)
    """Facts by node."""
    _full: frozenset[str] = frozenset()
    """Nodes with pods whose requests are unknown."""
    _budgets: tuple[Budget, ...] = ()
    _measured: tuple[Load, ...] = ()
    _last: Cluster = field(default_factory=Cluster)

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
        was = (self.nodes.pop(name, None), self.locks.pop(name, None), self.facts.pop(name, ()))
        if after is not None and self._ours(after):
            try:
                if (NODES, name) not in self._problems.undecoded:
                    self.nodes[name] = node(after)
            except FieldError as error:
                self._problems.found(NODES, after, error, "it takes no pods")
            locked, facts = lock(after), facts_on(after.metadata, About.NODE)
            if locked is not None:
                self.locks[name] = locked
            if facts:
                self.facts[name] = facts
        is_ = (self.nodes.get(name), self.locks.get(name), self.facts.get(name, ()))
        self._stale |= name in self._store.of(NODE_METRICS)  # its capacity may have changed
        if was == is_:
            return False
        self._stale = True
        if was[0] != is_[0]:
            self.rebuild = self._storage.stale = True
        return was[:2] != is_[:2]

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
            made = Budget(item.key, 0)
            try:
                if (BUDGETS, item.key) not in self._problems.undecoded:
                    inside = cover(item, inside)
                    made = budget(item, inside)
            except FieldError as error:
                self._problems.found(BUDGETS, item, error, "it lets no pod go")
            except Exception as error:  # noqa: BLE001 a bug of ours affects this object only
                self._problems.bug(BUDGETS, item.key, error)
            found.append(made)
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
                hypernodes=tuple(self._each(HYPERNODES, self._hypernode, "no node belongs to it")),
                namespace_weights=namespace_weights(self._each(QUOTAS, _weight, "it gives no weight")),
                quotas=tuple(self._each(QUOTAS, quota, "groups are admitted without it")),
                elect=state.elect,
                locks=tuple(self.locks.values()),
                facts=(*state.facts, *self._facts()),
                resized=state.resized,
                rooms=self._rooms(),
                images=self._images.take(),
                loads=self._loads(),
            )
            self._stale = False
        return self._last

    def _each(self, kind: Kind[W], read: Callable[[W], T | None], so: str) -> Iterator[T]:
        """What the objects of a kind state, without those that cannot be read; `so` says what follows from that."""
        for item in self._store.of(kind).values():
            try:
                found = read(item)
            except FieldError as error:
                self._problems.found(kind, item, error, so)
            except Exception as bug:  # noqa: BLE001 a bug of ours affects this object only
                self._problems.bug(kind, kind.key_of(item), bug)
            else:
                if found is not None:
                    yield found

    def _state(self) -> State:
        """What Maar remembers; in files, the namespace of the ConfigMap does not matter."""
        so = "elections, the last changes of pools and what plugins remember are forgotten"
        return next(self._each(STATE, lambda item: read_state(item, self._names), so), State())

    def _facts(self) -> Iterator[Fact]:
        """What plugins remember of queues and nodes."""
        for item in self._store.of(QUEUES).values():
            yield from facts_on(item.metadata, About.QUEUE)
        for facts in self.facts.values():
            yield from facts

    def _queue(self, of: wire.Queue, now: float) -> Queue:
        """A queue; one that cannot be read keeps its jobs waiting, and no other queue takes back what they have."""
        error = self._problems.undecoded.get((QUEUES, of.name), "")
        try:
            made = queue(of, now)
        except Exception as bug:  # noqa: BLE001 a bug of ours affects this object only
            made = Queue(of.name, parent=of.spec.parent)
            error = error or self._problems.bug(QUEUES, of.name, bug)
        error = error or made.broken
        if error:
            self._problems.invalid(QUEUES, of.name, error, "its jobs wait")
            made = msgspec.structs.replace(made, broken=error, reclaimable=False)
        return made

    def _hypernode(self, item: wire.HyperNode) -> HyperNode:
        try:
            return checked(item)
        except FieldError as error:
            self._problems.found(HYPERNODES, item, error, "no node belongs to it by this pattern")
            return hypernode(item)

    def _loads(self) -> tuple[Load, ...]:
        metrics = self._each(NODE_METRICS, self._load, "the load of the node is unknown")
        return tuple({load.node: load for load in (*self._measured, *metrics)}.values())

    def _load(self, item: wire.NodeMetrics) -> Load | None:
        """The load of a node that is ours."""
        return load(item, self._store.of(NODES)[item.name]) if item.name in self.nodes else None

    def _rooms(self) -> tuple[VolumeRoom, ...]:
        """The room for volumes; the last known one if it cannot be counted."""
        try:
            rooms = self._storage.rooms(self.nodes)
        except Exception as bug:  # noqa: BLE001 a bug of ours affects this object only
            self._problems.bug("volumes", "all nodes", bug)
            return self._last.rooms
        self._problems.valid("volumes", "all nodes")
        return rooms


def _weight(of: wire.ResourceQuota) -> tuple[str, int | None]:
    """The namespace of a quota, and the weight that it states."""
    return of.namespace, namespace_weight(of)


def _closed(of: Node) -> Node:
    """A node that takes no more pods. Every pod needs a slot, whatever plugins are configured."""
    return msgspec.structs.replace(of, allocatable={**of.allocatable, PODS: 0})
