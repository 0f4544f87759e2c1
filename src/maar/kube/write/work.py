"""Writes for the executor, each as plain data, and what one attempt at each means.

A write may have succeeded although its answer was lost. So every refusal is checked: a bind that is refused because the
pod already has the wanted node has succeeded, and a pod that no longer exists needs no eviction.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import msgspec

from maar.kube.client.api import Api, PatchKind
from maar.kube.client.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    NotFound,
    ServerFault,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from maar.kube.wire.api_resources import PODS

SUBRESOURCES = ("status", "scale", "resize", "ephemeralcontainers")


@dataclass(frozen=True, slots=True)
class OnPod:
    """A write to one pod, never to a later pod of the same name."""

    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> str:
        """The object that is written to: writes with the same key are sent in order."""
        return PODS.path(self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class Bind(OnPod):
    """Bind a pod to a node."""

    node: str


@dataclass(frozen=True, slots=True)
class Evict(OnPod):
    """Evict a pod, if its disruption budgets allow it."""

    grace: int | None = None


@dataclass(frozen=True, slots=True)
class Delete(OnPod):
    """Delete a pod, regardless of budgets."""

    grace: int | None = None


@dataclass(frozen=True, slots=True)
class Patch:
    """Change a part of an object or of its status."""

    path: str
    body: bytes | dict[str, Any] | list[Any]
    kind: PatchKind = "merge"

    @property
    def key(self) -> str:
        """The object, whichever subresource is written."""
        path, _, last = self.path.rpartition("/")
        return path if last in SUBRESOURCES else self.path


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object with a given name."""

    path: str
    name: str
    body: bytes | dict[str, Any]

    @property
    def key(self) -> str:
        return f"{self.path}/{self.name}"


class Own(ABC):
    """A write that defines its own attempt."""

    __slots__ = ()

    @property
    @abstractmethod
    def key(self) -> str:
        """The object that is written to."""

    @abstractmethod
    async def once(self, api: Api) -> Done | Failed | Again:
        """One attempt; its errors mean the same as those of all other writes."""


Work = Bind | Evict | Delete | Patch | Create | Own


@dataclass(frozen=True, slots=True)
class Done:
    """The wanted state exists, by this or an earlier attempt."""

    version: str = ""
    """The version of the object with the wanted state, if known."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The write failed. `final`: the server refused it; otherwise the result is unknown until a watch shows it."""

    error: ApiError
    final: bool = True


@dataclass(frozen=True, slots=True)
class Again:
    """The attempt failed and can be repeated."""

    error: ApiError


Outcome = Done | Failed


async def attempt(api: Api, work: Work, earlier: int = 0) -> Done | Failed | Again:
    """Try once, after this number of earlier attempts."""
    try:
        match work:
            case Bind():
                return await _bind(api, work)
            case Evict() | Delete():
                return await _remove(api, work)
            case Patch(path, body, kind):
                await api.patch(path, body, kind)
            case Create(path, _, body):
                await api.create(path, body)
            case Own():
                return await work.once(api)
        return Done()
    except AlreadyExists as error:
        return Done() if earlier else Failed(error)
    except (Unreachable, ServerFault, TooManyRequests, Unauthorized) as error:
        return Again(error)
    except ApiError as error:
        return Failed(error)


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    deletion_timestamp: str | None = None


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


async def _bind(api: Api, work: Bind) -> Done | Failed | Again:
    try:
        await api.bind(work.namespace, work.name, work.uid, work.node)
        return Done()
    except Conflict as error:
        pod = await _look(api, work)
        if pod is None:
            return Failed(_said(error, NotFound, "has been deleted"))
        if pod.metadata.uid != work.uid:
            return Failed(_said(error, Conflict, f"is another one of the same name now: uid `{pod.metadata.uid}`"))
        if pod.spec.node_name == work.node:
            return Done()
        if pod.spec.node_name:
            return Failed(_said(error, Conflict, f"is on another node already: `{pod.spec.node_name}`"))
        return Failed(error) if pod.metadata.deletion_timestamp is not None else Again(error)


async def _remove(api: Api, work: Evict | Delete) -> Done | Failed | Again:
    ask = api.evict if isinstance(work, Evict) else api.delete_pod
    try:
        await ask(work.namespace, work.name, work.uid, work.grace)
    except NotFound:
        pass
    except Conflict as error:
        pod = await _look(api, work)
        if pod is not None and pod.metadata.uid == work.uid and pod.metadata.deletion_timestamp is None:
            return Again(error)
    return Done()


async def _look(api: Api, work: OnPod) -> _Pod | None:
    """The pod as it is now; `None` if no pod has this name."""
    try:
        body = await api.get(work.key)
        return msgspec.json.decode(body, type=_Pod)
    except NotFound:
        return None
    except msgspec.DecodeError as error:
        raise ServerFault(f"not a pod: {error}", verb="GET", path=work.key) from error


def _said(error: ApiError, kind: type[ApiError], what: str) -> ApiError:
    name = error.path.removesuffix("/binding").rpartition("/")[2]
    return kind(f"pod `{name}` {what}", reason=error.reason, verb=error.verb, path=error.path)
