"""Servers for tests of the client, on the level of bytes; the test decides how they react to a request."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import cast

import trustme
from tests.support.patience import PATIENCE, until

from maar.kube.client.access import Access
from maar.kube.client.api import Api
from maar.kube.client.pool import ConnectionPool
from maar.kube.client.transport import CONNECTIONS, Transport

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Peer(asyncio.Protocol):
    """The server's end of a connection."""

    def __init__(self, server: "Server") -> None:
        self.server = server
        self.requests: list[bytes] = []
        self.ended = False
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.server.peers.append(self)
        self.server.welcome(self)

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, found, body = self._data.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        if found and len(body) >= int(length or 0):
            self.requests.append(self._data)
            self._data = b""
            self.server.act(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = True

    def say(self, data: bytes = OK) -> None:
        self.transport.write(data)


Act = Callable[[Peer], None]


class Server:
    """A server that calls `act` for each request and `welcome` for each new connection."""

    def __init__(self, act: Act) -> None:
        self.act = act
        self.welcome: Act = lambda peer: None
        self.peers: list[Peer] = []
        self.url = ""

    @property
    def verbs(self) -> list[list[str]]:
        """The verbs of the requests, by connection."""
        return [[request.split(b" ")[0].decode() for request in peer.requests] for peer in self.peers]

    def asked(self, path: str) -> list[Peer]:
        """The connections whose last request has this path."""
        return [peer for peer in self.peers if path.encode() == peer.requests[-1].split(b" ")[1]]


@asynccontextmanager
async def served(
    act: Act = Peer.say, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[Server]:
    server = Server(act)
    listening = await asyncio.get_running_loop().create_server(lambda: Peer(server), host, 0, ssl=tls)
    port = listening.sockets[0].getsockname()[1]
    server.url = f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
    try:
        yield server
    finally:
        listening.close()
        for peer in server.peers:
            peer.transport.abort()
        await until(lambda: all(peer.ended for peer in server.peers))


@asynccontextmanager
async def opened(access: Access | str, connections: int = CONNECTIONS) -> AsyncIterator[Api]:
    async with pooled(access, connections) as (api, _):
        yield api


@asynccontextmanager
async def pooled(access: Access | str, connections: int = CONNECTIONS) -> AsyncIterator[tuple[Api, ConnectionPool]]:
    """An `Api` and the pool that it uses."""
    transport = await Transport.open(Access(access) if isinstance(access, str) else access, connections)
    try:
        yield Api(transport), transport.pool
    finally:
        await transport.close()


def certified() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    authority = trustme.CA()
    inside, outside = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(inside)
    authority.configure_trust(outside)
    return inside, outside


def trusting(server: Server, outside: ssl.SSLContext) -> Access:
    access = Access(server.url)
    access.ssl = outside
    return access


def run(main: Callable[[], Awaitable[None]]) -> None:
    """Runs the test in less time than a request without a response takes."""

    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE):
            await main()

    asyncio.run(bounded())
