"""Writes of the size of an elastic job, as work for the executor.

A write names the version of the object that it is based on, and needs an intent (`guarded`). If the server refuses it
or does not answer, the object shows what to do. If its state is still the one that the decision was based on (an
operator wrote the status, or Maar a note), the write is announced and sent for the new version. If its state is the
wanted one, the write succeeded and only the answer was lost. Any other state is a change by another writer and is
never overwritten: the next cycle decides again.

An owner who changes the object all the time could keep her workers so. Therefore a smaller size or a suspension that
was refused in several decisions in a row is `firm`: it names the uid only. A late copy of it stops workers whose owner
did that: it over-commits nothing, and the next cycle decides again.

A Volcano Job is suspended by a Command, which cannot carry a version: it is sent after a patch that does. A late
Command stops a whole job, or creates pods that wait: it over-commits nothing, and the next cycle decides again.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import msgspec

from maar.kube.client.api import Api
from maar.kube.client.errors import AlreadyExists, ApiError, Conflict, Invalid, NotFound
from maar.kube.kinds import AnyJobKind
from maar.kube.kinds.elastic import ElasticSpec
from maar.kube.kinds.kind import WantedState
from maar.kube.wire.api_resources import Plain, Resource
from maar.kube.wire.base import Object
from maar.kube.wire.decoding import decode_json
from maar.kube.write.guarded import Guarded, Moved, Verdict
from maar.kube.write.outcomes import Again, Done, Failed
from maar.kube.write.work import Own
from maar.model.words import count


def _version(body: bytes) -> str:
    return decode_json(body, Plain).metadata.resource_version


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


class SeenJob(NamedTuple):
    """An elastic job as it was seen: its object, and what that states."""

    item: Object
    spec: ElasticSpec


@dataclass(frozen=True, slots=True)
class ChangeJob(Guarded[SeenJob]):
    """Resize, suspend or resume an elastic job."""

    refusals: ClassVar[tuple[type[ApiError], ...]] = (Conflict, Invalid)  # a JSON patch of another version is invalid

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
    wanted: WantedState

    @property
    def key(self) -> str:
        return self.resource.path(self.item.namespace, self.item.name)

    def __str__(self) -> str:
        wanted = "suspended" if self.wanted.suspended else count(self.wanted.size, "worker")
        return f"{self.resource.kind} `{self.item.key}` to {wanted}"

    @property
    def base(self) -> SeenJob:
        return SeenJob(self.item, self.spec)

    async def send(self, api: Api, base: SeenJob) -> Done:
        """Send all requests in order; a Command leaves open which version of the object has the wanted state."""
        if not self.wanted.firm and not self._is_expected(base.spec):  # an earlier change of ours is not in it yet
            raise Conflict("changed in between", verb="PATCH", path=self.key)
        version = ""
        assert self.kind.write is not None, "only kinds that can be written are elastic"
        requests = self.kind.write(base.item, self.resource, base.spec, self.wanted)
        for request in requests:
            if request.create:
                with contextlib.suppress(AlreadyExists):  # an earlier attempt succeeded, and its answer was lost
                    await api.create(request.path, request.body)
            else:
                version = _version(await api.patch(request.path, request.body, request.patch))
        return Done("" if any(request.create for request in requests) else version)

    def judge(self, body: bytes | None, base: SeenJob, error: ApiError) -> Verdict:
        if body is None:
            return Failed(NotFound("is gone", verb="PATCH", path=self.key))
        try:
            found = decode_json(body, self.resource.struct)
            now = self.kind.elastic(found, self.made, None)
        except Exception as problem:  # noqa: BLE001 whatever its owner wrote into it, no other write may wait for this one
            return Failed(NotFound(f"cannot be read any more: {problem}", verb="PATCH", path=self.key))
        if found.metadata.uid != self.item.metadata.uid or now is None:
            return Failed(Conflict("is another one by now, or has ended", verb="PATCH", path=self.key))
        if self._is_done(now):
            return Done(found.metadata.resource_version)
        if found.metadata.resource_version == base.item.metadata.resource_version:
            return Failed(error)
        if not self.wanted.firm and not self._is_expected(now):
            return Failed(Conflict("changed in between", verb="PATCH", path=self.key))
        return Moved(SeenJob(found, now))

    def _is_expected(self, was: ElasticSpec) -> bool:
        """Whether the job is in the state that the decision was based on, or part of the write is done."""
        return (was.size, was.suspended) == self.before or self._is_ours(was)

    def _is_ours(self, was: ElasticSpec) -> bool:
        kept = self.wanted.kept
        return was.kept in (kept, msgspec.structs.replace(kept, running=False))

    def _is_done(self, was: ElasticSpec) -> bool:
        wanted = self.wanted
        return (was.size, was.suspended) == (wanted.size, wanted.suspended) and self._is_ours(was)
