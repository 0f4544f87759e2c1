"""Connections that are all closed at the end, also those whose request was cancelled.

Below `maar.kube.client.transport`: what is made here for watches, and what `maar.kube.client.http_pool` makes for short
requests.

A connection on which a request was cancelled is not aiohttp's any more, but over TLS it is open still: it waits for the
other side's goodbye. And closing one between its TCP connect and its handshake does nothing at all (asyncio's
`SSLProtocol._start_shutdown` returns while the state is still UNWRAPPED): the handshake goes on, and what comes of it
belongs to nobody. So connections are remembered for as long as they are open, and the making of one is never cut short:
where nobody waits for it any more, it is dropped once it is made.
"""

from __future__ import annotations

import asyncio
import ssl as tls
import weakref
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import aiohttp

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.client_reqrep import ClientRequest
    from aiohttp.tracing import Trace

SETTLING_SECONDS = 1.0
"""What a stop grants to connections that are being made: a handshake takes milliseconds; by taste."""
CLOSING_TURNS = 5
"""Turns of the loop in which TLS connections really close: each passes on to the next that it has ended."""


class Abortable(Protocol):
    """What can be hung up at once."""

    def abort(self) -> None:
        """Without goodbyes."""


T = TypeVar("T", bound=Abortable)


class Making(Generic[T]):
    """Connections that are being made, each to its end."""

    def __init__(self) -> None:
        self._under_way: set[asyncio.Task[T]] = set()

    async def make(self, one: Coroutine[Any, Any, T]) -> T:
        """The connection that comes of it; it is dropped where this is cancelled."""
        making = asyncio.create_task(one)
        self._under_way.add(making)
        making.add_done_callback(self._under_way.discard)
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            making.add_done_callback(_drop)
            raise

    async def settle(self) -> None:
        """Wait for all of them, not for long."""
        if self._under_way:
            _, late = await asyncio.wait(self._under_way, timeout=SETTLING_SECONDS)
            for making in late:
                making.cancel()


class Connector(aiohttp.TCPConnector):
    """aiohttp's, which knows all of its connections until they are closed."""

    def __init__(self, limit: int, ssl: tls.SSLContext | bool) -> None:
        super().__init__(limit=limit, ssl=ssl)
        self._making: Making[ResponseHandler] = Making()
        self._made: weakref.WeakSet[asyncio.Transport] = weakref.WeakSet()

    async def _create_connection(
        self, req: ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        made = await self._making.make(super()._create_connection(req, traces, timeout))
        if made.transport is not None:
            self._made.add(made.transport)
        return made

    async def let_go(self) -> None:
        """Close everything, and what is still being made too, without waiting for TLS to say goodbye on each."""
        await self.close(abort_ssl=True)
        await self._making.settle()
        for transport in self._made:
            transport.abort()
        for _ in range(CLOSING_TURNS):
            await asyncio.sleep(0)


def _drop(making: asyncio.Task[Any]) -> None:
    if not making.cancelled() and making.exception() is None:
        making.result().abort()
