"""One connection to an API server: sends a request in one write and reads its response as it arrives.

`maar.kube.client.pool` holds the connections. httptools parses the response. This is an asyncio protocol, not a stream,
because a stream would add a second buffer with its own waiters.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple, cast

import httptools

LONGEST_HEAD = 64 * 1024
"""Maximum bytes of a response head; API servers send about 500. Tuned by hand."""
READ_BUFFER = 4 * 1024 * 1024
"""Bytes of a stream that may be buffered: API servers close watches that are read too slowly."""


class Disconnected(ConnectionError):
    """The connection ended before the response began; the request may have taken effect."""


class Malformed(ConnectionError):
    """The received bytes are not an HTTP response, or only a part of one."""


class Response(NamedTuple):
    status: int
    body: bytes
    retry_after: float
    """Seconds; 0 if the server does not send it, or sends a date, which API servers never do."""


class Connection(asyncio.Protocol):
    """A connection to `server`, with one request at a time; in the set `known` while it is open."""

    def __init__(self, server: str, known: set[Connection]) -> None:
        self.server = server
        self.transport: asyncio.Transport | None = None
        self.status = 0
        """The HTTP status of the response; 0 until its head has arrived."""
        self.usable = False
        """Whether another request can be sent: the last response is complete and the connection is open."""
        self.rested = 0.0
        """When the last response was complete, in the time of the event loop."""
        self._known = known
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._streamed = False
        self._heard = 0
        """Bytes of the response so far."""
        self._framed = False
        """Whether the head defines the length of the body; otherwise the body ends with the connection."""
        self._complete = True
        self._error: Exception | None = None
        self._retry_after = 0.0
        self._parts: list[bytes] = []
        self._size = 0
        self._waiting: asyncio.Future[None] | None = None

    async def ask(self, request: bytes, streamed: bool = False) -> None:
        """Sends a request and waits for the whole response, or with `streamed` for its head only.

        On failure or cancellation, the connection is closed.
        """
        if self.transport is None or not self.usable:
            raise Disconnected("the server closed the connection")
        self._take()  # the last stream may have been abandoned before its end
        self.usable = self._framed = self._complete = False
        self._streamed, self.status, self._heard, self._retry_after = streamed, 0, 0, 0.0
        try:
            self.transport.write(request)
            while not (self._complete or (streamed and self.status)):
                await self._more()
        except BaseException:
            self.abort()
            raise

    def take(self) -> Response:
        """The response that `ask` waited for; removes it from the connection."""
        return Response(self.status, self._take(), self._retry_after)

    async def chunks(self, patience: float | None) -> AsyncIterator[bytes]:
        """The body of a streamed response as it arrives; `TimeoutError` after `patience` seconds without data."""
        while True:
            if self._parts:
                yield self._take()
            elif self._complete:
                return
            else:
                async with asyncio.timeout(patience):
                    await self._more()

    def abort(self) -> None:
        """Closes the connection at once, without a TLS shutdown; a request in progress fails."""
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

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.usable = True
        self._known.add(self)

    def data_received(self, data: bytes) -> None:
        if self._complete:
            # No request is in progress: the server announces that it closes, or sends a second response.
            self.abort()
            return
        self._heard += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(Malformed(f"not an HTTP response: {error}"))
        if not self.status and self._heard > LONGEST_HEAD:
            self._fail(Malformed(f"the response head exceeds {LONGEST_HEAD} bytes"))
        if self._streamed or self._complete:
            self._wake()
        if self._size > READ_BUFFER and self._streamed and self.transport is not None:
            self.transport.pause_reading()

    def eof_received(self) -> None:
        """The server sends no more data; asyncio then closes the connection."""
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc)
        self._known.discard(self)

    def _end(self, error: Exception | None) -> None:
        if self.status and not self._framed and error is None and self._error is None:
            self._complete = True
            self._wake()
        if not self._heard:
            error = Disconnected(str(error or "") or "the server closed the connection")
        self._fail(error or Malformed("the server closed the connection in the middle of a response"))

    # Called by the parser.

    def on_message_begin(self) -> None:
        """Rejects a second response to the same request."""
        if self._complete:
            raise Malformed("more than one response")

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in (b"content-length", b"transfer-encoding"):
            self._framed = True
            if name == b"transfer-encoding" and value.strip().lower() != b"chunked":
                raise Malformed("unexpected transfer encoding")
        elif name == b"retry-after" and value.isdigit():
            self._retry_after = float(value)

    def on_headers_complete(self) -> None:
        """Takes the status; 100 Continue and 103 Early Hints precede the actual response."""
        status = self._parser.get_status_code()
        if status >= 200:
            self.status = status
            self._framed = self._framed or status in (204, 304)

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)
        self._size += len(body)

    def on_message_complete(self) -> None:
        if self.status:
            self._complete = True
            self.usable = self._parser.should_keep_alive()
            self.rested = self._loop.time()
        else:
            self._framed = False
