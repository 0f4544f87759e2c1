"""What the HTTP process asks the scheduler: pages, tokens, measurements. Few questions at once, each with a timeout."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from maar.web.front.answers import later
from maar.web.messages import MeasurementBatch, Message, Page, Post, WantPage

SILENT = "the scheduler does not answer"
PATIENCE = 5.0
"""Seconds until a question counts as not answered."""
GATHER = 0.5
"""Minimum seconds between two batches of measurements: each is one transaction of the scheduler's database."""
QUEUE = 10_000
"""Measurements that wait for the next batch."""

T = TypeVar("T")
Send = Callable[[Message], None]


async def patient(future: asyncio.Future[T]) -> T:
    """The answer; refuses the request if there is none in time."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await asyncio.shield(future)
    except TimeoutError:
        raise later(SILENT, 5) from None


class Questions(Generic[T]):
    """Questions with a number, and answers that name it."""

    def __init__(self, send: Send, most: int) -> None:
        self._send = send
        self._most = most
        self._open: dict[int, asyncio.Future[T]] = {}
        self._last = 0

    async def ask(self, message: Callable[[int], Message]) -> T:
        if len(self._open) >= self._most:
            raise later("too many requests wait for the scheduler", 5)
        self._last += 1
        number = self._last
        future = self._open[number] = asyncio.get_running_loop().create_future()
        self._send(message(number))
        try:
            return await patient(future)
        finally:
            self._open.pop(number, None)

    def answered(self, number: int, answer: T) -> None:
        future = self._open.get(number)
        if future is not None and not future.done():
            future.set_result(answer)


class Pages:
    """The metrics: asked for when a client wants them and the last ones are old; all clients share one answer."""

    def __init__(self, send: Send, clock: Callable[[], float]) -> None:
        self._send = send
        self._clock = clock
        self._body = b""
        self._until = float("-inf")
        self._coming: asyncio.Future[bytes] | None = None
        self._asked_at = float("-inf")

    @property
    def fresh(self) -> bytes | None:
        return self._body if self._clock() < self._until else None

    async def wait(self) -> bytes:
        now = self._clock()
        if self._coming is None or now - self._asked_at > PATIENCE:
            if self._coming is None:
                self._coming = asyncio.get_running_loop().create_future()
            self._asked_at = now
            self._send(WantPage())
        return await patient(self._coming)

    def take(self, page: Page) -> None:
        self._body, self._until = page.body, self._clock() + page.good_for
        if self._coming is not None:
            self._coming.set_result(page.body)
            self._coming = None


class Posts:
    """Measurements on their way to the scheduler, in batches, one at a time."""

    def __init__(self, send: Send, clock: Callable[[], float]) -> None:
        self._send = send
        self._clock = clock
        self._queue: list[tuple[Post, asyncio.Future[str]]] = []
        self._size = 0
        self._sent: list[asyncio.Future[str]] = []
        self._last = float("-inf")
        self._timer: asyncio.TimerHandle | None = None

    async def put(self, post: Post) -> str:
        """Why the scheduler refuses the measurements; empty if it accepts them."""
        if self._size + len(post.reports) > QUEUE:
            return "queue of measurements is full"
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._queue.append((post, future))
        self._size += len(post.reports)
        self._schedule()
        return await patient(future)

    def answered(self, problems: list[str]) -> None:
        for future, problem in zip(self._sent, problems, strict=True):
            if not future.done():
                future.set_result(problem)
        self._sent = []
        self._schedule()

    def _schedule(self) -> None:
        if self._queue and not self._sent and self._timer is None:
            wait = max(self._last + GATHER - self._clock(), 0.0)
            self._timer = asyncio.get_running_loop().call_later(wait, self._flush)

    def _flush(self) -> None:
        self._timer = None
        self._last = self._clock()
        queue, self._queue, self._size = self._queue, [], 0
        self._sent = [future for _, future in queue]
        self._send(MeasurementBatch([post for post, _ in queue]))
