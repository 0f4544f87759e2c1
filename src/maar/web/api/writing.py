"""The training service over HTTP: create, hold, change and cancel jobs, each with the caller's own token.

The token is sent to the API server that `maar web` reads, and to nothing else, on connections of its own that have none
of this process's credentials and are closed after the request. So Kubernetes decides what the caller may do, and its
audit log names her. This module never keeps or logs the token, and shows no name that the caller may not know.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any

import msgspec

from maar.kube.client.api import Api
from maar.kube.client.discovery import served
from maar.kube.client.errors import ApiError, Conflict, Forbidden, Invalid, NotFound, TooManyRequests, Unauthorized
from maar.kube.client.reader import Reader
from maar.kube.kinds import AnyKind, kind_named
from maar.kube.kinds.cluster import PODS
from maar.kube.submit import service
from maar.kube.submit.changes import Change
from maar.kube.submit.errors import SubmitError
from maar.kube.submit.manifests import SUBMITTED, Manifest, is_namespace, prepared
from maar.kube.submit.names import check_names, cluster_names
from maar.kube.submit.service import PartlyCreated, Submitted, find
from maar.kube.wire.api_resources import SELF_REVIEWS, Resource
from maar.kube.wire.base import Object
from maar.kube.wire.cluster import Queue
from maar.model.documents import DocumentError, documents
from maar.views.records import OwnerView
from maar.views.sight import Sight
from maar.web.api.answers import ChangedAnswer, CreatedAnswer, CreatedView, DeletedAnswer, WrittenView
from maar.web.api.errors import Refused
from maar.web.api.question import FORECAST, LONGEST, no_aliases
from maar.web.authentication import SECONDS, KeptAnswers
from maar.web.reviews import User

logger = logging.getLogger("maar.web")

MOST = 100
"""Manifests of one request."""
CONNECTIONS = 4
"""Connections of one request to the API server."""
TIMEOUT = 60.0
"""Seconds for everything that one request sends to the API server."""
NOT_ACCEPTED = (
    "writes need a token that the API server itself accepts, and it refuses this one: a token for the audience "
    "`maar.dev` only reads here (`kubectl create token NAME` makes one for the API server)"
)


class Submission(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Jobs to create."""

    manifests: str | list[dict[str, Any]]
    """The text of a YAML or JSON file, or a list of objects."""
    namespace: str = ""
    """For manifests that state none."""
    suspend: bool = True
    """Suspend gangs and elastic jobs whose manifest says nothing about it, where Maar resumes them."""
    dry_run: bool = False
    """The API server checks everything, and creates nothing."""
    seconds: Annotated[float, msgspec.Meta(ge=0.0, le=LONGEST)] = FORECAST
    """Time to forecast the start, once everything is created; 0: it is not forecast."""


class Token:
    """The token of a caller, for one request. It is not shown by `repr`, and so in no log."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    @asynccontextmanager
    async def client(self, api: Reader, user: User) -> AsyncIterator[Api]:
        """A client with this token, after the API server itself has said that it is the user's.

        The connection of `api` may end at a proxy with an identity of its own: then nothing is written.
        """
        try:
            mine = Api.of_caller(api, self._text, connections=CONNECTIONS)
        except OSError as error:  # the file of the authority, which is read each time
            logger.warning("cannot open a connection for a write: %s", error)
            raise Refused(503, "the API server cannot be asked now: nothing was written", after=5) from None
        try:
            async with asyncio.timeout(TIMEOUT):
                if user.username != await _name(mine):
                    raise Refused(403, "the API server takes the token for another user's: nothing was written")
                yield mine
        except TimeoutError:
            raise Refused(503, "the API server did not answer in time: look whether it was written", after=5) from None
        finally:
            await mine.close()


class _Info(msgspec.Struct, frozen=True):
    username: str = ""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    user_info: _Info = _Info()


class _Review(msgspec.Struct, frozen=True):
    status: _Status = _Status()


async def _name(api: Api) -> str:
    """The user name of a client, as the API server knows it."""
    review: dict[str, Any] = {"apiVersion": SELF_REVIEWS.api_version, "kind": SELF_REVIEWS.kind}
    try:
        answer = await api.create(SELF_REVIEWS.path(), review)
        return msgspec.json.decode(answer, type=_Review).status.user_info.username
    except Unauthorized:
        raise Refused(403, NOT_ACCEPTED) from None
    except NotFound:
        raise Refused(403, "writes need Kubernetes 1.28 or later: this API server has no SelfSubjectReview") from None
    except msgspec.DecodeError:
        raise Refused(503, "the API server's answer about the token cannot be read", after=5) from None


class Writer:
    """Writes to one cluster, by the rights of callers."""

    def __init__(self, api: Reader, names: Sequence[str], queues: Callable[[], Sequence[Queue]]) -> None:
        self._api = api
        self._queues = queues
        """The queues of the cluster: every user of `maar web` sees their names."""
        self.names = tuple(names)
        """Our scheduler names; pods that name none get the first."""
        self._served: KeptAnswers[str, dict[AnyKind, Resource[Object]]] = KeptAnswers(_clock, SECONDS, 1)

    async def create(self, api: Api, manifests: Sequence[Manifest], dry_run: bool) -> CreatedAnswer:
        """Create jobs. If there are several, the API server checks all of them before the first one is created."""
        notes = await self._checked(api, manifests)
        made: list[Submitted] = []
        if dry_run or len(manifests) > 1:
            for i, manifest in enumerate(manifests):
                try:
                    made += await service.create(api, [manifest], dry_run=True)
                except ApiError as error:
                    error.field = _inside(i, error.field)
                    raise
        if not dry_run:
            try:
                made = await service.create(api, manifests)
            except ApiError as error:
                error.field = _inside(0, error.field)
                raise
        views = (
            CreatedView(**_named(one), completed=manifest.completed, warnings=(*manifest.warnings, *more))
            for one, manifest, more in zip(made, manifests, notes, strict=True)
        )
        return CreatedAnswer(created=tuple(views), dry_run=dry_run)

    async def _checked(self, api: Api, manifests: Sequence[Manifest]) -> list[list[str]]:
        """What could not be checked of the queues and classes that jobs name; refuses those that they cannot use."""
        names = await cluster_names(api, self._queues())
        notes = []
        for i, manifest in enumerate(manifests):
            try:
                notes.append(check_names(manifest, names))
            except SubmitError as error:
                raise Refused(error.status, error.problem, _inside(i, error.field)) from None
        return notes

    async def change(self, api: Api, found: Sequence[Submitted], what: Change) -> ChangedAnswer:
        named = what.queue is not None or what.priority_class is not None
        done = await service.change(api, found, what, await cluster_names(api, self._queues()) if named else None)
        return ChangedAnswer(changed=_views(found), warnings=(*done.effects, *done.notes))

    async def cancel(self, api: Api, found: Sequence[Submitted]) -> DeletedAnswer:
        return DeletedAnswer(deleted=_views(await service.cancel(api, found)))

    async def find(self, api: Api, namespace: str, name: str, kind: str, owner: OwnerView | None) -> list[Submitted]:
        """What stands for a job, as the caller may read it. `owner`: its object, as far as the shadow knows it."""
        there = await self._kinds()
        of = None if owner is None or kind else kind_named(owner.api_version, owner.kind)
        if owner is not None and of is not None and of is not PODS and of in there:
            return await find(api, namespace, owner.name, kinds={of: there[of]})
        return await find(api, namespace, name, kind, there)

    async def _kinds(self) -> dict[AnyKind, Resource[Object]]:
        known = self._served.get("")
        if known is not None:
            return known[0]
        try:
            there = await served(self._api, SUBMITTED)
        except ApiError:  # ours, not the caller's: its text is not for her
            raise Refused(503, "the API server cannot be asked which kinds it serves", after=5) from None
        self._served.put("", there)
        return there


def read(asked: Submission, names: tuple[str, ...]) -> list[Manifest]:
    """The manifests of a request, checked and completed; raises `Refused` with the path of a field.

    `names` are our scheduler names. It runs in a worker.
    """
    found: list[Manifest] = []
    if asked.namespace and not is_namespace(asked.namespace):
        raise Refused(422, f"expected the name of a namespace, got `{asked.namespace[:64]}`", "namespace")
    for i, document in enumerate(_documents(asked.manifests)):
        if i >= MOST:
            raise Refused(422, f"expected at most {MOST} manifests", "manifests")
        stated = isinstance(document, dict) and isinstance(m := document.get("metadata"), dict) and m.get("namespace")
        where = "" if stated else asked.namespace
        try:
            found.append(prepared(document, namespace=where, names=names, suspend=asked.suspend))
        except SubmitError as error:
            raise Refused(error.status, error.problem, _inside(i, error.field)) from None
    if not found:
        raise Refused(422, "expected at least one manifest", "manifests")
    return found


def _clock() -> float:
    return asyncio.get_running_loop().time()


def _documents(manifests: str | list[dict[str, Any]]) -> list[Any]:
    if not isinstance(manifests, str):
        return list(manifests)
    no_aliases(manifests, "manifests")
    try:
        return [document for document in documents(manifests) if document is not None]
    except DocumentError as error:
        line = "" if error.place is None else f"line {error.place.line}: "
        raise Refused(400, f"{line}not YAML: {error.problem}", "manifests") from None
    except RecursionError:
        raise Refused(422, "lists and objects are nested too deeply", "manifests") from None


def _inside(i: int, field: str) -> str:
    return f"manifests[{i}].{field}" if field else f"manifests[{i}]"


def _named(one: Submitted) -> dict[str, Any]:
    resource, item = one.resource, one.item
    return {
        "api_version": resource.api_version,
        "kind": resource.kind,
        "namespace": item.namespace,
        "name": item.name,
    }


def _views(of: Sequence[Submitted]) -> tuple[WrittenView, ...]:
    return tuple(WrittenView(**_named(one)) for one in of)


def refusal(error: ApiError | SubmitError, sight: Sight, namespaces: frozenset[str]) -> Refused:
    """What the caller is told when the API server, or a kind, does not allow a write."""
    if isinstance(error, PartlyCreated):
        inner = refusal(error.error, sight, namespaces)
        # She has created these herself, so she may know their names.
        made = ", ".join(map(str, error.created))
        return Refused(
            inner.status, f"{inner.view.error}; created before that: {made}", _inside(len(error.created), "")
        )
    text = error.problem if isinstance(error, SubmitError) else error.message
    said = sight.said(text.replace('"', "`"), namespaces)  # Kubernetes quotes names with double quotes
    if isinstance(error, SubmitError):
        return Refused(error.status, said, error.field)
    if isinstance(error, Unauthorized):
        return Refused(403, NOT_ACCEPTED)
    if isinstance(error, TooManyRequests):
        return Refused(429, said, after=max(1, round(error.retry_after)))
    if isinstance(error, (Conflict, Forbidden, NotFound)):
        return Refused(error.status, said, error.field)
    if isinstance(error, Invalid):
        return Refused(422, said, error.field)
    # No answer, or an error of the server's own: its text may have addresses of the cluster.
    return Refused(503, "the API server cannot be asked now, or failed: look whether it was written", after=5)
