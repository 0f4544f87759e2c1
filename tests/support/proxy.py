"""A proxy with faults between a client and a real API server, in plain HTTP on this machine.

It does to clients of a real server what `maar.embedded.http.faults` does to clients of the embedded one. It delays all
requests. It cuts all watches at intervals. It refuses a share of the writes with 429 (and a retry time) or 500. Some
writes with a 500 were executed: only their response is wrong.
"""

from __future__ import annotations

import asyncio
import random
import ssl
import time
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
RETRY_AFTER_S = 1
"""The retry time that API servers send with a 429."""


class Fate(Enum):
    """What happens to a request."""

    CARRIED_OUT = "carried out"
    BUSY = "refused with 429"
    FAILED = "refused with 500"
    DENIED = "carried out, and answered with 500"


FAILURES = (Fate.BUSY, Fate.FAILED, Fate.DENIED)
ANSWERED_500 = (Fate.FAILED, Fate.DENIED)


class Proxy:
    """A proxy to one server. Use it as a context manager. Faults can change at any time."""

    url: str

    def __init__(
        self, server: str, ca: Path, *, fail_share: float = 0.0, cut_every: float = 0.0, seed: int = 0
    ) -> None:
        self.fail_share = fail_share
        """Share of writes that get a 429 or 500."""
        self.cut_every = cut_every
        """Interval in seconds at which all watches are cut; 0 for never."""
        self.delay = 0.0
        """Seconds by which every request is delayed."""
        self.failures: tuple[Fate, ...] = FAILURES
        """What happens to writes that get an error."""
        self.requests = 0
        self.binds = 0
        """How many binds were requested, whatever their result."""
        self.fates: Counter[Fate] = Counter()
        """How many writes had each fate."""
        self.cuts = 0
        """How many watches were cut."""
        self.bound: dict[str, list[str]] = defaultdict(list)
        """The nodes to which the server bound each pod, by uid, from its own responses."""
        self.evictions: set[str] = set()
        """Uids of pods whose eviction was requested. Not every evicted pod shows it: the server sets no condition on a
        pod that does not run yet."""
        self.eviction_times: dict[str, list[float]] = defaultdict(list)
        """When each of them was requested, by a clock that never jumps."""
        self._server = server
        self._tls = ssl.create_default_context(cafile=str(ca))
        self._dice = random.Random(seed)
        self._watches: set[asyncio.Transport] = set()
        self._writes: set[asyncio.Task[web.StreamResponse]] = set()
        self._asking: set[asyncio.Task[aiohttp.ClientResponse]] = set()

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
        self._cutting = asyncio.create_task(self._cut_periodically())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._cutting.cancel()
        await asyncio.gather(self._cutting, return_exceptions=True)
        await self._runner.cleanup()
        await asyncio.gather(*self._writes, *self._asking, return_exceptions=True)
        await self._session.close()

    def kubeconfig(self, path: Path, token: str) -> Path:
        """Write a kubeconfig for clients of the proxy."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "proxy", "cluster": {"server": self.url}}],
            "users": [{"name": "client", "user": {"token": token}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "client"}}],
            "current-context": "proxy",
        }
        path.write_text(yaml.safe_dump(config))
        path.chmod(0o600)
        return path

    def heal(self) -> None:
        """Stop all faults."""
        self.fail_share = self.cut_every = self.delay = 0.0
        self.failures = FAILURES

    def failed_share(self) -> float:
        """The share of writes so far that got an injected error."""
        return 1.0 - self.fates[Fate.CARRIED_OUT] / max(self.fates.total(), 1)

    async def _cut_periodically(self) -> None:
        while True:
            await asyncio.sleep(self.cut_every or 0.1)
            if self.cut_every:
                for connection in list(self._watches):
                    self.cuts += 1
                    connection.abort()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests += 1
        body = await request.read()
        if self.delay:
            await asyncio.sleep(self.delay)
        fate = self._fate(request)
        if fate is Fate.BUSY:
            return _refusal(429, "TooManyRequests")
        if fate is Fate.FAILED:
            return _refusal(500, "InternalError")
        if request.path.endswith("/eviction"):
            self._note_eviction(body)
        # A write that was sent reaches the server, even if the client disconnects before the response.
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
            fate = self._dice.choice(self.failures)
        self.fates[fate] += 1
        return fate

    async def _forward(self, request: web.Request, body: bytes, fate: Fate) -> web.StreamResponse:
        try:
            return await self._ask(request, body, fate)
        except (aiohttp.ClientError, OSError):
            # The server is down or went away: the client sees a closed connection.
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=502)

    async def _ask(self, request: web.Request, body: bytes, fate: Fate) -> web.StreamResponse:
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        url = URL(self._server + request.raw_path, encoded=True)
        async with await self._answer(request.method, url, body, headers) as answer:
            if request.query.get("watch") in ("1", "true") and answer.status == 200:
                return await self._stream(request, answer)
            content = await answer.read()
            self._note_bind(request, body, answer.status)
            if fate is Fate.DENIED:
                return _refusal(500, "InternalError")
            kept = {name: answer.headers[name] for name in ("Content-Type", "Retry-After") if name in answer.headers}
            return web.Response(status=answer.status, body=content, headers=kept)

    async def _answer(self, method: str, url: URL, body: bytes, headers: dict[str, str]) -> aiohttp.ClientResponse:
        """The head of the server's answer. If the client goes meanwhile, the connection is closed when it is there.

        aiohttp would close it by a TLS shutdown, for which nothing waits: a busy server may answer after the test.
        """

        async def ask() -> aiohttp.ClientResponse:
            return await self._session.request(method, url, data=body or None, headers=headers, allow_redirects=False)

        asking = asyncio.create_task(ask())
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            asking.add_done_callback(_drop)
            raise

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
            _abort(answer)
        return response

    def _note_eviction(self, body: bytes) -> None:
        options = msgspec.json.decode(body).get("deleteOptions") or {}
        uid = (options.get("preconditions") or {}).get("uid", "")
        self.evictions.add(uid)
        self.eviction_times[uid].append(time.monotonic())

    def _note_bind(self, request: web.Request, body: bytes, status: int) -> None:
        if request.path.endswith("/binding") and status < 300:
            binding = msgspec.json.decode(body)
            self.bound[binding["metadata"]["uid"]].append(binding["target"]["name"])


def _drop(asking: asyncio.Task[aiohttp.ClientResponse]) -> None:
    if not asking.cancelled() and asking.exception() is None:
        _abort(asking.result())


def _abort(answer: aiohttp.ClientResponse) -> None:
    """Close the connection of an answer at once, without a TLS shutdown."""
    if answer.connection is not None and answer.connection.transport is not None:
        answer.connection.transport.abort()
    answer.close()


def _refusal(code: int, reason: str) -> web.Response:
    """An error response of an API server."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    headers = {"Content-Type": "application/json"} | ({"Retry-After": str(RETRY_AFTER_S)} if code == 429 else {})
    return web.Response(status=code, body=msgspec.json.encode({**status, "message": "injected fault"}), headers=headers)
