"""Storage that a driver has left, as its CSIStorageCapacity objects state: for volumes that do not exist yet.

Kubernetes' rule: if the CSIDriver says `storageCapacity: true`, a claim that waits for its first consumer goes only to
nodes for which an object of its class states enough. A `VolumeRoom` for each class and size counts how many volumes of
that size each node may still get. A claim with a selected node is not counted: its driver has the request by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from maar.kube.read.selectors import selector
from maar.kube.read.storage.claims import class_of, storage
from maar.kube.wire.volumes import CsiStorageCapacity, PersistentVolumeClaim
from maar.model.fitting import how_many
from maar.model.nodes import HOSTNAME, Node
from maar.model.resources import UNLIMITED
from maar.model.selectors import Selector
from maar.model.volumes import NO_STORAGE, VolumeRoom


class Provision(msgspec.Struct, frozen=True, order=True):
    """A volume that has to be made; equal ones share a room."""

    storage_class: str
    size: int

    @property
    def room(self) -> str:
        return f"storage {self.storage_class} {self.size}"


def provision(claim: PersistentVolumeClaim) -> Provision:
    return Provision(class_of(claim), storage(claim.spec.resources.requests) or 0)


def volumes_left(capacity: CsiStorageCapacity, size: int) -> int:
    """How many volumes of a size fit. As in Kubernetes, the largest size decides whether one does, if stated."""
    free, largest = (_amount(text) for text in (capacity.capacity, capacity.maximum_volume_size))
    limit = free if largest is None else largest
    if limit is None or size > limit:
        return 0
    return UNLIMITED if free is None or size <= 0 else max(how_many([free], [size]), 1)


def rooms(
    wanted: Iterable[Provision], capacities: Iterable[CsiStorageCapacity], nodes: Mapping[str, Node]
) -> list[VolumeRoom]:
    """How many volumes of each class and size each node may still get."""
    by_class: dict[str, list[CsiStorageCapacity]] = {}
    for capacity in capacities:
        by_class.setdefault(capacity.storage_class_name, []).append(capacity)
    labelled = _Labelled(nodes)
    found = []
    for want in wanted:
        counts: dict[str, int] = {}
        for capacity in by_class.get(want.storage_class, ()):
            count = volumes_left(capacity, want.size)
            for node in labelled.nodes(capacity) if count else ():
                counts[node] = max(counts.get(node, 0), count)
        words = f"have too little free storage of class `{want.storage_class}`"
        found.append(VolumeRoom(want.room, NO_STORAGE, words, counts, others=0))
    return found


class _Labelled:
    """Nodes by their labels: a driver may have an object for each node, which one label names."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._labels = {
            name: node.labels if HOSTNAME in node.labels else {**node.labels, HOSTNAME: name}
            for name, node in nodes.items()
        }
        self._by_key: dict[str, dict[str, list[str]]] = {}

    def nodes(self, capacity: CsiStorageCapacity) -> Iterable[str]:
        """The nodes that can get volumes from it; without a topology none can."""
        if capacity.node_topology is None:
            return ()
        wanted = selector(capacity.node_topology)
        return [name for name in self._candidates(wanted) if wanted.matches(self._labels[name])]

    def _candidates(self, wanted: Selector) -> Iterable[str]:
        one = next((r for r in wanted.requirements if r.operator == "In"), None)
        if one is None:
            return self._labels
        values = self._by_key.get(one.key)
        if values is None:
            values = self._by_key[one.key] = {}
            for name, labels in self._labels.items():
                if one.key in labels:
                    values.setdefault(labels[one.key], []).append(name)
        return [name for value in dict.fromkeys(one.values) for name in values.get(value, ())]


def _amount(stated: str | int | float | None) -> int | None:
    """The storage in bytes; `None` if it is not stated, or not a quantity."""
    return None if stated is None else storage({"storage": stated})
