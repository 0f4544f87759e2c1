"""Volcano: an annotation with the group's name, and a PodGroup of `scheduling.volcano.sh`.

Kubeflow's operators write `scheduling.k8s.io/group-name`. Groups are admitted: without a phase one is Pending, and its
operator creates the pods only once it is Inqueue.
"""

from __future__ import annotations

from collections.abc import Iterable

from maar.kube.read.groups import (
    Group,
    broken,
    does_not_exist,
    from_object,
    set_closeness,
    set_min_resources,
    set_minimum,
)
from maar.kube.wire import annotations as known
from maar.kube.wire.annotations import Notes
from maar.kube.wire.groups import VolcanoGroup
from maar.kube.wire.pods import Pod
from maar.kube.wire.values import whole
from maar.model.jobs import Phase


class Volcano:
    """The dialect, with the groups that have an object."""

    name = "volcano"

    def __init__(self, objects: Iterable[VolcanoGroup]) -> None:
        self._objects = objects

    def group_of(self, pod: Pod) -> str:
        """The name in the pod's annotation."""
        annotations = pod.metadata.annotations
        if annotations:
            for key in known.GROUP_NAME:
                if name := annotations.get(key):
                    return name
        return ""

    def groups(self) -> Iterable[Group]:
        """One group an object."""
        return map(_group, self._objects)

    def missing(self, namespace: str, name: str, pods: list[Pod]) -> Group:
        """Its pods wait for the object, unless they state the minimum themselves."""
        for pod in pods:
            notes = Notes(pod.metadata.annotations)
            minimum = notes.read(known.GROUP_MIN_MEMBER, whole)
            if notes.problem:
                return Group(namespace=namespace, name=name, broken=notes.problem)
            if minimum is not None:
                return Group(namespace=namespace, name=name, minimum=max(minimum, 1))
        return does_not_exist(namespace, name)


def _group(wire: VolcanoGroup) -> Group:
    spec = wire.spec
    group = from_object(wire)
    set_minimum(group, "spec.minMember", spec.min_member)
    for role, minimum in spec.min_task_member.items():
        if minimum < 0:
            field = f"spec.minTaskMember.{role}"
            broken(group, field, f"expected a number of at least 0, got `{minimum}`")
        group.role_min = {**group.role_min, role: max(minimum, 0)}
    set_min_resources(group, "spec.minResources", spec.min_resources)
    set_closeness(group, "spec.networkTopology", spec.network_topology)
    group.queue = spec.queue
    group.priority_class = spec.priority_class_name
    phase = wire.status.phase or Phase.PENDING
    if phase in list(Phase):
        group.phase = Phase(phase)
    else:
        broken(group, "status.phase", f"expected one of {', '.join(Phase)}, got `{phase}`")
    group.stands = group.phase is not Phase.COMPLETED
    return group
