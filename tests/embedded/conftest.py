"""An embedded cluster on the event loop of the test, and the few operations that tests use on it.

Tests are plain functions that call `asyncio.run`. They always wait for a condition.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from tests.support.patience import until

from maar.embedded.objects.kinds import JOBS, NODES, PODS
from maar.embedded.server import EmbeddedServer, Part

Obj = dict[str, Any]


class Cluster:
    """A server, and a client that uses its socket."""

    def __init__(self, server: EmbeddedServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session
        self.pods = "/api/v1/namespaces/default/pods"

    async def ask(self, method: str, path: str, body: Obj | None = None) -> tuple[int, Obj]:
        """Send one request over the socket."""
        async with self.session.request(method, path, json=body) as response:
            return response.status, await response.json()

    async def add_node(self, name: str, cpu: str = "8") -> None:
        """Create a node with this capacity."""
        status = {"capacity": {"cpu": cpu, "memory": "32Gi", "pods": "110"}}
        code, body = await self.ask("POST", "/api/v1/nodes", {"metadata": {"name": name}, "status": status})
        assert 201 == code, body

    async def add_pod(self, name: str, node: str = "", cpu: str = "1", **annotations: str) -> None:
        """Create a pod, bound if a node is given. Annotations get the prefix `maar.dev/` and dashes for underscores."""
        notes = {f"maar.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
        container = {"name": "main", "image": "train:1", "resources": {"requests": {"cpu": cpu}}}
        spec = {"containers": [container], **({"nodeName": node} if node else {})}
        code, body = await self.ask("POST", self.pods, {"metadata": {"name": name, "annotations": notes}, "spec": spec})
        assert 201 == code, body

    async def add_job(self, name: str, parallelism: int) -> None:
        """Create a job whose pods never end."""
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
        spec = {"parallelism": parallelism, "completions": parallelism, "template": template}
        path = "/apis/batch/v1/namespaces/default/jobs"
        code, body = await self.ask("POST", path, {"metadata": {"name": name}, "spec": spec})
        assert 201 == code, body

    async def bind(self, name: str, node: str) -> int:
        """The status code of a bind request."""
        target = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        return (await self.ask("POST", f"{self.pods}/{name}/binding", target))[0]

    def pod(self, name: str) -> Obj | None:
        item = self.server.api.store.table(PODS).items.get(("default", name))
        return item.obj if item else None

    def node(self, name: str) -> Obj:
        return self.server.api.get(NODES, "", name).obj

    def job(self, name: str) -> Obj:
        return self.server.api.get(JOBS, "default", name).obj

    def all_pods(self) -> list[Obj]:
        return [item.obj for item in self.server.api.objects(PODS)]

    def phase(self, name: str) -> str:
        """The phase of a pod; `gone` if the pod does not exist."""
        pod = self.pod(name)
        return pod["status"]["phase"] if pod else "gone"

    async def until(self, condition: Callable[[], Any]) -> None:
        """Wait until a condition is true."""
        await until(condition)


@asynccontextmanager
async def cluster(*parts: Part, **options: Any) -> AsyncIterator[Cluster]:
    """A cluster with these parts and the usual controllers."""
    async with EmbeddedServer(parts=parts, **options) as server, aiohttp.ClientSession(server.url) as session:
        yield Cluster(server, session)


def names(pods: Iterable[Obj]) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in pods)
