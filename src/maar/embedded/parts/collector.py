"""The garbage collector and the namespace controller: delete objects with their owners and with their namespace.

As in a real cluster, an object goes when all of its owners are gone. A foreground deletion waits for the dependents. An
orphaning deletion first removes the owner references of the dependents.
"""

from __future__ import annotations

from typing import Any

from maar.embedded.objects.api import Api
from maar.embedded.objects.deletion import FOREGROUND, ORPHAN
from maar.embedded.objects.errors import Obj
from maar.embedded.objects.kinds import NAMESPACES, Kind
from maar.embedded.objects.store import Event, Item, Key
from maar.embedded.parts.dirty import Dirty

Place = tuple[tuple[str, str], Key]
"""A table and the key of an object in it."""


def _owners(item: Item) -> set[str]:
    """The uids of the owners of an object."""
    return {owner["uid"] for owner in item.obj["metadata"].get("ownerReferences") or ()}


class Collector:
    """The garbage collector and the namespace controller."""

    def __init__(self) -> None:
        self.alive: dict[str, Place] = {}
        """The places of all objects, by uid."""
        self.dependents: dict[str, set[Place]] = {}
        """The objects with an owner, by the uid of the owner."""
        self.dirty: Dirty[Place] = Dirty(self._look)

    def open(self, api: Api) -> None:
        """Record all objects and start listening."""
        self.api = api
        for name, table in api.store.tables.items():
            for key, item in table.items.items():
                self._learn((name, key), item)
        api.store.listeners.append(self._listen)

    def close(self) -> None:
        self.api.store.listeners.remove(self._listen)
        self.dirty.close()

    def _listen(self, table: tuple[str, str], event: Event) -> None:
        place = (table, event.key)
        if event.type != "DELETED":
            self._learn(place, event.item)
            if event.previous is not None:
                for owner in _owners(event.previous) - _owners(event.item):
                    self._dependent_gone(owner, place)
            return
        metadata = event.item.obj["metadata"]
        self.alive.pop(metadata["uid"], None)
        for dependent in self.dependents.pop(metadata["uid"], ()):
            self.dirty.add(dependent)
        for owner in metadata.get("ownerReferences") or ():
            self._dependent_gone(owner["uid"], place)
        if event.key[0]:
            self._look_at_namespace(event.key[0])

    def _learn(self, place: Place, item: Item) -> None:
        metadata = item.obj["metadata"]
        self.alive[metadata["uid"]] = place
        for owner in metadata.get("ownerReferences") or ():
            self.dependents.setdefault(owner["uid"], set()).add(place)
            if owner["uid"] not in self.alive:
                self.dirty.add(place)
        if metadata.get("deletionTimestamp"):
            self.dirty.add(place)

    def _dependent_gone(self, owner: str, place: Place) -> None:
        """Forget a dependent, and look at its owner again if that was the last one."""
        waiting = self.dependents.get(owner)
        if waiting is not None:
            waiting.discard(place)
            if not waiting:
                del self.dependents[owner]
                if owner in self.alive:
                    self.dirty.add(self.alive[owner])

    def _look_at_namespace(self, name: str) -> None:
        item = self.api.store.table(NAMESPACES).items.get(("", name))
        if item is not None and item.obj["metadata"].get("deletionTimestamp"):
            self.dirty.add((NAMESPACES.table, ("", name)))

    def _look(self, place: Place) -> None:
        kind = self.api.kind_of(place[0])
        item = self.api.store.table(kind).items.get(place[1]) if kind else None
        if kind is None or item is None:
            return
        metadata = item.obj["metadata"]
        if self._is_orphaned(metadata):
            self.api.delete(kind, *place[1], {"propagationPolicy": "Background"})
        elif metadata.get("deletionTimestamp"):
            self._finish(kind, place[1], item)

    def _is_orphaned(self, metadata: Obj) -> bool:
        """Whether all owners are gone. Owners whose kind is not served here count as present."""
        owners = metadata.get("ownerReferences") or []
        if not owners or metadata.get("deletionTimestamp"):
            return False
        served = {(kind.api_version, kind.kind) for kind in self.api.kinds.values()}
        return all(o["uid"] not in self.alive and (o["apiVersion"], o["kind"]) in served for o in owners)

    def _finish(self, kind: Kind, key: Key, item: Item) -> None:
        """Do what the finalizers of a deleted object wait for."""
        metadata = item.obj["metadata"]
        finalizers, uid = metadata.get("finalizers") or [], metadata["uid"]
        if FOREGROUND in finalizers:
            for place in sorted(self.dependents.get(uid, ())):
                dependent = self.api.kind_of(place[0])
                if dependent is not None and place[1] in self.api.store.table(dependent).items:
                    self.api.delete(dependent, *place[1], {"propagationPolicy": "Background"})
            if not self.dependents.get(uid):
                self._take_off(kind, key, FOREGROUND)
        elif ORPHAN in finalizers:
            for place in sorted(self.dependents.get(uid, ())):
                self._orphan(place, uid)
            self._take_off(kind, key, ORPHAN)
        elif kind is NAMESPACES:
            self._empty(key[1])

    def _take_off(self, kind: Kind, key: Key, finalizer: str) -> None:
        def without(obj: Obj) -> Obj:
            obj["metadata"]["finalizers"] = [name for name in obj["metadata"]["finalizers"] if name != finalizer]
            return obj

        self.api.change(kind, *key, without)

    def _orphan(self, place: Place, owner: str) -> None:
        kind = self.api.kind_of(place[0])
        if kind is None or place[1] not in self.api.store.table(kind).items:
            return

        def without(obj: Obj) -> Obj:
            owners: list[Any] = obj["metadata"].get("ownerReferences") or []
            obj["metadata"]["ownerReferences"] = [o for o in owners if o["uid"] != owner]
            return obj

        self.api.change(kind, *place[1], without)

    def _empty(self, namespace: str) -> None:
        """Delete everything in a namespace, then the namespace itself once nothing is left."""
        left = False
        for table in tuple(self.api.store.tables):
            kind = self.api.kind_of(table)
            if kind is None or not kind.namespaced:
                continue
            for key in sorted(key for key in self.api.store.table(kind).items if key[0] == namespace):
                left |= not self.api.delete(kind, *key).gone
        if not left:
            self.api.change(NAMESPACES, "", namespace, lambda obj: {**obj, "spec": {}}, part="finalize")
