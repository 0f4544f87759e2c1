"""PodGroup `scheduling.x-k8s.io`, of scheduler-plugins (coscheduling): pods name it by label.

There is no queue and no admission. `scheduleTimeoutSeconds` is not needed: Maar holds nothing while a gang is partial.
"""

from __future__ import annotations

from typing import Any

from maar.kube.kinds.creating import with_metadata
from maar.kube.kinds.gang import GangSpec, does_not_exist, from_object, set_min_resources, set_minimum
from maar.kube.kinds.kind import PodGroupKind, StatusRules
from maar.kube.kinds.status import CountingStatus, Tally
from maar.kube.wire import annotations as known
from maar.kube.wire.api_resources import Resource
from maar.kube.wire.base import Int, Object, Quantities, Wire
from maar.model.jobs import Phase

PHASES = {Phase.RUNNING: "Running", Phase.COMPLETED: "Finished"}
"""Before them a group is `Scheduling`."""


class Spec(Wire, frozen=True):
    """What a group asks for."""

    min_member: Int = 1
    min_resources: Quantities | None = None


class PluginsGroup(Object, frozen=True):
    """A PodGroup of `scheduling.x-k8s.io`."""

    spec: Spec = Spec()
    status: CountingStatus = CountingStatus()


def gang(item: PluginsGroup) -> GangSpec:
    made = from_object(item)
    made.stands = True
    set_minimum(made, "spec.minMember", item.spec.min_member)
    set_min_resources(made, "spec.minResources", item.spec.min_resources)
    return made


def phase_of(phase: Phase) -> str:
    return PHASES.get(phase, "Scheduling")


def status_of(item: PluginsGroup, phase: Phase, message: str, reason: str, now: float) -> dict[str, Any]:
    """The phase; there is no field for reasons."""
    return {"phase": phase_of(phase)}


def says(item: PluginsGroup, phase: Phase) -> bool:
    """Whether the object says that the group is in a phase."""
    return item.status.phase == phase_of(phase)


KIND = PodGroupKind(
    family="scheduler-plugins",
    resource=Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", True, PluginsGroup),
    writes={"": ("patch",), "status": ("patch",)},
    unread=frozenset({"scheduleTimeoutSeconds"}),
    title="scheduler-plugins",
    about="pods labelled `scheduling.x-k8s.io/pod-group`: `minMember`",
    name_in=lambda pod: pod.metadata.labels.get(known.PLUGINS_GROUP, ""),
    enter=lambda pod, name: with_metadata(pod, labels={known.PLUGINS_GROUP: name}),
    missing=lambda namespace, name, pods: does_not_exist(namespace, name),
    gang=gang,
    status=StatusRules(of=status_of, says=says, tally=lambda item: Tally.of(item.status)),
)
