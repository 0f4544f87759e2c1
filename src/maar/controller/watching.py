"""From watches to the picture: applies every delta at once, and triggers a cycle if one is due.

Reading must stay fast: a sink only updates dictionaries. A change that could help waiting jobs (a pod ended, a node was
added, a queue changed) wakes all jobs; a new job concerns only itself. What matters only to a process that writes is
passed on as `PodNews`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from maar.kube.client.informer import Changed, Delta, Removed, Replaced
from maar.kube.client.streams import Broken
from maar.kube.kinds import AnyKind
from maar.kube.kinds.cluster import CLAIMS, PODS, PROVISIONING_REQUESTS, STATE
from maar.kube.kinds.kind import PodGroupKind
from maar.kube.picture.assumed import Assumed
from maar.kube.picture.picture import Picture
from maar.kube.read.requests import holds_the_same
from maar.kube.wire.base import Object
from maar.kube.wire.pods import Pod, stage
from maar.kube.wire.volumes import PersistentVolume


class PodMoved(NamedTuple):
    """A pod starts, ends or leaves, whether this matters to a decision or not."""

    key: str


class BoundByAnother(NamedTuple):
    """Another client has bound a waiting pod."""

    pod: Pod


class Retold(NamedTuple):
    """The condition or the nominated node of a waiting pod has changed, by any client."""

    pod: Pod


PodNews = PodMoved | BoundByAnother | Retold


class Cycles(Protocol):
    """Runs cycles. `wake`: look at all jobs, because room may have become free."""

    def trigger(self, *, wake: bool = False) -> None: ...

    def trigger_later(self, *, wake: bool = False) -> None: ...


@dataclass(eq=False, slots=True)
class Sink:
    """Takes the deltas of one informer."""

    _picture: Picture
    _kind: AnyKind
    _cycles: Cycles
    _tell: Callable[[PodNews], None] = lambda news: None
    _broken: set[str] = field(default_factory=set)
    """Objects that exist and cannot be decoded."""

    def __call__(self, delta: Delta[Object]) -> None:
        match delta:
            case Replaced(objects=objects):
                self._replace(objects)
            case Changed(object=item):
                self._put(item)
            case Removed(namespace=namespace, name=name):
                self._remove(namespace, name)

    def _replace(self, items: Iterable[Object | Broken]) -> None:
        kept = {self._put(item) for item in items}
        for key in [key for key in self._picture.objects.of(self._kind) if key not in kept]:
            self._drop(key)
        for key in self._broken - kept:
            self._drop(key)
        self._picture.read_short()
        self._cycles.trigger(wake=True)

    def _put(self, item: Object | Broken) -> str:
        """Take in one object. Whatever is wrong with it, the others follow."""
        key = self._kind.key(item.namespace, item.name)
        if not item.name:
            self._picture.problems.invalid(self._kind, key, "it has no name")
            return key
        try:
            self._take_in(key, item)
        except Exception as error:  # noqa: BLE001 a bug of ours affects this object only
            self._picture.problems.bug(self._kind, key, error)
            self._cycles.trigger()
        return key

    def _take_in(self, key: str, item: Object | Broken) -> None:
        if isinstance(item, Broken):
            self._broken.add(key)
            if self._picture.broken(self._kind, item.namespace, item.name, item.error, item.item):
                self._cycles.trigger(wake=True)
            return
        self._broken.discard(key)
        before = self._picture.objects.of(self._kind).get(key)
        if isinstance(item, Pod):
            if stage(before) != stage(item):
                self._tell(PodMoved(key))
            if self._is_expected(item) and (not isinstance(before, Pod) or holds_the_same(before, item)):
                if not self._picture.pods.confirm(item):
                    self._picture.put(self._kind, item)
                return
            if isinstance(before, Pod) and _is_bound_by_another(before, item, self._picture.assumed.get(key)):
                self._tell(BoundByAnother(item))
            if isinstance(before, Pod) and not item.spec.node_name and _says(before) != _says(item):
                self._tell(Retold(item))
        if not self._picture.put(self._kind, item):
            return
        wake = self._gives_room(before, item)
        if self._picture.can_wait(self._kind, before, item):
            self._cycles.trigger_later(wake=wake)
        else:
            self._cycles.trigger(wake=wake)

    def _remove(self, namespace: str, name: str) -> None:
        key = self._kind.key(namespace, name)
        if self._drop(key):
            self._cycles.trigger(wake=True)

    def _drop(self, key: str) -> bool:
        self._broken.discard(key)
        if self._kind is PODS and stage(self._picture.objects.of(PODS).get(key)):
            self._tell(PodMoved(key))
        return self._picture.drop(self._kind, key)

    def _is_expected(self, pod: Pod) -> bool:
        """Whether the pod shows a bind by Maar, which is no news."""
        assumed = self._picture.assumed.get(pod.key)
        if assumed is None or assumed.uid != pod.metadata.uid or not pod.spec.node_name or pod.finished:
            return False
        return assumed.node == pod.spec.node_name and pod.metadata.deletion_timestamp is None

    def _gives_room(self, before: Object | None, after: Object) -> bool:
        if isinstance(after, PersistentVolume):
            return after.spec.claim_ref is None
        if not isinstance(after, Pod):
            return self._kind not in (CLAIMS, PROVISIONING_REQUESTS, STATE) and not isinstance(self._kind, PodGroupKind)
        if after.finished or after.metadata.deletion_timestamp is not None:
            return True
        return isinstance(before, Pod) and not _begins(before, after)


def _is_bound_by_another(before: Pod, after: Pod, assumed: Assumed | None) -> bool:
    """Whether a waiting pod got a node that Maar did not give it."""
    if before.spec.node_name or not after.spec.node_name or before.metadata.uid != after.metadata.uid:
        return False
    return assumed is None or (assumed.uid, assumed.node) != (after.metadata.uid, after.spec.node_name)


def _says(pod: Pod) -> tuple[str, str]:
    """What autoscalers read on a waiting pod."""
    return pod.scheduled.reason, pod.status.nominated_node_name


def _begins(before: Pod, after: Pod) -> bool:
    """Whether the kubelet has started the pod: its room was taken when it was bound, so this helps no other pod."""
    same = before.spec == after.spec and before.metadata.labels == after.metadata.labels
    started = bool(before.spec.node_name) and before.status.phase == "Pending"
    return same and started and holds_the_same(before, after)
