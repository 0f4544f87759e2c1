"""What the controller of a job creates: pods as it names and labels them, or objects that pods are made of in turn.

The file of a kind says what its controller would create next (`JobKind.creates`). `maar plan` plans jobs that have no
pods yet by it, and the simulated controllers of `maar.embedded` name their pods by the same functions.

Where a controller adds a random suffix to a name, the pod gets its number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from maar.kube.wire.api_resources import Resource
from maar.kube.wire.base import Metadata, Object, OwnerReference
from maar.kube.wire.jobs import PodTemplate
from maar.kube.wire.pods import Pod


class CreatedMember(NamedTuple):
    """What a controller adds to the template of a pod."""

    name: str
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}


def reference(item: Object, resource: Resource[Any]) -> OwnerReference:
    """The owner reference to an object on what its controller creates."""
    return OwnerReference(resource.kind, item.name, resource.api_version, item.metadata.uid, controller=True)


def owned(item: Object, resource: Resource[Any], member: CreatedMember, template: Metadata = Metadata()) -> Metadata:  # noqa: B008
    """The metadata of what the controller of an object creates: at once, in the same namespace."""
    return Metadata(
        name=member.name,
        namespace=item.metadata.namespace,
        labels={**template.labels, **member.labels},
        annotations={**template.annotations, **member.annotations},
        creation_timestamp=item.metadata.creation_timestamp,
        owner_references=(reference(item, resource),),
    )


def pod(item: Object, resource: Resource[Any], template: PodTemplate, member: CreatedMember) -> Pod:
    """A pod of an object as its controller creates it."""
    return Pod(metadata=owned(item, resource, member, template.metadata), spec=template.spec)


def with_metadata(pod: Pod, *, labels: Mapping[str, str] = {}, annotations: Mapping[str, str] = {}) -> Pod:
    """A pod with more labels and annotations."""
    meta = pod.metadata
    more = {"labels": {**meta.labels, **labels}, "annotations": {**meta.annotations, **annotations}}
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(meta, **more))
