"""Create, find, change and cancel jobs with a client: its credentials decide what is allowed, not this module.

Nothing is retried. What the API server refuses reaches the caller as an `ApiError` (403 where a right is missing).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from maar.kube.client.api import Api
from maar.kube.client.discovery import served
from maar.kube.client.errors import ApiError, Forbidden, NotFound
from maar.kube.kinds import AnyKind, annotation, owner_kinds
from maar.kube.kinds.cluster import PODS
from maar.kube.kinds.kind import JobKind, PodGroupKind
from maar.kube.submit.changes import Change, patch_of, why_not_stopped
from maar.kube.submit.effects import ChangeResult, Part, check_end, effects
from maar.kube.submit.errors import Ambiguous, NoSuchJob, SubmitError
from maar.kube.submit.manifests import SUBMITTED, Manifest, is_name, is_namespace
from maar.kube.submit.names import Names, cluster_names
from maar.kube.submit.paths import Json
from maar.kube.wire.api_resources import PODS as POD_RESOURCE
from maar.kube.wire.api_resources import Resource
from maar.kube.wire.base import Object
from maar.kube.wire.decoding import decode_json
from maar.kube.wire.pods import Pod
from maar.model.words import nearest, unknown


class Submitted(NamedTuple):
    """An object of a job."""

    kind: AnyKind
    resource: Resource[Object]
    """As the server serves it."""
    item: Object

    @property
    def path(self) -> str:
        return self.resource.path(self.item.namespace, self.item.name)

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.item.namespace}/{self.item.name}"


class PartlyCreated(SubmitError):
    """The API server accepted some of several manifests, and then refused one."""

    def __init__(self, created: Sequence[Submitted], error: ApiError) -> None:
        super().__init__("", f"{error.message}; created before that: {', '.join(map(str, created))}")
        self.created = tuple(created)
        self.error = error
        self.status = error.status or 502


async def create(api: Api, manifests: Sequence[Manifest], *, dry_run: bool = False) -> list[Submitted]:
    """Create objects, in their order. With `dry_run` the server checks each of them and creates none."""
    made: list[Submitted] = []
    for manifest in manifests:
        try:
            body = await api.create(manifest.resource.path(manifest.namespace), manifest.document, dry_run=dry_run)
        except ApiError as error:
            if made and not dry_run:
                raise PartlyCreated(made, error) from None
            raise
        item = decode_json(body, manifest.kind.resource.struct)
        made.append(Submitted(manifest.kind, manifest.resource, item))
    return made


async def find(
    api: Api, namespace: str, name: str, kind: str = "", kinds: Mapping[AnyKind, Resource[Object]] | None = None
) -> list[Submitted]:
    """What stands for a job: the object that its owner submitted, or all pods of a gang that has none.

    `kind` chooses among several objects of the name. `kinds`: those that the server serves, if they are known.
    """
    if not is_namespace(namespace):
        raise NoSuchJob("", f"no job `{namespace}/{name}` was found")
    if kind and all(k.resource.kind.lower() != kind.lower() for k in SUBMITTED):
        raise SubmitError("kind", unknown("kind", kind, {k.resource.kind for k in SUBMITTED}))
    there = await served(api, SUBMITTED) if kinds is None else kinds
    wanted = [k for k in SUBMITTED if k in there and (not kind or k.resource.kind.lower() == kind.lower())]
    if not is_name(name):
        wanted = []  # a gang that only annotations name may have any name
    answers = await asyncio.gather(*(_get(api, there[k], namespace, name) for k in wanted), return_exceptions=True)
    seen: list[Submitted] = []
    forbidden: Forbidden | None = None
    for of, answer in zip(wanted, answers, strict=True):
        if isinstance(answer, Forbidden):
            forbidden = forbidden or answer
        elif isinstance(answer, BaseException):
            if not isinstance(answer, NotFound):
                raise answer
        else:
            seen.append(Submitted(of, there[of], answer))
    outermost = [s for s in seen if not any(map(owner_kinds, s.item.metadata.owner_references))]
    if len(outermost) > 1 and any(isinstance(s.kind, JobKind) for s in outermost):
        outermost = [s for s in outermost if s.kind is not PODS]
    if len(outermost) > 1:
        named = ", ".join(sorted({s.resource.kind for s in outermost}))
        raise Ambiguous("kind", f"several objects are called `{namespace}/{name}`: name the kind: {named}")
    if outermost:
        return outermost
    if not seen and not kind and (pods := await _annotated(api, namespace, name)):
        return pods
    if seen:
        owners = ", ".join(f"{r.kind} `{r.name}`" for s in seen for r in s.item.metadata.owner_references)
        raise NoSuchJob("", f"`{namespace}/{name}` belongs to {owners}: name that one")
    if forbidden is not None:
        raise forbidden
    raise NoSuchJob("", f"no job `{namespace}/{name}` was found")


async def near_names(api: Api, namespace: str, name: str) -> list[str]:
    """The jobs that a caller probably meant, as far as she may list them; nothing if the namespace cannot be one."""
    if not is_namespace(namespace):
        return []
    there = await served(api, SUBMITTED)
    answers = await asyncio.gather(*(api.list(r, namespace) for r in there.values()), return_exceptions=True)
    items = [item for a in answers if not isinstance(a, BaseException) for item in a.items if isinstance(item, Object)]
    free = (item for item in items if not any(map(owner_kinds, item.metadata.owner_references)))
    return nearest(f"{namespace}/{name}", dict.fromkeys(item.key for item in free))


async def _get(api: Api, resource: Resource[Object], namespace: str, name: str) -> Object:
    return decode_json(await api.get(resource.path(namespace, name)), resource.struct)


async def _annotated(api: Api, namespace: str, name: str) -> list[Submitted]:
    """The pods of a gang that only their annotation states."""
    try:
        listed = await api.list(POD_RESOURCE, namespace)
    except Forbidden:
        return []
    pods = [pod for pod in listed.items if isinstance(pod, Pod) and annotation.SOURCE.name_in(pod) == name]
    return [Submitted(PODS, POD_RESOURCE, pod) for pod in pods]


async def change(api: Api, of: Sequence[Submitted], what: Change, names: Names | None = None) -> ChangeResult:
    """Change a job; returns what that does, and what its owner should know.

    `names`: the queues and classes of the cluster, if they are known. A change without an effect is a `SubmitError`.
    """
    patches = {s.item.key: patch_of(s.kind, s.item, what) for s in of}
    if what.hold is not False:
        for submitted in of:
            check_end(submitted.kind, submitted.item)
    done = await _effects(api, of, patches, what, names)
    for submitted in of:
        if patch := patches[submitted.item.key]:
            await api.patch(submitted.path, patch)
    if not what.stop:
        return done
    cannot = dict.fromkeys(why for s in of if (why := why_not_stopped(s.kind, s.item)))
    return done._replace(notes=(*done.notes, *cannot))


async def _effects(
    api: Api, of: Sequence[Submitted], patches: Mapping[str, Json], what: Change, names: Names | None
) -> ChangeResult:
    if what == Change(hold=False) or not of:
        return ChangeResult()
    named = what.queue is not None or what.priority_class is not None
    names = names or (await cluster_names(api) if named else Names())
    around, unseen = await _around(api, of[0].item.namespace, of[0])
    done = effects([(s.kind, s.item) for s in of], patches, around, names, what)
    return done._replace(notes=(*done.notes, *unseen))


async def _around(api: Api, namespace: str, of: Submitted) -> tuple[list[Part], list[str]]:
    """Pods and PodGroups of a namespace, as far as they may be listed."""
    parts: list[Part] = []
    unseen: list[str] = []
    kinds = [PODS, *(k for k in SUBMITTED if isinstance(k, PodGroupKind) and k is not of.kind)]
    for kind in kinds:
        try:
            listed = await api.list(kind.resource, namespace)
        except NotFound:  # the cluster has no such kind
            continue
        except Forbidden:
            if kind is PODS:
                unseen.append("whether it runs is not known: you may not list pods")
            continue
        parts += [(kind, item) for item in listed.items if isinstance(item, Object)]
    return parts, unseen


async def hold(api: Api, of: Sequence[Submitted], *, stop: bool = False) -> ChangeResult:
    """Hold a job: it does not start. With `stop` it is suspended if it runs."""
    return await change(api, of, Change(hold=True, stop=stop))


async def release(api: Api, of: Sequence[Submitted]) -> None:
    await change(api, of, Change(hold=False))


async def cancel(api: Api, of: Sequence[Submitted]) -> list[Submitted]:
    """Delete a job with all that it owns, and the pods of a PodGroup that nothing else owns; returns what is gone."""
    gone: list[Submitted] = []
    for submitted in of:
        members = await _members(api, submitted) if isinstance(submitted.kind, PodGroupKind) else []
        for one in (submitted, *members):
            try:
                await api.delete_with_all(one.path, one.item.metadata.uid)
            except NotFound:
                continue
            gone.append(one)
    return gone


async def _members(api: Api, group: Submitted) -> list[Submitted]:
    """The pods that name a PodGroup and have no controller that would create them again."""
    assert isinstance(group.kind, PodGroupKind)
    listed = await api.list(POD_RESOURCE, group.item.namespace)
    pods: list[Any] = [pod for pod in listed.items if isinstance(pod, Pod)]
    mine = (pod for pod in pods if group.kind.name_in(pod) == group.item.name)
    free = (pod for pod in mine if not any(r.controller for r in pod.metadata.owner_references))
    return [Submitted(PODS, POD_RESOURCE, pod) for pod in free]
