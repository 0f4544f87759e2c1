"""The connections for short requests: as many as requests are under way, kept for the next ones.

Between `maar.kube.client.transport`, which knows what to send, and `maar.kube.client.http_connection`. A connection has
one request at a time. The one that was used last is taken first, so that those a burst has left over rest, and are let
go.
"""

from __future__ import annotations

import asyncio
from collections import deque
from urllib.parse import urlsplit

from maar.kube.client.access import Access
from maar.kube.client.connections import CLOSING_TURNS, Making
from maar.kube.client.http_answer import Answer
from maar.kube.client.http_connection import Connection, HungUp
from maar.kube.client.http_request import READS

REST_SECONDS = 15.0
"""How long a connection is kept without a request: API servers hang up after 90 seconds, what stands before them may do
so earlier, and a request that is sent in that moment is lost; aiohttp's number."""
STAGGER_SECONDS = 0.25
"""After which a host's next address is tried beside the first: what RFC 8305 recommends."""


class Pool:
    """Connections to the server that an access names, which may come to be another one."""

    def __init__(self, access: Access, limit: int) -> None:
        self._access = access
        self._turns = asyncio.Semaphore(limit)
        self._resting: deque[Connection] = deque()
        """The one that was used last is at the right."""
        self._open: set[Connection] = set()
        self._making: Making[Connection] = Making()
        self._closed = False

    async def ask(self, server: str, verb: str, request: bytes) -> Answer:
        """The answer to a request, or an `OSError`; requests beyond the limit wait for their turn.

        A connection that rested may be dead, which nobody knows before it is used. What only reads then goes out again,
        on a new one, if not a byte of an answer came. What writes does not: it may have been carried out.
        """
        async with self._turns:
            rested = self._rested(server)
            if rested is not None:
                try:
                    return await self._ask(rested, verb, request)
                except HungUp:
                    if verb not in READS:
                        raise
            if self._closed:
                raise ConnectionAbortedError("all connections were closed")
            return await self._ask(await self._making.make(self._make(server)), verb, request)

    async def close(self) -> None:
        """Hang up, also where a request is under way or a connection is being made."""
        self._closed = True
        self._hang_up()
        await self._making.settle()
        self._hang_up()
        for _ in range(CLOSING_TURNS):
            await asyncio.sleep(0)

    async def _ask(self, connection: Connection, verb: str, request: bytes) -> Answer:
        try:
            answer = await connection.ask(request, bodiless=verb == "HEAD")
        except BaseException:
            connection.abort()
            raise
        if answer.last or self._closed:
            connection.abort()
        else:
            self._rest(connection)
        return answer

    def _rested(self, server: str) -> Connection | None:
        """The connection that was used last, of those that can be used still."""
        early = asyncio.get_running_loop().time() - REST_SECONDS
        while self._resting:
            connection = self._resting.pop()
            if connection.usable and connection.server == server and connection.rested > early:
                return connection
            connection.abort()
        return None

    def _rest(self, connection: Connection) -> None:
        connection.rested = now = asyncio.get_running_loop().time()
        self._resting.append(connection)
        while self._resting[0].rested <= now - REST_SECONDS:
            self._resting.popleft().abort()

    async def _make(self, server: str) -> Connection:
        access, loop = self._access, asyncio.get_running_loop()
        try:
            url = urlsplit(server)
            secure = url.scheme == "https"
            host, port = url.hostname, url.port or (443 if secure else 80)
            if not host or url.scheme not in ("https", "http"):
                raise ValueError(f"not the URL of a server: `{server}`")
            _, connection = await loop.create_connection(
                lambda: Connection(server, self._open),
                host,
                port,
                ssl=(access.ssl or True) if secure else None,
                server_hostname=(access.server_hostname or host).rstrip(".") if secure else None,
                happy_eyeballs_delay=STAGGER_SECONDS,
            )
        except ValueError as error:
            raise OSError(str(error)) from error
        return connection

    def _hang_up(self) -> None:
        for connection in tuple(self._open):
            connection.abort()
