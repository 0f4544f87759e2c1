"""Which objects stand for a job: the one that has its state, and the one that its owner submitted.

Its state is on its PodGroup, or else on the object of an elastic job, or else on its first pod. The owner submitted the
outermost object that made the pods (a Job, a PyTorchJob, a JobSet); it has the events, and a note where its status
belongs to another controller. No other module decides this.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from maar.kube.kinds import AnyJobKind
from maar.kube.picture.elastic_jobs import ElasticJob
from maar.kube.picture.owners import Owner
from maar.kube.picture.picture import Picture, PodGroup
from maar.kube.wire import annotations as known
from maar.kube.wire.api_resources import PODS, Resource
from maar.kube.wire.base import Object
from maar.kube.wire.references import Reference, pod_reference
from maar.model.snapshot import Snapshot


class NotedObject(NamedTuple):
    """An object that has a note."""

    kind: AnyJobKind
    key: str
    uid: str


class OwnerNote(msgspec.Struct, frozen=True):
    """Where the owner of a job reads why it waits, if no condition can say it: an annotation."""

    path: str
    shown: str
    """What the annotation says now."""
    place: NotedObject | None = None
    """The object, if it is no PodGroup: it can outlive the job."""


class Subject(msgspec.Struct, frozen=True):
    """The objects that stand for a job."""

    resource: Resource[Object]
    """The resource of the object with its state, in the version that the server serves."""
    reference: Reference
    group: PodGroup | None = None
    """The object itself, if it is a PodGroup, whose status shows the state of the job."""
    submitted: Reference | None = None
    """The object that the owner submitted, if it is another one."""
    note: OwnerNote | None = None

    @property
    def path(self) -> str:
        return self.resource.path(self.reference.namespace, self.reference.name)

    @property
    def tells(self) -> Reference:
        """The object that has the events about the job."""
        return self.submitted or self.reference


def subject_of(picture: Picture, snapshot: Snapshot, job: str) -> Subject | None:
    """The objects that stand for a job of a snapshot; `None` if no object of the job is left."""
    state = _state_of(picture, snapshot, job)
    if state is None:
        return None
    owner, note = picture.owner_of(job), None
    if owner is None:
        group = state.group
        if group is not None and group.kind.status.says_why is None:
            note = OwnerNote(state.path, group.item.metadata.annotations.get(known.WHY, ""))
        return msgspec.structs.replace(state, note=note)
    namespace = state.reference.namespace
    if not isinstance(owner, Owner):
        there = Reference(owner.api_version, owner.kind, namespace, owner.name, owner.uid)
        return msgspec.structs.replace(state, submitted=there)
    resource = picture.resource(owner.kind)
    # Pods that are jobs of their own share one owner, which has one annotation. Those of a suspended owner do not
    # wait, though they may still be there, and its note says so.
    has_note = picture.elastic_job(job) is None and not picture.is_alone(job)
    if has_note and not owner.kind.is_suspended(owner.item):
        path = resource.path(owner.namespace, owner.name)
        metadata, place = owner.item.metadata, NotedObject(*owner.place, owner.item.metadata.uid)
        note = OwnerNote(path, metadata.annotations.get(known.WHY, ""), place)
    return msgspec.structs.replace(state, submitted=Reference.to(resource, owner.item), note=note)


def _state_of(picture: Picture, snapshot: Snapshot, job: str) -> Subject | None:
    if (group := picture.group_of(job)) is not None:
        resource = picture.resource(group.kind)
        return Subject(resource, Reference.to(resource, group.item), group)
    if (elastic := picture.elastic_job(job)) is not None:
        return of_elastic(picture, elastic)
    number = snapshot.jobs.number.get(job)
    if number is not None and len(members := snapshot.jobs.members[number]):
        first = snapshot.tasks.tasks[int(members[0])]
        return Subject(PODS, pod_reference(first.key, first.uid))
    return None


def of_elastic(picture: Picture, job: ElasticJob) -> Subject:
    """The object of an elastic job itself: its size is written there, whatever object represents its gang."""
    resource = picture.resource(job.kind)
    return Subject(resource, Reference.to(resource, job.item))
