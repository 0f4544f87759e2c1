"""One client for two servers: the tests of this folder run on the embedded server and on a real one.

The servers live as long as the test session. Every test gets its own namespace, and names cluster-scoped objects after
it. The client knows only a URL, a token and plain HTTP.
"""

import asyncio
import itertools
import os
import secrets
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import msgspec
import pytest
import yaml
from tests.support.patience import PATIENCE, until, words_of
from tests.support.real.cluster import RealCluster
from tests.support.real.parts import available

from maar.embedded.parts.jobs import Jobs
from maar.embedded.server import EmbeddedServer

Obj = dict[str, Any]

CRDS = Path(__file__).parents[2] / "deploy" / "crds"


MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


def new_map(name: str, **metadata: Any) -> Obj:
    """A ConfigMap, the simplest kind of object."""
    return {"metadata": {"name": name, **metadata}, "data": {"x": "1"}}


def new_pod(
    name: str, *, labels: dict[str, str] | None = None, finalizers: list[str] | None = None, **spec: Any
) -> Obj:
    """A pod with one container."""
    metadata: Obj = {"name": name, "labels": labels or {}}
    if finalizers:
        metadata["finalizers"] = finalizers
    container = {"name": "main", "image": "train:1", "resources": {"requests": {"cpu": "1"}}}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


def new_node(name: str) -> Obj:
    """A node with eight GPUs."""
    capacity = {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": "8"}
    return {"metadata": {"name": name}, "status": {"capacity": capacity}}


class Answer(NamedTuple):
    """The response of a server."""

    code: int
    body: Any

    @property
    def reason(self) -> str:
        """The reason in a Status object."""
        assert "Status" == self.body["kind"], self.body
        assert self.code == self.body["code"], self.body
        return str(self.body["reason"])


class Stream:
    """A running watch."""

    def __init__(self, api: "Client", response: aiohttp.ClientResponse) -> None:
        self.api = api
        self.response = response

    def next(self) -> Obj | None:
        """The next event; `None` at the end of the stream."""

        async def line() -> bytes:
            async with asyncio.timeout(PATIENCE):
                return await self.response.content.readline()

        text = self.api.runner.run(line())
        return msgspec.json.decode(text) if text else None

    def expect(self, *types: str) -> list[Obj]:
        """The objects of the next events, which must have these types. Skips bookmarks between them."""
        found = []
        for type in types:
            event = self.next()
            while event is not None and event["type"] == "BOOKMARK" and type != "BOOKMARK":
                event = self.next()
            assert event is not None, f"the watch ended before {type}"
            assert type == event["type"], event
            found.append(event["object"])
        return found


class Client:
    """A plain HTTP client of one server."""

    def __init__(self, url: str, token: str, tls: ssl.SSLContext | None, real: bool) -> None:
        self.real = real
        self.runner = asyncio.Runner()
        self.tls = tls
        self.numbers = itertools.count()
        self.session = self.runner.run(self._open(url, token))

    async def _open(self, url: str, token: str) -> aiohttp.ClientSession:
        headers = {"Authorization": f"Bearer {token}"}
        return aiohttp.ClientSession(url, headers=headers, connector=aiohttp.TCPConnector(ssl=self.tls or True))

    def close(self) -> None:
        """Close the connections and the event loop."""

        async def closed() -> None:
            await self.session.close()
            await asyncio.sleep(0)  # transports must close before their loop does

        self.runner.run(closed())
        self.runner.close()

    def ask(self, method: str, path: str, body: Any = None, type: str = "application/json", **query: Any) -> Answer:
        """Send one request."""

        async def asked() -> Answer:
            data = None if body is None else msgspec.json.encode(body)
            headers = {"Content-Type": type, "Accept": query.pop("accept", "application/json")}
            params = {name: str(value) for name, value in query.items()}
            async with self.session.request(method, path, data=data, headers=headers, params=params) as response:
                text = await response.read()
                is_json = response.content_type == "application/json"
                return Answer(response.status, msgspec.json.decode(text) if is_json else text.decode())

        return self.runner.run(asked())

    def get(self, path: str, **query: Any) -> Obj:
        """Read an object or a list."""
        return self._good(self.ask("GET", path, **query), 200)

    def post(self, path: str, body: Obj, **query: Any) -> Obj:
        """Create an object and return it."""
        return self._good(self.ask("POST", path, body, **query), 201)

    def put(self, path: str, body: Obj, **query: Any) -> Obj:
        """Replace an object and return it."""
        return self._good(self.ask("PUT", path, body, **query), 200)

    def patch(self, path: str, body: Any, type: str = MERGE, **query: Any) -> Obj:
        """Patch an object and return it."""
        return self._good(self.ask("PATCH", path, body, type, **query), 200)

    def delete(self, path: str, body: Obj | None = None, **query: Any) -> Obj:
        """Delete an object and return the response."""
        return self._good(self.ask("DELETE", path, body, **query), 200)

    def gone(self, path: str) -> bool:
        """Whether the object does not exist."""
        return self.ask("GET", path).code == 404

    def _good(self, answer: Answer, code: int) -> Obj:
        assert code == answer.code, answer.body
        body: Obj = answer.body
        return body

    @contextmanager
    def watch(self, path: str, **query: Any) -> Iterator[Stream]:
        """Open a watch."""

        async def opened() -> aiohttp.ClientResponse:
            params = {"watch": "true", **{name: str(value) for name, value in query.items()}}
            return await self.session.get(path, params=params, timeout=aiohttp.ClientTimeout(total=None))

        response = self.runner.run(opened())
        assert 200 == response.status, self.runner.run(response.text())
        try:
            yield Stream(self, response)
        finally:
            response.close()

    def until(self, path: str, condition: Callable[[Obj], Any]) -> Obj:
        """The object at a path, once the condition is true for it."""

        async def found() -> Obj:
            async with self.session.get(path) as response:
                body: Obj = await response.json()
                return body if condition(body) else {}

        return self.runner.run(until(found, words_of(condition)))


@pytest.fixture(scope="session")
def servers() -> Iterator[Callable[[str, str], Client]]:
    """The servers of the session by type (`embedded`, `real`) and controllers, each started on first use.

    `alone` is an API server only. `controllers` has the usual controllers. `upstream` also serves the upstream
    PodGroup.
    """
    with ExitStack() as stack:

        @cache
        def client(server: str, beside: str) -> Client:
            return stack.enter_context(_embedded(beside) if server == "embedded" else _real(beside))

        yield client


@contextmanager
def _embedded(beside: str) -> Iterator[Client]:
    bare = beside == "alone"
    server = EmbeddedServer(bare=bare, token="secret", parts=[] if bare else [Jobs()]).start()
    client = Client(server.url, "secret", None, real=False)
    for file in sorted(CRDS.glob("*.yaml")):
        define(client, yaml.safe_load(file.read_text()))
    yield client
    client.close()
    server.stop()


@contextmanager
def _real(beside: str) -> Iterator[Client]:
    found = available("etcd", "kubernetes")
    if not found:
        (pytest.fail if os.environ.get("MAAR_REAL") else pytest.skip)(found.why_not)
    with RealCluster.with_upstream_gangs() if beside == "upstream" else RealCluster() as cluster:
        if beside != "alone":
            cluster.start_controller_manager()
        tls = ssl.create_default_context(cafile=str(cluster.ca))
        client = Client(cluster.server, cluster.token, tls, real=True)
        yield client
        client.close()


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)])
def api(request: pytest.FixtureRequest, servers: Callable[[str, str], Client]) -> Client:
    """Each of the two servers in turn. `BESIDE` in a test module says which controllers run with it."""
    return servers(request.param, getattr(request.module, "BESIDE", "alone"))


@pytest.fixture
def namespace(api: Client) -> str:
    """The name of a namespace that only this test uses."""
    name = f"t-{next(api.numbers)}-{secrets.token_hex(3)}"
    api.post("/api/v1/namespaces", {"metadata": {"name": name}})
    return name


@pytest.fixture
def pods(namespace: str) -> str:
    """The path of the pods in the namespace."""
    return f"/api/v1/namespaces/{namespace}/pods"


@pytest.fixture
def maps(namespace: str) -> str:
    """The path of the ConfigMaps in the namespace."""
    return f"/api/v1/namespaces/{namespace}/configmaps"


def new_crd(group: str, **version: Any) -> Obj:
    """A definition of Things, which have a size, and a status if requested."""
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": {"type": "integer", "minimum": 0},
                    "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    "tags": {"type": "object", "additionalProperties": {"type": "string"}},
                    "parts": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
                },
            },
            "status": {"type": "object", "properties": {"phase": {"type": "string"}, "size": {"type": "integer"}}},
        },
    }
    one = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **version}
    names = {"plural": "things", "kind": "Thing", "shortNames": ["th"]}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [one]}
    return {"metadata": {"name": f"things.{group}"}, "spec": spec}


def define(api: Client, crd: Obj) -> Obj:
    """Create a definition and wait until it is served."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    api.post(path, crd)

    def established(obj: Obj) -> bool:
        conditions = (obj.get("status") or {}).get("conditions") or []
        return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)

    found = api.until(f"{path}/{crd['metadata']['name']}", established)
    group = crd["spec"]["group"]
    version = crd["spec"]["versions"][0]["name"]
    api.until(f"/apis/{group}/{version}/{crd['spec']['names']['plural']}", lambda obj: "items" in obj)
    return found


@pytest.fixture
def things(api: Client, namespace: str) -> str:
    """The path of Things with status and scale, of a kind made for this test."""
    group = f"{namespace}.example.com"
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    define(api, new_crd(group, subresources={"status": {}, "scale": scale}))
    return f"/apis/{group}/v1/namespaces/{namespace}/things"


@pytest.fixture
def plain_things(api: Client, namespace: str) -> str:
    """The path of Things without subresources, as in Volcano's PodGroup."""
    group = f"plain.{namespace}.example.com"
    define(api, new_crd(group))
    return f"/apis/{group}/v1/namespaces/{namespace}/things"
