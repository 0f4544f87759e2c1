"""Limits of `maar web`: requests and computing time of each user, work at once, streams. Tuned by hand."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import msgspec

from maar.web.api.errors import Refused
from maar.web.front.limits import Buckets, Rate


class Limits(msgspec.Struct, frozen=True):
    """All limits."""

    body: int = 1024 * 1024
    """Bytes of a body."""
    body_seconds: float = 10.0
    head_seconds: float = 10.0
    """Time for the first request of a connection to arrive."""
    connections: int = 1000
    connections_each: int = 100
    """Of one client address."""
    requests_each: Rate = Rate(50, 200)
    """Requests of one client address, before its token is looked at."""
    requests: Rate = Rate(20, 100)
    """Requests of one user."""
    computing: Rate = Rate(0.2, 20)
    """Seconds of computing of one user: what-if questions, forecasts, and searches for what would start a job."""
    reading: Rate = Rate(0.2, 20)
    """Seconds for reading what one user submits. Forecasts do not count here: they never keep a job from being made."""
    computing_waiting: int = 16
    """Questions that wait for their turn; they are computed one after the other."""
    writes: int = 16
    """Requests that write, at once."""
    writes_each: int = 2
    """Those of one user."""
    streams: int = 200
    streams_each: int = 8
    """Streams of one user."""


class Spending:
    """Seconds of computing by user. A question is answered while there is credit, and may leave a debt."""

    MANY = 10_000

    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._has: dict[str, tuple[float, float]] = {}

    def credit(self, user: str) -> float:
        has, at = self._has.get(user, (self._rate.burst, self._clock()))
        return min(has + (self._clock() - at) * self._rate.per_second, self._rate.burst)

    def check(self, user: str) -> None:
        if (has := self.credit(user)) <= 0:
            wait = 1 + int(-has / self._rate.per_second)
            raise Refused(429, f"too much computing: ask again in {wait} s", after=wait)

    def spend(self, user: str, seconds: float) -> None:
        self._has[user] = (self.credit(user) - seconds, self._clock())
        if len(self._has) > self.MANY:
            self._has = {name: pair for name, pair in self._has.items() if self.credit(name) < self._rate.burst}


class Bill:
    """What a question costs its user."""

    def __init__(self) -> None:
        self.seconds: float | None = None
        """The CPU seconds of another process; the time that passes, where none is stated."""


class Turn:
    """One at a time, and a limited number of others that wait."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._free = asyncio.Semaphore(1)
        self._waiting = 0

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        if self._waiting >= self._most:
            raise Refused(503, "too many questions are waiting", after=5)
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._free.release()


class Guard:
    """Counts what users do."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self._clock = clock
        self._addresses: Buckets[str] = Buckets(limits.requests_each, clock)
        self._users: Buckets[str] = Buckets(limits.requests, clock)
        self._spending = Spending(limits.computing, clock)
        self._reading = Spending(limits.reading, clock)
        self._turn = Turn(limits.computing_waiting)
        self._forecast = Turn(limits.computing_waiting)
        self._streams: Counter[str] = Counter()
        self._writes: Counter[str] = Counter()

    def forget(self) -> None:
        self._addresses.forget()
        self._users.forget()

    def from_address(self, client: str) -> None:
        if not self._addresses.take(client):
            raise Refused(429, "too many requests from this address", after=1)

    def from_user(self, user: str) -> None:
        if not self._users.take(user):
            raise Refused(429, "too many requests", after=1)

    @asynccontextmanager
    async def computing(self, user: str, *, forecast: bool = False) -> AsyncIterator[Bill]:
        """One expensive question at a time, paid by the user. Forecasts have a turn of their own: they take longer."""
        self._spending.check(user)
        async with (self._forecast if forecast else self._turn).taken():
            begun, bill = self._clock(), Bill()
            try:
                self._spending.check(user)  # earlier questions of hers may have used it up
                yield bill
            finally:
                passed = self._clock() - begun
                self._spending.spend(user, passed if bill.seconds is None else bill.seconds)

    @contextmanager
    def reading(self, user: str) -> Iterator[None]:
        """Reading a submission: it waits for no turn, and has an account of its own."""
        self._reading.check(user)
        begun = self._clock()
        try:
            yield
        finally:
            self._reading.spend(user, self._clock() - begun)

    @contextmanager
    def streaming(self, user: str) -> Iterator[None]:
        limits = self.limits
        with _counted(
            self._streams, user, limits.streams, limits.streams_each, Refused(429, "too many streams", after=10)
        ):
            yield

    @contextmanager
    def writing(self, user: str) -> Iterator[None]:
        limits, refused = self.limits, Refused(429, "too many writes at once", after=1)
        with _counted(self._writes, user, limits.writes, limits.writes_each, refused):
            yield


@contextmanager
def _counted(of: Counter[str], user: str, most: int, each: int, refused: Refused) -> Iterator[None]:
    if of.total() >= most or of[user] >= each:
        raise refused
    of[user] += 1
    try:
        yield
    finally:
        of[user] -= 1
        if not of[user]:
            del of[user]
