"""Plain requests to the API server of a real cluster (`cluster`), with the standard library only.

It does not use maar.kube: the code under test must not set up its own test.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

Object = Mapping[str, Any]
AGAIN = 60
"""How often a read is sent while storage is not ready."""


class Refused(Exception):
    """The API server answered with an error."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason


class Api:
    """Plain requests to one API server."""

    def __init__(self, port: int, ca: Path, token: str) -> None:
        self._port = port
        self._ca = ca
        self._token = token
        self._tls: ssl.SSLContext | None = None
        self._served: dict[tuple[str, str], tuple[str, bool]] = {}  # (apiVersion, kind) to (plural, namespaced)

    def connect(self) -> http.client.HTTPSConnection:
        if self._tls is None:  # the server creates its certificate at its first start
            self._tls = ssl.create_default_context(cafile=str(self._ca))
        return http.client.HTTPSConnection("127.0.0.1", self._port, context=self._tls, timeout=60)

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str | None = None,
        content_type: str = "application/json",
        connection: http.client.HTTPSConnection | None = None,
    ) -> Any:
        """Send one request and decode the response (text if it is not JSON). Raises `Refused` on an error.

        A read that is refused because the storage of a CRD is not ready yet is sent again, as clients do.
        """
        if connection is not None:
            return self._send(connection, method, path, body, token, content_type)
        attempts = 1
        while True:
            with closing(self.connect()) as own:
                try:
                    return self._send(own, method, path, body, token, content_type)
                except Refused as refused:
                    if method != "GET" or "storage is (re)initializing" not in str(refused) or attempts == AGAIN:
                        raise
            attempts += 1
            time.sleep(1)  # what `Retry-After` says

    def _send(
        self,
        connection: http.client.HTTPSConnection,
        method: str,
        path: str,
        body: object,
        token: str | None,
        content_type: str,
    ) -> Any:
        headers = {"Authorization": f"Bearer {token or self._token}", "Content-Type": content_type}
        sent = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        connection.request(method, path, sent, headers)
        response = connection.getresponse()
        data = response.read()
        is_json = "json" in response.headers.get("Content-Type", "")
        answer = json.loads(data) if is_json else data.decode(errors="replace")
        if response.status >= 400:
            status = answer if isinstance(answer, dict) else {}
            raise Refused(response.status, status.get("reason", response.reason), status.get("message", str(answer)))
        return answer

    def collection(self, api_version: str, kind: str, namespace: str = "") -> str:
        """The path of the objects of a kind, in a namespace or in the whole cluster."""
        plural, namespaced = self._resource(api_version, kind)
        return f"{group_path(api_version)}{f'/namespaces/{namespace}' if namespaced and namespace else ''}/{plural}"

    def objects(self, api_version: str, kind: str, namespace: str = "", **query: str) -> list[Any]:
        """All objects of a kind, in one namespace or in all. `query` is for example `labelSelector="a=b"`."""
        path = self.collection(api_version, kind, namespace)
        items: list[Any] = self.request("GET", f"{path}?{urlencode(query)}")["items"]
        return items

    def path(self, thing: Object) -> str:
        """The path of an object, from its apiVersion, kind, namespace (or `default`) and name."""
        return f"{self._home(thing)}/{quote(thing['metadata']['name'])}"

    def create(self, thing: Object, connection: http.client.HTTPSConnection | None = None) -> Any:
        """Create an object, or apply it if it exists."""
        try:
            return self.request("POST", self._home(thing), thing, connection=connection)
        except Refused as refused:
            if refused.reason != "AlreadyExists":
                raise
        query = urlencode({"fieldManager": "maar-testing", "force": "true"})
        content_type = "application/apply-patch+yaml"
        path = f"{self.path(thing)}?{query}"
        return self.request("PATCH", path, thing, content_type=content_type, connection=connection)

    def create_all(self, things: Sequence[Object], parallel: int) -> list[Any]:
        """Create many objects, with one connection for each thread. Stops at the first failure."""
        answers: list[Any] = [None] * len(things)
        waiting, failures = deque(range(len(things))), list[Exception]()

        def work() -> None:
            with closing(self.connect()) as connection:
                while waiting and not failures:
                    try:
                        index = waiting.popleft()
                    except IndexError:  # another thread took the last one
                        return
                    try:
                        answers[index] = self.create(things[index], connection)
                    except Exception as failure:  # noqa: BLE001 raised when all have ended
                        failures.append(failure)

        threads = [threading.Thread(target=work) for _ in range(min(parallel, len(things)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        return answers

    def serves(self, api_version: str, kind: str) -> bool:
        try:
            self._resource(api_version, kind)
        except LookupError:
            return False
        return True

    def answers(self, path: str) -> bool:
        try:
            self.request("GET", path)
        except (OSError, http.client.HTTPException, Refused):
            return False
        return True

    def _home(self, thing: Object) -> str:
        return self.collection(thing["apiVersion"], thing["kind"], thing["metadata"].get("namespace", "default"))

    def _resource(self, api_version: str, kind: str) -> tuple[str, bool]:
        if (api_version, kind) not in self._served:
            try:
                found = self.request("GET", group_path(api_version))["resources"]
            except Refused as refused:
                raise LookupError(f"not served: {api_version} ({refused})") from refused
            plain = [resource for resource in found if "/" not in resource["name"]]
            self._served |= {(api_version, r["kind"]): (r["name"], r["namespaced"]) for r in plain}
        if (api_version, kind) not in self._served:
            raise LookupError(f"not served: {kind} of {api_version}")
        return self._served[api_version, kind]


def group_path(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
