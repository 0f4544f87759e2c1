"""The plain annotation `pod_group: NAME`: the pods of a namespace with the same name are one gang, without an object.

The size is the annotation `pod_group_size` where given, else the number of pods. Such a gang has no surplus.
"""

from __future__ import annotations

from maar.kube.kinds.gang import GangSpec
from maar.kube.kinds.kind import GangSource
from maar.kube.wire import annotations as known
from maar.kube.wire.annotations import Notes
from maar.kube.wire.pods import Pod
from maar.kube.wire.values import whole


def gang(namespace: str, name: str, pods: list[Pod]) -> GangSpec:
    """The gang that pods state; where they state different sizes the largest counts."""
    made = GangSpec(namespace=namespace, name=name, minimum=None, whole=True)
    for pod in pods:
        notes = Notes(pod.metadata.annotations)
        size = notes.read(known.PLAIN_SIZE, lambda text: whole(text, 1))
        made.broken = made.broken or notes.problem
        if size is not None:
            made.minimum = max(size, made.minimum or 0)
    return made


SOURCE = GangSource(
    title="annotation",
    about="pods of a namespace with the same annotation `pod_group`; as many as `pod_group_size` says, else all",
    name_in=lambda pod: pod.metadata.annotations.get(known.PLAIN_GROUP, ""),
    missing=gang,
    settles=True,
)
