"""Writing an elastic job's size: one more kind of work for the executor.

The write names the version of the object that it was made from. Where the server refuses it, the object is looked at:
if it still stands as the decision took it to (an operator wrote its status, or Maar a note), the write is made anew
from what was found; if it stands as it was to be, the write has been done and only its answer was lost; anything else
is somebody else's change, which is never overwritten: the next cycle decides anew.
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
from maar.kube.wire.base import Object
from maar.kube.wire.decoding import decode_json
from maar.kube.wire.errors import FieldError
from maar.kube.wire.resources import Resource
from maar.kube.write.work import Again, Done, Failed, Own

LOOKS = 4
"""How often in a row an object is looked at that others write to all the time; then it is left for a moment."""


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Written(msgspec.Struct):
    metadata: _Meta


def _version(body: bytes) -> str:
    return msgspec.json.decode(body, type=_Written).metadata.resource_version


@dataclass(frozen=True, slots=True)
class AnnotateJob(Own):
    """Notes on a job, whatever else has changed of it."""

    path: str
    annotations: dict[str, str | None]

    @property
    def key(self) -> str:
        """The job."""
        return self.path

    async def once(self, api: Api) -> Done | Failed | Again:
        """Write."""
        return Done(_version(await api.patch(self.path, {"metadata": {"annotations": self.annotations}})))


@dataclass(frozen=True, slots=True)
class ChangeJob(Own):
    """An elastic job gets another size, is suspended or resumed."""

    kind: AnyJobKind
    resource: Resource[Object]
    """As the server serves it."""
    item: Object
    """As it was last seen."""
    spec: ElasticSpec
    """What that says."""
    made: Object | None
    """What the object made, where that states the workers."""
    before: tuple[int, bool]
    """Size and suspension as the decision took them to be: what was seen, or what an earlier decision made of it."""
    wanted: Wanted

    @property
    def key(self) -> str:
        """The job."""
        return self.resource.path(self.item.namespace, self.item.name)

    def __str__(self) -> str:
        wanted = "suspended" if self.wanted.suspended else f"{self.wanted.size} workers"
        return f"{self.resource.kind} `{self.item.key}` to {wanted}"

    async def once(self, api: Api) -> Done | Failed | Again:
        """Write, and look again where that is refused."""
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
        """Whether a job stands as the decision took it to, or we are half way."""
        return (was.size, was.suspended) == self.before or self._is_ours(was)

    def _is_ours(self, was: ElasticSpec) -> bool:
        kept = self.wanted.kept
        return was.kept in (kept, msgspec.structs.replace(kept, running=False))

    def _is_done(self, was: ElasticSpec) -> bool:
        wanted = self.wanted
        return (was.size, was.suspended) == (wanted.size, wanted.suspended) and self._is_ours(was)

    async def _send(self, api: Api, item: Object, was: ElasticSpec) -> str:
        """All requests in their order; the version of the object that has it all, where there is one."""
        version = ""
        assert self.kind.write is not None, "only kinds that can be written are elastic"
        requests = self.kind.write(item, self.resource, was, self.wanted)
        for request in requests:
            if request.create:
                with contextlib.suppress(AlreadyExists):  # asked before, and the answer was lost
                    await api.create(request.path, request.body)
            else:
                version = _version(await api.patch(request.path, request.body, request.patch))
        return "" if any(request.create for request in requests) else version

    async def _look(self, api: Api) -> Object:
        try:
            return decode_json(await api.get(self.key), self.resource.struct)
        except (FieldError, msgspec.DecodeError) as error:
            raise NotFound(f"cannot be read any more: {error}", verb="GET", path=self.key) from error
