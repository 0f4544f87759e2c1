"""Limits of HTTP servers: rates as token buckets, and what each client address uses.

Nothing here grows with the number of clients: addresses that are at rest are forgotten.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec


class Rate(msgspec.Struct, frozen=True):
    """Actions per second in the long run, and how many may happen at once."""

    per_second: float
    burst: float


class HttpLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of both servers, `front` and `api`: far above what people, jobs, probes and Prometheus need.

    All are tuned by hand. Some are about what only one of them does.
    """

    connections: int = 1000
    """Open connections to one address of a server. One more closes the connection that has been idle longest."""
    connections_each: int = 100
    """Open connections of one client address."""
    requests: Rate = Rate(2_000, 2_000)
    """Requests in total. Health is exempt: a flood by others must not make Maar look dead."""
    requests_each: Rate = Rate(50, 200)
    """Requests of one client address, before its token is looked at."""
    user_requests: Rate = Rate(20, 100)
    """Requests of one user."""
    reviews: Rate = Rate(50, 500)
    """Tokens that the API server is asked about, in total."""
    bad_tokens_each: Rate = Rate(0.2, 20)
    """Unknown or invalid tokens of one client address."""

    head: int = 16 * 1024
    """Bytes of the head of a request."""
    body: int = 1024 * 1024
    """Bytes of a body."""
    bodies: int = 32 * 1024 * 1024
    """Bytes of all bodies that arrive or are being answered."""
    bodies_each: int = 4 * 1024 * 1024
    """Bytes of all bodies of one user."""

    head_seconds: float = 10.0
    """Time for the head of a request to arrive."""
    body_seconds: float = 10.0
    """Time for the body to arrive."""
    answer_seconds: float = 30.0
    """Time for a response, and for the client to read it."""
    idle_seconds: float = 120.0
    """Time after which an unused connection is closed."""
    hung_seconds: float = 10.0
    """Time without a sign of the scheduler after which it counts as hung: far longer than its longest pause."""

    waiting: int = 1_000
    """Requests that wait for the scheduler."""
    measurements: Rate = Rate(500, 5_000)
    """Measurements in total: each costs the scheduler's process some microseconds."""
    measurements_each: Rate = Rate(50, 2_000)
    """Measurements of one namespace."""
    reads: Rate = Rate(2, 10)
    """Reads of stored measurements in total: each costs the scheduler's process some milliseconds."""
    reads_each: Rate = Rate(1, 5)
    """Reads of one namespace."""

    computing: Rate = Rate(0.2, 20)
    """Seconds of computing of one user: what-if questions, forecasts, and searches for what would start a job."""
    reading: Rate = Rate(0.2, 20)
    """Seconds for reading what one user submits. Forecasts do not count here: they never keep a job from being made."""
    computing_at_once: int = 2
    """Questions that are computed at once, each of another user and in a process of its own."""
    computing_waiting: int = 16
    """Questions that wait for their turn."""
    computing_waiting_each: int = 4
    """Questions of one user that wait for their turn."""
    writes: int = 16
    """Requests that write, at once."""
    writes_each: int = 2
    """Requests of one user that write, at once."""
    streams: int = 200
    streams_each: int = 8
    """Streams of one user."""


class TokenBucket:
    """A token bucket."""

    __slots__ = ("_at", "_has", "_rate")

    def __init__(self, rate: Rate, now: float) -> None:
        self._rate = rate
        self._has = rate.burst
        self._at = now

    def take(self, now: float, many: float = 1.0) -> bool:
        """Take tokens if there are enough."""
        self._fill(now)
        if self._has < many:
            return False
        self._has -= many
        return True

    def give_back(self) -> None:
        self._has = min(self._has + 1.0, self._rate.burst)

    def is_full(self, now: float) -> bool:
        self._fill(now)
        return self._has >= self._rate.burst

    def _fill(self, now: float) -> None:
        self._has = min(self._has + max(now - self._at, 0.0) * self._rate.per_second, self._rate.burst)
        self._at = now


K = TypeVar("K")


class Buckets(Generic[K]):
    """A bucket for each key; full buckets are forgotten, and with too many keys the others share one bucket."""

    MANY = 10_000

    def __init__(self, rate: Rate, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._clock = clock
        self._of: dict[K, TokenBucket] = {}
        self._others = TokenBucket(rate, clock())

    def take(self, key: K, many: float = 1.0) -> bool:
        return self._bucket(key).take(self._clock(), many)

    def give_back(self, key: K) -> None:
        self._bucket(key).give_back()

    def _bucket(self, key: K) -> TokenBucket:
        found = self._of.get(key)
        if found is None:
            if len(self._of) >= self.MANY:
                return self._others
            found = self._of[key] = TokenBucket(self._rate, self._clock())
        return found

    def forget(self) -> None:
        now = self._clock()
        self._of = {key: bucket for key, bucket in self._of.items() if not bucket.is_full(now)}

    def __len__(self) -> int:
        return len(self._of)


def client(host: str) -> str:
    """The address that a client's limits belong to: an IPv4 address, or the /64 network of an IPv6 address."""
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    if address.is_loopback:
        return str(address)
    return str(ipaddress.IPv6Network((address, 64), strict=False).network_address)
