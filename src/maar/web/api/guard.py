"""Counts what users of `maar web` do, and refuses what is above the limits: requests, computing time, streams."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager

from maar.web.api.errors import Refused
from maar.web.limits import Buckets, HttpLimits, Rate


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


class UserTurns:
    """A few at once, one of each user, and a limited number of others that wait. Users have their turns in rotation."""

    def __init__(self, at_once: int, most: int, each: int) -> None:
        self._free = at_once
        self._most = most
        self._each = each
        self._working: set[str] = set()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        """Waiting questions by user; the user whose turn is next comes first."""

    @asynccontextmanager
    async def taken(self, user: str) -> AsyncIterator[None]:
        if self._free and user not in self._working:
            self._begin(user)
        else:
            await self._wait(user)
        try:
            yield
        finally:
            self._free += 1
            self._working.discard(user)
            self._next()

    @property
    def waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    async def _wait(self, user: str) -> None:
        mine = self._waiting.get(user, deque())
        if len(mine) >= self._each:
            raise Refused(429, "too many of your questions are waiting", after=5)
        if self.waiting >= self._most:
            raise Refused(503, "too many questions are waiting", after=5)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        mine.append(turn)
        self._waiting[user] = mine
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was hers just now
                self._free += 1
                self._working.discard(user)
            else:
                self._forget(user, turn)
            self._next()
            raise

    def _begin(self, user: str) -> None:
        self._free -= 1
        self._working.add(user)

    def _forget(self, user: str, turn: asyncio.Future[None]) -> None:
        mine = self._waiting[user]
        mine.remove(turn)
        if not mine:
            del self._waiting[user]

    def _next(self) -> None:
        """Let those begin whose turn it is."""
        for user in list(self._waiting):
            if not self._free:
                return
            if user in self._working:
                continue
            turn = self._waiting[user][0]
            self._forget(user, turn)
            if user in self._waiting:
                self._waiting.move_to_end(user)
            self._begin(user)
            turn.set_result(None)


class Guard:
    """Counts what users do."""

    def __init__(self, limits: HttpLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self._clock = clock
        self._addresses: Buckets[str] = Buckets(limits.requests_each, clock)
        self._users: Buckets[str] = Buckets(limits.user_requests, clock)
        self._spending = Spending(limits.computing, clock)
        self._reading = Spending(limits.reading, clock)
        waiting = limits.computing_waiting, limits.computing_waiting_each
        self._turns = UserTurns(limits.computing_at_once, *waiting)
        self._forecasts = UserTurns(1, *waiting)
        self._readings = UserTurns(1, *waiting)
        self._bodies: Counter[str] = Counter()
        self._streams: Counter[str] = Counter()
        self._writes: Counter[str] = Counter()

    @property
    def waiting(self) -> int:
        """Questions that wait for their turn."""
        return self._turns.waiting

    @property
    def held(self) -> int:
        """Bytes of bodies that arrive or are being answered."""
        return self._bodies.total()

    def forget(self) -> None:
        self._addresses.forget()
        self._users.forget()

    def from_address(self, client: str) -> None:
        if not self._addresses.take(client):
            raise Refused(429, "too many requests from this address", after=1)

    def from_user(self, user: str) -> None:
        if not self._users.take(user):
            raise Refused(429, "too many requests", after=1)

    def computing(self, user: str, *, forecast: bool = False) -> AbstractAsyncContextManager[Bill]:
        """A few expensive questions at once, paid by their users. Forecasts have their own turns: they take longer."""
        return self._billed(user, self._spending, self._forecasts if forecast else self._turns)

    def reading(self, user: str) -> AbstractAsyncContextManager[Bill]:
        """Reading a submission: it waits for no question, and has turns and an account of its own."""
        return self._billed(user, self._reading, self._readings)

    @asynccontextmanager
    async def _billed(self, user: str, spending: Spending, turns: UserTurns) -> AsyncIterator[Bill]:
        spending.check(user)
        async with turns.taken(user):
            begun, bill = self._clock(), Bill()
            try:
                spending.check(user)  # earlier questions of hers may have used it up
                yield bill
            finally:
                passed = self._clock() - begun
                spending.spend(user, passed if bill.seconds is None else bill.seconds)

    @contextmanager
    def holding(self, user: str) -> Iterator[Callable[[int], None]]:
        """Holding the body of a request until it is answered; what is yielded counts its bytes before they are kept."""
        held = 0

        def more(size: int) -> None:
            nonlocal held
            if self._bodies[user] + size > self.limits.bodies_each or self._bodies.total() + size > self.limits.bodies:
                raise Refused(429, "too many large requests at once", after=5)
            held += size
            self._bodies[user] += size

        try:
            yield more
        finally:
            self._bodies[user] -= held
            if not self._bodies[user]:
                del self._bodies[user]

    def streaming(self, user: str) -> AbstractContextManager[None]:
        refused = Refused(429, "too many streams", after=10)
        return _counted(self._streams, user, self.limits.streams, self.limits.streams_each, refused)

    def writing(self, user: str) -> AbstractContextManager[None]:
        refused = Refused(429, "too many writes at once", after=1)
        return _counted(self._writes, user, self.limits.writes, self.limits.writes_each, refused)


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
