"""A `maar web` in this process, on an embedded API server with two users: one sees everything, one a namespace."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import ClientSession
from tests.support.live import GPU, OUR_CRDS, Live, connected
from tests.support.patience import until

from maar.controller.settings.config_file import ConfigFile
from maar.embedded.server import EmbeddedServer, Part
from maar.history.forecasts import ForecastLog
from maar.history.history import History
from maar.kube.client.api import Api
from maar.kube.kinds import volcano_podgroup
from maar.kube.wire.api_resources import PODS
from maar.web.addresses import Address
from maar.web.api.certificate import Certificate
from maar.web.api.desk import Api1
from maar.web.api.guard import Guard
from maar.web.api.main import WebOptions, answering
from maar.web.api.mirror import Mirror
from maar.web.api.server import serving
from maar.web.forecasting.keeper import ForecastPace, Keeper
from maar.web.limits import HttpLimits
from maar.web.workers.pool import WorkerPool

MINE, THEIRS = "mine", "aq7hidden"
ADMIN, USER = "admin", "user"
"""ServiceAccounts in `MINE`: the first may list all pods, the second those of `MINE`."""


class Client:
    """Sends requests as one user."""

    def __init__(self, session: ClientSession, base: str, token: str = "") -> None:
        self._session = session
        self.base = base
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    async def ask(self, path: str, body: Any = None, method: str = "", **headers: str) -> tuple[int, bytes]:
        method = method or ("GET" if body is None else "POST")
        data = body if isinstance(body, bytes) or body is None else msgspec.json.encode(body)
        kind = {"Content-Type": "application/json"} if body is not None else {}
        async with self._session.request(
            method, f"{self.base}{path}", data=data, headers={**self.headers, **kind, **headers}
        ) as answer:
            return answer.status, await answer.read()

    async def get(self, path: str) -> Any:
        status, body = await self.ask(f"/api/v1{path}")
        assert 200 == status, body
        return msgspec.json.decode(body)

    async def post(self, path: str, body: Any) -> Any:
        status, answer = await self.ask(f"/api/v1{path}", body)
        assert 200 == status, answer
        return msgspec.json.decode(answer)

    @asynccontextmanager
    async def stream(self) -> AsyncIterator[AsyncIterator[Any]]:
        async with self._session.get(f"{self.base}/api/v1/stream", headers=self.headers) as answer:
            assert 200 == answer.status

            async def events() -> AsyncIterator[Any]:
                async for line in answer.content:
                    if line.startswith(b"data: "):
                        yield msgspec.json.decode(line[6:])

            yield events()


class Web:
    """One `maar web` and its API server."""

    def __init__(
        self,
        server: EmbeddedServer,
        cluster: Live,
        mirror: Mirror,
        answers: Api1,
        guard: Guard,
        session: ClientSession,
        base: str,
    ) -> None:
        self.server = server
        self.cluster = cluster
        self.mirror = mirror
        self.answers = answers
        self.guard = guard
        self._session = session
        self.base = base
        self.keeper: Keeper | None = None
        self.asked: list[dict[str, Any]] = []
        """The access reviews."""

    async def as_user(self, name: str, **spec: Any) -> Client:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = f"/api/v1/namespaces/{MINE}/serviceaccounts/{name}/token"
        made = msgspec.json.decode(await self.cluster.api.create(path, body))
        return Client(self._session, self.base, made["status"]["token"])

    async def gang(
        self, namespace: str, name: str, size: int, *, gpu: int = 1, on: str = "", queue: str = "default"
    ) -> None:
        """Create a PodGroup and its pods; they have a node if it is given."""
        await gang(self.cluster.api, namespace, name, size, gpu=gpu, on=on, queue=queue)

    def with_token(self, token: str = "") -> Client:
        return Client(self._session, self.base, token)

    def allows(self, spec: dict[str, Any]) -> bool:
        """The rights of the two users, as access reviews ask for them."""
        self.asked.append(spec)
        about = spec["resourceAttributes"]
        assert ("list", "pods") == (about["verb"], about["resource"])
        if spec["user"].endswith(f":{ADMIN}"):
            return True
        return bool(spec["user"].endswith(f":{USER}") and about.get("namespace") == MINE)

    async def settled(self) -> None:
        """Wait until a decision has seen everything that happened before."""
        seen = self.mirror.observer.loop.cycles
        self.mirror.observer.loop.trigger()

        def decided() -> bool:
            self.mirror.observer.loop.trigger()
            return self.mirror.observer.loop.cycles >= seen + 2

        await until(decided, "two more cycles")


async def gang(
    api: Api, namespace: str, name: str, size: int, *, gpu: int = 1, on: str = "", queue: str = "default"
) -> None:
    """Create a Volcano PodGroup and its pods; they have a node if it is given."""
    resource = volcano_podgroup.KIND.resource
    group = {"apiVersion": resource.api_version, "kind": "PodGroup", "metadata": {"name": name, "namespace": namespace}}
    status = {"status": {"phase": "Running"}} if on else {}
    await api.create(resource.path(namespace), {**group, "spec": {"minMember": size, "queue": queue}, **status})
    limits = {"limits": {GPU: str(gpu)}, "requests": {"cpu": "100m"}}
    for i in range(size):
        metadata = {"name": f"{name}-{i}", "annotations": {"scheduling.k8s.io/group-name": name}}
        spec: dict[str, Any] = {
            "schedulerName": "maar",
            "containers": [{"name": "c", "image": "train", "resources": limits}],
            **({"nodeName": on} if on else {}),
        }
        await api.create(PODS.path(namespace), {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


@asynccontextmanager
async def webbing(
    tmp_path: Path,
    *,
    limits: HttpLimits | None = None,
    anonymous: bool = False,
    writes: bool = False,
    certificate: Certificate | None = None,
    page: Path | None = None,
    nodes: int = 2,
    parts: Iterable[Part] = (),
    host: str = "127.0.0.1",
    recordings: Path | None = None,
    pace: ForecastPace | None = None,
    history: str = "none",
    pool: WorkerPool | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[Web]:
    """A `maar web` that has decided once; with a `pace` it makes forecasts."""
    async with EmbeddedServer(parts=parts) as server, connected(server.kubeconfig(tmp_path / "kubeconfig")) as cluster:
        await cluster.crds(OUR_CRDS)
        await cluster.nodes(nodes, gpu=8)
        for name in (MINE, THEIRS):
            await cluster.create(
                "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            )
        for name in (ADMIN, USER):
            await cluster.api.create(f"/api/v1/namespaces/{MINE}/serviceaccounts", {"metadata": {"name": name}})
        api: Api = cluster.api
        options = WebOptions(
            address=Address(host, 0),
            anonymous=anonymous,
            allow_writes=writes,
            every=0.05,
            recordings=recordings,
            pace=pace,
            clock=clock,
        )
        known, log = History(history, write=False, refresh=0.2), ForecastLog(history)
        async with (
            answering(api, options, ConfigFile(None), None, known, limits, log, pool) as (mirror, answers, guard),
            serving(answers, guard, options.address, certificate, page or tmp_path / "page") as port,
            ClientSession() as session,
        ):
            keeper = answers.keeper
            running = [asyncio.create_task(mirror.run())]
            running += [] if keeper is None else [asyncio.create_task(keeper.run())]
            try:
                scheme = "http" if certificate is None else "https"
                web = Web(server, cluster, mirror, answers, guard, session, f"{scheme}://127.0.0.1:{port}")
                web.keeper = keeper
                server.handler.allows = web.allows
                await until(lambda: not mirror.not_ready(), "the mirror is ready")
                yield web
            finally:
                for task in running:
                    task.cancel()
                await asyncio.gather(*running, return_exceptions=True)
