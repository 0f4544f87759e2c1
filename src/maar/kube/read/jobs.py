"""The job that a gang's statement and its pods make.

What a statement leaves open (queue, closeness, deadline) the pods may state; the first in order of their keys counts.
An invalid field becomes `Job.broken`: the job waits with that reason, and all other jobs continue.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from maar.kube.kinds.elastic import ElasticSpec
from maar.kube.kinds.gang import GangSpec, from_object
from maar.kube.read.annotated import budget_of, topology_of
from maar.kube.read.priorities import Priorities, Priority
from maar.kube.read.subgroups import Divided, divide
from maar.kube.read.tasks import Member, smaller
from maar.kube.wire import annotations as known
from maar.kube.wire import values
from maar.kube.wire.annotations import Notes, text
from maar.kube.wire.values import first, moment, on_hold, yes
from maar.model.durations import duration
from maar.model.jobs import Closeness, Job, OnHold
from maar.model.queues import DEFAULT
from maar.model.tasks import UNBORN, Status
from maar.model.text import LONGEST_NAME, quoted

FROM_PODS = (*known.TOPOLOGY_KEY, *known.TOPOLOGY_MODE, *known.SLA, *known.BROKEN_GRACE)
"""What pods may state in place of their gang."""

LARGEST_MINIMUM = 2**31 - 1
"""Pods of a minimum, which is a product of numbers that owners state; more than any cluster has, and fits in int64."""


class Gang(msgspec.Struct):
    """A job with its pods, and what is stated for all of them."""

    job: Job
    members: list[Member]
    promise: float | None = None
    checkpoint: float | None = None
    elastic: ElasticSpec | None = None
    """What its elastic job states."""
    divided: Divided | None = None
    """Its pods in subgroups."""


def alone(member: Member) -> GangSpec:
    """The gang of a single pod, as the pod states it."""
    made = from_object(member.pod)
    made.created = member.created
    return made


def gang_of(
    key: str,
    stated: GangSpec,
    members: list[Member],
    priorities: Priorities,
    now: float,
    submitted: Mapping[str, str] | None = None,
    deadline: float | None = None,
) -> Gang:
    """The job that a statement and its pods make.

    `submitted`: annotations of the object that its owner submitted; `None`: it states the gang itself. `deadline`: the
    `activeDeadlineSeconds` of that object.
    """
    notes = Notes(stated.annotations, _from_pods(members))
    own, outer = Notes(stated.annotations), Notes(stated.annotations if submitted is None else submitted)
    value, preempts, unknown_class = _priority(stated, members, priorities)
    promise, checkpoint = own.read(known.MAX_RUNTIME, values.promise), own.read(known.CHECKPOINT, moment)
    promise = smaller(promise, values.kept(deadline))
    job = Job(
        key=key,
        queue=_queue(stated, members),
        min_member=_minimum(stated, members),
        role_min={role: min(least, LARGEST_MINIMUM) for role, least in stated.role_min.items()},
        min_resources=stated.min_resources,
        quota_needs=stated.quota_needs,
        priority=value,
        priority_classes=_classes(stated, members, priorities),
        created=_created(stated, members, now),
        uid=stated.uid or _uid(members),
        phase=stated.phase,
        preempts=preempts,
        declared=stated.stands,
        closeness=stated.closeness or _closeness(notes),
        subgroups=tuple(spec.policy for spec in stated.subgroups),
        broken_grace=notes.read(known.BROKEN_GRACE, values.grace),
        sla=notes.read(known.SLA, duration),
        promise=_promise(promise, members),
        yields=Notes(stated.annotations, stated.labels).read(known.PREEMPTABLE, yes) is True,
        budget=budget_of(stated.annotations),
        task_topology=topology_of(stated.annotations),
        on_hold=outer.read(known.HOLD, on_hold) or OnHold.NO,
    )
    divided = divide(stated, members) if stated.subgroups else None
    broken = stated.broken or unknown_class or notes.problem or own.problem or outer.problem or _pods_problem(members)
    broken = broken or (divided.broken if divided is not None else "")
    if broken:
        job = msgspec.structs.replace(job, broken=broken)
    return Gang(job, members, promise, checkpoint, stated.elastic, divided)


def _from_pods(members: list[Member]) -> dict[str, str]:
    """What pods state in place of their gang."""
    said: dict[str, str] = {}
    for member in members:
        annotations = member.pod.metadata.annotations
        if annotations:
            for key in FROM_PODS:
                if key in annotations:
                    said.setdefault(key, annotations[key])
    return said


def _priority(stated: GangSpec, members: list[Member], priorities: Priorities) -> tuple[int, bool, str]:
    """The priority, whether the gang may preempt, and what is wrong with its class."""
    preempts = any(m.priority.preempts for m in members)
    unborn = Priority() if stated.elastic is None else priorities.of_template(stated.elastic.worker.spec)
    if not members:
        preempts = unborn.preempts
    if stated.priority_class:
        found = priorities.named(stated.priority_class)
        return found.value, found.preempts and preempts, found.problem
    if stated.priority is not None:
        return stated.priority, preempts, ""
    pods = [m.priority.value for m in members] or ([] if stated.elastic is None else [unborn.value])
    if stated.ranked:
        # As in Volcano, but pods of negative priority do not rise with their group.
        return min((priorities.default.value, *pods)), preempts, ""
    return max(pods, default=0), preempts, ""


def _classes(stated: GangSpec, members: list[Member], priorities: Priorities) -> tuple[str, ...]:
    """All priority classes that are named; a number without a class counts as one of that name."""
    named = {stated.priority_class, *(m.pod.spec.priority_class_name for m in members)}
    if stated.elastic is not None:
        named.add(stated.elastic.worker.spec.priority_class_name)
    if stated.priority is not None and stated.priority > 0 and not stated.priority_class:
        named.add(str(stated.priority))
    return tuple(sorted(named - priorities.unstated)) if len(named) > 1 or "" not in named else ()


def _queue(stated: GangSpec, members: list[Member]) -> str:
    if any(member.foreign for member in members):
        # Another scheduler's pod takes room on its node, but no queue pays for it because it says so.
        return ""
    if stated.queue:
        return quoted(stated.queue, LONGEST_NAME)
    found = first(known.QUEUE_NAME, stated.annotations, stated.labels)
    for member in members:
        if found:
            break
        found = first(known.QUEUE_NAME, member.pod.metadata.annotations, member.pod.metadata.labels)
    return quoted(found[1], LONGEST_NAME) if found else DEFAULT


def _minimum(stated: GangSpec, members: list[Member]) -> int:
    minimum = None if stated.minimum is None else min(stated.minimum, LARGEST_MINIMUM)
    if minimum is not None and stated.left is not None:
        # Pods that have succeeded count as long as they exist. Nobody creates those again that are deleted.
        done = sum(m.status is Status.SUCCEEDED for m in members)
        minimum = min(minimum, max(stated.left + done, 1))
    if minimum is not None and not stated.whole:
        return minimum
    there = sum(m.status not in (Status.FAILED, Status.RELEASING) for m in members)
    return max(there, minimum or 1)


def _created(stated: GangSpec, members: list[Member], now: float) -> float:
    if stated.created is not None:
        return stated.created
    return min((m.created for m in members), default=now)


def _uid(members: list[Member]) -> str:
    """The uid of a gang without an object of its own: that of its oldest pod."""
    oldest = min(members, key=lambda m: (m.created, m.pod.key), default=None)
    return "" if oldest is None else oldest.pod.metadata.uid


def _closeness(notes: Notes) -> Closeness | None:
    key = notes.read(known.TOPOLOGY_KEY, text)
    hard = notes.read(known.TOPOLOGY_MODE, _is_hard)
    return None if key is None else Closeness(key=key, hard=hard is not False)


def _is_hard(mode: str) -> bool:
    if mode not in ("hard", "soft"):
        raise ValueError(f"expected `hard` or `soft`, got `{mode}`")
    return mode == "hard"


def _promise(said: float | None, members: list[Member]) -> float | None:
    """The promised runtime of the whole gang: as stated for the gang, or by all of its pods if that is shorter."""
    pods = [m.promise for m in members]
    known_ends = [p for p in pods if p is not None]
    if not pods or len(known_ends) < len(pods):
        return said
    return max(known_ends) if said is None else min(said, max(known_ends))


def _pods_problem(members: list[Member]) -> str:
    for member in members:
        if member.problem:
            return f"pod `{member.pod.key.partition(UNBORN)[0]}`: {member.problem}"
    return ""
