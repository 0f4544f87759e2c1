"""Who may report on which job: the administrator's token, or a ServiceAccount token of the job's own namespace.

The API server checks ServiceAccount tokens (TokenReview). Its answers are kept for some minutes, and it is asked
rarely: a token that does not name a ServiceAccount of the job's namespace is refused without asking, the answer about
an invalid token is kept too, and each client address may send only a few unknown tokens.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Awaitable, Callable
from pathlib import Path

from maar.files import read_regular
from maar.web.front.answers import Refused, later
from maar.web.front.limits import Bucket, Buckets, Limits
from maar.web.front.tokens import Claims, Kept, claims_in

AUDIENCE = "maar"
"""The audience of tokens that are made for Maar only. Other tokens must be for the API server itself."""
PREFIX = "system:serviceaccount:"
GOOD_SECONDS = 300.0
"""How long a valid token is believed. Longer means fewer requests; a deleted pod's token works until then."""
BAD_SECONDS = 60.0
"""How long an invalid token stays invalid."""
KEPT = 10_000
"""Answers that are kept, of each kind."""

Verdict = tuple[str, str]
"""The user name, empty if the token is invalid; and why the API server could not be asked."""
Ask = Callable[[str, str], Awaitable[Verdict]]
"""Asks the API server about a token and its audience."""


class Access:
    """Checks tokens."""

    def __init__(self, ask: Ask, token_file: Path | None, limits: Limits, clock: Callable[[], float]) -> None:
        self._ask = ask
        self._token_file = token_file
        self._clock = clock
        self._good: Kept[bytes, str] = Kept(clock, GOOD_SECONDS, KEPT)
        self._bad: Kept[bytes, str] = Kept(clock, BAD_SECONDS, KEPT)
        self._asked: dict[bytes, asyncio.Future[Verdict]] = {}
        self._reviews = Bucket(limits.reviews, clock())
        self._bad_tokens: Buckets[str] = Buckets(limits.bad_tokens_each, clock)

    def precheck(self, header: str, namespace: str) -> None:
        """Refuse what needs no question, before the body of a request is read."""
        token = _bearer(header)
        if not self._is_admin(token):
            _claims(token, namespace)

    async def check(self, header: str, namespace: str, client: str) -> None:
        """Refuse a request unless its token allows it to act for jobs of a namespace."""
        token = _bearer(header)
        if self._is_admin(token):
            return
        claims = _claims(token, namespace)
        user = await self._user(token, claims, client)
        if not user:
            raise _unauthorized("the API server does not accept the token")
        if not user.startswith(f"{PREFIX}{namespace}:"):
            raise _forbidden(namespace, user)

    def forget(self) -> None:
        self._bad_tokens.forget()

    def _is_admin(self, token: str) -> bool:
        """Compare with the administrator's token. The file is read each time, because secrets are rotated."""
        if self._token_file is None:
            return False
        try:
            wanted = read_regular(self._token_file).strip()
        except OSError:
            return False
        return bool(wanted) and hmac.compare_digest(wanted, token.encode("latin-1", "replace"))

    async def _user(self, token: str, claims: Claims, client: str) -> str:
        key = hashlib.sha256(token.encode("latin-1", "replace")).digest()
        if (known := self._good.get(key) or self._bad.get(key)) is not None:
            return known[0]
        asked = self._asked.get(key)
        if asked is None:
            self._limit(client)
            asked = asyncio.ensure_future(self._ask(token, AUDIENCE if claims.is_for(AUDIENCE) else ""))
            self._asked[key] = asked
            asked.add_done_callback(lambda done: self._learn(key, client, done))
        name, problem = await asyncio.shield(asked)
        if problem:
            raise later(f"cannot check the token: {problem}", 10)
        return name

    def _limit(self, client: str) -> None:
        if not self._bad_tokens.take(client):
            raise later("too many unknown tokens from this address", 10, status=429)
        if not self._reviews.take(self._clock()):
            self._bad_tokens.give_back(client)
            raise later("too many unknown tokens", 5)

    def _learn(self, key: bytes, client: str, done: asyncio.Future[Verdict]) -> None:
        self._asked.pop(key, None)
        if done.cancelled() or done.exception() is not None:
            return
        user, problem = done.result()
        if user or problem:
            self._bad_tokens.give_back(client)
        if not problem:
            (self._good if user else self._bad).put(key, user)


def _bearer(header: str) -> str:
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise _unauthorized("a token is required: `Authorization: Bearer ...`")
    return token.strip()


def _claims(token: str, namespace: str) -> Claims:
    """What a token says about itself, not yet checked: it must be of a ServiceAccount of the namespace."""
    claims = claims_in(token)
    if claims is None or claims.sub is None:
        raise _unauthorized("neither a token of a ServiceAccount nor the administrator's")
    if not claims.sub.startswith(PREFIX):
        raise _unauthorized("not a token of a ServiceAccount")
    if not claims.sub.startswith(f"{PREFIX}{namespace}:"):
        raise _forbidden(namespace, claims.sub)
    return claims


def _unauthorized(why: str) -> Refused:
    return Refused(401, why, WWW_Authenticate="Bearer")


def _forbidden(namespace: str, user: str) -> Refused:
    shown = user[:200].encode("ascii", "backslashreplace").decode()
    return Refused(403, f"jobs of namespace `{namespace}` need a token of that namespace, got one of `{shown}`")
