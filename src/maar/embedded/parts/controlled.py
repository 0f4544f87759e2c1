"""What controllers of one kind have in common: the pods of each object, and which objects to look at next."""

from __future__ import annotations

from collections.abc import Callable

from maar.embedded.objects.api import Api
from maar.embedded.objects.errors import Obj
from maar.embedded.objects.kinds import PODS, Kind
from maar.embedded.objects.store import Event, Item, Key
from maar.embedded.parts.dirty import Dirty


class Controlled:
    """The objects of one kind, and the pods that they control. `look` is called for each object that has changed."""

    def __init__(self, api: Api, kind: Kind, look: Callable[[Item, list[Obj]], None], delay: float = 0.0) -> None:
        self.kind = kind
        self._look = look
        self._objects, self._all_pods = api.store.table(kind), api.store.table(PODS)
        self._pods: dict[str, set[Key]] = {}
        """The pods of each object, by the uid of the object."""
        self._dirty: Dirty[Key] = Dirty(self._work, delay)
        for key, item in self._all_pods.items.items():
            self._learn(Event("ADDED", key, item, None))
        for key in self._objects.items:
            self._dirty.add(key)
        self._all_pods.listeners.append(self._learn)
        self._objects.listeners.append(self._listen)

    def close(self) -> None:
        self._all_pods.listeners.remove(self._learn)
        self._objects.listeners.remove(self._listen)
        self._dirty.close()

    def _listen(self, event: Event) -> None:
        if event.type == "DELETED":
            self._pods.pop(event.item.obj["metadata"]["uid"], None)
        self._dirty.add(event.key)

    def _learn(self, event: Event) -> None:
        for owner in event.item.obj["metadata"].get("ownerReferences") or ():
            is_ours = owner["kind"] == self.kind.kind and owner["apiVersion"] == self.kind.api_version
            if is_ours and owner.get("controller"):
                pods = self._pods.setdefault(owner["uid"], set())
                if event.type == "DELETED":
                    pods.discard(event.key)
                else:
                    pods.add(event.key)
                self._dirty.add((event.key[0], owner["name"]))

    def _work(self, key: Key) -> None:
        item = self._objects.items.get(key)
        if item is not None and not item.obj["metadata"].get("deletionTimestamp"):
            known, table = self._pods.get(item.obj["metadata"]["uid"], ()), self._all_pods.items
            self._look(item, [table[pod].obj for pod in sorted(known) if pod in table])
