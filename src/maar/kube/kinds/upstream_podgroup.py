"""PodGroup `scheduling.k8s.io`, of Kubernetes itself: pods name it in `.spec.schedulingGroup.podGroupName`.

`schedulingPolicy.gang.minCount` is the minimum. `basic`, or no policy, is not a gang: its pods start one by one. There
is no queue and no admission. `disruptionMode` changes nothing: Maar never evicts part of a gang.
"""

from __future__ import annotations

from typing import Any

import msgspec

from maar.kube.kinds.gang import GangSpec, does_not_exist, from_object, set_minimum
from maar.kube.kinds.kind import Form, PodGroupKind, StatusRules
from maar.kube.kinds.status import GroupCondition, runs, time_text
from maar.kube.wire.api_resources import Resource
from maar.kube.wire.base import Int, Object, Wire
from maar.kube.wire.pods import Pod, SchedulingGroup
from maar.model.jobs import Closeness, Phase

SCHEDULED = "PodGroupScheduled"


class GangPolicy(Wire, frozen=True):
    """All or nothing."""

    min_count: Int = 1


class SchedulingPolicy(Wire, frozen=True):
    """`gang`, or `basic`, which is no gang."""

    gang: GangPolicy | None = None


class TopologyConstraint(Wire, frozen=True):
    """The node label whose domains a group must not span."""

    key: str = ""


class SchedulingConstraints(Wire, frozen=True):
    """Where a group must run."""

    topology: tuple[TopologyConstraint, ...] = ()


class Spec(Wire, frozen=True):
    """What a group asks for."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints = SchedulingConstraints()
    priority: Int | None = None
    priority_class_name: str = ""


class Status(Wire, frozen=True):
    """How a group is doing."""

    conditions: tuple[GroupCondition, ...] = ()


class UpstreamGroup(Object, frozen=True):
    """A PodGroup of `scheduling.k8s.io`."""

    spec: Spec = Spec()
    status: Status = Status()


def gang(item: UpstreamGroup) -> GangSpec:
    spec, made = item.spec, from_object(item)
    policy = spec.scheduling_policy.gang
    if policy is None:
        made.gang = False
        return made
    made.stands = True
    set_minimum(made, "spec.schedulingPolicy.gang.minCount", policy.min_count)
    made.priority_class = spec.priority_class_name
    made.priority = spec.priority
    key = next((c.key for c in spec.scheduling_constraints.topology if c.key), "")
    made.closeness = Closeness(key=key) if key else None
    return made


def enter(pod: Pod, name: str) -> Pod:
    spec = msgspec.structs.replace(pod.spec, scheduling_group=SchedulingGroup(name))
    return msgspec.structs.replace(pod, spec=spec)


def status_of(item: UpstreamGroup, phase: Phase, message: str, reason: str, now: float) -> dict[str, Any]:
    """One condition; another reason is no transition, so the time of the last transition stays."""
    word = "Scheduled" if runs(phase) or not reason else reason
    condition = {"type": SCHEDULED, "status": "True" if runs(phase) else "False", "reason": word}
    condition["message"] = "the gang runs" if runs(phase) or not message else message
    if not says(item, phase):
        condition["lastTransitionTime"] = time_text(now)
    return {"conditions": [condition]}


def says(item: UpstreamGroup, phase: Phase) -> bool:
    """Whether the object says that the group is in a phase."""
    wanted = "True" if runs(phase) else "False"
    return any(c.type == SCHEDULED and c.status == wanted for c in item.status.conditions)


def says_why(item: UpstreamGroup, phase: Phase, reason: str) -> str | None:
    """The message with which the object says that the group waits for a reason."""
    found = (c.message for c in item.status.conditions if c.type == SCHEDULED and c.reason == reason)
    return next(found, None) if says(item, phase) else None


BETA, ALPHA = (
    Resource("scheduling.k8s.io", version, "podgroups", "PodGroup", True, UpstreamGroup)
    for version in ("v1beta1", "v1alpha2")
)

KIND = PodGroupKind(
    family="podgroups",
    resource=BETA,
    older=(ALPHA,),
    writes={"": ("patch",), "status": ("patch",)},
    unread=frozenset({"podGroupTemplateRef", "disruptionMode", "resourceClaims", "schedulingPolicy.basic"}),
    form=Form(fixed_priority="the priority of a PodGroup of `scheduling.k8s.io` cannot change"),
    title="kubernetes",
    about="pods with `spec.schedulingGroup.podGroupName`: `schedulingPolicy.gang.minCount`",
    name_in=lambda pod: pod.spec.scheduling_group.pod_group_name,
    enter=enter,
    missing=lambda namespace, name, pods: does_not_exist(namespace, name),
    gang=gang,
    # Conditions of other writers stay: the list is merged by type.
    status=StatusRules(of=status_of, says=says, says_why=says_why, patch="strategic"),
)
