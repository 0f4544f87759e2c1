"""Who sends a bearer token: what it says about itself, what the API server says about it, and how often that is asked.

Both HTTP servers use it: `api` for people who ask, `front` for jobs that report. The API server is asked rarely: its
answers are kept, and there is a limit on unknown tokens, for each client address and for all together. Tokens are kept
only as their hash, and never logged. The HTTP process of `maar run` imports this module, so it imports little.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, TypeVar

import msgspec

from maar.web.limits import Buckets, HttpLimits, TokenBucket

logger = logging.getLogger("maar.web")

AUDIENCE = "maar.dev"
"""The audience of tokens that are made for Maar only. Other tokens must be for the API server itself."""
OLD_AUDIENCE = "maar"
"""What it was for reports of jobs before: accepted in this release, with a warning."""
SECONDS = 60.0
"""How long an answer of the API server is believed. Longer means fewer questions; a deleted pod's token works until
then."""
KEPT = 20_000
"""Answers that are kept, of each kind."""
LONGEST = 16 * 1024
"""Characters of a token."""

K = TypeVar("K")
V = TypeVar("V")
U = TypeVar("U")


class Denied(Exception):
    """Why a token is not accepted, or cannot be checked: a status of HTTP, and when to try again."""

    def __init__(self, status: int, why: str, after: int = 0) -> None:
        super().__init__(why)
        self.status = status
        self.after = after


class TokenClaims(msgspec.Struct):
    """The part of a token that is looked at before the API server has checked it."""

    sub: str | None = None
    aud: str | list[str] = ""

    def is_for(self, audience: str) -> bool:
        """Whether the token says that it is for this audience."""
        return audience in ([self.aud] if isinstance(self.aud, str) else self.aud)


def claims_in(token: str) -> TokenClaims | None:
    """What a token says about itself; `None` if it is not a JSON Web Token."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        payload = base64.urlsafe_b64decode(parts[1].encode("ascii") + b"=" * (-len(parts[1]) % 4))
        return msgspec.json.decode(payload, type=TokenClaims)
    except (ValueError, binascii.Error, msgspec.DecodeError):
        return None


class KeptAnswers(Generic[K, V]):
    """Answers for a limited time and in a limited number; the oldest go first."""

    def __init__(self, clock: Callable[[], float], seconds: float, most: int) -> None:
        self._clock = clock
        self._seconds = seconds
        self._most = most
        self._of: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def get(self, key: K) -> tuple[V] | None:
        """The answer in a tuple; `None` if it is not known."""
        found = self._of.get(key)
        if found is None:
            return None
        until, value = found
        if until <= self._clock():
            del self._of[key]
            return None
        return (value,)

    def put(self, key: K, value: V) -> None:
        self._of.pop(key, None)
        self._of[key] = (self._clock() + self._seconds, value)
        if len(self._of) > self._most:
            self._of.popitem(last=False)


class Tokens(Generic[U]):
    """Asks whose token it is. `review` asks the API server about a token and its audience (empty: its own)."""

    def __init__(
        self, review: Callable[[str, str], Awaitable[U | None]], limits: HttpLimits, clock: Callable[[], float]
    ) -> None:
        self._review = review
        self._clock = clock
        self._users: KeptAnswers[bytes, U | None] = KeptAnswers(clock, SECONDS, KEPT)
        self._asked: dict[bytes, asyncio.Task[U | None]] = {}
        """Questions on their way."""
        self._questions = TokenBucket(limits.reviews, clock())
        self._bad: Buckets[str] = Buckets(limits.bad_tokens_each, clock)
        self._warned = False

    def forget(self) -> None:
        self._bad.forget()

    async def user(self, token: str, client: str, *, again: bool = False) -> U:
        """Whose token it is; raises `Denied`. `again`: what was known about it is not believed."""
        key = hashlib.sha256(token.encode()).digest()
        known = None if again else self._users.get(key)
        user = known[0] if known is not None else await once(self._asked, key, lambda: self._ask(token, key, client))
        if user is None:
            raise Denied(401, "the API server does not accept the token")
        return user

    async def _ask(self, token: str, key: bytes, client: str) -> U | None:
        if not self._bad.take(client):
            raise Denied(429, "too many unknown tokens from this address", 10)
        if not self._questions.take(self._clock()):
            self._bad.give_back(client)
            raise Denied(503, "too many unknown tokens", 5)
        claims = claims_in(token)
        for_us = (each for each in (AUDIENCE, OLD_AUDIENCE) if claims is not None and claims.is_for(each))
        audience = next(for_us, "")
        try:
            user = await self._review(token, audience)
        except Exception:
            self._bad.give_back(client)
            raise
        if user is not None:
            self._bad.give_back(client)
            self._warn(audience)
        self._users.put(key, user)
        return user

    def _warn(self, audience: str) -> None:
        if audience == OLD_AUDIENCE and not self._warned:
            self._warned = True
            logger.warning(
                "a token is for the audience `%s`, which the next release refuses: make tokens for the audience `%s`",
                OLD_AUDIENCE,
                AUDIENCE,
            )


async def once(asked: dict[K, asyncio.Task[V]], key: K, ask: Callable[[], Coroutine[Any, Any, V]]) -> V:
    """The answer to a question that may be on its way already."""
    task = asked.get(key)
    if task is None:
        task = asked[key] = asyncio.create_task(ask())

        def forget(done: asyncio.Task[V]) -> None:
            asked.pop(key, None)
            if not done.cancelled():
                done.exception()  # so that asyncio does not report it if nobody waits any more

        task.add_done_callback(forget)
    return await asyncio.shield(task)


def bearer(header: str) -> str:
    """The token in an `Authorization` header; raises `Denied`."""
    scheme, _, token = header.partition(" ")
    token = token.strip()
    plain = token.isascii() and token.isprintable()
    if scheme.lower() != "bearer" or not token or len(token) > LONGEST or not plain:
        raise Denied(401, "a token is required: `Authorization: Bearer ...`")
    return token
