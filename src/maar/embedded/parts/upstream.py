"""Protection of `scheduling.k8s.io` PodGroups: a deleted group stays until no pod uses it.

The other rules for these groups, as in 1.36 with the gates GenericWorkload and GangScheduling, are in
`maar.embedded.objects.rules`.
"""

from __future__ import annotations

from maar.embedded.objects.api import Api
from maar.embedded.objects.errors import Obj
from maar.embedded.objects.kinds import PODS, UPSTREAM_GROUPS
from maar.embedded.objects.rules import PROTECTION
from maar.embedded.objects.store import Event, Key
from maar.embedded.parts.dirty import Dirty


class GroupProtection:
    """Removes the finalizer of a deleted group once no pod uses the group."""

    def __init__(self) -> None:
        self.dirty: Dirty[Key] = Dirty(self._look)

    def open(self, api: Api) -> None:
        """Look at all groups and start listening."""
        self.api = api
        for key in api.store.table(UPSTREAM_GROUPS).items:
            self.dirty.add(key)
        api.store.table(UPSTREAM_GROUPS).listeners.append(self._listen)
        api.store.table(PODS).listeners.append(self._listen_to_pods)

    def close(self) -> None:
        self.api.store.table(UPSTREAM_GROUPS).listeners.remove(self._listen)
        self.api.store.table(PODS).listeners.remove(self._listen_to_pods)
        self.dirty.close()

    def _listen(self, event: Event) -> None:
        if event.item.obj["metadata"].get("deletionTimestamp"):
            self.dirty.add(event.key)

    def _listen_to_pods(self, event: Event) -> None:
        if name := _group(event.item.obj):
            self.dirty.add((event.key[0], name))

    def _look(self, key: Key) -> None:
        item = self.api.store.table(UPSTREAM_GROUPS).items.get(key)
        if item is None or not item.obj["metadata"].get("deletionTimestamp"):
            return
        if any(_uses(pod.obj, key) for pod in self.api.objects(PODS)):
            return

        def without(group: Obj) -> Obj:
            finalizers = group["metadata"].get("finalizers") or []
            group["metadata"]["finalizers"] = [name for name in finalizers if name != PROTECTION]
            return group

        self.api.change(UPSTREAM_GROUPS, *key, without)


def _group(pod: Obj) -> str:
    name: str = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName") or ""
    return name


def _uses(pod: Obj, key: Key) -> bool:
    if (pod["metadata"]["namespace"], _group(pod)) != key:
        return False
    return pod["status"].get("phase") not in ("Succeeded", "Failed")
