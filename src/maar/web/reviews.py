"""Asks the API server whose token it is (TokenReview), for clients that report measurements."""

from __future__ import annotations

import asyncio
import logging

import msgspec

from maar.kube.client.api import Api
from maar.kube.client.errors import ApiError
from maar.kube.wire.api_resources import TOKEN_REVIEWS
from maar.web.messages import Review, Reviewed

logger = logging.getLogger("maar.web")

AT_ONCE = 4
"""Reviews in flight: a slow authenticator must not take the connections that binds need."""
SECONDS = 4.0
"""Timeout of a review; less than the HTTP process waits."""


class _User(msgspec.Struct):
    username: str = ""


class _Status(msgspec.Struct):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)
    audiences: list[str] = msgspec.field(default_factory=list)


class _TokenReview(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


class Reviews:
    """Reviews tokens, a few at a time."""

    def __init__(self, api: Api) -> None:
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
        spec: dict[str, object] = {"token": asked.token}
        if asked.audience:
            spec["audiences"] = [asked.audience]
        review = {"apiVersion": TOKEN_REVIEWS.api_version, "kind": TOKEN_REVIEWS.kind, "spec": spec}
        body = await self._api.request("POST", TOKEN_REVIEWS.path(), body=review, timeout=SECONDS)
        status = msgspec.json.decode(body, type=_TokenReview).status
        # A server that knows no audiences returns none, and has not checked this one.
        valid = status.authenticated and (not asked.audience or asked.audience in status.audiences)
        return status.user.username if valid else ""
