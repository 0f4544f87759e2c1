"""The pool of connections to an API server: one for each request in progress, kept open for later requests.

`maar.kube.client.transport` sends through it; `maar.kube.client.connection` is one connection. The pool reuses the most
recently used connection first, so that extra connections from a burst become idle and are closed.

Opening a connection is never cancelled. Closing it between TCP connect and TLS handshake has no effect (asyncio's
`SSLProtocol._start_shutdown` returns while the state is UNWRAPPED): the handshake continues and the connection leaks.
If the request is cancelled, the pool therefore closes the connection when it is open.
"""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import SplitResult, unquote, urlsplit

from maar.kube.client.access import Access
from maar.kube.client.connection import Connection, Disconnected, Response

REST_SECONDS = 15.0
"""Idle time after which a connection is closed. API servers close it after 90 seconds, proxies perhaps earlier, and a
request sent at that moment is lost. The same value as in aiohttp."""
CONNECT_SECONDS = 30.0
"""Timeout for connecting, including TLS."""
STAGGER_SECONDS = 0.25
"""Delay before the next address of the host is tried in parallel, as RFC 8305 recommends."""
SETTLING_SECONDS = 1.0
"""How long `close` waits for connections that are being opened: a handshake takes milliseconds. Tuned by hand."""
CLOSING_TURNS = 5
"""Iterations of the event loop until TLS connections are closed: each layer schedules the next."""


class ConnectionPool:
    """Connections to the server of an `Access`; the server may change."""

    def __init__(self, access: Access, limit: int) -> None:
        self._access = access
        self._turns = asyncio.Semaphore(limit)
        self._resting: deque[Connection] = deque()
        """Idle connections; the most recently used is at the right."""
        self.connections: set[Connection] = set()
        """All open connections."""
        self._making: set[asyncio.Task[Connection]] = set()
        self._closed = False

    async def ask(self, server: str, verb: str, request: bytes, check: Callable[[], None] = lambda: None) -> Response:
        """The response to a request, or an `OSError`; requests beyond the limit wait.

        `check` is called right before the request is sent, after all waiting. If it raises, nothing is sent.
        """
        async with self._turns:
            connection = await self._answered(server, verb, request, check)
            response = connection.take()
            self._rest(connection)
            return response

    @asynccontextmanager
    async def stream(self, server: str, request: bytes, patience: float | None) -> AsyncIterator[Connection]:
        """A connection that has received the head of the response to a GET; streams do not count towards the limit."""
        async with asyncio.timeout(patience):
            connection = await self._answered(server, "GET", request, lambda: None, streamed=True)
        try:
            yield connection
        finally:
            self._rest(connection)

    async def close(self) -> None:
        """Closes all connections, also busy ones and those that are being opened."""
        self._closed = True
        self._abort_all()
        if self._making:
            _, late = await asyncio.wait(self._making, timeout=SETTLING_SECONDS)
            for making in late:
                making.cancel()
        self._abort_all()
        for _ in range(CLOSING_TURNS):
            await asyncio.sleep(0)

    async def _answered(
        self, server: str, verb: str, request: bytes, check: Callable[[], None], streamed: bool = False
    ) -> Connection:
        """A connection that has received the response.

        An idle connection may be dead, which only a request reveals. If no response began, a GET is sent again on a new
        connection. A write is not sent again: it may have taken effect.
        """
        rested = self._rested(server)
        if rested is not None:
            try:
                check()
            except BaseException:
                self._resting.append(rested)
                raise
            try:
                await rested.ask(request, streamed)
                return rested
            except Disconnected:
                if verb != "GET":
                    raise
        if self._closed:
            raise ConnectionAbortedError("all connections were closed")
        connection = await self._made(server)
        try:
            check()
        except BaseException:
            connection.abort()
            raise
        await connection.ask(request, streamed)
        return connection

    def _rested(self, server: str) -> Connection | None:
        """The most recently used idle connection that is still usable."""
        early = asyncio.get_running_loop().time() - REST_SECONDS
        while self._resting:
            connection = self._resting.pop()
            if connection.usable and connection.server == server and connection.rested > early:
                return connection
            connection.abort()
        return None

    def _rest(self, connection: Connection) -> None:
        """Keeps a connection for the next request, if it is usable."""
        if self._closed or not connection.usable:
            connection.abort()
            return
        self._resting.append(connection)
        while self._resting[0].rested <= connection.rested - REST_SECONDS:
            self._resting.popleft().abort()

    async def _made(self, server: str) -> Connection:
        """A new connection; on cancellation, it is closed as soon as it is open."""
        making = asyncio.create_task(self._make(server))
        self._making.add(making)
        making.add_done_callback(self._making.discard)
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            making.add_done_callback(_drop)
            raise

    async def _make(self, server: str) -> Connection:
        access, url = self._access, _split(server)
        if access.proxy is None:
            return await self._connect(url, server, access.ssl, access.server_hostname)
        proxy = _split(access.proxy)
        connection = await self._connect(proxy, server)
        if url.scheme == "https":
            return await self._tunnel(connection, proxy, url)
        return connection

    async def _connect(
        self, url: SplitResult, server: str, context: ssl.SSLContext | None = None, name: str | None = None
    ) -> Connection:
        """A connection to the host of a URL, for requests to `server`."""
        secure, host = url.scheme == "https", url.hostname or ""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: Connection(server, self.connections),
                    host,
                    _port(url),
                    ssl=(context or True) if secure else None,
                    server_hostname=(name or host).rstrip(".") if secure else None,
                    happy_eyeballs_delay=STAGGER_SECONDS,
                )
        except ValueError as error:
            raise OSError(str(error)) from error
        return connection

    async def _tunnel(self, outer: Connection, proxy: SplitResult, url: SplitResult) -> Connection:
        """A TLS connection through a connection to a proxy."""
        access = self._access
        host = f"[{url.hostname}]" if ":" in (url.hostname or "") else url.hostname
        target = f"{host}:{_port(url)}"
        request = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{proxy_authorization(proxy)}\r\n"
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await outer.ask(request.encode(), streamed=True)
                if outer.status != 200 or outer.transport is None:
                    raise OSError(f"the proxy {proxy.hostname} responded with status {outer.status}")
                inner = Connection(outer.server, self.connections)
                transport = await asyncio.get_running_loop().start_tls(
                    outer.transport,
                    inner,
                    access.ssl or ssl.create_default_context(),
                    server_hostname=access.server_hostname or url.hostname,
                )
            assert transport is not None
        except BaseException:
            outer.abort()
            raise
        finally:
            self.connections.discard(outer)
        inner.connection_made(transport)
        return inner

    def _abort_all(self) -> None:
        for connection in tuple(self.connections):
            connection.abort()


def _drop(making: asyncio.Task[Connection]) -> None:
    if not making.cancelled() and making.exception() is None:
        making.result().abort()


def proxy_authorization(proxy: SplitResult) -> str:
    """The header line with the user and password of a proxy's URL; empty if the URL has none."""
    if proxy.username is None:
        return ""
    secret = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return f"Proxy-Authorization: Basic {b64encode(secret.encode()).decode()}\r\n"


def _split(address: str) -> SplitResult:
    """The parts of a URL; `OSError` if it is not the URL of an HTTP server."""
    try:
        url = urlsplit(address)
        if url.hostname and url.scheme in ("http", "https") and _port(url):
            return url
    except ValueError:
        pass
    raise OSError(f"not the URL of an HTTP server: `{address}`")


def _port(url: SplitResult) -> int:
    return url.port or (443 if url.scheme == "https" else 80)
