"""Elastic jobs: which gang stands for each, and what was decided about a job and not yet seen.

A part of the picture, which tells it what watches say and asks it for gangs as they stand. It shares the picture's
gangs and marks those that changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import msgspec

from maar.kube.kinds import AnyJobKind, Identity, owner_kinds
from maar.kube.kinds.elastic import MOST, NOTES, ElasticSpec, notes_while_not_ours
from maar.kube.kinds.gang import GangSpec
from maar.kube.kinds.kind import JobKind, created
from maar.kube.picture.assumed import Assumptions
from maar.kube.picture.groups import Groups
from maar.kube.picture.owners import Owner, Owners
from maar.kube.picture.store import Store
from maar.kube.read.elastic import AssumedJob, is_seen, joined, laid_over, selectors_of_workers, without_elastic
from maar.kube.read.neighbours import Matcher
from maar.kube.read.shapes import Shapes
from maar.kube.read.tasks import unborn
from maar.kube.wire import annotations as known
from maar.kube.wire.pods import Pod
from maar.model.selectors import PodSelector

OURS = (known.ELASTIC, known.HOLDS, known.WORKERS, known.PLANNED, known.WHY, known.FENCED)
"""Annotations that Maar writes to elastic jobs; the spec has those that matter."""


class ElasticJob(msgspec.Struct, frozen=True):
    """An elastic job: its kind and object, what the object states, and the state once all decisions are carried out."""

    identity: Identity
    kind: AnyJobKind
    item: Any
    made: Any
    """The object that it made, where that states the gang."""
    spec: ElasticSpec
    standing: ElasticSpec


class Untrue(msgspec.Struct, frozen=True):
    """A job whose size its owner has taken over, and the notes on it that have to change."""

    owner: Owner
    notes: dict[str, str | None]


class ElasticJobs:
    """Jobs by their own identity, whichever gang stands for them."""

    def __init__(self, store: Store, owners: Owners, groups: Groups, dirty: set[Identity]) -> None:
        self.assumed: Assumptions[Identity, AssumedJob] = Assumptions(self._mark)
        self._store = store
        self._owners = owners
        self._groups = groups
        self._gangs = groups.there
        self._dirty = dirty
        self._naming: dict[tuple[str, str], set[Identity]] = {}
        """PodGroups by the namespace and name of an owner that they name."""
        self.untrue: dict[tuple[AnyJobKind, str], Untrue] = {}
        """Jobs that are not elastic now and still say so, by kind and key."""
        self._unborn: dict[Identity, frozenset[PodSelector]] = {}
        """Elastic jobs, and the selectors that their future workers will use."""

    # -- what watches say

    def note_group(self, identity: Identity, was: GangSpec | None, made: GangSpec | None) -> set[Identity]:
        """A PodGroup has changed: the jobs that it stood or stands for."""
        jobs: set[Identity] = set()
        for gang in (was, made):
            for name in {owner.name for owner in gang.owners} if gang is not None else ():
                found = self._naming.setdefault((identity.namespace, name), set())
                (found.add if gang is made else found.discard)(identity)
                if not found:
                    del self._naming[identity.namespace, name]
            if gang is not None and (job := self._groups.job_of(gang)) is not None:
                jobs.add(job)
        for job in jobs:
            self._mark(job)
        return jobs

    def note_job(self, identity: Identity, was: GangSpec | None, made: GangSpec | None) -> bool:
        """A job has changed, and is among the gangs already; false if only in what was assumed about it."""
        expected = None if was is None else self._laid(identity, was)
        self._see(identity)
        if _alike(expected, None if made is None else self._laid(identity, made)):
            return False
        self._mark(identity)
        return True

    def note_untrue(self, owner: Owner, names: frozenset[str] | None) -> None:
        """An object has changed: remember it if Maar's notes on it are not true any more."""
        kind, item = owner.kind, owner.item
        self.untrue.pop(owner.place, None)
        if item is None or kind.write is None or not any(key in item.metadata.annotations for key in NOTES):
            return
        if any(self._gangs[part].elastic is not None for part in self._groups.parts(owner.identity())):
            return
        made = self._owners.made_by(kind, item)
        stated = kind.look(item, made and made.item)
        if stated is None or kind.end_of(item) is not None or any(map(owner_kinds, item.metadata.owner_references)):
            return
        if notes := notes_while_not_ours(item, stated, names):
            self.untrue[owner.place] = Untrue(owner, notes)

    def mark_moved(self, jobs: Iterable[Identity]) -> set[Identity]:
        """Some of these jobs may own PodGroups that were another job's: the PodGroups that name one of them."""
        found = {group for job in jobs for group in self._naming.get((job.namespace, job.name), ())}
        if found:
            for job in jobs:
                self._mark(job)
        return found

    # -- what a cycle takes

    def everyone(self) -> set[Identity]:
        """Gangs of elastic jobs, which may have no pods."""
        return {gang for job in self._unborn for gang in (job, *self.stand_ins(job))}

    def matched(self, matcher: Matcher) -> set[Identity]:
        """Gangs of elastic jobs whose future pods a matcher selects."""
        found: set[Identity] = set()
        for job in self._unborn:
            gang = self._gangs.get(job)
            spec = None if gang is None else gang.elastic
            pods = () if spec is None else (spec.worker, *{id(pod): pod for pod in spec.beside}.values())
            if any(matcher.matches(pod.namespace, pod.metadata.labels) for pod in pods):
                found.update((job, *self.stand_ins(job)))
        return found

    def read_workers(self, shapes: Shapes) -> None:
        """The future pods of elastic jobs that have changed."""
        for identity in self._dirty:
            if isinstance(identity.source, JobKind):
                gang = self._gangs.get(identity)
                self._unborn.pop(identity, None)
                if gang is not None and gang.elastic is not None:
                    self._unborn[identity] = selectors_of_workers(gang.elastic, shapes)

    def selectors(self) -> frozenset[PodSelector]:
        """All selectors of other pods that future workers will use."""
        return frozenset[PodSelector]().union(*self._unborn.values())

    def standing(self, identity: Identity) -> GangSpec | None:
        """A gang as it counts: with its elastic job, or without if another gang stands for the job."""
        gang = self._groups.stated(identity)
        if gang is None:
            return None
        if isinstance(identity.source, JobKind):
            if gang.elastic is None or not self.stand_ins(identity):
                return self._laid(identity, gang)
            return without_elastic(gang)
        job = self._groups.job_of(gang)
        if job is not None and self._groups.is_divided(job):
            return msgspec.structs.replace(gang, stands=False)
        owner = None if job is None else self._gangs.get(job)
        if job is None or owner is None or owner.elastic is None or min(self.stand_ins(job)) != identity:
            return gang
        return joined(gang, self._laid(job, owner))

    # -- what was decided

    def of(self, identity: Identity) -> ElasticJob | None:
        """The elastic job that a gang stands for."""
        gang = self._gangs.get(identity)
        own = identity if gang is None or isinstance(identity.source, JobKind) else self._groups.job_of(gang)
        owner = None if own is None else self._gangs.get(own)
        if own is None or owner is None or owner.elastic is None:
            return None
        if own != identity and self._groups.is_divided(own):
            return None
        kind, item = own.source, self._item(own)
        if not isinstance(kind, JobKind) or item is None:
            return None
        made = self._owners.made_by(kind, item)
        return ElasticJob(
            own, kind, item, made and made.item, owner.elastic, laid_over(owner.elastic, self.assumed.get(own))
        )

    def unborn(self, identity: Identity, gang: GangSpec, key: str) -> list[Pod]:
        """The pods that a suspended job of fixed size will have, as its controller creates them; `key` is its job's.

        None of a job whose size may change: how many workers it gets is not known.
        """
        spec = gang.elastic
        if spec is None or not spec.rigid or not spec.suspended or spec.broken:
            return []
        own = self.of(identity)
        if own is None:
            return []
        made = self._owners.made_by(own.kind, own.item) if own.kind.delegates else None
        kind, item = (own.kind, own.item) if made is None else (made.kind, made.item)
        made_for = islice(created(kind, item), 2 * MOST)  # objects count too: a JobSet may ask for Jobs without pods
        return [unborn(pod, key) for pod in islice((each for each in made_for if isinstance(each, Pod)), MOST)]

    def wrote(self, identity: Identity, assumed: AssumedJob, version: str) -> None:
        """What was assumed is in this version of the object; later versions count as they are."""
        self.assumed.accept(identity, assumed, msgspec.structs.replace(assumed, written=version))
        self._see(identity)

    # -- which gang stands for which job

    def stand_ins(self, job: Identity) -> list[Identity]:
        """The PodGroups that stand for a job: all that belong to it, unless it states several gangs itself."""
        return [] if self._groups.is_divided(job) else self._groups_of(job)

    def _groups_of(self, job: Identity) -> list[Identity]:
        """The PodGroups that belong to a job, of which this may be a part."""
        source, item = job.source, self._item(job)
        if not self._naming or not isinstance(source, JobKind) or item is None:
            return []
        names = {job.name, *(o.name for o in self._owners.inside(Owner.of(source, item)))}
        found = {group for name in names for group in self._naming.get((job.namespace, name), ())}
        whole = job._replace(part="")
        return [group for group in found if (gang := self._gangs.get(group)) and self._groups.job_of(gang) == whole]

    def _mark(self, identity: Identity) -> None:
        named = self._naming.get((identity.namespace, identity.name), ())
        self._dirty.update((identity, *named, *self._groups_of(identity)))

    def _laid(self, identity: Identity, gang: GangSpec) -> GangSpec:
        """The gang of a job with what was assumed about it."""
        assumed = self.assumed.get(identity)
        if gang.elastic is None or assumed is None:
            return gang
        return msgspec.structs.replace(gang, elastic=laid_over(gang.elastic, assumed))

    def _see(self, identity: Identity) -> None:
        """What was assumed about a job, or written, goes once its object says so itself."""
        gang, item = self._gangs.get(identity), self._item(identity)
        version = "" if item is None else item.metadata.resource_version
        gone = self.assumed.confirm(identity, lambda a: gang is None or is_seen(gang.elastic, gang.uid, version, a))
        spec = None if gang is None else gang.elastic
        if gone is not None and spec is not None and laid_over(spec, gone) != spec:
            self._mark(identity)

    def _item(self, identity: Identity) -> Any:
        source = identity.source
        if not isinstance(source, JobKind):
            return None
        return self._store.of(source).get(f"{identity.namespace}/{identity.name}")


def _alike(one: GangSpec | None, other: GangSpec | None) -> bool:
    """Whether two states of a job differ at most in the notes that Maar writes for its owner."""
    if one is None or other is None:
        return one is other
    a, b = (msgspec.structs.replace(gang, annotations=_not_ours(gang)) for gang in (one, other))
    return a == b


def _not_ours(gang: GangSpec) -> dict[str, str]:
    return {key: value for key, value in gang.annotations.items() if key not in OURS}
