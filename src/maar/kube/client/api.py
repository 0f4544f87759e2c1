"""Requests to the API server; responses are decoded straight into thin structs.

All communication with Kubernetes goes through one `Api`: informers list and watch, the executor binds and evicts,
elections and events write. `Api` never retries a failed request; the caller decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from maar.kube.client.access import Access
from maar.kube.client.errors import Gone, NotLeading
from maar.kube.client.streams import Broken, Listed, WatchEvent, event, lines, page
from maar.kube.client.transport import CONNECTIONS, JSON, Transport
from maar.kube.wire.api_resources import PODS, Resource
from maar.kube.wire.base import Object

__all__ = ["Api", "Broken", "Listed", "WatchEvent", "Write"]

T = TypeVar("T", bound=Object)

PAGE = 1000
"""Objects per page of a list: about 4 MB of pods. Tuned by hand (client-go: 500)."""
TIMEOUT = 30.0
LIST_TIMEOUT = 120.0

PatchKind = Literal["merge", "json", "strategic"]
PATCHES: dict[PatchKind, str] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
Body = bytes | msgspec.Struct | dict[str, Any] | list[Any]


class Write(NamedTuple):
    """What a request writes, for counting."""

    resource: str
    """`pods`, `pods/binding`"""
    verb: str
    result: str
    """`done` or `failed`"""


@dataclass(eq=False, slots=True)
class Api:
    _transport: Transport
    _lost: Callable[[], bool] = lambda: False
    writes: Counter[Write] = field(default_factory=Counter)
    """Every request that is no read, by what it writes."""
    _sending: Callable[[], None] = lambda: None

    @classmethod
    async def open(cls, access: Access, *, connections: int = CONNECTIONS) -> Api:
        """Reads the credentials but sends no request; `AccessError` if the credentials are invalid."""
        return cls(await Transport.open(access, connections))

    def while_not(self, lost: Callable[[], bool]) -> Api:
        """The same connections, for requests that are not sent any more, except reads, once `lost` returns true."""
        return Api(self._transport, lost, self.writes)

    def noting(self, sending: Callable[[], None]) -> Api:
        """The same, and `sending` is called right before a request that is no read is written to its connection."""
        return Api(self._transport, self._lost, self.writes, sending)

    def of_caller(self, token: str, *, connections: int) -> Api:
        """Another client of the same server: with the token of another user, and nothing of our own. Close it."""
        return Api(Transport(self._transport.access.of_caller(token), connections))

    @property
    def server(self) -> str:
        return self._transport.access.server

    async def sends_token(self) -> bool:
        """Whether requests carry a token."""
        return bool(await self._transport.access.headers())

    async def close(self) -> None:
        await self._transport.close()

    async def request(
        self,
        verb: str,
        path: str,
        *,
        body: Body | None = None,
        params: Mapping[str, str] | None = None,
        content_type: str = JSON,
        timeout: float = TIMEOUT,
    ) -> bytes:
        """The body of a successful response; any other response raises an `ApiError`."""

        def check() -> None:
            if verb != "GET" and self._lost():
                raise NotLeading("not sent: the lease is lost", verb=verb, path=path)

        def before_sending() -> None:
            check()
            if verb != "GET":
                self._sending()

        check()  # now, and again after all that a request waits for: credentials, a free connection, a new connection
        data = body if isinstance(body, bytes) or body is None else msgspec.json.encode(body)
        result = "failed"
        try:
            answer = await self._transport.request(verb, path, params, timeout, data, content_type, before_sending)
            result = "done"
        finally:
            if verb != "GET":
                self.writes[Write(resource_in(path), verb, result)] += 1
        return answer

    async def get(self, path: str, *, params: Mapping[str, str] | None = None, timeout: float = TIMEOUT) -> bytes:
        return await self.request("GET", path, params=params, timeout=timeout)

    async def read(self, path: str, *, timeout: float, most: int) -> bytes:
        """The same with an upper bound for its bytes, for servers behind the API server that are not trusted."""
        return await self._transport.read(path, {}, timeout, most)

    async def create(self, path: str, obj: Body, *, dry_run: bool = False) -> bytes:
        """Creates an object under the path of its kind; with `dry_run` the server only checks it."""
        return await self.request("POST", path, body=obj, params={"dryRun": "All"} if dry_run else None)

    async def replace(self, path: str, obj: Body) -> bytes:
        """Replaces a whole object; with a resourceVersion in it, the server refuses to overwrite a newer one."""
        return await self.request("PUT", path, body=obj)

    async def patch(self, path: str, body: Body, kind: PatchKind = "merge") -> bytes:
        return await self.request("PATCH", path, body=body, content_type=PATCHES[kind])

    async def delete(self, path: str, uid: str | None = None, grace: int | None = None, version: str = "") -> bytes:
        """Deletes an object; with `uid`, never a later object of the same name, and with `version` no other version."""
        return await self.request("DELETE", path, body=_delete_options(uid, grace, version))

    async def delete_with_all(self, path: str, uid: str) -> bytes:
        """Deletes an object, and then all that it owns."""
        options = _delete_options(uid, None, "") | {"propagationPolicy": "Background"}
        return await self.request("DELETE", path, body=options)

    async def bind(self, namespace: str, name: str, uid: str, node: str, version: str = "") -> None:
        """Binds a pod to a node; never a later pod of the same name, nor one with another version, if given (409)."""
        metadata = {"namespace": namespace, "name": name, "uid": uid}
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata | ({"resourceVersion": version} if version else {}),
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self.create(PODS.path(namespace, name, "binding"), binding)

    async def evict(self, namespace: str, name: str, uid: str, grace: int | None = None, version: str = "") -> None:
        """Evicts a pod; `DisruptionRefused` if a budget does not allow it now."""
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": _delete_options(uid, grace, version),
        }
        await self.create(PODS.path(namespace, name, "eviction"), eviction)

    async def delete_pod(
        self, namespace: str, name: str, uid: str, grace: int | None = None, version: str = ""
    ) -> None:
        """Deletes a pod, regardless of budgets."""
        await self.delete(PODS.path(namespace, name), uid, grace, version)

    async def list(
        self,
        resource: Resource[T],
        namespace: str | None = None,
        *,
        field_selector: str = "",
        limit: int = PAGE,
    ) -> Listed[T]:
        """All objects of a kind at one version, in pages; if the `continue` token expires, again without pages."""
        path = resource.path(namespace)
        params = {"fieldSelector": field_selector} if field_selector else {}
        first = await self._page(resource, path, params | _limit(limit))
        items, following = first.items, first.following
        while following:
            try:
                part = await self._page(resource, path, params | _limit(limit) | {"continue": following})
            except Gone:
                return await self._page(resource, path, params)
            items += part.items
            following = part.following
        return Listed(items, first.resource_version)

    async def watch(
        self,
        resource: Resource[T],
        resource_version: str,
        namespace: str | None = None,
        *,
        field_selector: str = "",
        timeout_seconds: float = 300.0,
        stall_seconds: float | None = None,
        on_open: Callable[[], None] | None = None,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """The changes after a version, until the server ends the watch; an ERROR event is raised as an `ApiError`.

        A lost connection, or no data for `stall_seconds`, raises `Unreachable`. `on_open` is called when the server
        accepts the watch, which may be long before the first change. Close it with `contextlib.aclosing`.
        """
        asked = {
            "watch": "true",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(round(timeout_seconds), 1)),
            "fieldSelector": field_selector,
        }
        params = {key: value for key, value in asked.items() if value}
        async with self._transport.stream(resource.path(namespace), params, stall_seconds) as chunks:
            if on_open is not None:
                on_open()
            async for whole in lines(chunks):
                for line in whole:
                    yield event(line, resource)

    async def _page(self, resource: Resource[T], path: str, params: dict[str, str]) -> Listed[T]:
        return page(await self.get(path, params=params, timeout=LIST_TIMEOUT), resource)


def resource_in(path: str) -> str:
    """The plural of a path, with the subresource: never a name, of which there are endless ones."""
    core, *rest = path.strip("/").split("/")
    rest = rest[1:] if core == "api" else rest[2:]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    return "/".join(rest[::2])


def _delete_options(uid: str | None, grace: int | None, version: str) -> dict[str, Any]:
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    wanted = {"uid": uid, "resourceVersion": version}
    if preconditions := {key: value for key, value in wanted.items() if value}:
        options["preconditions"] = preconditions
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    return options


def _limit(limit: int) -> dict[str, str]:
    return {"limit": str(limit)} if limit else {}
