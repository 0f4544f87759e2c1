"""A bad road to a good API server: between a client and a real server, in plain HTTP on this machine.

What the embedded server does to its own clients (`maar.embedded.http.faults`) this does to those of a server that has
no faults of its own. Every so often all watches are cut. Of the writes a share is refused (429 with a time to come
again, or 500), and some of those have been carried out all the same: only their answer is a lie.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections import Counter, defaultdict
from enum import Enum
from pathlib import Path

import aiohttp
import msgspec
import yaml
from aiohttp import web
from yarl import URL

WRITES = ("POST", "PUT", "PATCH", "DELETE")
PASSED_ON = ("Authorization", "Content-Type", "Accept", "User-Agent")
COME_AGAIN_S = 1
"""What API servers say with a 429."""


class Fate(Enum):
    """What becomes of a request."""

    CARRIED_OUT = "carried out"
    BUSY = "refused with 429"
    FAILED = "refused with 500"
    DENIED = "carried out, and answered with 500"


class Proxy:
    """The road to one server; a context manager. Faults may be changed at any moment."""

    url: str

    def __init__(
        self, server: str, ca: Path, *, fail_share: float = 0.0, cut_every: float = 0.0, seed: int = 0
    ) -> None:
        self.fail_share = fail_share
        """The share of writes that are answered with 429 or 500."""
        self.cut_every = cut_every
        """Seconds between two cuts of all watches; 0 for never."""
        self.requests = 0
        self.binds = 0
        """Binds that were asked for, whatever came of them."""
        self.fates: Counter[Fate] = Counter()
        """Of writes."""
        self.cuts = 0
        """Watches that were cut."""
        self.bound: dict[str, list[str]] = defaultdict(list)
        """By uid: the nodes to which the server bound a pod, by its own answer."""
        self._server = server
        self._tls = ssl.create_default_context(cafile=str(ca))
        self._dice = random.Random(seed)
        self._watches: set[asyncio.Transport] = set()
        self._writes: set[asyncio.Task[web.StreamResponse]] = set()

    async def __aenter__(self) -> Proxy:
        connector = aiohttp.TCPConnector(limit=0, ssl=self._tls)
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            skip_auto_headers=["Accept-Encoding"],
        )
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.01, handler_cancellation=True, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        self._cutting = asyncio.create_task(self._cut_again_and_again())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._cutting.cancel()
        await asyncio.gather(self._cutting, return_exceptions=True)
        await self._runner.cleanup()
        await asyncio.gather(*self._writes, return_exceptions=True)
        await self._session.close()

    def kubeconfig(self, path: Path, token: str) -> Path:
        """A kubeconfig for whoever is to take this road."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "bad-road", "cluster": {"server": self.url}}],
            "users": [{"name": "somebody", "user": {"token": token}}],
            "contexts": [{"name": "bad-road", "context": {"cluster": "bad-road", "user": "somebody"}}],
            "current-context": "bad-road",
        }
        path.write_text(yaml.safe_dump(config))
        path.chmod(0o600)
        return path

    def failed_share(self) -> float:
        """The share of writes so far whose answer was an error of ours."""
        return 1.0 - self.fates[Fate.CARRIED_OUT] / max(self.fates.total(), 1)

    async def _cut_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(self.cut_every or 0.1)
            if self.cut_every:
                for connection in list(self._watches):
                    self.cuts += 1
                    connection.abort()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests += 1
        body = await request.read()
        fate = self._fate(request)
        if fate is Fate.BUSY:
            return _refusal(429, "TooManyRequests")
        if fate is Fate.FAILED:
            return _refusal(500, "InternalError")
        # What has been sent arrives, even if the sender does not live to see the answer.
        forwarding = asyncio.create_task(self._forward(request, body, fate))
        if request.method in WRITES:
            self._writes.add(forwarding)
            forwarding.add_done_callback(self._writes.discard)
            return await asyncio.shield(forwarding)
        try:
            return await forwarding
        finally:
            forwarding.cancel()

    def _fate(self, request: web.Request) -> Fate:
        if request.method not in WRITES:
            return Fate.CARRIED_OUT
        self.binds += request.path.endswith("/binding")
        fate = Fate.CARRIED_OUT
        if self._dice.random() < self.fail_share:
            fate = self._dice.choice((Fate.BUSY, Fate.FAILED, Fate.DENIED))
        self.fates[fate] += 1
        return fate

    async def _forward(self, request: web.Request, body: bytes, fate: Fate) -> web.StreamResponse:
        try:
            return await self._ask(request, body, fate)
        except (aiohttp.ClientError, OSError):
            # The server is not there, or went away in the middle: the client sees a connection that ends.
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=502)

    async def _ask(self, request: web.Request, body: bytes, fate: Fate) -> web.StreamResponse:
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        url = URL(self._server + request.raw_path, encoded=True)
        asked = self._session.request(request.method, url, data=body or None, headers=headers, allow_redirects=False)
        async with asked as answer:
            if request.query.get("watch") in ("1", "true") and answer.status == 200:
                return await self._stream(request, answer)
            said = await answer.read()
            self._note_bind(request, body, answer.status)
            if fate is Fate.DENIED:
                return _refusal(500, "InternalError")
            kept = {name: answer.headers[name] for name in ("Content-Type", "Retry-After") if name in answer.headers}
            return web.Response(status=answer.status, body=said, headers=kept)

    async def _stream(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": answer.headers["Content-Type"]})
        connection = request.transport
        if connection is None:
            raise ConnectionResetError
        self._watches.add(connection)
        try:
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
        finally:
            self._watches.discard(connection)
        return response

    def _note_bind(self, request: web.Request, body: bytes, status: int) -> None:
        if request.path.endswith("/binding") and status < 300:
            binding = msgspec.json.decode(body)
            self.bound[binding["metadata"]["uid"]].append(binding["target"]["name"])


def _refusal(code: int, reason: str) -> web.Response:
    """How an API server says no."""
    said = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    headers = {"Content-Type": "application/json"} | ({"Retry-After": str(COME_AGAIN_S)} if code == 429 else {})
    return web.Response(
        status=code, body=msgspec.json.encode({**said, "message": "a fault on purpose"}), headers=headers
    )
