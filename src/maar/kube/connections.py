"""Connections that are all closed at the end, also those whose request was cancelled.

Below `maar.kube.transport`. A connection on which a request was cancelled is not aiohttp's any more, but over TLS it is
open still: it waits for the other side's goodbye. And closing one between its TCP connect and its handshake does
nothing at all (asyncio's `SSLProtocol._start_shutdown` returns while the state is still UNWRAPPED): the handshake goes
on, and what comes of it belongs to nobody. So connections are remembered for as long as they are open, and the making
of one is never cut short: where nobody waits for it any more, it is dropped once it is made.
"""

from __future__ import annotations

import asyncio
import ssl as tls
import weakref
from typing import TYPE_CHECKING

import aiohttp

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.client_reqrep import ClientRequest
    from aiohttp.tracing import Trace

SETTLING_SECONDS = 1.0
"""What a stop grants to connections that are being made: a handshake takes milliseconds; by taste."""
CLOSING_TURNS = 5
"""Turns of the loop in which TLS connections really close: each passes on to the next that it has ended."""


class Connector(aiohttp.TCPConnector):
    """aiohttp's, which knows all of its connections until they are closed."""

    def __init__(self, limit: int, ssl: tls.SSLContext | bool) -> None:
        super().__init__(limit=limit, ssl=ssl)
        self._making: set[asyncio.Task[ResponseHandler]] = set()
        self._made: weakref.WeakSet[asyncio.Transport] = weakref.WeakSet()

    async def _create_connection(
        self, req: ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        making = asyncio.create_task(super()._create_connection(req, traces, timeout))
        self._making.add(making)
        making.add_done_callback(self._making.discard)
        try:
            made = await asyncio.shield(making)
        except asyncio.CancelledError:
            making.add_done_callback(_drop)
            raise
        if made.transport is not None:
            self._made.add(made.transport)
        return made

    async def let_go(self) -> None:
        """Close everything, and what is still being made too, without waiting for TLS to say goodbye on each."""
        await self.close(abort_ssl=True)
        if self._making:
            _, late = await asyncio.wait(self._making, timeout=SETTLING_SECONDS)
            for making in late:
                making.cancel()
        for transport in self._made:
            transport.abort()
        for _ in range(CLOSING_TURNS):
            await asyncio.sleep(0)


def _drop(making: asyncio.Task[ResponseHandler]) -> None:
    if not making.cancelled() and making.exception() is None:
        making.result().abort()
