"""Who asks, and what she may see: bearer tokens by TokenReview, rights by SubjectAccessReview.

A viewer may see the jobs of namespaces in which she may list pods: asked cluster-wide first, then for each namespace.
Answers are kept for a minute, tokens only as their hash. If the API server cannot be asked, nothing is shown.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

import msgspec

from maar.kube.client.errors import ApiError
from maar.kube.client.reader import Reader
from maar.kube.wire.api_resources import ACCESS_REVIEWS, TOKEN_REVIEWS, Resource
from maar.views.sight import ALL, Sight
from maar.web.api.errors import Refused
from maar.web.front.limits import Bucket, Buckets, Rate
from maar.web.front.tokens import Kept, claims_in
from maar.web.reviews import TokenReview, User, token_review

logger = logging.getLogger("maar.web")

AUDIENCE = "maar.dev"
"""The audience of tokens that are made for Maar only. Other tokens must be for the API server itself."""
SECONDS = 60.0
"""How long an answer of the API server is believed, and how often a stream asks again."""
KEPT = 20_000
"""Answers that are kept, of each kind."""
AT_ONCE = 8
"""Questions to the API server in flight."""
TIMEOUT = 5.0
LONGEST = 16 * 1024
"""Characters of a token."""
QUESTIONS = Rate(50, 500)
"""Tokens that the API server is asked about, in total."""
BAD_TOKENS = Rate(0.2, 20)
"""Unknown or invalid tokens of one client address."""

K = TypeVar("K")
T = TypeVar("T")


ANONYMOUS = User("system:anonymous", groups=["system:unauthenticated"])
"""As Kubernetes calls a client without credentials: with `--anonymous`, its rights apply."""


class _AccessStatus(msgspec.Struct):
    allowed: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


class Access:
    """Checks tokens and rights of one cluster."""

    def __init__(self, api: Reader, *, anonymous: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self.anonymous = anonymous
        """Whether users without credentials are answered."""
        self.clock = clock
        self._users: Kept[bytes, User | None] = Kept(clock, SECONDS, KEPT)
        self._rights: Kept[tuple[bytes, str], bool] = Kept(clock, SECONDS, KEPT)
        self._reviews: dict[bytes, asyncio.Task[User | None]] = {}
        """Questions on their way."""
        self._asked: dict[tuple[bytes, str], asyncio.Task[bool]] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._questions = Bucket(QUESTIONS, clock())
        self._bad: Buckets[str] = Buckets(BAD_TOKENS, clock)
        self._last_problem = ""

    def forget(self) -> None:
        self._bad.forget()

    async def user(self, header: str | None, client: str, *, again: bool = False) -> User:
        """Who sends this `Authorization` header; raises `Refused`. `again`: what was known about it is not believed."""
        if header is None:
            if self.anonymous:
                return ANONYMOUS
            raise Refused(401, "a token is required: `Authorization: Bearer ...`", sign_in=True)
        token = bearer(header)
        key = hashlib.sha256(token.encode()).digest()
        known = None if again else self._users.get(key)
        if known is not None:
            (user,) = known
        else:
            user = await _once(self._reviews, key, lambda: self._review(token, key, client))
        if user is None:
            raise Refused(401, "the API server does not accept the token", sign_in=True)
        return user

    async def sight(self, user: User, namespaces: Iterable[str]) -> Sight:
        """What a user may see of these namespaces."""
        who = hashlib.sha256(msgspec.msgpack.encode(user)).digest()
        if await self._may_list_pods(user, who, ""):
            return ALL
        names = sorted(set(namespaces))
        allowed = await asyncio.gather(*(self._may_list_pods(user, who, name) for name in names))
        return Sight(name for name, yes in zip(names, allowed, strict=True) if yes)

    async def _may_list_pods(self, user: User, who: bytes, namespace: str) -> bool:
        known = self._rights.get((who, namespace))
        if known is not None:
            return known[0]
        return await _once(self._asked, (who, namespace), lambda: self._ask_right(user, who, namespace))

    async def _review(self, token: str, key: bytes, client: str) -> User | None:
        if not self._bad.take(client):
            raise Refused(429, "too many unknown tokens from this address", after=10)
        if not self._questions.take(self.clock()):
            self._bad.give_back(client)
            raise Refused(503, "too many unknown tokens", after=5)
        claims = claims_in(token)
        audience = AUDIENCE if claims is not None and claims.is_for(AUDIENCE) else ""
        try:
            answer = await self._ask(TOKEN_REVIEWS, token_review(token, audience))
        except Refused:
            self._bad.give_back(client)
            raise
        user = _decoded(answer, TokenReview).user(audience)
        if user is not None:
            self._bad.give_back(client)
        self._users.put(key, user)
        return user

    async def _ask_right(self, user: User, who: bytes, namespace: str) -> bool:
        about = {"verb": "list", "resource": "pods", "group": "", "version": "v1"}
        spec: dict[str, Any] = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            "resourceAttributes": {**about, "namespace": namespace} if namespace else about,
        }
        allowed = _decoded(await self._ask(ACCESS_REVIEWS, spec), _AccessReview).status.allowed
        self._rights.put((who, namespace), allowed)
        return allowed

    async def _ask(self, resource: Resource[Any], spec: dict[str, Any]) -> bytes:
        async with self._turns:
            try:
                answer = await self._api.review(resource, spec, timeout=TIMEOUT)
            except ApiError as error:
                problem = str(error)
                if problem != self._last_problem:
                    logger.warning("cannot check tokens and rights: %s", problem)
                self._last_problem = problem
                raise Refused(503, "the API server cannot be asked about tokens and rights now", after=5) from None
        self._last_problem = ""
        return answer


async def _once(asked: dict[K, asyncio.Task[T]], key: K, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The answer to a question that may be on its way already."""
    task = asked.get(key)
    if task is None:
        task = asked[key] = asyncio.create_task(ask())

        def forget(done: asyncio.Task[T]) -> None:
            asked.pop(key, None)
            if not done.cancelled():
                done.exception()  # whoever asked has it, unless she has gone

        task.add_done_callback(forget)
    return await asyncio.shield(task)


def _decoded(answer: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(answer, type=kind)
    except msgspec.DecodeError:
        raise Refused(503, "the API server's answer about tokens and rights cannot be read", after=5) from None


def bearer(header: str) -> str:
    """The token in an `Authorization` header; raises `Refused`."""
    scheme, _, token = header.partition(" ")
    token = token.strip()
    if (
        scheme.lower() != "bearer"
        or not token
        or len(token) > LONGEST
        or not token.isascii()
        or not token.isprintable()
    ):
        raise Refused(401, "a token is required: `Authorization: Bearer ...`", sign_in=True)
    return token
