"""One connection to an API server: a request goes out in one write, and its answer is read as it arrives.

Below `maar.kube.client.pool`, which holds the connections. httptools parses the answer. This is an asyncio protocol
rather than a stream, because a stream would add a second buffer with waiters of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple, cast

import httptools

LONGEST_HEAD = 64 * 1024
"""Bytes of a response head; API servers write about 500. Tuned by hand."""
READ_BUFFER = 4 * 1024 * 1024
"""Bytes of a stream that may wait to be processed: API servers cut watches that are read too slowly."""


class HungUp(ConnectionError):
    """The connection ended before a byte of the answer arrived: the request may or may not have been carried out."""


class Garbled(ConnectionError):
    """The bytes that arrived are not an answer, or not all of one."""


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    body: bytes
    retry_after: float
    """Seconds; 0 if the server does not say, or sends a date, which API servers do not."""


class Connection(asyncio.Protocol):
    """A connection to `server`; listed in `known` while it is open. It has one request at a time."""

    def __init__(self, server: str, known: set[Connection]) -> None:
        self.server = server
        self.transport: asyncio.Transport | None = None
        self.status = 0
        """The status of the answer; 0 until its head has arrived."""
        self.usable = False
        """Whether another request can be sent: the last answer is complete, and neither side has hung up."""
        self.rested = 0.0
        """When the last answer was complete, by the loop's clock."""
        self._known = known
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._streamed = False
        self._heard = 0
        """Bytes of the answer so far."""
        self._framed = False
        """Whether the head says where the body ends; otherwise it ends with the connection."""
        self._complete = True
        self._error: Exception | None = None
        self._retry_after = 0.0
        self._parts: list[bytes] = []
        self._size = 0
        self._waiting: asyncio.Future[None] | None = None

    async def ask(self, request: bytes, streamed: bool = False) -> None:
        """Send a request and wait for the whole answer, or with `streamed` for its head only.

        If this fails or is cancelled, the connection is closed.
        """
        if self.transport is None or not self.usable:
            raise HungUp("the server hung up")
        self._take()  # a stream may have been left before its end
        self.usable = self._framed = self._complete = False
        self._streamed, self.status, self._heard, self._retry_after = streamed, 0, 0, 0.0
        try:
            self.transport.write(request)
            while not (self._complete or (streamed and self.status)):
                await self._more()
        except BaseException:
            self.abort()
            raise

    def take(self) -> Answer:
        """The answer that `ask` has waited for; the connection does not keep it."""
        return Answer(self.status, self._take(), self._retry_after)

    async def chunks(self, patience: float | None) -> AsyncIterator[bytes]:
        """The body of a streamed answer as it arrives; `TimeoutError` if nothing arrives for `patience` seconds."""
        while True:
            if self._parts:
                yield self._take()
            elif self._complete:
                return
            else:
                async with asyncio.timeout(patience):
                    await self._more()

    def abort(self) -> None:
        """Close the connection at once, without a TLS goodbye; a request under way fails."""
        self.usable = False
        self._fail(ConnectionAbortedError("the connection was closed"))
        if self.transport is not None:
            self.transport.abort()

    async def _more(self) -> None:
        if self._error is not None:
            raise self._error
        self._waiting = self._loop.create_future()
        await self._waiting

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _take(self) -> bytes:
        parts, self._parts = self._parts, []
        if self._size > READ_BUFFER and self._streamed and self.transport is not None:
            self.transport.resume_reading()
        self._size = 0
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _fail(self, error: Exception) -> None:
        self.usable = False
        if not self._complete and self._error is None:
            self._error = error
            self._wake()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open; over TLS, the handshake is done."""
        self.transport = cast(asyncio.Transport, transport)
        self.usable = True
        self._known.add(self)

    def data_received(self, data: bytes) -> None:
        """Bytes arrived."""
        if self._complete:
            # No request is under way: the server says why it hangs up, or sends more than one answer.
            self.abort()
            return
        self._heard += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(Garbled(f"not an HTTP answer: {error}"))
        if not self.status and self._heard > LONGEST_HEAD:
            self._fail(Garbled(f"a response head of more than {LONGEST_HEAD} bytes"))
        if self._streamed or self._complete:
            self._wake()
        if self._size > READ_BUFFER and self._streamed and self.transport is not None:
            self.transport.pause_reading()

    def eof_received(self) -> None:
        """Nothing more will arrive; asyncio closes the connection after this."""
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed, by either side."""
        self._end(exc)
        self._known.discard(self)

    def _end(self, error: Exception | None) -> None:
        if self.status and not self._framed and error is None and self._error is None:
            self._complete = True
            self._wake()
        if not self._heard:
            error = HungUp(str(error or "") or "the server hung up")
        self._fail(error or Garbled("the server hung up in the middle of an answer"))

    # What the parser calls.

    def on_message_begin(self) -> None:
        """An answer begins; a second one to the same request is not believed."""
        if self._complete:
            raise Garbled("more than one answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        name = name.lower()
        if name in (b"content-length", b"transfer-encoding"):
            self._framed = True
            if name == b"transfer-encoding" and value.strip().lower() != b"chunked":
                raise Garbled("a transfer coding that was not asked for")
        elif name == b"retry-after" and value.isdigit():
            self._retry_after = float(value)

    def on_headers_complete(self) -> None:
        """The head is complete; 100 Continue and 103 Early Hints are not the answer yet."""
        status = self._parser.get_status_code()
        if status >= 200:
            self.status = status
            self._framed = self._framed or status in (204, 304)

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._parts.append(body)
        self._size += len(body)

    def on_message_complete(self) -> None:
        """The answer is complete."""
        if self.status:
            self._complete = True
            self.usable = self._parser.should_keep_alive()
            self.rested = self._loop.time()
        else:
            self._framed = False
