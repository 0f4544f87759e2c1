"""From watches to the picture: every delta is taken in at once, and says whether a cycle is due.

Reading must never be slowed: a sink only updates dictionaries. What could help somebody who waits (a pod that ended, a
node that came, a queue that changed) wakes everybody; an arrival concerns only itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from maar.controller.tallies import stage
from maar.kube.client.informer import Changed, Delta, Removed, Replaced
from maar.kube.client.streams import Broken
from maar.kube.picture.picture import CLUSTER_WIDE, Picture
from maar.kube.read.objects import KINDS
from maar.kube.wire.base import Object
from maar.kube.wire.pods import Pod
from maar.kube.wire.resources import Resource
from maar.kube.wire.volumes import PersistentVolume


def home_of(resource: Resource[Object]) -> str | None:
    """Where objects of a resource are kept in the picture; `None` where it does not keep them."""
    kind = KINDS.get((resource.group, resource.kind))
    return None if kind is None else kind.home


class Sink:
    """Takes in what one informer delivers."""

    def __init__(
        self,
        picture: Picture,
        resource: Resource[Object],
        trigger: Callable[[], None],
        room: Callable[[], None],
        later: Callable[[], None] | None = None,
        moved: Callable[[str], None] = lambda pod: None,
    ) -> None:
        home = home_of(resource)
        assert home is not None, f"no home for {resource}"
        self._picture = picture
        self._home = home
        self._trigger = trigger
        self._room = room
        self._later = later or trigger
        self._moved = moved
        """Told of pods that start, end or leave, whether that matters to a decision or not."""
        self._keys: set[str] = set()

    def __call__(self, delta: Delta[Object]) -> None:
        """Take in a delta."""
        match delta:
            case Replaced(objects=objects):
                self._replace(objects)
            case Changed(object=item):
                self._put(item)
            case Removed(namespace=namespace, name=name):
                self._remove(namespace, name)

    def _key(self, namespace: str, name: str) -> str:
        return name if self._home in CLUSTER_WIDE else f"{namespace or 'default'}/{name}"

    def _replace(self, items: Iterable[Object | Broken]) -> None:
        # Several kinds may share a home (the training jobs): only what this one had before can be gone.
        before, self._keys = self._keys, set()
        for item in items:
            self._put(item)
        for key in before - self._keys:
            self._drop(key)
        self._picture.read_short()
        self._room()
        self._trigger()

    def _put(self, item: Object | Broken) -> None:
        key = self._key(item.namespace, item.name)
        self._keys.add(key)
        if isinstance(item, Broken):
            self._picture.broken(self._home, key, item.error, item.scheduler)
            self._trigger()
            return
        before = self._picture.objects.get(self._home, {}).get(key)
        if isinstance(item, Pod):
            if stage(before) != stage(item):
                self._moved(key)
            if self._is_expected(item):
                if not self._picture.confirm(item):
                    self._picture.put(self._home, item)
                return
        if not self._picture.put(self._home, item):
            return
        if self._gives_room(before, item):
            self._room()
        if self._picture.can_wait(self._home, before, item):
            self._later()
        else:
            self._trigger()

    def _remove(self, namespace: str, name: str) -> None:
        key = self._key(namespace, name)
        self._keys.discard(key)
        if self._drop(key):
            self._room()
            self._trigger()

    def _drop(self, key: str) -> bool:
        if stage(self._picture.objects.get(self._home, {}).get(key)):
            self._moved(key)
        return self._picture.drop(self._home, key)

    def _is_expected(self, pod: Pod) -> bool:
        """A bind of ours that comes back: nothing new."""
        assumed = self._picture.assumed.get(pod.key)
        if assumed is None or assumed.uid != pod.metadata.uid or not pod.spec.node_name or pod.finished:
            return False
        return assumed.node == pod.spec.node_name and pod.metadata.deletion_timestamp is None

    def _gives_room(self, before: Object | None, after: Object) -> bool:
        if isinstance(after, PersistentVolume):
            return after.spec.claim_ref is None
        if not isinstance(after, Pod):
            return self._home not in ("volcano_groups", "upstream_groups", "plugins_groups", "claims")
        if after.finished or after.metadata.deletion_timestamp is not None:
            return True
        return isinstance(before, Pod) and not _begins(before, after)


def _begins(before: Pod, after: Pod) -> bool:
    """That a pod's kubelet has it now: its room was taken the moment it was bound, so this helps nobody."""
    same = before.spec == after.spec and before.metadata.labels == after.metadata.labels
    return same and bool(before.spec.node_name) and before.status.phase == "Pending"
