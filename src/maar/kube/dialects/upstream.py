"""Upstream Kubernetes: a pod's `.spec.schedulingGroup.podGroupName`, and a PodGroup of `scheduling.k8s.io`.

`schedulingPolicy.gang.minCount` is the minimum; `basic` (or no policy at all) is no gang, its pods start one by one.
There is no queue and no admission. `disruptionMode` changes nothing: Maar never evicts a gang in part.
"""

from __future__ import annotations

from collections.abc import Iterable

from maar.kube.read.groups import Group, does_not_exist, from_object, set_minimum
from maar.kube.wire.groups import UpstreamGroup
from maar.kube.wire.pods import Pod
from maar.model.jobs import Closeness


class Upstream:
    """The dialect, with the groups that have an object."""

    name = "kubernetes"

    def __init__(self, objects: Iterable[UpstreamGroup]) -> None:
        self._objects = objects

    def group_of(self, pod: Pod) -> str:
        """The name in the pod's spec."""
        return pod.spec.scheduling_group.pod_group_name

    def groups(self) -> Iterable[Group]:
        """One group an object."""
        return map(_group, self._objects)

    def missing(self, namespace: str, name: str, pods: list[Pod]) -> Group:
        """Its pods wait for the object."""
        return does_not_exist(namespace, name)


def _group(wire: UpstreamGroup) -> Group:
    spec = wire.spec
    group = from_object(wire)
    gang = spec.scheduling_policy.gang
    if gang is None:
        group.gang = False
        return group
    group.stands = True
    set_minimum(group, "spec.schedulingPolicy.gang.minCount", gang.min_count)
    group.priority_class = spec.priority_class_name
    group.priority = spec.priority
    for constraint in spec.scheduling_constraints.topology:
        if constraint.key:
            group.closeness = Closeness(key=constraint.key)
            break
    return group
