"""Connections of the HTTP process: the bytes of requests in, the bytes of responses out, with limits on everything.

Written by hand around the parser of httptools, because a server library limits neither the memory of clients that read
slowly nor the time of clients that send slowly, and takes longer to import. Measured with 1,000 requests a second for a
page of 20 kB, with a parser of our own: 16 % of one core, 29 MB, and 0.1 s to start; aiohttp takes 20 %, 39 MB, 0.4 s.

A connection that does not wait for a response may be closed at any time to make room for a new one, the oldest first:
clients that only hold connections cannot keep others out.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from maar.web.front.answers import FrontAnswer, RequestHead, RequestReader, RequestRefused, head_of, later
from maar.web.limits import HttpLimits, client

logger = logging.getLogger("maar.web")

PIECE = 64 * 1024
"""Bytes that are written at once: no more of a response is held for a client that reads slowly."""
TURN = 8
"""Heads and bodies of one connection that are taken before other connections have their turn; tuned by hand."""
LINGER_SECONDS = 2.0
"""Time to let a refused client read the refusal before the connection is closed; tuned by hand."""
FULL = "too many connections"
END = b"\r\n\r\n"
"""The end of the head of a request."""


class Handler(Protocol):
    """What answers requests."""

    def admit(self, head: RequestHead, client: str, served: frozenset[str]) -> None:
        """Raise `RequestRefused`, before the body is read."""

    def answer(self, head: RequestHead, body: bytes, client: str) -> FrontAnswer | Coroutine[Any, Any, FrontAnswer]:
        """The response; may raise `RequestRefused`."""


class House:
    """What all doors share: limits, the handler, and counts."""

    def __init__(self, handler: Handler, limits: HttpLimits, clock: Callable[[], float]) -> None:
        self.handler = handler
        self.limits = limits
        self.clock = clock
        self.responses: Counter[int] = Counter()
        """Responses since the counts were last taken, by status code."""
        self.bodies = 0
        """Bytes of bodies that are arriving."""
        self.doors: list[Door] = []

    @property
    def connections(self) -> int:
        return sum(len(door.open) for door in self.doors)

    def sweep(self) -> None:
        """Close connections that have taken too long."""
        now = self.clock()
        for door in self.doors:
            for connection in [c for c in door.open if now > c.due]:
                connection.expire()


class Door:
    """One listening address, and its open connections."""

    def __init__(self, house: House, served: frozenset[str], most: int) -> None:
        """`served` are the groups of paths that are served here; `most` connections may be open."""
        self.house = house
        self.served = served
        self._most = most
        self.open: dict[FrontConnection, None] = {}
        self._quiet: dict[FrontConnection, None] = {}
        """Connections that do not wait for a response, the oldest first."""
        self._of: Counter[str] = Counter()
        house.doors.append(self)

    def __call__(self) -> FrontConnection:
        return FrontConnection(self)

    def enter(self, connection: FrontConnection) -> bool:
        """Let a connection in, maybe by closing an older one; False if there is no room."""
        room = True
        if self._of[connection.client] >= self.house.limits.connections_each:
            room = self._make_room(connection.client)
        elif len(self.open) >= self._most:
            room = self._make_room()
        if room:
            self.open[connection] = None
            self._of[connection.client] += 1
            self.rest(connection)
        return room

    def _make_room(self, client: str = "") -> bool:
        for oldest in self._quiet:
            if not client or oldest.client == client:
                self.leave(oldest)
                oldest.abort()
                return True
        return False

    def rest(self, connection: FrontConnection) -> None:
        self._quiet.pop(connection, None)
        self._quiet[connection] = None

    def work(self, connection: FrontConnection) -> None:
        self._quiet.pop(connection, None)

    def leave(self, connection: FrontConnection) -> None:
        self._quiet.pop(connection, None)
        if connection in self.open:
            del self.open[connection]
            self._of[connection.client] -= 1
            if not self._of[connection.client]:
                del self._of[connection.client]


class Stage(enum.Enum):
    HEAD = enum.auto()
    BODY = enum.auto()
    ANSWER = enum.auto()
    """The handler works."""
    SEND = enum.auto()
    LINGER = enum.auto()
    """The response is the last one; what still arrives is dropped."""


class FrontConnection(asyncio.Protocol):
    """One connection."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._house = door.house
        self.client = ""
        self.due = 0.0
        """When the current stage must be over."""
        self._transport: asyncio.Transport | None = None
        self._stage = Stage.HEAD
        self._arrived = bytearray()
        self._reader: RequestReader | None = None
        """The reader of the request whose head is arriving; `None`: nothing of it has arrived."""
        self._read = 0
        """Bytes of `_arrived` that the reader has."""
        self._head: RequestHead | None = None
        """The head of the request whose body is arriving."""
        self._reserved = 0
        self._task: asyncio.Task[None] | None = None
        self._out = memoryview(b"")
        self._keep = True
        self._served = False
        """Whether a request was answered."""
        self._held_back = False
        self._goes_on = False
        """Whether more requests have arrived, which are taken in the next turn."""

    # -- the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=PIECE)
        peer = transport.get_extra_info("peername")
        self.client = client(peer[0]) if peer else ""
        self.due = self._house.clock() + self._house.limits.head_seconds
        if not self._door.enter(self):
            self._send(later(FULL, 5).answer, keep=False)
            transport.close()

    def connection_lost(self, _: Exception | None) -> None:
        self._door.leave(self)
        self._release()
        if self._task is not None:
            self._task.cancel()
        self._transport = None

    def data_received(self, data: bytes) -> None:
        if self._stage is Stage.LINGER or self._transport is None:
            return
        self._arrived += data
        if self._stage in (Stage.HEAD, Stage.BODY) and not self._goes_on:
            self._advance()
        else:
            self._slow_down()

    def pause_writing(self) -> None:
        self._held_back = True

    def resume_writing(self) -> None:
        self._held_back = False
        self._push()
        if not self._goes_on:
            self._advance()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def expire(self) -> None:
        """The stage took too long."""
        if self._stage is Stage.BODY or (self._stage is Stage.HEAD and self._arrived):
            self._refuse(RequestRefused(408, f"incomplete after {self._house.limits.body_seconds:g} s"))
        else:
            self.abort()

    # -- requests

    def _advance(self) -> None:
        """Take the requests that have arrived, a few in one turn."""
        self._goes_on = False
        if self._transport is None:
            return
        steps = {Stage.HEAD: self._take_head, Stage.BODY: self._take_body}
        for _ in range(TURN):
            try:
                if self._stage not in steps or not steps[self._stage]():
                    return
            except RequestRefused as refused:
                self._refuse(refused)
        if self._arrived and self._stage in steps:
            self._goes_on = True
            self._slow_down()
            asyncio.get_running_loop().call_soon(self._advance)

    def _slow_down(self) -> None:
        """Read no more from a client that sends requests before it has read the last response."""
        if self._transport is not None and len(self._arrived) > self._house.limits.head:
            self._transport.pause_reading()

    def _take_head(self) -> bool:
        arrived, limits = self._arrived, self._house.limits
        if not arrived:
            return False
        if self._reader is None:
            self._reader, self._read = RequestReader(), 0
            if self._served:  # a further request: until now the connection was idle
                self.due = self._house.clock() + limits.head_seconds
        reader = self._reader
        end = arrived.find(END, max(self._read - len(END) + 1, 0), limits.head + len(END))
        upto = end + len(END) if end >= 0 else min(len(arrived), limits.head)
        reader.feed(bytes(memoryview(arrived)[self._read : upto]))
        self._read = upto
        if end < 0:
            if len(arrived) > limits.head:
                raise RequestRefused(431, f"the head has more than {limits.head} bytes")
            return False
        del arrived[:upto]
        head = reader.head()
        self._reader = None
        try:
            self._house.handler.admit(head, self.client, self._door.served)
        except RequestRefused as refused:
            if head.length:
                raise  # the body follows, and is not read
            self._send(refused.answer, head.keep, head.method != "HEAD")
            return True
        if not head.length:
            self._answer(head, b"")
            return True
        if head.length > limits.body:
            raise RequestRefused(413, f"the body has more than {limits.body} bytes")
        if self._house.bodies + head.length > limits.bodies:
            raise later("too many requests are arriving", 5)
        self._house.bodies += head.length
        self._reserved = head.length
        self._head, self._stage, self.due = head, Stage.BODY, self._house.clock() + limits.body_seconds
        if head.headers.get("expect", "").lower() == "100-continue" and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return True

    def _take_body(self) -> bool:
        head = self._head
        assert head is not None
        if len(self._arrived) < head.length:
            return False
        body = bytes(memoryview(self._arrived)[: head.length])
        del self._arrived[: head.length]
        self._head = None
        self._release()
        self._answer(head, body)
        return True

    def _release(self) -> None:
        self._house.bodies -= self._reserved
        self._reserved = 0

    # -- responses

    def _answer(self, head: RequestHead, body: bytes) -> None:
        self._stage, self.due = Stage.ANSWER, self._house.clock() + self._house.limits.answer_seconds
        self._door.work(self)
        try:
            found = self._house.handler.answer(head, body, self.client)
        except RequestRefused as refused:
            found = refused.answer
        except Exception:
            logger.exception("a request failed: %s", head.method)
            found = FrontAnswer(500, b"internal error, see the log")
        if isinstance(found, FrontAnswer):
            self._send(found, head.keep, head.method != "HEAD")
        else:
            self._task = asyncio.create_task(self._wait(head, found))

    async def _wait(self, head: RequestHead, working: Coroutine[Any, Any, FrontAnswer]) -> None:
        try:
            answer = await working
        except RequestRefused as refused:
            answer = refused.answer
        except Exception:
            logger.exception("a request failed: %s", head.method)
            answer = FrontAnswer(500, b"internal error, see the log")
        self._task = None
        if self._transport is not None:
            self._send(answer, head.keep, head.method != "HEAD")
            self._advance()

    def _refuse(self, refused: RequestRefused) -> None:
        """Refuse what is no request, or has not arrived completely. Nobody knows where the next one begins: the
        connection ends."""
        self._release()
        self._send(refused.answer, keep=False)

    def _send(self, answer: FrontAnswer, keep: bool, with_body: bool = True) -> None:
        self._house.responses[answer.status] += 1
        self._served = True
        head, body = head_of(answer, keep), answer.body if with_body else b""
        # A long body is not copied: all clients that read a page share its bytes.
        self._out = memoryview(head + body if len(body) < PIECE else body)
        self._keep = keep
        self._stage, self.due = Stage.SEND, self._house.clock() + self._house.limits.answer_seconds
        if self in self._door.open:
            self._door.rest(self)
        if len(body) >= PIECE and self._transport is not None:
            self._transport.write(head)
        self._push()

    def _push(self) -> None:
        """Send as much as the client takes; then go on with the next request."""
        transport = self._transport
        if self._stage is not Stage.SEND or transport is None:
            return
        while self._out and not self._held_back:
            piece, self._out = self._out[:PIECE], self._out[PIECE:]
            transport.write(piece)
        if self._out or self._held_back:
            return
        now = self._house.clock()
        if not self._keep:
            self._stage, self.due = Stage.LINGER, now + LINGER_SECONDS
            self._arrived.clear()
            transport.resume_reading()
            if transport.can_write_eof() and not transport.is_closing():
                transport.write_eof()
            return
        self._stage, self.due = Stage.HEAD, now + self._house.limits.idle_seconds
        transport.resume_reading()
