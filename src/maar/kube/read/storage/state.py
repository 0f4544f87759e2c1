"""The state of storage: claims, volumes, classes and drivers' limits, and which pods use which claims.

Every picture has one `Storage`. It says which pods a change concerns, so that only these are read again. Pods without
claims are not in it. What the state means for a pod is in `volumes`.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from maar.kube.kinds import AnyKind
from maar.kube.kinds.cluster import CLAIMS, CSI_CAPACITIES, CSI_DRIVERS, CSI_NODES, STORAGE_CLASSES, VOLUMES
from maar.kube.read.storage import capacities
from maar.kube.read.storage.capacities import Provision, provision
from maar.kube.read.storage.claims import (
    NO_PROVISIONER,
    ONE_POD,
    claims_of,
    class_of,
    contested,
    is_bound,
    selected_node,
)
from maar.kube.read.storage.free_volumes import FreeVolumes, wanted
from maar.kube.read.storage.reach import Reach
from maar.kube.wire.base import Object
from maar.kube.wire.pods import Pod
from maar.kube.wire.values import seconds
from maar.kube.wire.volumes import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from maar.model.nodes import Node
from maar.model.volumes import IN_USE, LIMIT, VolumeRoom

KINDS: tuple[AnyKind, ...] = (CLAIMS, VOLUMES, STORAGE_CLASSES, CSI_NODES, CSI_DRIVERS, CSI_CAPACITIES)


class Storage:
    def __init__(
        self,
        claims: Mapping[str, PersistentVolumeClaim],
        volumes: Mapping[str, PersistentVolume],
        classes: Mapping[str, StorageClass],
        drivers: Mapping[str, CsiDriver],
        capacities: Mapping[str, CsiStorageCapacity],
        given: Container[str] = (),
    ) -> None:
        self._claims, self._volumes, self._classes = claims, volumes, classes
        self._drivers, self._capacities = drivers, capacities
        self._given = given
        """Pods with an assumed node that their object does not show yet."""
        self.claims_of: dict[str, tuple[str, ...]] = {}
        """The claims of each pod that uses claims."""
        self._users: dict[str, dict[str, Pod]] = {}
        self.free = FreeVolumes(self._volumes)
        self.limits: dict[str, dict[str, int]] = {}
        """The volume limit of each node, by driver; nodes without a limit are missing."""
        self.refused: dict[str, dict[str, float]] = {}
        """Nodes for which a claim could not get its volume, and until when they are avoided."""
        self.stale = True
        """Whether the rooms must be computed again."""
        self._rooms: tuple[VolumeRoom, ...] = ()
        self._awaited: frozenset[str] = frozenset()
        """Storage classes in whose room the last count was interested."""

    # -- look-ups

    def claim(self, key: str) -> PersistentVolumeClaim | None:
        return self._claims.get(key)

    def volume(self, name: str) -> PersistentVolume | None:
        return self._volumes.get(name)

    def volume_of(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """The volume that a claim has or has been given."""
        return self.volume(claim.spec.volume_name) if is_bound(claim) else self.free.given_to(claim)

    def class_of(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        """The storage class of a claim, if it exists."""
        return self._classes.get(class_of(claim))

    def is_static(self, claim: Object | None) -> bool:
        """Whether the class of a claim has no provisioner, so that it needs an existing volume."""
        if not isinstance(claim, PersistentVolumeClaim):
            return False
        found = self.class_of(claim)
        return found is not None and found.provisioner == NO_PROVISIONER

    def to_provision(self, claim: Object | None) -> Provision | None:
        """The volume that has to be made for a claim, if its driver states how much storage is left."""
        if not isinstance(claim, PersistentVolumeClaim) or is_bound(claim) or selected_node(claim):
            return None
        found = self.class_of(claim)
        driver = None if found is None else self._drivers.get(found.provisioner)
        if driver is None or not driver.spec.storage_capacity or self.free.given_to(claim) is not None:
            return None
        return provision(claim)

    def is_shared(self, claim: str) -> bool:
        """Whether several pods use a claim."""
        return len(self._users.get(claim, ())) > 1

    def is_contested(self, claim: Object | None) -> bool:
        """Whether several pods want a claim for one pod only."""
        if not isinstance(claim, PersistentVolumeClaim):
            return False
        return ONE_POD in claim.spec.access_modes and self.is_shared(claim.key)

    def first_user(self, claim: str) -> str:
        """The pod that has a claim for one pod only: a pod with a node, else the oldest."""
        users = self._users.get(claim, {})

        def rank(key: str) -> tuple[bool, bool, float, str]:
            pod = users[key]
            created = seconds(pod.metadata.creation_timestamp)
            return not pod.spec.node_name, key not in self._given, created, key

        return min(users, key=rank, default="")

    # -- what changes

    def note(self, kind: AnyKind, key: str, before: Object | None, after: Object | None) -> set[str]:
        """Take in a changed object of one of `KINDS`; returns the pods that it concerns."""
        if kind is CLAIMS:
            self.stale |= any(self._has_room(c) for c in (before, after))
            return set(self._users.get(key, ()))
        if kind is VOLUMES:
            return self._note_volume(key, before, after)
        if kind is CSI_CAPACITIES:
            self.stale |= any(self._is_awaited(item) for item in (before, after))
            return set()
        if kind is CSI_NODES and not self._note_limits(key, after):
            return set()
        self.stale = True
        return set(self.claims_of)

    def use(self, key: str, pod: Pod | None) -> set[str]:
        """Take in the claims of a changed pod; returns the pods of claims that are shared since, or no longer."""
        before = self.claims_of.pop(key, ())
        after = () if pod is None or pod.finished else tuple(claims_of(pod))
        were_shared = {name: self.is_shared(name) for name in (*before, *after)}
        self.stale |= any(self.is_contested(self.claim(name)) for name in were_shared)
        for claim in before:
            self._users[claim].pop(key)
            if not self._users[claim]:
                del self._users[claim]
        if pod is not None and after:
            self.claims_of[key] = after
            for claim in after:
                self._users.setdefault(claim, {})[key] = pod
        others: set[str] = set()
        for name, was_shared in were_shared.items():
            self.stale |= self._has_room(self.claim(name))
            if was_shared != self.is_shared(name):
                others.update(self._users.get(name, ()))
        return others

    def _has_room(self, claim: Object | None) -> bool:
        """Whether a room of its own, or of claims like it, depends on a claim."""
        return self.is_static(claim) or self.is_contested(claim) or self.to_provision(claim) is not None

    def refuse(self, claim: str, node: str, until: float) -> None:
        """A claim could not get its volume for a node."""
        self.refused.setdefault(claim, {})[node] = until

    def pardon(self, now: float) -> set[str]:
        """Forget refusals that have expired; returns the pods that may be tried again."""
        pods: set[str] = set()
        for claim, nodes in list(self.refused.items()):
            kept = {node: until for node, until in nodes.items() if until > now}
            if kept != nodes:
                pods.update(self._users.get(claim, ()))
            if kept:
                self.refused[claim] = kept
            else:
                del self.refused[claim]
        return pods

    def _note_volume(self, name: str, before: Object | None, after: Object | None) -> set[str]:
        old, new = (v if isinstance(v, PersistentVolume) else None for v in (before, after))
        self.stale |= self.free.note(name, old, new)
        pods: set[str] = set()
        for volume in (old, new):
            if volume is not None and volume.spec.claim_ref is not None:
                reference = volume.spec.claim_ref
                pods.update(self._users.get(f"{reference.namespace}/{reference.name}", ()))
        return pods

    def _is_awaited(self, capacity: Object | None) -> bool:
        """Whether a claim waits for storage of the class of a capacity; drivers write them again every minute."""
        if not isinstance(capacity, CsiStorageCapacity):
            return False
        return capacity.storage_class_name in self._awaited

    def _provisions(self) -> set[Provision]:
        """The volumes that have to be made for claims of pods."""
        claims = map(self.claim, self._users)
        return {want for claim in claims if (want := self.to_provision(claim)) is not None}

    def _note_limits(self, node: str, after: Object | None) -> bool:
        """Take in the limits of a node; returns whether the set of drivers with limits changed."""
        before = set(self.limits)
        for driver in [name for name, counts in self.limits.items() if node in counts]:
            del self.limits[driver][node]
            if not self.limits[driver]:
                del self.limits[driver]
        for there in after.spec.drivers if isinstance(after, CsiNode) else ():
            if there.allocatable.count is not None:
                self.limits.setdefault(there.name, {})[node] = max(there.allocatable.count, 0)
        self.stale = True
        return before != self.limits.keys()

    # -- how many there may be

    def _contested(self, claim: PersistentVolumeClaim) -> VolumeRoom:
        other = self.first_user(claim.key)
        words = f"are closed to it by claim `{claim.name}`, which is for one pod only: `{other}` has it"
        return VolumeRoom(contested(claim), IN_USE, words, total=1)

    def rooms(self, nodes: Mapping[str, Node]) -> tuple[VolumeRoom, ...]:
        """The limits of drivers, and the free volumes for claims that wait for one."""
        if not self.stale:
            return self._rooms
        found = [
            VolumeRoom(driver, LIMIT, f"at their volume limit of {driver}", dict(counts))
            for driver, counts in sorted(self.limits.items())
        ]
        claims = [claim for key in self._users if (claim := self.claim(key)) is not None]
        found += map(self._contested, sorted(filter(self.is_contested, claims), key=lambda claim: claim.key))
        kinds = {wanted(claim) for claim in claims if self.is_static(claim) and not is_bound(claim)}
        if kinds:
            reach = Reach(nodes)
            found += (self.free.room(kind, reach) for kind in sorted(kinds))
        provisions = self._provisions()
        self._awaited = frozenset(want.storage_class for want in provisions)
        if provisions:
            found += capacities.rooms(sorted(provisions), self._capacities.values(), nodes)
        self._rooms = tuple(found)
        self.stale = False
        return self._rooms
