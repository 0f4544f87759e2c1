"""scheduler-plugins (coscheduling): a label with the group's name, and a PodGroup of `scheduling.x-k8s.io`.

There is no queue and no admission. `scheduleTimeoutSeconds` is not needed: Maar holds nothing while a gang is partial.
"""

from __future__ import annotations

from collections.abc import Iterable

from maar.kube.read.groups import Group, does_not_exist, from_object, set_min_resources, set_minimum
from maar.kube.wire import annotations as known
from maar.kube.wire.groups import PluginsGroup
from maar.kube.wire.pods import Pod


class SchedulerPlugins:
    """The dialect, with the groups that have an object."""

    name = "scheduler-plugins"

    def __init__(self, objects: Iterable[PluginsGroup]) -> None:
        self._objects = objects

    def group_of(self, pod: Pod) -> str:
        """The name in the pod's label."""
        return pod.metadata.labels.get(known.PLUGINS_GROUP, "")

    def groups(self) -> Iterable[Group]:
        """One group an object."""
        return map(_group, self._objects)

    def missing(self, namespace: str, name: str, pods: list[Pod]) -> Group:
        """Its pods wait for the object."""
        return does_not_exist(namespace, name)


def _group(wire: PluginsGroup) -> Group:
    group = from_object(wire)
    group.stands = True
    set_minimum(group, "spec.minMember", wire.spec.min_member)
    set_min_resources(group, "spec.minResources", wire.spec.min_resources)
    return group
