"""Writes of the size of an elastic job, as work for the executor.

A write names the version of the object that it is based on. If the server refuses it, the object is read again. If its
state is still the one that the decision was based on (an operator wrote the status, or Maar a note), the write is
repeated for the new version. If its state is the wanted one, the write succeeded and only the answer was lost. Any
other state is a change by another writer and is never overwritten: the next cycle decides again.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import msgspec

from maar.kube.client.api import Api
from maar.kube.client.errors import AlreadyExists, ApiError, Conflict, Invalid, NotFound
from maar.kube.kinds import AnyJobKind
from maar.kube.kinds.elastic import ElasticSpec
from maar.kube.kinds.kind import Wanted
from maar.kube.wire.api_resources import Resource
from maar.kube.wire.base import Object
from maar.kube.wire.decoding import decode_json
from maar.kube.wire.errors import FieldError
from maar.kube.write.work import Again, Done, Failed, Own

LOOKS = 4
"""Reads of an object that others keep writing to, before the next attempt is delayed."""


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Written(msgspec.Struct):
    metadata: _Meta


def _version(body: bytes) -> str:
    return msgspec.json.decode(body, type=_Written).metadata.resource_version


@dataclass(frozen=True, slots=True)
class AnnotateJob(Own):
    """Annotate a job, whatever its version."""

    path: str
    annotations: dict[str, str | None]

    @property
    def key(self) -> str:
        return self.path

    async def once(self, api: Api) -> Done | Failed | Again:
        return Done(_version(await api.patch(self.path, {"metadata": {"annotations": self.annotations}})))


@dataclass(frozen=True, slots=True)
class ChangeJob(Own):
    """Resize, suspend or resume an elastic job."""

    kind: AnyJobKind
    resource: Resource[Object]
    """As the server serves it."""
    item: Object
    """As it was last seen."""
    spec: ElasticSpec
    """What the object states."""
    made: Object | None
    """What the object made, where that states the workers."""
    before: tuple[int, bool]
    """Size and suspension that the decision was based on: as seen, or as an earlier decision left them."""
    wanted: Wanted

    @property
    def key(self) -> str:
        return self.resource.path(self.item.namespace, self.item.name)

    def __str__(self) -> str:
        wanted = "suspended" if self.wanted.suspended else f"{self.wanted.size} workers"
        return f"{self.resource.kind} `{self.item.key}` to {wanted}"

    async def once(self, api: Api) -> Done | Failed | Again:
        """Write; if the write is refused, read the object and try again."""
        item, was = self.item, self.spec
        error: ApiError = Conflict("changed in between", verb="PATCH", path=self.key)
        for _ in range(LOOKS):
            if self._is_expected(was):
                try:
                    return Done(await self._send(api, item, was))
                except (Conflict, Invalid) as refused:
                    error = refused
            found = await self._look(api)
            now = self.kind.elastic(found, self.made, None)
            if found.metadata.uid != self.item.metadata.uid or now is None:
                return Failed(Conflict("is another one by now, or has ended", verb="PATCH", path=self.key))
            if self._is_done(now):
                return Done(found.metadata.resource_version)
            if not self._is_expected(now) or found.metadata.resource_version == item.metadata.resource_version:
                return Failed(error)
            item, was = found, now
        return Again(error)

    def _is_expected(self, was: ElasticSpec) -> bool:
        """Whether the job is in the state that the decision was based on, or part of the write is done."""
        return (was.size, was.suspended) == self.before or self._is_ours(was)

    def _is_ours(self, was: ElasticSpec) -> bool:
        kept = self.wanted.kept
        return was.kept in (kept, msgspec.structs.replace(kept, running=False))

    def _is_done(self, was: ElasticSpec) -> bool:
        wanted = self.wanted
        return (was.size, was.suspended) == (wanted.size, wanted.suspended) and self._is_ours(was)

    async def _send(self, api: Api, item: Object, was: ElasticSpec) -> str:
        """Send all requests in order; returns the version of the object with the wanted state, if there is one."""
        version = ""
        assert self.kind.write is not None, "only kinds that can be written are elastic"
        requests = self.kind.write(item, self.resource, was, self.wanted)
        for request in requests:
            if request.create:
                with contextlib.suppress(AlreadyExists):  # an earlier attempt succeeded, and its answer was lost
                    await api.create(request.path, request.body)
            else:
                version = _version(await api.patch(request.path, request.body, request.patch))
        return "" if any(request.create for request in requests) else version

    async def _look(self, api: Api) -> Object:
        try:
            return decode_json(await api.get(self.key), self.resource.struct)
        except (FieldError, msgspec.DecodeError) as error:
            raise NotFound(f"cannot be read any more: {error}", verb="GET", path=self.key) from error
