"""Pods to tasks: the state of each pod, and what its own object states.

`member` reads everything that a pod states. Its task is made later, when its job and budgets are known.
"""

from __future__ import annotations

from collections.abc import Container

import msgspec

from maar.kube.kinds import index, role
from maar.kube.read.devices import unaccounted
from maar.kube.read.priorities import SYSTEM, Priorities, Priority
from maar.kube.read.requests import Requests, holds_the_same, negative_request
from maar.kube.read.storage.volumes import Needs
from maar.kube.wire import annotations as known
from maar.kube.wire import values
from maar.kube.wire.annotations import Notes
from maar.kube.wire.api_resources import api_group
from maar.kube.wire.pods import Pod, PodSpec
from maar.kube.wire.values import moment, seconds, whole, yes
from maar.model.durations import duration
from maar.model.resources import PODS
from maar.model.shapes import Shape
from maar.model.tasks import QUEUE_GATE, UNBORN, Gate, Status, Subgroup, Task

SLOT = Shape(requests=((PODS, 1),))
"""The shape of a pod whose requests cannot be read."""


class Member(msgspec.Struct, gc=False, kw_only=True):
    """A pod with everything that its own object states."""

    pod: Pod
    draft: Shape
    status: Status
    node: str
    blocked: str
    priority: Priority
    task_priority: int = 0
    preemptable: bool = False
    yields: bool = False
    cooldown: float = 0.0
    checkpoint: float | None = None
    promise: float | None = None
    created: float
    foreign: bool
    problem: str
    """Why the pod makes its job invalid."""
    made: Task | None = None
    """The task last made from it."""
    unread: bool = False
    """What it requests is unknown."""
    gate: Gate = Gate.NONE
    fills: bool = False
    """What it requests cannot be read, and is taken from what its node has."""
    unborn: bool = False
    """The controller of a suspended job will create it."""
    chosen: tuple[tuple[str, str], ...] = ()
    """What counters chose on its node."""
    said: tuple[float | None, float | None] = (None, None)
    """Promise and checkpoint of the gang when `made` was made."""


def moved_on(before: Member, pod: Pod, nodes: Container[str]) -> Member | None:
    """The member with a new state of its pod; `None` if more than the state changed and the pod must be read again.

    Most of what watches say of pods is that they were bound and that they run: that is read without all the rest.
    """
    was, meta = before.pod, pod.metadata
    if _has_claims(pod.spec) or was.metadata.uid != meta.uid or before.blocked or before.problem:
        return None
    if before.unread or before.fills:
        return None
    if was is not pod:
        old, new = was.metadata, meta
        if old.annotations != new.annotations or old.labels != new.labels:
            return None
        if old.owner_references != new.owner_references or old.creation_timestamp != new.creation_timestamp:
            return None
        if was.spec != (pod.spec if was.spec.node_name == pod.spec.node_name else _without_node(was.spec, pod.spec)):
            return None
        if not holds_the_same(was, pod):
            return None
    status, node, blocked = _stands(pod, before.draft, nodes, None)
    chosen = before.chosen if node else ()
    return msgspec.structs.replace(before, pod=pod, status=status, node=node, blocked=blocked, made=None, chosen=chosen)


OF_LABELS = frozenset((*known.PREEMPTABLE, *known.COOLDOWN))
"""What a pod may state in a label too."""


def like_another(like: Member, pod: Pod, nodes: Container[str], now: float) -> Member | None:
    """The member of a pod, from one with an equal template that was read just now; `None` if they may differ in more.

    Most pods of a gang are equal but for their names: that is read without all the rest. The images of both must be on
    the same nodes.
    """
    was, meta = like.pod, pod.metadata
    spec, old = pod.spec, was.metadata
    if _has_claims(spec) or like.problem or like.unread or like.fills or old.annotations != meta.annotations:
        return None
    if old.labels != meta.labels and (
        spec.affinity is not None
        or spec.topology_spread_constraints
        or not OF_LABELS.isdisjoint((*old.labels, *meta.labels))
    ):
        return None
    if was.spec != (spec if was.spec.node_name == spec.node_name else _without_node(was.spec, spec)):
        return None
    if was.namespace != pod.namespace or not holds_the_same(was, pod):
        return None
    status, node, blocked = _stands(pod, like.draft, nodes, None)
    created = seconds(meta.creation_timestamp, now)
    state = {"status": status, "node": node, "blocked": blocked, "created": created}
    return msgspec.structs.replace(like, pod=pod, **state, made=None, chosen=(), said=(None, None))


def _has_claims(spec: PodSpec) -> bool:
    """Whether a pod has volumes that depend on other objects. Almost all pods have one that does not: their token."""
    return any(v.persistent_volume_claim is not None or v.ephemeral is not None for v in spec.volumes)


def _without_node(was: PodSpec, now: PodSpec) -> PodSpec:
    return msgspec.structs.replace(now, node_name=was.node_name)


def member(
    pod: Pod,
    draft: Shape,
    priorities: Priorities,
    nodes: Container[str],
    now: float,
    foreign: bool,
    needs: Needs | None = None,
) -> Member:
    """Everything that the object of a pod states. `now` is the creation time of a pod that states none."""
    notes = Notes(pod.metadata.annotations)
    both = Notes(pod.metadata.annotations, pod.metadata.labels)
    priority = priorities.of(pod.spec)
    task_priority = notes.read(known.TASK_PRIORITY, _any_number) if notes.maps else None
    preemptable = both.read(known.PREEMPTABLE, yes) if both.maps else None
    status, node, blocked = _stands(pod, draft, nodes, needs)
    problem = priority.problem or negative_request(pod)
    promise = notes.read(known.MAX_RUNTIME, values.promise) if notes.maps else None
    made = Member(
        pod=pod,
        draft=draft,
        status=status,
        node=node,
        blocked=blocked,
        priority=priority,
        task_priority=priority.value if task_priority is None else task_priority,
        preemptable=not foreign and preemptable is not False,
        yields=preemptable is True,
        cooldown=(both.read(known.COOLDOWN, duration) or 0.0) if both.maps else 0.0,
        checkpoint=notes.read(known.CHECKPOINT, moment) if notes.maps else None,
        promise=smaller(promise, values.kept(pod.spec.active_deadline_seconds)),
        created=seconds(pod.metadata.creation_timestamp, now),
        foreign=foreign,
        problem=problem,
        gate=Gate.NONE if foreign else _gate(pod),
    )
    if not problem and (broken := notes.problem or both.problem):
        made.problem = broken
    return made


def unread_member(pod: Pod, reason: str, now: float, foreign: bool, room: Requests | None = None) -> Member:
    """A pod of which only the object itself can be read: it is never bound, and it makes its job invalid.

    If the `room` that it takes is unknown, the picture closes its node for other pods.
    """
    status, node = _where(pod)
    return Member(
        pod=pod,
        draft=SLOT if room is None or not node else Shape(requests=room),
        status=Status.BLOCKED if status is Status.PENDING else status,
        node=node,
        blocked=reason if status is Status.PENDING else "",
        priority=Priority(pod.spec.priority or 0),
        created=seconds(pod.metadata.creation_timestamp, now),
        foreign=foreign,
        problem="" if foreign else reason,
        unread=room is None,
        fills=room is not None and bool(node),
    )


def task(
    of: Member,
    job: str,
    shape: Shape,
    budgets: tuple[str, ...],
    promise: float | None,
    checkpoint: float | None,
    subgroup: Subgroup | None = None,
) -> Task:
    """The task of a member, with what is stated for its whole gang; the same object if nothing changed."""
    made = of.made
    if (
        made is not None
        and made.shape is shape
        and made.job == job
        and made.budgets == budgets
        and made.subgroup == subgroup
        and of.said == (promise, checkpoint)
    ):
        return made
    of.said = promise, checkpoint
    pod = of.pod
    started, going = pod.status.start_time, pod.metadata.deletion_timestamp
    grace = pod.spec.termination_grace_period_seconds
    of.made = Task(
        key=pod.key,
        job=job,
        shape=shape,
        status=of.status,
        node=of.node,
        role=role(pod),
        subgroup=subgroup,
        priority=of.task_priority,
        created=of.created,
        started=None if started is None else started.timestamp(),
        index=index(pod),
        unborn=of.unborn,
        uid=pod.metadata.uid,
        preemptable=of.preemptable,
        yields=of.yields,
        preempts=of.priority.preempts,
        critical=pod.namespace == "kube-system" or pod.spec.priority_class_name in SYSTEM,
        resident=_is_resident(pod),
        controlled=any(owner.controller for owner in pod.metadata.owner_references),
        cooldown=of.cooldown,
        checkpoint=of.checkpoint if of.checkpoint is not None else checkpoint,
        promise=smaller(of.promise, promise),
        budgets=budgets,
        blocked=of.blocked,
        foreign=of.foreign,
        gate=of.gate,
        grace=30.0 if grace is None else float(max(grace, 0)),
        leaves=None if going is None else going.timestamp(),
        chosen=of.chosen,
    )
    return of.made


def unborn(pod: Pod, job: str) -> Pod:
    """A pod as a controller will create it once its job is resumed, with a name that no other pod has.

    A template may state what the API server refuses of a pod, or what only a pod can have: a priority beside its class,
    a node, scheduling gates and claims of its own.
    """
    spec, policy = pod.spec, "Never" if pod.spec.preemption_policy == "Never" else ""
    kept = tuple(volume for volume in spec.volumes if volume.ephemeral is None)
    name = f"{pod.name}{UNBORN}{job.partition('/')[2]}"
    return msgspec.structs.replace(
        pod,
        metadata=msgspec.structs.replace(pod.metadata, name=name),
        spec=msgspec.structs.replace(
            spec, priority=None, preemption_policy=policy, node_name="", scheduling_gates=(), volumes=kept
        ),
    )


def bare_task(of: Member, job: str, budgets: tuple[str, ...]) -> Task:
    """The task of a member whose job is invalid: it takes its room, and is never bound or evicted."""
    return Task(
        of.pod.key,
        job,
        of.draft,
        status=of.status,
        node=of.node,
        created=of.created,
        uid=of.pod.metadata.uid,
        preemptable=False,
        budgets=budgets,
        blocked=of.blocked,
        unborn=of.unborn,
    )


def smaller(a: float | None, b: float | None) -> float | None:
    """The smaller of two, or the one that is given."""
    if a is None or b is None:
        return b if a is None else a
    return min(a, b)


def _where(pod: Pod) -> tuple[Status, str]:
    """The state of a pod as its node sees it."""
    if pod.finished:
        return Status.SUCCEEDED if pod.status.phase == "Succeeded" else Status.FAILED, pod.spec.node_name
    if pod.spec.node_name:
        leaving = pod.metadata.deletion_timestamp is not None
        return Status.RELEASING if leaving else Status.BOUND, pod.spec.node_name
    return Status.PENDING, ""


def _stands(pod: Pod, draft: Shape, nodes: Container[str], volumes: Needs | None) -> tuple[Status, str, str]:
    spec = pod.spec
    status, node = _where(pod)
    if status is not Status.PENDING:
        return status, node, ""
    if spec.scheduling_gates:
        return Status.BLOCKED, "", "scheduling gates: " + ", ".join(g.name for g in spec.scheduling_gates)
    if needs := unaccounted(pod, draft.requests):
        return Status.BLOCKED, "", needs
    nominated = pod.status.nominated_node_name
    if volumes is not None:
        if volumes.blocked:
            return Status.BLOCKED, "", volumes.blocked
        if volumes.node and volumes.node != nominated:
            nominated = ""  # It can only run there; but anyone can annotate a claim, so that keeps no room for it.
    if nominated and nominated in nodes:
        return Status.NOMINATED, nominated, ""
    return Status.PENDING, "", ""


def _gate(pod: Pod) -> Gate:
    """The gate of Volcano's queue admission: closed even without the annotation, because nobody else removes it."""
    gates = pod.spec.scheduling_gates
    if gates:
        return Gate.CLOSED if all(gate.name == QUEUE_GATE for gate in gates) else Gate.NONE
    return Gate.OPENED if pod.metadata.annotations.get(QUEUE_GATE) == "true" else Gate.NONE


def _is_resident(pod: Pod) -> bool:
    """Whether a pod belongs to its node: by all that a kubelet or the DaemonSet controller writes.

    One field alone proves nothing: anyone who creates a pod can set it.
    """
    if known.MIRROR in pod.metadata.annotations:
        return _is_controlled_by(pod, "", "Node", pod.spec.node_name)
    return _is_controlled_by(pod, "apps", "DaemonSet") and _is_pinned(pod.spec)


def _is_controlled_by(pod: Pod, group: str, kind: str, name: str | None = None) -> bool:
    return any(
        owner.controller and (api_group(owner.api_version), owner.kind) == (group, kind) and name in (None, owner.name)
        for owner in pod.metadata.owner_references
    )


def _is_pinned(spec: PodSpec) -> bool:
    """Whether every way of its node affinity names one node, as the DaemonSet controller writes it."""
    required = None if spec.affinity is None else spec.affinity.node_affinity.required
    terms = () if required is None else required.node_selector_terms
    return bool(terms) and all(
        any((f.key, f.operator) == ("metadata.name", "In") and len(f.values) == 1 for f in term.match_fields)
        for term in terms
    )


def _any_number(text: str) -> int:
    return whole(text, -(2**31))
