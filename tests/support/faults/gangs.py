"""Which pods form a gang and how many of them must run together, as their objects say it. Not Maar's reader."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import msgspec
from tests.support.faults.writes import Json

PODGROUPS = "scheduling.volcano.sh/podgroups"
PYTORCHJOBS = "kubeflow.org/pytorchjobs"
JOBS = "jobs"
OWNERS = (PODGROUPS, PYTORCHJOBS, JOBS)
"""Resources whose objects make gangs."""
ENDED = ("Succeeded", "Failed")
QUEUE_NOTE, DEFAULT_QUEUE = "scheduling.volcano.sh/queue-name", "default"


class Member(msgspec.Struct, frozen=True):
    """A pod as far as its gang is concerned."""

    name: str
    runs: bool
    """It has a node, or has ended there."""
    leaving: bool
    succeeded: bool = False


def gang_of(pod: Json) -> str:
    """The object that makes the gang of a pod: its resource, namespace and name; empty for a pod alone."""
    meta = pod["metadata"]
    notes, labels = meta.get("annotations") or {}, meta.get("labels") or {}
    home = meta.get("namespace", "")
    if "scheduling.k8s.io/group-name" in notes:
        return f"{PODGROUPS}/{home}/{notes['scheduling.k8s.io/group-name']}"
    if "training.kubeflow.org/job-name" in labels:
        return f"{PYTORCHJOBS}/{home}/{labels['training.kubeflow.org/job-name']}"
    if notes.get("maar.dev/gang") == "true" and "batch.kubernetes.io/job-name" in labels:
        return f"{JOBS}/{home}/{labels['batch.kubernetes.io/job-name']}"
    return ""


def minimum(resource: str, owner: Json, succeeded: int = 0) -> int:
    """How many pods of the gang must run together. `succeeded`: those of its pods that have succeeded, and exist."""
    spec: Any = owner.get("spec") or {}
    if resource == PODGROUPS:
        return int(spec.get("minMember", 1))
    if resource == JOBS:
        least, status = int(spec.get("parallelism", 1)), owner.get("status") or {}
        left = int(spec.get("completions", least)) - int(status.get("succeeded", 0))
        return max(min(least, left + succeeded), 1)
    policy = spec.get("elasticPolicy") or {}
    return int(policy.get("minReplicas") or spec["pytorchReplicaSpecs"]["Worker"]["replicas"])


def queue_of(resource: str, owner: Json) -> str:
    """The queue of the gang."""
    spec: Any = owner.get("spec") or {}
    if resource == PYTORCHJOBS:
        spec = (spec.get("runPolicy") or {}).get("schedulingPolicy") or {}
    elif resource == JOBS:
        return str((owner["metadata"].get("annotations") or {}).get(QUEUE_NOTE, DEFAULT_QUEUE))
    return str(spec.get("queue") or DEFAULT_QUEUE)


def is_over(resource: str, owner: Json) -> bool:
    """Whether the job of a gang has ended or is paused: then its pods may go one by one."""
    conditions = (owner.get("status") or {}).get("conditions") or ()
    held = {c["type"] for c in conditions if c.get("status") == "True"}
    paused = ((owner.get("spec") or {}).get("runPolicy") or {}).get("suspend")
    return resource != PODGROUPS and bool(paused or held & {"Succeeded", "Failed", "Complete", "SuccessCriteriaMet"})


class Gangs:
    """All gangs: their owners, their members, and which of them have run."""

    def __init__(self) -> None:
        self._owners: dict[str, tuple[str, Json]] = {}
        self._members: dict[str, dict[str, Member]] = defaultdict(dict)
        self.ran: set[str] = set()
        """Uids of the owners whose minimum has run together."""
        self.ending: set[str] = set()
        """Gangs whose users delete them: their pods may go one by one."""

    def owner(self, resource: str, key: str, after: Json | None) -> None:
        name = f"{resource}/{key}"
        if after is None:
            self._owners.pop(name, None)
        else:
            self._owners[name] = resource, after
            self._look(name)

    def pod(self, uid: str, name: str, before: Json | None, after: Json | None) -> None:
        if before is not None and (gang := gang_of(before)):
            self._members[gang].pop(uid, None)
        if after is not None and (gang := gang_of(after)):
            phase = (after.get("status") or {}).get("phase")
            runs = bool(after["spec"].get("nodeName")) or phase in ENDED
            leaves = "deletionTimestamp" in after["metadata"]
            self._members[gang][uid] = Member(name, runs, leaves, phase == "Succeeded")
            self._look(gang)

    def _look(self, gang: str) -> None:
        if gang in self._owners:
            _, owner = self._owners[gang]
            if self._running(gang) >= self._least(gang):
                self.ran.add(owner["metadata"]["uid"])

    def _running(self, gang: str) -> int:
        return sum(member.runs and not member.leaving for member in self._members[gang].values())

    def _least(self, gang: str) -> int:
        return minimum(*self._owners[gang], sum(m.succeeded and not m.leaving for m in self._members[gang].values()))

    def in_part(self) -> list[str]:
        """Gangs of which fewer pods than the minimum, but not none, have a node."""
        return sorted(f"{gang}: {part}" for gang in self._owners if (part := self.part(gang)))

    def part(self, gang: str) -> str:
        """How much of a gang that is in part has a node; empty for other gangs."""
        if not self.lives(gang):
            return ""
        resource, owner = self._owners[gang]
        least, running = self._least(gang), self._running(gang)
        return f"{running} of {least}" if 0 < running < least and not is_over(resource, owner) else ""

    def lives(self, gang: str) -> bool:
        """Whether a gang exists, and its user does not delete it."""
        return gang in self._owners and gang not in self.ending

    def size(self, gang: str) -> int | None:
        """How many workers an elastic job should have; none for other gangs."""
        if not gang.startswith(PYTORCHJOBS) or gang not in self._owners:
            return None
        _, owner = self._owners[gang]
        suspended = (owner["spec"].get("runPolicy") or {}).get("suspend")
        return 0 if suspended else int(owner["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"])

    def queue(self, gang: str) -> str:
        """The queue of a gang; the default one if nothing is known of it."""
        return queue_of(*self._owners[gang]) if gang in self._owners else DEFAULT_QUEUE

    def leaving(self) -> bool:
        """Whether a pod of any gang is terminating."""
        return any(member.leaving for members in self._members.values() for member in members.values())
