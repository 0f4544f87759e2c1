"""The plain annotation `pod_group: NAME`: pods of one namespace with that name are one gang, with no object for it.

Its size is the annotation `pod_group_size` where given, else the pods that are there. Such a gang has no surplus.
"""

from __future__ import annotations

from collections.abc import Iterable

from maar.kube.read.groups import Group
from maar.kube.wire import annotations as known
from maar.kube.wire.annotations import Notes
from maar.kube.wire.pods import Pod
from maar.kube.wire.values import whole


class Plain:
    """The dialect; it has no objects."""

    name = "annotation"

    def group_of(self, pod: Pod) -> str:
        """The name in the pod's annotation."""
        return pod.metadata.annotations.get(known.PLAIN_GROUP, "")

    def groups(self) -> Iterable[Group]:
        """None."""
        return ()

    def missing(self, namespace: str, name: str, pods: list[Pod]) -> Group:
        """The gang that its pods make; where they state different sizes the largest counts."""
        group = Group(namespace=namespace, name=name, minimum=None, whole=True)
        for pod in pods:
            notes = Notes(pod.metadata.annotations)
            size = notes.read(known.PLAIN_SIZE, _size)
            group.broken = group.broken or notes.problem
            if size is not None:
                group.minimum = max(size, group.minimum or 0)
        return group


def _size(text: str) -> int:
    return whole(text, 1)
