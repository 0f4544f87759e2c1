"""An embedded cluster in the test's own event loop, and the few verbs that tests use on it.

Tests are plain functions: `run` gives a coroutine a loop. Waiting is always for a condition.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from maar.embedded.objects.kinds import JOBS, NODES, PODS
from maar.embedded.server import EmbeddedServer, Part

Obj = dict[str, Any]

PATIENCE = 60.0
"""Seconds until something that should happen counts as not happening."""


class Cluster:
    """A server, and a client that talks to it over its socket."""

    def __init__(self, server: EmbeddedServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session
        self.pods = "/api/v1/namespaces/default/pods"

    async def ask(self, method: str, path: str, body: Obj | None = None) -> tuple[int, Obj]:
        """One request over the socket."""
        async with self.session.request(method, path, json=body) as response:
            return response.status, await response.json()

    async def add_node(self, name: str, cpu: str = "8") -> None:
        """A node that says how much it has."""
        status = {"capacity": {"cpu": cpu, "memory": "32Gi", "pods": "110"}}
        code, body = await self.ask("POST", "/api/v1/nodes", {"metadata": {"name": name}, "status": status})
        assert 201 == code, body

    async def add_pod(self, name: str, node: str = "", cpu: str = "1", **annotations: str) -> None:
        """A pod, bound if a node is given; annotations below `maar.dev/`, with underscores for dashes."""
        notes = {f"maar.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
        container = {"name": "main", "image": "train:1", "resources": {"requests": {"cpu": cpu}}}
        spec = {"containers": [container], **({"nodeName": node} if node else {})}
        code, body = await self.ask("POST", self.pods, {"metadata": {"name": name, "annotations": notes}, "spec": spec})
        assert 201 == code, body

    async def add_job(self, name: str, parallelism: int) -> None:
        """A job of pods that run for ever."""
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
        spec = {"parallelism": parallelism, "completions": parallelism, "template": template}
        path = "/apis/batch/v1/namespaces/default/jobs"
        code, body = await self.ask("POST", path, {"metadata": {"name": name}, "spec": spec})
        assert 201 == code, body

    async def bind(self, name: str, node: str) -> int:
        """What a bind answers."""
        target = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        return (await self.ask("POST", f"{self.pods}/{name}/binding", target))[0]

    def pod(self, name: str) -> Obj | None:
        """A pod as it is stored."""
        item = self.server.api.store.table(PODS).items.get(("default", name))
        return item.obj if item else None

    def node(self, name: str) -> Obj:
        """A node as it is stored."""
        return self.server.api.get(NODES, "", name).obj

    def job(self, name: str) -> Obj:
        """A job as it is stored."""
        return self.server.api.get(JOBS, "default", name).obj

    def all_pods(self) -> list[Obj]:
        """All pods as they are stored."""
        return [item.obj for item in self.server.api.objects(PODS)]

    def phase(self, name: str) -> str:
        """A pod's phase; `gone` where there is none."""
        pod = self.pod(name)
        return pod["status"]["phase"] if pod else "gone"

    async def until(self, condition: Callable[[], Any]) -> None:
        """Until something is so."""
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(0.001)


@asynccontextmanager
async def cluster(*parts: Part, **options: Any) -> AsyncIterator[Cluster]:
    """A cluster with those parts beside the usual controllers."""
    async with EmbeddedServer(parts=parts, **options) as server, aiohttp.ClientSession(server.url) as session:
        yield Cluster(server, session)


def names(pods: Iterable[Obj]) -> list[str]:
    """Their names, in order."""
    return sorted(pod["metadata"]["name"] for pod in pods)
