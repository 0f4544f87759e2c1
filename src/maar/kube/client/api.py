"""The way to an API server: requests out, bytes in, straight into thin structs.

Everything below `maar.kube` that talks to Kubernetes goes through one `Api`: informers list and watch, the executor
binds and evicts, elections and events write. Nothing is tried again here: whether to is for the caller to say.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Literal, TypeVar

import msgspec

from maar.kube.client.access import Access
from maar.kube.client.errors import Gone
from maar.kube.client.streams import Broken, Listed, Page, WatchEvent, event, lines, page
from maar.kube.client.transport import CONNECTIONS, JSON, Transport
from maar.kube.wire.base import Object
from maar.kube.wire.resources import PODS, Resource

__all__ = ["Api", "Broken", "Listed", "WatchEvent"]

T = TypeVar("T", bound=Object)

PAGE = 1000
"""Objects in a page of a list: some 4 MB of pods; by taste (client-go: 500)."""
TIMEOUT = 30.0
LIST_TIMEOUT = 120.0

PatchKind = Literal["merge", "json", "strategic"]
PATCHES: dict[PatchKind, str] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
Body = bytes | msgspec.Struct | dict[str, Any] | list[Any]


class Api:
    """One API server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @classmethod
    async def open(cls, access: Access, *, connections: int = CONNECTIONS) -> Api:
        """Ready to ask; asks nothing yet, but credentials are read, and what is wrong with them is an `AccessError`."""
        return cls(await Transport.open(access, connections))

    @property
    def server(self) -> str:
        """Its address."""
        return self._transport.access.server

    async def close(self) -> None:
        """Let go of all connections."""
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
        """The body of the answer; anything but success is an `ApiError`."""
        data = body if isinstance(body, bytes) or body is None else msgspec.json.encode(body)
        return await self._transport.request(verb, path, params, timeout, data, content_type)

    async def get(self, path: str, *, params: Mapping[str, str] | None = None, timeout: float = TIMEOUT) -> bytes:
        """One object."""
        return await self.request("GET", path, params=params, timeout=timeout)

    async def create(self, path: str, obj: Body) -> bytes:
        """A new object, under the path of its kind."""
        return await self.request("POST", path, body=obj)

    async def replace(self, path: str, obj: Body) -> bytes:
        """All of an object; a resourceVersion in it makes sure that nothing newer is overwritten."""
        return await self.request("PUT", path, body=obj)

    async def patch(self, path: str, body: Body, kind: PatchKind = "merge") -> bytes:
        """A part of an object."""
        return await self.request("PATCH", path, body=body, content_type=PATCHES[kind])

    async def delete(self, path: str, uid: str | None = None, grace: int | None = None) -> bytes:
        """An object; with `uid` never a successor of the same name."""
        return await self.request("DELETE", path, body=_delete_options(uid, grace))

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        """Give a pod its node; the uid makes sure that a successor of the same name is never bound (409)."""
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": namespace, "name": name, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self.create(PODS.path(namespace, name, "binding"), binding)

    async def evict(self, namespace: str, name: str, uid: str, grace: int | None = None) -> None:
        """Ask for a pod to go; `DisruptionRefused` where a budget does not allow it now."""
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": _delete_options(uid, grace),
        }
        await self.create(PODS.path(namespace, name, "eviction"), eviction)

    async def delete_pod(self, namespace: str, name: str, uid: str, grace: int | None = None) -> None:
        """Delete a pod, whatever budgets say."""
        await self.delete(PODS.path(namespace, name), uid, grace)

    async def list(
        self,
        resource: Resource[T],
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE,
    ) -> Listed[T]:
        """All objects of a kind at one moment, fetched in pages; a page that came too late starts it over, in one."""
        path = resource.path(namespace)
        selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        params = {key: value for key, value in selectors.items() if value}
        first = await self._page(resource, path, params | _limit(limit))
        items, following = first.items, first.following
        while following:
            try:
                part = await self._page(resource, path, params | _limit(limit) | {"continue": following})
            except Gone:
                first = await self._page(resource, path, params)
                return Listed(first.items, first.resource_version)
            items += part.items
            following = part.following
        return Listed(items, first.resource_version)

    async def watch(
        self,
        resource: Resource[T],
        resource_version: str,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        allow_bookmarks: bool = True,
        timeout_seconds: float = 300.0,
        stall_seconds: float | None = None,
        on_open: Callable[[], None] | None = None,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """What changes after a version, until the server ends it; an ERROR is raised, a cut is `Unreachable`.

        Without a byte for `stall_seconds` the connection counts as cut. `on_open` is called once the server has agreed,
        which may be long before anything changes. To be closed with `contextlib.aclosing`.
        """
        asked = {
            "watch": "true",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true" if allow_bookmarks else "",
            "timeoutSeconds": str(max(round(timeout_seconds), 1)),
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
        }
        params = {key: value for key, value in asked.items() if value}
        async with self._transport.stream(resource.path(namespace), params, stall_seconds) as chunks:
            if on_open is not None:
                on_open()
            async for whole in lines(chunks):
                for line in whole:
                    yield event(line, resource)

    async def _page(self, resource: Resource[T], path: str, params: dict[str, str]) -> Page[T]:
        return page(await self.get(path, params=params, timeout=LIST_TIMEOUT), resource)


def _delete_options(uid: str | None, grace: int | None) -> dict[str, Any]:
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if uid:
        options["preconditions"] = {"uid": uid}
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    return options


def _limit(limit: int) -> dict[str, str]:
    return {"limit": str(limit)} if limit else {}
