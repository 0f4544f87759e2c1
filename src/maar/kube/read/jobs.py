"""Gangs: which pods belong together, and the job that a group and its pods make.

Pods are sorted into groups by the first dialect that they speak; each group with its pods becomes one `Job`. What a
group leaves open (queue, closeness, deadline) its pods may say, the first in order of their keys that does. Whatever
makes no sense becomes `Job.broken`: the job waits with that reason and all others go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from maar.kube.kinds.reading import Reading
from maar.kube.read.elastic import stand_in
from maar.kube.read.groups import Dialect, Group
from maar.kube.read.priorities import Priorities, Priority
from maar.kube.read.tasks import Member
from maar.kube.wire import annotations as known
from maar.kube.wire.annotations import Notes, text
from maar.kube.wire.pods import Pod
from maar.kube.wire.values import first, moment, runtime
from maar.model.durations import duration
from maar.model.jobs import Closeness, Job
from maar.model.plan import Elect
from maar.model.queues import DEFAULT
from maar.model.tasks import Status

ALONE = "pod"
Identity = tuple[int, str, str]
"""Which dialect (by precedence), namespace, name."""

FROM_PODS = (
    *known.TOPOLOGY_KEY,
    *known.TOPOLOGY_MODE,
    *known.SLA,
    *known.ELECTED_SINCE,
    *known.ELECTION_EXPIRED,
)
"""What a group's pods may say in its place."""


class Gang(msgspec.Struct):
    """A job with its pods, and what its group says for all of them."""

    job: Job
    members: list[Member]
    promise: float | None = None
    checkpoint: float | None = None
    elect: Elect | None = None
    reading: Reading | None = None
    """What its elastic job says."""


def gangs(members: Iterable[Member], dialects: tuple[Dialect, ...], priorities: Priorities, now: float) -> list[Gang]:
    """All gangs. `now` is when a group that does not say so was created."""
    groups = {
        (rank, group.namespace, group.name): group
        for rank, dialect in enumerate(dialects)
        for group in dialect.groups()
    }
    sorted_in, foreign = _sort_in(members, dialects, groups)
    stand_in(groups, len(dialects) - 1)
    for identity, group in groups.items():
        if group.stands and identity not in foreign:
            sorted_in.setdefault(identity, [])
    names = (*(d.name for d in dialects), ALONE)
    keys: set[str] = set()
    made = []
    for identity in sorted(sorted_in):
        rank, namespace, name = identity
        key = f"{namespace}/{name}"
        if key in keys:
            key = f"{key}@{names[rank]}"
        keys.add(key)
        inside = sorted(sorted_in[identity], key=lambda m: m.pod.name)
        if rank == len(dialects):
            group = alone(inside[0])
        else:
            found = groups.get(identity)
            group = found or dialects[rank].missing(namespace, name, [m.pod for m in inside])
        made.append(gang_of(key, group, inside, priorities, now))
    return made


def _sort_in(
    members: Iterable[Member], dialects: tuple[Dialect, ...], groups: Mapping[Identity, Group]
) -> tuple[dict[Identity, list[Member]], set[Identity]]:
    """Pods by gang, and the groups that other schedulers' pods belong to: without pods of ours they are not ours."""
    ours: dict[Identity, list[Member]] = {}
    foreign: set[Identity] = set()
    for member in members:
        pod = member.pod
        identity = identity_of(pod, dialects, groups)
        if member.foreign:
            foreign.add(identity)
            if not pod.spec.node_name:
                continue
            identity = (len(dialects), pod.namespace, pod.name)
        ours.setdefault(identity, []).append(member)
    return ours, foreign


def identity_of(pod: Pod, dialects: tuple[Dialect, ...], groups: Mapping[Identity, Group]) -> Identity:
    """To which gang a pod belongs: that of the first dialect that it speaks, else its own."""
    for rank, dialect in enumerate(dialects):
        if name := dialect.group_of(pod):
            group = groups.get((rank, pod.namespace, name))
            if group is None and (owner := _elastic_owner(pod, dialects, groups)) is not None:
                return owner
            if group is None or group.gang:
                return rank, pod.namespace, name
            break
    return len(dialects), pod.namespace, pod.name


def _elastic_owner(pod: Pod, dialects: tuple[Dialect, ...], groups: Mapping[Identity, Group]) -> Identity | None:
    """The elastic job of a pod whose PodGroup is gone, as while its operator suspends it, or has yet to be seen."""
    identity = (len(dialects) - 1, pod.namespace, dialects[-1].group_of(pod))
    owner = groups.get(identity) if identity[2] else None
    return identity if owner is not None and owner.reading is not None else None


def alone(member: Member) -> Group:
    """A pod by itself is a gang of one and speaks for it."""
    meta = member.pod.metadata
    return Group(
        namespace=member.pod.namespace,
        name=member.pod.name,
        created=member.created,
        uid=meta.uid,
        annotations=meta.annotations,
        labels=meta.labels,
    )


def gang_of(key: str, group: Group, members: list[Member], priorities: Priorities, now: float) -> Gang:
    """The job that a group and its pods make."""
    notes = Notes(group.annotations, _from_pods(members))
    own = Notes(group.annotations)
    value, preempts, unknown_class = _priority(group, members, priorities)
    promise, checkpoint = own.read(known.MAX_RUNTIME, runtime), own.read(known.CHECKPOINT, moment)
    elected = notes.read(known.ELECTED_SINCE, moment)
    job = Job(
        key=key,
        queue=_queue(group, members),
        min_member=_minimum(group, members),
        role_min=group.role_min,
        min_resources=group.min_resources,
        priority=value,
        created=_created(group, members, now),
        uid=group.uid,
        phase=group.phase,
        preempts=preempts,
        declared=group.stands,
        closeness=group.closeness or _closeness(notes),
        sla=notes.read(known.SLA, duration),
        promise=_promise(promise, members),
        election_expired=notes.read(known.ELECTION_EXPIRED, moment),
    )
    broken = group.broken or unknown_class or notes.problem or own.problem or _pods_problem(members)
    if broken:
        job = msgspec.structs.replace(job, broken=broken)
    elect = None if elected is None else Elect(key, elected)
    return Gang(job, members, promise, checkpoint, elect, group.reading)


def _from_pods(members: list[Member]) -> dict[str, str]:
    """What pods say in place of their group."""
    said: dict[str, str] = {}
    for member in members:
        annotations = member.pod.metadata.annotations
        if annotations:
            for key in FROM_PODS:
                if key in annotations:
                    said.setdefault(key, annotations[key])
    return said


def _priority(group: Group, members: list[Member], priorities: Priorities) -> tuple[int, bool, str]:
    """Its value, whether it may push others out, and what is wrong with it."""
    preempts = all(m.priority.preempts for m in members)
    unborn = Priority() if group.reading is None else priorities.of(group.reading.worker.spec)
    if not members:
        preempts = unborn.preempts
    if group.priority_class:
        found = priorities.named(group.priority_class)
        return found.value, found.preempts and preempts, found.problem
    value = group.priority
    if value is None:
        value = max((m.priority.value for m in members), default=unborn.value)
    return value, preempts, ""


def _queue(group: Group, members: list[Member]) -> str:
    if group.queue:
        return group.queue
    found = first(known.QUEUE_NAME, group.annotations, group.labels)
    for member in members:
        if found:
            break
        if member.foreign:
            # Another scheduler's pod takes room on its node, but no queue of ours pays for it.
            return ""
        found = first(known.QUEUE_NAME, member.pod.metadata.annotations, member.pod.metadata.labels)
    return found[1] if found else DEFAULT


def _minimum(group: Group, members: list[Member]) -> int:
    if group.minimum is not None and not group.whole:
        return group.minimum
    there = sum(m.status not in (Status.FAILED, Status.RELEASING) for m in members)
    return max(there, group.minimum or 1)


def _created(group: Group, members: list[Member], now: float) -> float:
    if group.created is not None:
        return group.created
    return min((m.created for m in members), default=now)


def _closeness(notes: Notes) -> Closeness | None:
    key = notes.read(known.TOPOLOGY_KEY, text)
    hard = notes.read(known.TOPOLOGY_MODE, _is_hard)
    return None if key is None else Closeness(key=key, hard=hard is not False)


def _is_hard(mode: str) -> bool:
    if mode not in ("hard", "soft"):
        raise ValueError(f"expected `hard` or `soft`, got `{mode}`")
    return mode == "hard"


def _promise(said: float | None, members: list[Member]) -> float | None:
    """When all of it will have ended: what the group says, or what all of its pods say, if that is sooner."""
    pods = [m.promise for m in members]
    known_ends = [p for p in pods if p is not None]
    if not pods or len(known_ends) < len(pods):
        return said
    return max(known_ends) if said is None else min(said, max(known_ends))


def _pods_problem(members: list[Member]) -> str:
    for member in members:
        if member.problem:
            return f"pod `{member.pod.key}`: {member.problem}"
    return ""
