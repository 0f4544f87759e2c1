"""Which object represents a job: its PodGroup, or else the object of an elastic job, or else its first pod.

The outbox, the reports and the resizes ask here; no other module decides this.
"""

from __future__ import annotations

import msgspec

from maar.controller.cache import Cache
from maar.kube.picture.elastic_jobs import ElasticJob
from maar.kube.picture.picture import PodGroup
from maar.kube.wire.api_resources import PODS, Resource
from maar.kube.wire.base import Object
from maar.kube.write.events import Reference


class Subject(msgspec.Struct, frozen=True):
    """The object that represents a job: it has the job's events, conditions and annotations."""

    resource: Resource[Object]
    """As the server serves it."""
    reference: Reference
    group: PodGroup | None = None
    """The object itself, if it is a PodGroup, whose status shows the state of the job."""

    @property
    def path(self) -> str:
        return self.resource.path(self.reference.namespace, self.reference.name)


class Subjects:
    """Finds the subjects of jobs in the picture."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def subject_of(self, job: str) -> Subject | None:
        """The object that represents a job; `None` if no object of the job is left."""
        picture, latest = self._cache.picture, self._cache.latest
        if (group := picture.group_of(job)) is not None:
            resource = picture.resource(group.kind)
            return Subject(resource, Reference.to(resource, group.item), group)
        if (elastic := picture.elastic_job(job)) is not None:
            return self.of_elastic(elastic)
        number = latest.jobs.number.get(job)
        if number is not None and len(members := latest.jobs.members[number]):
            first = latest.tasks.tasks[int(members[0])]
            return Subject(PODS, pod_reference(first.key, first.uid))
        return None

    def of_elastic(self, job: ElasticJob) -> Subject:
        """The object of an elastic job itself: its size is written there, whatever object represents its gang."""
        resource = self._cache.picture.resource(job.kind)
        return Subject(resource, Reference.to(resource, job.item))


def pod_reference(key: str, uid: str) -> Reference:
    namespace, _, name = key.partition("/")
    return Reference(PODS.api_version, PODS.kind, namespace, name, uid)
