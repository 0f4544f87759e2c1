"""Writes that the executor carries out, each as plain data, and what one attempt at each means.

A write may have been carried out although its answer was lost. So every refusal is read with care: a bind that is
refused because the pod is where we wanted it has been done, and a pod that is not there any more needs no eviction.
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
from maar.kube.wire.resources import PODS

SUBRESOURCES = ("status", "scale", "resize", "ephemeralcontainers")


@dataclass(frozen=True, slots=True)
class OnPod:
    """A write to one pod, and to no successor of the same name."""

    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> str:
        """The object that is written to: writes of one key go in order."""
        return PODS.path(self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class Bind(OnPod):
    """A pod gets its node."""

    node: str


@dataclass(frozen=True, slots=True)
class Evict(OnPod):
    """A pod goes, if its disruption budgets allow it."""

    grace: int | None = None


@dataclass(frozen=True, slots=True)
class Delete(OnPod):
    """A pod goes, whatever budgets say."""

    grace: int | None = None


@dataclass(frozen=True, slots=True)
class Patch:
    """A part of an object, or of its status, changes."""

    path: str
    body: bytes | dict[str, Any] | list[Any]
    kind: PatchKind = "merge"

    @property
    def key(self) -> str:
        """The object, whichever part of it is written."""
        path, _, last = self.path.rpartition("/")
        return path if last in SUBRESOURCES else self.path


@dataclass(frozen=True, slots=True)
class Create:
    """A new object with a name of its own."""

    path: str
    name: str
    body: bytes | dict[str, Any]

    @property
    def key(self) -> str:
        """The object."""
        return f"{self.path}/{self.name}"


class Own(ABC):
    """A write that knows itself what one attempt at it means."""

    __slots__ = ()

    @property
    @abstractmethod
    def key(self) -> str:
        """The object that is written to."""

    @abstractmethod
    async def once(self, api: Api) -> Done | Failed | Again:
        """One attempt; what it raises means the same as for all other writes."""


Work = Bind | Evict | Delete | Patch | Create | Own


@dataclass(frozen=True, slots=True)
class Done:
    """It is so now, whoever did it."""

    version: str = ""
    """Of the object that has it, where that is known."""


@dataclass(frozen=True, slots=True)
class Failed:
    """It is not done. `final`: the server said so; else nobody knows, and the next look at the object tells."""

    error: ApiError
    final: bool = True


@dataclass(frozen=True, slots=True)
class Again:
    """Not this time."""

    error: ApiError


Outcome = Done | Failed


async def attempt(api: Api, work: Work, earlier: int = 0) -> Done | Failed | Again:
    """Try once, after so many earlier attempts."""
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
    """The pod as it is now; `None`: there is none of that name."""
    try:
        body = await api.get(work.key)
        return msgspec.json.decode(body, type=_Pod)
    except NotFound:
        return None
    except msgspec.DecodeError as error:
        raise ServerFault(f"not a pod: {error}", verb="GET", path=work.key) from error


def _said(error: ApiError, kind: type[ApiError], what: str) -> ApiError:
    """A refusal in words of what was found."""
    name = error.path.removesuffix("/binding").rpartition("/")[2]
    return kind(f"pod `{name}` {what}", reason=error.reason, verb=error.verb, path=error.path)
