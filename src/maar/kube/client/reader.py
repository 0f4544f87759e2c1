"""Requests to the API server that read; responses are decoded straight into thin structs.

`Reader` cannot write: it has no request that stores anything. `maar web` and shadow mode have nothing else with Maar's
own credentials. It never retries a failed request; the caller decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, TypeVar

import msgspec

from maar.kube.client.access import Access
from maar.kube.client.errors import Gone
from maar.kube.client.streams import Listed, WatchEvent, event, lines, page
from maar.kube.client.transport import CONNECTIONS, Transport
from maar.kube.wire.api_resources import ACCESS_REVIEWS, TOKEN_REVIEWS, Resource
from maar.kube.wire.base import Object

T = TypeVar("T", bound=Object)

PAGE = 1000
"""Objects per page of a list: about 4 MB of pods. Tuned by hand (client-go: 500)."""
TIMEOUT = 30.0
LIST_TIMEOUT = 120.0
REVIEWS = (TOKEN_REVIEWS, ACCESS_REVIEWS)
"""Questions that have the form of an object to create. The API server answers them, and stores nothing."""


class CountedWrite(NamedTuple):
    """What a request writes, for counting."""

    resource: str
    """`pods`, `pods/binding`"""
    verb: str
    result: str
    """`done` or `failed`"""


@dataclass(eq=False, slots=True)
class Reader:
    """Requests to one API server that change nothing there."""

    _transport: Transport
    writes: Counter[CountedWrite] = field(default_factory=Counter)
    """Every request that is no GET, by what it writes."""

    @classmethod
    async def open(cls, access: Access, *, connections: int = CONNECTIONS) -> Self:
        """Reads the credentials but sends no request; `AccessError` if the credentials are invalid."""
        return cls(await Transport.open(access, connections))

    def reader(self) -> Reader:
        """The same connections, for reading only."""
        return Reader(self._transport, self.writes)

    def transport_of_caller(self, token: str, connections: int) -> Transport:
        """Connections to the same server with the token of a user, and nothing of our own."""
        return Transport(self._transport.access.of_caller(token), connections)

    @property
    def server(self) -> str:
        return self._transport.access.server

    async def sends_token(self) -> bool:
        """Whether requests carry a token."""
        return bool(await self._transport.access.headers())

    async def close(self) -> None:
        await self._transport.close()

    async def get(self, path: str, *, params: Mapping[str, str] | None = None, timeout: float = TIMEOUT) -> bytes:
        return await self._transport.request("GET", path, params, timeout)

    async def read(self, path: str, *, timeout: float, most: int) -> bytes:
        """The same with an upper bound for its bytes, for servers behind the API server that are not trusted."""
        return await self._transport.read(path, {}, timeout, most)

    async def review(self, resource: Resource[Any], spec: Mapping[str, Any], *, timeout: float) -> bytes:
        """The answer of the API server to a question about a token or a right."""
        if resource not in REVIEWS:
            raise ValueError(f"not a review: {resource}")
        path = resource.path()
        with self.counting("POST", path):
            data = msgspec.json.encode({"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec})
            return await self._transport.request("POST", path, None, timeout, data)

    @contextmanager
    def counting(self, verb: str, path: str) -> Iterator[None]:
        """Count a request, unless it is a GET."""
        result = "failed"
        try:
            yield
            result = "done"
        finally:
            if verb != "GET":
                self.writes[CountedWrite(resource_in(path), verb, result)] += 1

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


def _limit(limit: int) -> dict[str, str]:
    return {"limit": str(limit)} if limit else {}
