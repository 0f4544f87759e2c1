"""The gangs that objects state, and which gang a pod belongs to.

A part of the picture, which tells it about PodGroups and about jobs that own pods. An admission that was decided is
laid over its gang until the object says so itself. Which pods each gang has is in `roster`; what is assumed about
elastic jobs is in `elastic_jobs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from maar.kube.kinds import ALONE, SOURCES, AnyJobKind, Identity, owner_kinds
from maar.kube.kinds.gang import GangSpec, from_object
from maar.kube.kinds.kind import GangSource, JobKind, PodGroupKind
from maar.kube.picture.owners import Owner, Owners, describer
from maar.kube.picture.problems import Problems
from maar.kube.read.elastic import with_elastic_spec
from maar.kube.wire import annotations as known
from maar.kube.wire.base import Object
from maar.kube.wire.pods import Pod
from maar.model.jobs import Job, Phase

BY_PODS: tuple[GangSource, ...] = tuple(s for s in SOURCES if s is not ALONE and not isinstance(s, JobKind))
"""Sources that pods name themselves, in their order of precedence; all come before owners."""


class Restated(NamedTuple):
    """A gang whose statement came, went or changed: as it was, and as it is now."""

    identity: Identity
    was: GangSpec | None
    made: GangSpec | None


class Groups:
    """All gangs that an object states, by identity."""

    def __init__(self, owners: Owners, problems: Problems, scheduler_names: frozenset[str] | None) -> None:
        self.there: dict[Identity, GangSpec] = {}
        self._owners = owners
        self._problems = problems
        self._names = scheduler_names
        self._stated: dict[tuple[AnyJobKind, str], dict[Identity, GangSpec]] = {}
        """The gangs of each job, by its kind and key."""
        self._admitted: dict[Identity, str] = {}
        """Gangs whose admission is decided and not seen yet, with the uids of their objects."""
        self._passed_over: dict[Identity, set[str]] = {}
        """Pods by the PodGroup that they name and that did not exist, so that they belong to their job."""

    # -- what watches say

    def note_group(self, kind: PodGroupKind[Any], before: Object | None, after: Object | None) -> Restated | None:
        """A PodGroup; `None` if everything that it says is known already, as after a write of ours."""
        item = after or before
        assert item is not None
        identity = Identity.of(kind, item.namespace, item.name)
        was = self.there.pop(identity, None)
        made = None if after is None else self._gang_of(kind, after)
        if made is not None:
            self.there[identity] = made
        if was is not None and made is not None and made == self._as_known(identity, was):
            if made.phase is not Phase.PENDING:
                self._admitted.pop(identity, None)
            return None
        if made is None:
            self._admitted.pop(identity, None)
        return Restated(identity, was, made)

    def note_job(self, owner: Owner) -> list[Restated]:
        """State the gangs of a job again: none if it does not exist, or if another known object made it."""
        before = self._stated.pop(owner.place, {})
        now = self._gangs_of(owner) if owner.item is not None and self._owners.outer(owner) is None else {}
        if now:
            self._stated[owner.place] = now
        changes = []
        for identity in {**before, **now}:
            was, made = before.get(identity), now.get(identity)
            if made is None:
                del self.there[identity]
            else:
                self.there[identity] = made
            changes.append(Restated(identity, was, made))
        return changes

    def _gangs_of(self, owner: Owner) -> dict[Identity, GangSpec]:
        """Each part of a job; the one that starts next is what is elastic, or suspended and resumed.

        An object that names a known owner is not ours to write to, even while its owner has not been seen yet.
        """
        try:
            gangs = self._stated_by(owner)
        except Exception as bug:  # noqa: BLE001 a bug of ours affects this object only
            return {owner.identity(): _invalid(owner.item, self._problems.bug(owner.kind, owner.item.key, bug))}
        error = self._problems.undecoded.get((owner.kind, owner.item.key), "")
        for spec in gangs.values():
            spec.broken = error or spec.broken
            if spec.broken:
                self._problems.invalid(owner.kind, owner.item.key, spec.broken)
        return gangs

    def _stated_by(self, owner: Owner) -> dict[Identity, GangSpec]:
        made = self._owners.made_by(owner.kind, owner.item) if owner.kind.delegates else owner
        if made is None:
            return {}
        elastic = owner.kind.elastic(owner.item, None if made is owner else made.item, self._names)
        if any(owner_kinds(reference) for reference in owner.item.metadata.owner_references):
            elastic = None
        gangs: dict[Identity, GangSpec] = {}
        for spec in made.kind.gangs(made.item):
            if made is not owner:
                spec = _for_outer(spec, owner.item)
            if elastic is not None and spec.part == elastic.part:
                spec = with_elastic_spec(spec, elastic)
            if spec.gang:
                gangs[owner.identity(spec.part)] = spec
        return gangs

    def _gang_of(self, kind: PodGroupKind[Any], item: Object) -> GangSpec:
        """The gang that a PodGroup states; if it cannot be read, an invalid one."""
        error = self._problems.undecoded.get((kind, kind.key_of(item)), "")
        try:
            made = kind.gang(item)
        except Exception as bug:  # noqa: BLE001 a bug of ours affects this object only
            return _invalid(item, error or self._problems.bug(kind, item.key, bug))
        if error:
            # What it states may be what is missing: its minimum is all existing pods.
            made.broken, made.gang, made.minimum = error, True, None
        elif made.broken:
            self._problems.invalid(kind, item.key, made.broken)
        if made.doubt and not error:
            self._problems.doubtful(kind, item.key, made.doubt)
        return made

    # -- admissions

    def admit(self, identity: Identity) -> bool:
        """Take a gang as admitted until its object says so; false if it has no object."""
        gang = self.there.get(identity)
        if gang is None:
            return False
        self._admitted[identity] = gang.uid
        return True

    def with_admission(self, identity: Identity, gang: GangSpec, job: Job) -> Job:
        """The job of a gang, in the queue if that was decided and nothing else has been seen since."""
        uid = self._admitted.get(identity)
        if uid is None:
            return job
        if gang.phase is not Phase.PENDING or gang.uid != uid:
            del self._admitted[identity]
            return job
        return msgspec.structs.replace(job, phase=Phase.INQUEUE)

    def _as_known(self, identity: Identity, gang: GangSpec) -> GangSpec:
        """A gang as it was seen, with what was assumed about it."""
        if self._admitted.get(identity) != gang.uid or gang.phase is not Phase.PENDING:
            return gang
        return msgspec.structs.replace(gang, phase=Phase.INQUEUE)

    # -- which gang

    def stated(self, identity: Identity) -> GangSpec | None:
        """The gang as its object states it, also if it is one of many equal parts that are not kept."""
        gang, source = self.there.get(identity), identity.source
        if gang is not None or not isinstance(source, JobKind) or source.beyond is None:
            return gang
        place = source, f"{identity.namespace}/{identity.name}"
        first = next(iter(self._stated.get(place, {}).values()), None)
        if first is None:
            return None
        if first.broken:
            return msgspec.structs.replace(first, part=identity.part)
        return source.beyond(self._owners.item(place), identity.part)

    def identity_of(self, pod: Pod) -> Identity:
        """The gang that a pod belongs to: of the first source that it names, else its own."""
        for source in BY_PODS:
            if name := source.name_in(pod):
                identity = Identity.of(source, pod.namespace, name)
                gang = self.there.get(identity)
                if gang is None and (job := self._job_of(pod)) is not None and self._is_elastic(job):
                    # Its PodGroup is gone, as while its operator suspends it, or has yet to be seen.
                    self._passed_over.setdefault(identity, set()).add(pod.key)
                    return job
                if gang is not None and (part := self._part_of(pod, gang)) is not None:
                    return part
                if gang is None or gang.gang:
                    return identity
                break
        else:
            if (job := self._job_of(pod)) is not None:
                return job
        return Identity.of(ALONE, pod.namespace, pod.name)

    def pods_passed_over(self, group: Identity) -> set[str]:
        """Pods that may belong to a PodGroup now that it exists; said once."""
        return self._passed_over.pop(group, set())

    def forget_pod(self, pod: Pod) -> None:
        for source in BY_PODS if self._passed_over else ():
            group = Identity.of(source, pod.namespace, source.name_in(pod))
            if (pods := self._passed_over.get(group)) is not None:
                pods.discard(pod.key)
                if not pods:
                    del self._passed_over[group]

    def job_of(self, gang: GangSpec) -> Identity | None:
        """The job that a PodGroup belongs to."""
        owner = self._owners.job_of(gang.namespace, gang.owners) if gang.owners else None
        return None if owner is None else owner.identity()

    def submitted(self, identity: Identity, gang: GangSpec, pods: list[Pod]) -> Mapping[str, str]:
        """The annotations of the object that the owner of a gang submitted: the outermost that Maar knows.

        What its controllers made may have copies of them, which stay when the owner changes hers. Where only pods state
        the gang, those of the first pod that is held.
        """
        if isinstance(identity.source, JobKind):
            item = self._owners.item((identity.source, f"{identity.namespace}/{identity.name}"))
            return gang.annotations if item is None else item.metadata.annotations
        if isinstance(identity.source, PodGroupKind):
            owner = self._owners.job_of(gang.namespace, gang.owners) if gang.owners else None
            return gang.annotations if owner is None else owner.item.metadata.annotations
        found = map(self._submitted_for, pods)
        return next((notes for notes in found if notes.get(known.HOLD[0])), gang.annotations)

    def deadline(self, identity: Identity, gang: GangSpec, pods: list[Pod]) -> float | None:
        """Seconds after its start at which a controller ends a gang, by the object that its owner submitted.

        The pods of a gang may have controllers of their own in between, whose deadlines do not count for all of them.
        """
        source = identity.source
        if isinstance(source, JobKind):
            item = self._owners.item((source, f"{identity.namespace}/{identity.name}"))
            return None if item is None else _seconds(source.deadline(item))
        if isinstance(source, PodGroupKind):
            owner = self._owners.job_of(gang.namespace, gang.owners) if gang.owners else None
        else:
            owner = self._owners.of_pod(pods[0]) if len(pods) == 1 else None
        return None if owner is None or owner.item is None else _seconds(owner.kind.deadline(owner.item))

    def _submitted_for(self, pod: Pod) -> Mapping[str, str]:
        owner = self._owners.of_pod(pod)
        outermost = None if owner is None else self._owners.chain(owner)[-1].item
        return (outermost or pod).metadata.annotations

    def parts(self, job: Identity) -> tuple[Identity, ...]:
        source = job.source
        if not isinstance(source, JobKind):
            return ()
        return tuple(self._stated.get((source, f"{job.namespace}/{job.name}"), ()))

    def pods_of_unkept(self, job: Identity) -> set[str]:
        """The pods that name a job of which not all parts are kept."""
        source = job.source
        if not isinstance(source, JobKind) or source.beyond is None:
            return set()
        return self._owners.pods_naming((Owner(source, job.namespace, job.name),))

    def is_divided(self, job: Identity) -> bool:
        """Whether a job states several gangs: then a PodGroup of it, which waits for pods of all, is passed over."""
        source = job.source
        return isinstance(source, JobKind) and len(self._stated.get((source, f"{job.namespace}/{job.name}"), ())) > 1

    def _part_of(self, pod: Pod, gang: GangSpec) -> Identity | None:
        """The part of a divided job that a pod belongs to, where the PodGroup that it names is that job's."""
        job = self.job_of(gang)
        if job is None or not self.is_divided(job):
            return None
        part = self._job_of(pod)
        if part is None or part._replace(part="") != job or self.stated(part) is None:
            return None
        return part

    def _is_elastic(self, identity: Identity) -> bool:
        gang = self.there.get(identity)
        return gang is not None and gang.elastic is not None

    def _job_of(self, pod: Pod) -> Identity | None:
        owner = self._owners.of_pod(pod)
        if owner is None:
            return None
        chain = self._owners.chain(owner)
        states, job = describer(chain), chain[-1]
        part = states.kind.part(states.item, pod)
        if part is None:
            return None
        identity = job.identity(part)
        return identity if identity in self.there or job.kind.claims(pod) else None


def _invalid(item: Object, reason: str) -> GangSpec:
    """The gang of an object that cannot be read: its pods wait, and those that run stay."""
    made = from_object(item)
    made.broken, made.minimum = reason, None
    return made


def _for_outer(gang: GangSpec, item: Object) -> GangSpec:
    """A gang that an inner object states, as one of the outer object."""
    meta = item.metadata
    return msgspec.structs.replace(
        gang,
        name=item.name,
        created=None if meta.creation_timestamp is None else meta.creation_timestamp.timestamp(),
        uid=meta.uid,
        annotations={**gang.annotations, **meta.annotations},
        labels={**gang.labels, **meta.labels},
        owners=meta.owner_references,
    )


def _seconds(stated: int | None) -> float | None:
    return None if stated is None else float(stated)
