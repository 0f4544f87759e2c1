"""Dangerous writes: binds, evictions and resizes. Each needs an intent on the Lease, and carries the version it is for.

    announced ──► sent ──► accepted: done
        ▲           ├────► refused (409): the object is read ──────┐
        │           └────► no answer: a fence moves its version ───┤
        │                                                          ▼
        └─ as the decision saw it: a new intent ◄─── what the object shows ───► done, or failed for good

A bind or a resize is never sent without the version. If the object shows a change that matters, the write has failed,
and the next cycle decides again.

A pod that runs never changes its node, so its uid alone says what an eviction is about. If the server refuses an
eviction because the pod has another version, the eviction is decided: it is announced as such, sent by uid alone, and
repeated until the pod is gone or going. Otherwise an owner who changes her pods all the time would keep them for ever.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from maar.kube.client import errors
from maar.kube.client.api import Api
from maar.kube.read.pod_changes import alike
from maar.kube.wire.api_resources import PODS
from maar.kube.wire.decoding import decode_json
from maar.kube.wire.errors import FieldError
from maar.kube.wire.pods import Pod
from maar.kube.write.decided import DecidedVictim
from maar.kube.write.fence import fence
from maar.kube.write.outcomes import Again, Done, Failed

B = TypeVar("B")
"""An object in the version that a write is for."""


@dataclass(frozen=True, slots=True)
class Moved(Generic[B]):
    """The object has another version, and is otherwise as the decision saw it: announce the write for this version."""

    base: B


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The request may still take effect: it must be settled by a fence."""

    error: errors.ApiError


Verdict = Done | Failed | Again | Moved[Any]


class Guarded(ABC, Generic[B]):
    """A write that needs an intent."""

    __slots__ = ()
    refusals: ClassVar[tuple[type[errors.ApiError], ...]] = (errors.Conflict,)
    """Errors that mean: the object is not as expected."""

    @property
    @abstractmethod
    def key(self) -> str:
        """The path of the object that is written to."""

    @property
    @abstractmethod
    def base(self) -> B:
        """The object as the decision saw it."""

    @abstractmethod
    async def send(self, api: Api, base: B) -> Done:
        """Send the write for this version of the object."""

    @abstractmethod
    def judge(self, body: bytes | None, base: B, error: errors.ApiError) -> Verdict:
        """The meaning of the object as it is now (`None`: it is gone), after no request can take effect any more."""


async def send(api: Api, work: Guarded[B], base: B) -> Verdict | Unanswered:
    """Send a write once; a definite refusal is checked by reading the object."""
    try:
        return await work.send(api, base)
    except errors.NotLeading:
        raise
    except (errors.Unreachable, errors.ServerFault) as error:
        return Unanswered(error)
    except work.refusals as error:
        return await _look(api, work, base, error)
    except errors.NotFound as error:
        return work.judge(None, base, error)
    except (errors.TooManyRequests, errors.Unauthorized) as error:
        return Again(error)
    except errors.ApiError as error:
        return Failed(error)


async def _look(api: Api, work: Guarded[B], base: B, refused: errors.ApiError) -> Verdict:
    try:
        return work.judge(await api.get(work.key), base, refused)
    except errors.NotFound:
        return work.judge(None, base, refused)
    except errors.ApiError as error:
        return Again(error)


async def settle(api: Api, work: Guarded[B], base: B, epoch: int) -> Verdict | Unanswered:
    """Fence the object of a request without an answer; its state then shows what the request did."""
    try:
        body = await fence(api, work.key, epoch)
    except errors.NotLeading:
        raise
    except errors.ApiError as error:
        return Unanswered(error)
    return work.judge(body, base, errors.Conflict("the server did not answer", verb="POST", path=work.key))


async def evict_by_uid(api: Api, victim: DecidedVictim) -> Done | Failed | Again | Unanswered:
    """Carry out a decided eviction: send it once, for whatever version the pod has."""
    try:
        evict = api.delete_pod if victim.deletes else api.evict
        await evict(victim.namespace, victim.name, victim.uid, victim.grace)
        return Done()
    except errors.NotLeading:
        raise
    except (errors.Unreachable, errors.ServerFault) as error:
        return Unanswered(error)
    except errors.NotFound:
        return Done()
    except errors.Conflict as error:
        return await _stays(api, victim, error)
    except (errors.TooManyRequests, errors.Unauthorized) as error:
        return Again(error)
    except errors.ApiError as error:
        return Failed(error)


async def _stays(api: Api, victim: DecidedVictim, refused: errors.Conflict) -> Done | Failed | Again:
    """What a conflict means without a version: another pod, or the server itself has added one, as for pending pods."""
    try:
        now = decode_json(await api.get(victim.path), Pod)
    except errors.NotFound:
        return Done()
    except errors.ApiError as error:
        return Again(error)
    except (FieldError, msgspec.DecodeError):  # it is still there, whatever its owner has made of it
        return Again(refused)
    if now.metadata.uid != victim.uid or now.metadata.deletion_timestamp is not None:
        return Done()
    return Failed(refused) if now.finished else Again(refused)


@dataclass(frozen=True, slots=True)
class PodWrite(Guarded[Pod]):
    """A write to one pod, never to a later pod of the same name."""

    pod: Pod
    """As the decision saw it."""

    @property
    def key(self) -> str:
        return PODS.path(self.pod.namespace, self.pod.name)

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    @property
    def base(self) -> Pod:
        return self.pod

    def judge(self, body: bytes | None, base: Pod, error: errors.ApiError) -> Verdict:
        if body is None:
            return self.gone(_said(error, errors.NotFound, f"{self.title} has been deleted"))
        try:
            now = decode_json(body, Pod)
        except (FieldError, msgspec.DecodeError) as problem:
            return self.unreadable(
                base, _said(error, errors.Conflict, f"{self.title} cannot be read any more: {problem}")
            )
        if now.metadata.uid != self.uid:
            other = f"{self.title} is another one of the same name now: uid `{now.metadata.uid}`"
            return self.gone(_said(error, errors.Conflict, other))
        if (ended := self.ended(now, error)) is not None:
            return ended
        if not self.holds_for(now):
            return Failed(_said(error, errors.Conflict, f"{self.title} has changed since the decision"))
        if now.metadata.resource_version == base.metadata.resource_version:
            return Again(error)  # the version was right: the server refused for a reason of its own
        return Moved(now)

    def unreadable(self, base: Pod, error: errors.ApiError) -> Verdict:
        """The outcome if the pod cannot be read any more."""
        return Failed(error)

    def holds_for(self, now: Pod) -> bool:
        """Whether the decision is right for the pod as it is now, which is still the same and has not ended."""
        return alike(self.pod, now)

    @abstractmethod
    def gone(self, error: errors.ApiError) -> Done | Failed:
        """The outcome if the pod no longer exists."""

    @abstractmethod
    def ended(self, now: Pod, error: errors.ApiError) -> Done | Failed | None:
        """The outcome if the state of the pod shows it."""

    @property
    def title(self) -> str:
        return f"pod `{self.pod.name}`"

    def __str__(self) -> str:
        return f"{type(self).__name__} of pod `{self.pod.key}`"


@dataclass(frozen=True, slots=True)
class Bind(PodWrite):
    """Bind a pod to a node."""

    node: str
    chosen: tuple[tuple[str, str], ...] = ()
    """What counters chose there, by plugin: for those that write it with the bind."""

    async def send(self, api: Api, base: Pod) -> Done:
        await api.bind(base.namespace, base.name, self.uid, self.node, base.metadata.resource_version)
        return Done()

    def gone(self, error: errors.ApiError) -> Done | Failed:
        return Failed(error)

    def ended(self, now: Pod, error: errors.ApiError) -> Done | Failed | None:
        node = now.spec.node_name
        if node == self.node:
            return Done()
        if node:
            return Failed(_said(error, errors.Conflict, f"{self.title} is on another node already: `{node}`"))
        return Failed(error) if now.metadata.deletion_timestamp is not None else None


@dataclass(frozen=True, slots=True)
class Evict(PodWrite):
    """Evict a pod, if its disruption budgets allow it."""

    grace: int | None = None
    gang: str = ""
    """Evictions of one gang are decided together; empty: alone."""
    node: str = ""
    """The node that it leaves, by the decision; empty: as the pod says."""
    deletes: ClassVar[bool] = False

    @property
    def victim(self) -> DecidedVictim:
        """The pod, if the eviction is decided."""
        return DecidedVictim(self.key, self.uid, self.grace, self.deletes)

    def unreadable(self, base: Pod, error: errors.ApiError) -> Verdict:
        return Moved(base)

    def holds_for(self, now: Pod) -> bool:
        """Whether the pod is on the node that it leaves, or names none: no change of its owner keeps it."""
        return not now.finished and self.node in ("", now.spec.node_name)

    async def send(self, api: Api, base: Pod) -> Done:
        evict = api.delete_pod if self.deletes else api.evict
        await evict(base.namespace, base.name, self.uid, self.grace, base.metadata.resource_version)
        return Done()

    def gone(self, error: errors.ApiError) -> Done | Failed:
        return Done()

    def ended(self, now: Pod, error: errors.ApiError) -> Done | Failed | None:
        return None if now.metadata.deletion_timestamp is None else Done()


@dataclass(frozen=True, slots=True)
class Delete(Evict):
    """Delete a pod, regardless of budgets."""

    deletes: ClassVar[bool] = True


def _said(error: errors.ApiError, kind: type[errors.ApiError], message: str) -> errors.ApiError:
    return kind(message, reason=error.reason, verb=error.verb, path=error.path)
