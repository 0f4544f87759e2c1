"""ProvisioningRequests, as work for the executor: ask an autoscaler for room for a whole gang, and take it back.

A request names PodTemplates. They are copied from pods of the gang, one for each kind of pod, because the picture has
only the fields that decisions need.
"""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass
from typing import Any

import msgspec

from maar.kube.client.api import Api
from maar.kube.client.errors import AlreadyExists, NotFound
from maar.kube.wire import annotations as known
from maar.kube.wire.api_resources import POD_TEMPLATES, PODS, Resource
from maar.kube.wire.base import Object
from maar.kube.wire.references import Reference
from maar.kube.write.outcomes import Again, Done, Failed
from maar.kube.write.work import Own

MOST_SETS = 32
"""Pod sets that one request may have: a limit of the API."""
TOKEN_VOLUME = "kube-api-access-"  # noqa: S105 a name, no secret
"""The volume of the service account's token, which admission adds to every pod."""


class PodSet(msgspec.Struct, frozen=True):
    """Equal pods of a gang: one of them as the sample, and how many are needed."""

    sample: str
    """`namespace/name`"""
    count: int


@dataclass(frozen=True, slots=True)
class _OnRequest(Own):
    """A write of one request and its templates."""

    resource: Resource[Object]
    """ProvisioningRequests as the server serves them."""
    namespace: str
    name: str

    @property
    def key(self) -> str:
        return self.resource.path(self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class AskForNodes(_OnRequest):
    """Create a request and its templates; what an earlier attempt created stays."""

    class_name: str
    sets: tuple[PodSet, ...]
    notes: dict[str, str]
    """Annotations of the request and the templates."""
    owner: Reference
    """Owns the request and the templates, so that they are deleted together with the job."""

    async def once(self, api: Api) -> Done | Failed | Again:
        for number, pods in enumerate(self.sets):
            namespace, _, name = pods.sample.partition("/")
            pod = msgspec.json.decode(await api.get(PODS.path(namespace, name)), type=dict[str, Any])
            body = POD_TEMPLATES.document(self._metadata(template_name(self.name, number)), template=template(pod))
            with contextlib.suppress(AlreadyExists):
                await api.create(POD_TEMPLATES.path(self.namespace), body)
        sets = [
            {"count": pods.count, "podTemplateRef": {"name": template_name(self.name, number)}}
            for number, pods in enumerate(self.sets)
        ]
        spec = {"provisioningClassName": self.class_name, "podSets": sets}
        body = self.resource.document(self._metadata(self.name), spec=spec)
        with contextlib.suppress(AlreadyExists):
            await api.create(self.resource.path(self.namespace), body)
        return Done()

    def _metadata(self, name: str) -> dict[str, Any]:
        owner = self.owner._replace(namespace="").document()  # it is in the namespace of what it owns
        return {"name": name, "namespace": self.namespace, "annotations": self.notes, "ownerReferences": [owner]}


@dataclass(frozen=True, slots=True)
class Withdraw(_OnRequest):
    """Delete a request and its templates."""

    sets: int

    async def once(self, api: Api) -> Done | Failed | Again:
        templates = [POD_TEMPLATES.path(self.namespace, template_name(self.name, n)) for n in range(self.sets)]
        for path in (self.key, *templates):
            with contextlib.suppress(NotFound):
                await api.delete(path)
        return Done()


def template_name(request: str, number: int) -> str:
    return f"{request}-{number}"


def request_name(job: str, uid: str, attempt: int) -> str:
    """The name of a job's request: readable, and its own even if names are cut or a job is created again."""
    digest = hashlib.sha256(f"{job} {uid}".encode()).hexdigest()[:10]
    return f"{job.partition('/')[2][:40].rstrip('-.')}-{digest}-{attempt}"


def template(pod: dict[str, Any]) -> dict[str, Any]:
    """The template of a pod: what a scheduler looks at, without what belongs to this one pod."""
    metadata, spec = pod.get("metadata") or {}, dict(pod.get("spec") or {})
    for field in ("nodeName", "schedulingGates", "priority", "hostname"):
        spec.pop(field, None)
    tokens = {v["name"] for v in spec.get("volumes") or () if str(v.get("name", "")).startswith(TOKEN_VOLUME)}
    if "volumes" in spec:
        spec["volumes"] = [v for v in spec["volumes"] if v.get("name") not in tokens]
    for field in ("containers", "initContainers"):
        if field in spec:
            spec[field] = [_without(container, tokens) for container in spec[field]]
    notes = {k: v for k, v in (metadata.get("annotations") or {}).items() if k not in known.CONSUMES}
    return {"metadata": {"labels": metadata.get("labels") or {}, "annotations": notes}, "spec": spec}


def _without(container: dict[str, Any], volumes: set[str]) -> dict[str, Any]:
    mounts = [m for m in container.get("volumeMounts") or () if m.get("name") not in volumes]
    return {**container, "volumeMounts": mounts}
