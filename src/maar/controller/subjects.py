"""Which object stands for a job. The outbox, the reports and the resizes ask here, and nobody else decides it.

A job's PodGroup stands for it, or else the object of an elastic job, or else the first of its pods. This module also
knows the version of each kind that the server serves.
"""

from __future__ import annotations

import msgspec

from maar.controller.cache import Cache
from maar.kube.kinds import KINDS, kind_of
from maar.kube.kinds.kind import Kind
from maar.kube.picture.picture import OWNER_HOMES, Picture
from maar.kube.wire.base import Object
from maar.kube.wire.resources import PLUGINS_GROUPS, PODS, UPSTREAM_GROUPS, VOLCANO_GROUPS, Resource
from maar.kube.write.events import Reference

GROUPS: dict[str, Resource[Object]] = {
    "volcano_groups": VOLCANO_GROUPS,
    "upstream_groups": UPSTREAM_GROUPS,
    "plugins_groups": PLUGINS_GROUPS,
}


class Subject(msgspec.Struct, frozen=True):
    """The object that stands for a job: it carries the job's events, conditions and annotations."""

    resource: Resource[Object]
    reference: Reference
    group: Object | None = None
    """The object itself, if it is a PodGroup: its status says how the job stands."""

    @property
    def path(self) -> str:
        """The object's path on the server."""
        return self.resource.path(self.reference.namespace, self.reference.name)


class Subjects:
    """Finds the subjects of jobs in the picture."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._served: dict[tuple[str, str], Resource[Object]] = {}
        """By group and plural."""

    def serve(self, resource: Resource[Object]) -> None:
        """The server serves a resource in this version."""
        self._served[resource.group, resource.plural] = resource

    def subject_of(self, job: str) -> Subject | None:
        """The object that stands for a job; `None` if nothing is left of the job."""
        picture, latest = self._cache.picture, self._cache.latest
        if (found := picture.group_of(job)) is not None:
            home, group = found
            resource = self._version(GROUPS[home])
            return Subject(resource, Reference.to(resource, group), group)
        if (elastic := picture.elastic_job(job)) is not None:
            return self.of_elastic(elastic.item)
        number = latest.jobs.number.get(job)
        if number is not None and len(members := latest.jobs.members[number]):
            first = latest.tasks.tasks[int(members[0])]
            return Subject(PODS, pod_reference(first.key, first.uid))
        return Subject(PODS, pod_reference(job, "")) if picture.is_unreadable(job) else None

    def of_elastic(self, item: Object) -> Subject:
        """The object of an elastic job itself: its size is written there, whatever stands for its gang."""
        resource = self.kind(item).resource
        return Subject(resource, Reference.to(resource, item))

    def kind(self, item: Object) -> Kind:
        """The kind of an elastic job's object, in the version that the server serves."""
        usual = kind_of(item)
        assert usual is not None, "only objects of known kinds are elastic jobs"
        return next((kind for kind in KINDS if kind.resource == self._version(usual.resource)), usual)

    def _version(self, usual: Resource[Object]) -> Resource[Object]:
        return self._served.get((usual.group, usual.plural), usual)


def pod_reference(key: str, uid: str) -> Reference:
    """A reference to a pod."""
    namespace, _, name = key.partition("/")
    return Reference(PODS.api_version, PODS.kind, namespace, name, uid)


def find_owner(picture: Picture, namespace: str, name: str, uid: str) -> Object | None:
    """The object of a job that was seen before, if it is still there."""
    for home in OWNER_HOMES:
        item = picture.objects.get(home, {}).get(f"{namespace}/{name}")
        if item is not None and item.metadata.uid == uid:
            return item
    return None
