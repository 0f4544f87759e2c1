"""Check a manifest and complete it, before it is sent: pure.

What is completed: the namespace, the scheduler name of all pods, and `suspend` where the kind has it and Maar resumes
such a job. A suspended job has no pods until there is room for all of them. What the owner states stays.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from maar.kube.kinds import KINDS, AnyKind, kind_named
from maar.kube.kinds.cluster import PODS
from maar.kube.kinds.fields import warnings_about
from maar.kube.kinds.kind import JobKind, PodGroupKind
from maar.kube.submit.errors import BadManifest
from maar.kube.submit.paths import Json, found, set_at, value_at
from maar.kube.submit.readers import check
from maar.kube.wire.api_resources import Resource
from maar.kube.wire.base import Object
from maar.kube.wire.decoding import decode
from maar.kube.wire.errors import FieldError

NAMESPACE = "default"
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
SUBMITTED: tuple[AnyKind, ...] = (PODS, *(k for k in KINDS if isinstance(k, (JobKind, PodGroupKind))))
"""The kinds that are jobs or parts of jobs."""


class Manifest(NamedTuple):
    """A manifest that was checked and completed, ready to be created."""

    kind: AnyKind
    resource: Resource[Object]
    """In the version that the manifest states."""
    namespace: str
    name: str
    """Empty if the API server makes it from `generateName`."""
    document: Json
    completed: tuple[str, ...]
    """What was added, as `spec.suspend: true`."""
    warnings: tuple[str, ...]


def prepared(
    document: Any, *, namespace: str = "", names: tuple[str, ...] = ("maar",), suspend: bool = True
) -> Manifest:
    """A manifest, checked and completed; a `BadManifest` names the field that is wrong.

    `namespace`: where it must be; if empty, where it says, else `default`. `names`: our scheduler names, of which pods
    that name none get the first. Without `suspend`, no job is suspended that is not already.
    """
    kind = _kind_of(document)
    document = copy.deepcopy(document)
    _decoded(document, kind)
    where = _namespace(document, namespace)
    warnings = tuple(warnings_about(kind, document))
    _check_name(document)
    completed = [*_name_schedulers(kind, document, names)]
    if suspend:
        completed += _suspended(kind, document, names)
    check(kind, _decoded(document, kind), document, where)
    return Manifest(
        *resource_of(document), where, str(document["metadata"].get("name", "")), document, tuple(completed), warnings
    )


def resource_of(document: Json) -> tuple[AnyKind, Resource[Object]]:
    """The kind of a manifest, and its resource in the version that the manifest states."""
    kind, version = _kind_of(document), document["apiVersion"]
    return kind, next((r for r in (kind.resource, *kind.older) if r.api_version == version), kind.resource)


def _kind_of(document: Any) -> AnyKind:
    if not isinstance(document, dict):
        raise BadManifest("", "expected an object with apiVersion and kind")
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str) or not document[field]:
            raise BadManifest(field, "missing")
    kind = kind_named(document["apiVersion"], document["kind"])
    if kind is None or kind not in SUBMITTED:
        jobs = ", ".join(sorted({k.resource.kind for k in SUBMITTED}))
        what = f"`{document['kind']}` of `{document['apiVersion']}` is no job; expected one of: {jobs}"
        raise BadManifest("kind", what)
    return kind


def _decoded(document: Json, kind: AnyKind) -> Object:
    try:
        item: Object = decode(document, kind.resource.struct)
    except FieldError as error:
        raise BadManifest(error.field, error.problem) from None
    return item


def _namespace(document: Json, namespace: str) -> str:
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        raise BadManifest("metadata", "missing")
    stated = metadata.get("namespace")
    if namespace and stated and stated != namespace:
        raise BadManifest("metadata.namespace", f"expected `{namespace}`, got `{stated}`")
    where = str(stated or namespace or NAMESPACE)
    if not is_namespace(where):
        raise BadManifest("metadata.namespace", f"expected the name of a namespace, got `{where}`")
    metadata["namespace"] = where
    return where


def is_namespace(name: str) -> bool:
    """Whether a namespace can have this name: it becomes a part of a path."""
    return _NAMESPACE.fullmatch(name) is not None


def is_name(name: str) -> bool:
    """Whether an object of a job can have this name: it becomes a part of a path."""
    return _NAME.fullmatch(name) is not None


def _check_name(document: Json) -> None:
    metadata = document["metadata"]
    if not metadata.get("name") and not metadata.get("generateName"):
        raise BadManifest("metadata.name", "missing")
    for field in ("uid", "resourceVersion", "creationTimestamp"):
        metadata.pop(field, None)  # what `kubectl get -o yaml` adds
    metadata.pop("managedFields", None)
    document.pop("status", None)


def _name_schedulers(kind: AnyKind, document: Json, names: tuple[str, ...]) -> Iterator[str]:
    """Set the scheduler of all pods that name none; another one than ours is an error."""
    form = kind.form
    paths = [form.scheduler] if form.scheduler else []
    for path in form.templates:
        for template in found(document, path):
            if not isinstance(template.value, dict):
                raise BadManifest(template.path, "expected a pod template")
            inside = template.value.get("spec")
            if not isinstance(inside, dict):
                raise BadManifest(f"{template.path}.spec", "missing")
            field = f"{template.path}.spec.schedulerName"
            if not inside.get("schedulerName"):
                if form.scheduler:
                    continue  # that of the job counts
                inside["schedulerName"] = names[0]
                yield f"{field}: {names[0]}"
            _is_ours(field, inside["schedulerName"], names)
    for path in paths:
        if not value_at(document, path):
            set_at(document, path, names[0])
            yield f"{path}: {names[0]}"
        _is_ours(path, value_at(document, path), names)


def _is_ours(path: str, name: Any, names: Iterable[str]) -> None:
    if name not in names:
        raise BadManifest(path, f"expected {' or '.join(f'`{ours}`' for ours in names)}, got `{name}`")


def _suspended(kind: AnyKind, document: Json, names: tuple[str, ...]) -> Iterator[str]:
    """Suspend a job that says nothing about it, if Maar resumes it: as a gang, or as an elastic job."""
    path = kind.form.suspend
    if not path or not isinstance(kind, JobKind) or value_at(document, path) is not None:
        return
    trial = copy.deepcopy(document)
    set_at(trial, path, True)
    item = _decoded(trial, kind)
    elastic = kind.elastic(item, None, frozenset(names))
    if elastic is None or (elastic.rigid and not all(gang.gang for gang in kind.gangs(item))):
        return  # never resumed, or its pods are no gang: suspended, they would become one
    set_at(document, path, True)
    yield f"{path}: true"
