"""Asks the API server whose token it is (TokenReview): the question for all, and clients that report measurements."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec

from maar.kube.client.errors import ApiError
from maar.kube.client.reader import Reader
from maar.kube.wire.api_resources import TOKEN_REVIEWS
from maar.web.messages import Review, Reviewed

logger = logging.getLogger("maar.web")

AT_ONCE = 4
"""Reviews in flight: a slow authenticator must not take the connections that binds need."""
SECONDS = 4.0
"""Timeout of a review; less than the HTTP process waits."""


class User(msgspec.Struct, frozen=True):
    """Who the API server says that it is."""

    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _Status(msgspec.Struct):
    authenticated: bool = False
    user: User = User()
    audiences: list[str] = []


class TokenReview(msgspec.Struct):
    """The answer to `token_review`."""

    status: _Status = msgspec.field(default_factory=_Status)

    def user(self, audience: str) -> User | None:
        """Who has the token; `None` if the API server does not accept it for this audience."""
        status = self.status
        # A server that knows no audiences returns none, and has not checked this one.
        is_checked = not audience or audience in status.audiences
        return status.user if status.authenticated and status.user.username and is_checked else None


def token_review(token: str, audience: str) -> dict[str, Any]:
    """Asks the API server whose token it is, for its own audience if this one is empty."""
    return {"token": token, **({"audiences": [audience]} if audience else {})}


class Reviews:
    """Reviews tokens, a few at a time."""

    def __init__(self, api: Reader) -> None:
        self._api = api
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._last_problem = ""

    async def review(self, asked: Review) -> Reviewed:
        async with self._turns:
            try:
                user, problem = await self._user(asked), ""
            except (ApiError, msgspec.DecodeError) as error:
                user, problem = "", str(error)
        if problem and problem != self._last_problem:
            logger.warning("cannot check the tokens of measurements: %s", problem)
        self._last_problem = problem
        return Reviewed(asked.id, user, problem)

    async def _user(self, asked: Review) -> str:
        review = token_review(asked.token, asked.audience)
        body = await self._api.review(TOKEN_REVIEWS, review, timeout=SECONDS)
        user = msgspec.json.decode(body, type=TokenReview).user(asked.audience)
        return "" if user is None else user.username
