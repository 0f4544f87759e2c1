"""PodGroup `scheduling.volcano.sh`: pods name it by annotation; Kubeflow's operators write
`scheduling.k8s.io/group-name`.

A `minMember` of 0 means that every pod is surplus, as in Volcano; if it is missing, it is read as 1, with a warning,
because a misspelt field would dissolve the gang.

Pods may be divided into subgroups (`subGroupPolicy`). The first policy that a pod matches counts.

Groups are admitted. A group without a phase is Pending, and its operator creates the pods only once it is Inqueue.
"""

from __future__ import annotations

from typing import Any

from msgspec import field

from maar.kube.kinds.creating import with_metadata
from maar.kube.kinds.gang import (
    GangSpec,
    NetworkTopology,
    SubgroupSpec,
    broken,
    closeness,
    does_not_exist,
    from_object,
    set_min_resources,
    set_minimum,
)
from maar.kube.kinds.kind import Form, PodGroupKind, StatusRules
from maar.kube.kinds.status import CountingStatus, Tally, runs, time_text
from maar.kube.wire import annotations as known
from maar.kube.wire.annotations import Notes
from maar.kube.wire.api_resources import Resource
from maar.kube.wire.base import Expression, Int, LabelSelector, Object, Quantities, Wire
from maar.kube.wire.pods import Pod
from maar.kube.wire.values import whole
from maar.model.jobs import Phase, SubgroupPolicy

UNSCHEDULABLE = "Unschedulable"
NO_MINIMUM = "spec.minMember: missing, read as 1; write 0 if all pods may start one by one"


MOST_POLICIES = 32
"""Policies of one group; every pod is compared with each of them. Tuned by hand."""
MOST_KEYS = 16
"""Keys of one policy."""
OPERATORS = {"In": True, "NotIn": True, "Exists": False, "DoesNotExist": False}
"""The operators of a label selector, and whether they need values."""


class SubGroupPolicy(Wire, frozen=True):
    """How some pods of a group are divided into subgroups."""

    name: str = ""
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    sub_group_size: Int | None = None
    min_sub_groups: Int | None = None
    network_topology: NetworkTopology | None = None


class Spec(Wire, frozen=True):
    """What a group asks for."""

    min_member: Int | None = None
    min_task_member: dict[str, Int] = field(default_factory=dict)
    queue: str = ""
    priority_class_name: str = ""
    min_resources: Quantities | None = None
    network_topology: NetworkTopology | None = None
    sub_group_policy: tuple[SubGroupPolicy, ...] = ()


class VolcanoGroup(Object, frozen=True):
    """A PodGroup of `scheduling.volcano.sh`."""

    spec: Spec = Spec()
    status: CountingStatus = CountingStatus()


def name_in(pod: Pod) -> str:
    annotations = pod.metadata.annotations
    if annotations:
        for key in known.GROUP_NAME:
            if name := annotations.get(key):
                return name
    return ""


def missing(namespace: str, name: str, pods: list[Pod]) -> GangSpec:
    """The pods wait for the object, unless they state the minimum themselves."""
    for pod in pods:
        notes = Notes(pod.metadata.annotations)
        minimum = notes.read(known.GROUP_MIN_MEMBER, whole)
        if notes.problem:
            return GangSpec(namespace=namespace, name=name, broken=notes.problem)
        if minimum is not None:
            return GangSpec(namespace=namespace, name=name, minimum=max(minimum, 1))
    return does_not_exist(namespace, name)


def gang(item: VolcanoGroup) -> GangSpec:
    spec, made = item.spec, from_object(item)
    set_minimum(made, "spec.minMember", 1 if spec.min_member is None else spec.min_member, least=0)
    if spec.min_member is None:
        made.doubt = NO_MINIMUM
    for role, minimum in spec.min_task_member.items():
        if minimum < 0:
            broken(made, f"spec.minTaskMember.{role}", f"expected a number of at least 0, got `{minimum}`")
    made.role_min = {role: max(minimum, 0) for role, minimum in spec.min_task_member.items()}
    set_min_resources(made, "spec.minResources", spec.min_resources)
    made.closeness = closeness(made, "spec.networkTopology", spec.network_topology)
    made.subgroups = _subgroups(made, spec.sub_group_policy)
    made.queue = spec.queue
    made.priority_class, made.ranked = spec.priority_class_name, True
    phase = item.status.phase or Phase.PENDING
    if phase in list(Phase):
        made.phase = Phase(phase)
    else:
        broken(made, "status.phase", f"expected one of {', '.join(Phase)}, got `{phase}`")
    made.stands = made.phase is not Phase.COMPLETED
    return made


def _subgroups(made: GangSpec, policies: tuple[SubGroupPolicy, ...]) -> tuple[SubgroupSpec, ...]:
    """The policies of a group; an invalid one makes the job invalid. A missing size is 1, as in Volcano."""
    field = "spec.subGroupPolicy"
    if len(policies) > MOST_POLICIES:
        broken(made, field, f"expected at most {MOST_POLICIES} policies, got {len(policies)}")
        return ()
    found: dict[str, SubgroupSpec] = {}
    for i, policy in enumerate(policies):
        here = f"{field}[{i}]"
        if not policy.name:
            broken(made, f"{here}.name", "expected a name")
        elif policy.name in found:
            broken(made, f"{here}.name", f"`{policy.name}` is given twice")
        if len(policy.match_label_keys) > MOST_KEYS:
            broken(made, f"{here}.matchLabelKeys", f"expected at most {MOST_KEYS} keys")
        size = 1 if policy.sub_group_size is None else policy.sub_group_size
        least = policy.min_sub_groups or 0
        for name, value in (("subGroupSize", size), ("minSubGroups", least)):
            if value < 0:
                broken(made, f"{here}.{name}", f"expected a number of at least 0, got `{value}`")
        for j, expression in enumerate(policy.label_selector.match_expressions if policy.label_selector else ()):
            if problem := _problem(expression):
                broken(made, f"{here}.labelSelector.matchExpressions[{j}]", problem)
        close = closeness(made, f"{here}.networkTopology", policy.network_topology)
        stated = SubgroupPolicy(policy.name, max(size, 1), max(least, 0), close)
        found[policy.name] = SubgroupSpec(stated, policy.label_selector, policy.match_label_keys)
    return tuple(found.values())


def _problem(expression: Expression) -> str:
    """What is wrong with an expression of a label selector, or an empty text."""
    needs_values = OPERATORS.get(expression.operator)
    if needs_values is None:
        return f"expected the operator to be one of {', '.join(OPERATORS)}, got `{expression.operator}`"
    if needs_values != bool(expression.values):
        return f"operator `{expression.operator}` {'needs values' if needs_values else 'takes no values'}"
    return "" if expression.key else "expected a key"


def status_of(item: VolcanoGroup, phase: Phase, message: str, reason: str, now: float) -> dict[str, Any]:
    """The phase, and the condition `Scheduled` or `Unschedulable`."""
    condition = {
        "type": "Scheduled" if runs(phase) else UNSCHEDULABLE,
        "status": "True",
        "reason": "tasks in gang are ready to be scheduled" if runs(phase) else reason,
        "message": "" if runs(phase) else message,
        "lastTransitionTime": time_text(now),
        "transitionID": f"{now:.3f}",
    }
    return {"phase": str(phase), **({"conditions": [condition]} if runs(phase) or message else {})}


def says(item: VolcanoGroup, phase: Phase) -> bool:
    """Whether the object says that the group is in a phase."""
    return item.status.phase == str(phase)


def says_why(item: VolcanoGroup, phase: Phase, reason: str) -> str | None:
    """The message with which the object says that the group waits for a reason."""
    found = (c.message for c in item.status.conditions if c.type == UNSCHEDULABLE and c.reason == reason)
    return next(found, None) if says(item, phase) else None


KIND = PodGroupKind(
    resource=Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", True, VolcanoGroup),
    writes={"": ("patch",)},
    unread=frozenset(),
    form=Form(queue="spec.queue", priority_class="spec.priorityClassName"),
    title="volcano",
    about="pods annotated `scheduling.k8s.io/group-name` or `scheduling.volcano.sh/group-name`: `minMember`",
    name_in=name_in,
    enter=lambda pod, name: with_metadata(pod, annotations={known.GROUP_NAME[0]: name}),
    missing=missing,
    gang=gang,
    # Volcano's PodGroup has no status subresource.
    status=StatusRules(of=status_of, says=says, says_why=says_why, tally=lambda item: Tally.of(item.status), sub=None),
)
