"""Requests to the API server that write: what `Reader` does, and everything else.

The executor binds and evicts, elections and events write. `Api` never retries a failed request; the caller decides.
Whoever only reads gets a `Reader`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from maar.kube.client.errors import NotLeading
from maar.kube.client.reader import TIMEOUT, Reader
from maar.kube.client.transport import JSON
from maar.kube.wire.api_resources import PODS

PatchKind = Literal["merge", "json", "strategic"]
PATCHES: dict[PatchKind, str] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
Body = bytes | msgspec.Struct | dict[str, Any] | list[Any]


@dataclass(eq=False, slots=True)
class Api(Reader):
    """All requests to one API server."""

    _lost: Callable[[], bool] = lambda: False
    _sending: Callable[[], None] = lambda: None

    @classmethod
    def of_caller(cls, reader: Reader, token: str, *, connections: int) -> Api:
        """A client of the server of another one: with the token of a user, and nothing of our own. Close it."""
        return cls(reader.transport_of_caller(token, connections))

    def while_not(self, lost: Callable[[], bool]) -> Api:
        """The same connections, for requests that are not sent any more, except reads, once `lost` returns true."""
        return Api(self._transport, self.writes, lost)

    def noting(self, sending: Callable[[], None]) -> Api:
        """The same, and `sending` is called right before a request that is no read is written to its connection."""
        return Api(self._transport, self.writes, self._lost, sending)

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
        with self.counting(verb, path):
            return await self._transport.request(verb, path, params, timeout, data, content_type, before_sending)

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


def _delete_options(uid: str | None, grace: int | None, version: str) -> dict[str, Any]:
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    wanted = {"uid": uid, "resourceVersion": version}
    if preconditions := {key: value for key, value in wanted.items() if value}:
        options["preconditions"] = preconditions
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    return options
