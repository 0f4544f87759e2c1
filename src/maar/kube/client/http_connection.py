"""One connection to an API server: a request goes out in one write, and its answer is awaited.

Between `maar.kube.client.http_pool`, which has several of them, and `maar.kube.client.http_answer`, which reads what
comes. It is a protocol and no stream: a stream is a second buffer with waiters of its own.
"""

from __future__ import annotations

import asyncio
from typing import cast

from maar.kube.client.http_answer import Answer, Garbled, Reading, reading


class HungUp(ConnectionError):
    """The connection ended before a byte of the answer came: whether the request was carried out, nobody knows."""


class Connection(asyncio.Protocol):
    """To one server; among `known` for as long as it is open."""

    def __init__(self, server: str, known: set[Connection]) -> None:
        self.server = server
        self.usable = False
        """Whether a request may go out on it: neither side has hung up."""
        self.rested = 0.0
        """Since when it waits for a request, by the loop's clock."""
        self._known = known
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._heard = False
        self._reading: Reading | None = None
        self._waiting: asyncio.Future[Answer] | None = None
        """Neither is kept after the answer, which may be a long list."""

    def ask(self, request: bytes, bodiless: bool) -> asyncio.Future[Answer]:
        """Send a request, where no other is under way. Who stops waiting for the answer must `abort` the connection."""
        if self._transport is None or not self.usable:
            raise HungUp("the server hung up")
        self._heard = False
        self._reading = reading(bodiless)
        next(self._reading)
        self._waiting = waiting = self._loop.create_future()
        self._transport.write(request)
        return waiting

    def abort(self) -> None:
        """Hang up at once, without TLS's goodbyes; a request under way fails."""
        self.usable = False
        self._fail(ConnectionAbortedError("the connection was closed"))
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: it is open, and TLS agreed."""
        self._transport = cast(asyncio.Transport, transport)
        self.usable = True
        self._known.add(self)

    def data_received(self, data: bytes) -> None:
        """asyncio: something came."""
        self._heard = True
        if self._reading is not None:
            self._read(data)
        else:
            # Nobody has asked: a server that says why it hangs up, or that says too much.
            self.abort()

    def eof_received(self) -> None:
        """asyncio: nothing more will come; it closes the connection after this."""
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: it is closed, whoever did it."""
        self._end(exc)
        self._known.discard(self)

    def _end(self, error: Exception | None) -> None:
        self.usable = False
        if not self._heard:
            self._fail(HungUp(str(error or "") or "the server hung up"))
        elif error is not None:
            self._fail(error)
        elif self._reading is not None:
            self._read(b"")

    def _read(self, data: bytes) -> None:
        assert self._reading is not None
        try:
            self._reading.send(data)
        except StopIteration as whole:
            waiting = self._done()
            if waiting is not None:
                waiting.set_result(whole.value)
        except Garbled as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        waiting = self._done()
        if waiting is not None:
            waiting.set_exception(error)

    def _done(self) -> asyncio.Future[Answer] | None:
        """Nothing is under way any more; who waited for it, if somebody still does."""
        waiting, self._waiting, self._reading = self._waiting, None, None
        return waiting if waiting is not None and not waiting.done() else None
