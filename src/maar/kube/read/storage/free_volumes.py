"""Existing volumes that no claim has: mostly local disks of nodes.

A class without a provisioner has only volumes that an administrator or a tool created. A claim of such a class gets a
free volume that is large enough and on the pod's node. A `VolumeRoom` counts these volumes on each node. Claims of all
sizes share the volumes of their class, so a room subtracts everything that other claims of the class may take. This is
exact for claims of one size, and never too many otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from maar.kube.read.selectors import selector
from maar.kube.read.storage.claims import class_of, storage
from maar.kube.read.storage.reach import Reach, volume_ways
from maar.kube.wire.volumes import PersistentVolume, PersistentVolumeClaim
from maar.model.selectors import Selector
from maar.model.volumes import NO_VOLUME, VolumeRoom


class WantedVolume(msgspec.Struct, frozen=True, order=True):
    """What a claim asks of a volume; equal claims share a room."""

    storage_class: str
    size: int
    access: tuple[str, ...]
    mode: str
    selector: Selector

    @property
    def room(self) -> str:
        """The name of the room that counts the fitting volumes."""
        labels = ",".join(f"{r.key} {r.operator} {'|'.join(r.values)}" for r in self.selector.requirements)
        return " ".join((self.pool, str(self.size), ",".join(self.access), self.mode, labels)).strip()

    @property
    def pool(self) -> str:
        """The volumes that are counted together."""
        return f"class {self.storage_class}"

    def fits(self, volume: PersistentVolume) -> bool:
        spec, size = volume.spec, storage(volume.spec.capacity)
        return (
            size is not None
            and size >= self.size
            and spec.volume_mode == self.mode
            and set(self.access) <= set(spec.access_modes)
            and self.selector.matches(volume.metadata.labels)
        )


def wanted(claim: PersistentVolumeClaim) -> WantedVolume:
    spec = claim.spec
    return WantedVolume(
        class_of(claim),
        storage(spec.resources.requests) or 0,
        tuple(sorted(spec.access_modes)),
        spec.volume_mode,
        Selector() if spec.selector is None else selector(spec.selector),
    )


class FreeVolumes:
    """Free volumes by class, and volumes that are given to a claim whose object does not show it yet."""

    def __init__(self, volumes: Mapping[str, PersistentVolume]) -> None:
        self._volumes = volumes
        self._by_class: dict[str, dict[str, None]] = {}
        self._given: dict[str, dict[str, None]] = {}

    def note(self, name: str, before: PersistentVolume | None, after: PersistentVolume | None) -> bool:
        """Take in a changed volume; returns whether the free volumes changed."""
        for volume, there in ((before, False), (after, True)):
            if volume is None:
                continue
            reference = volume.spec.claim_ref
            if reference is not None:
                index, key = self._given, f"{reference.namespace}/{reference.name}"
            else:
                index, key = self._by_class, volume.spec.storage_class_name
            if there:
                index.setdefault(key, {})[name] = None
            else:
                index.get(key, {}).pop(name, None)
        return any(v is not None and v.spec.claim_ref is None for v in (before, after))

    def given_to(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        for volume in self._look_up(self._given.get(claim.key, ())):
            reference = volume.spec.claim_ref
            if reference is not None and reference.uid in ("", claim.metadata.uid):
                return volume
        return None

    def fitting(self, want: WantedVolume) -> list[PersistentVolume]:
        """The free volumes that fit, the smallest first."""
        free = self._look_up(self._by_class.get(want.storage_class, ()))
        fit = [v for v in free if _is_available(v) and want.fits(v)]
        return sorted(fit, key=lambda v: (storage(v.spec.capacity) or 0, v.name))

    def room(self, want: WantedVolume, reach: Reach) -> VolumeRoom:
        """The number of fitting volumes on each node."""
        counts: dict[str, int] = {}
        fitting = self.fitting(want)
        for volume in fitting:
            for node in reach.nodes(volume_ways(volume)):
                counts[node] = counts.get(node, 0) + 1
        words = f"have no free volume of class `{want.storage_class}` that fits"
        return VolumeRoom(want.room, NO_VOLUME, words, counts, others=0, total=len(fitting))

    def _look_up(self, names: Iterable[str]) -> Iterable[PersistentVolume]:
        return (self._volumes[name] for name in names if name in self._volumes)


def _is_available(volume: PersistentVolume) -> bool:
    return volume.status.phase == "Available" and volume.metadata.deletion_timestamp is None
