"""Asks the API server whose token it is (TokenReview), and what a user may do (SubjectAccessReview)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, TypeVar

import msgspec

from maar.kube.client.errors import ApiError
from maar.kube.client.reader import Reader
from maar.kube.wire.api_resources import TOKEN_REVIEWS, Resource
from maar.web.messages import Review, Reviewed

logger = logging.getLogger("maar.web")

AT_ONCE = 8
"""Questions in flight: a slow authenticator must not take the connections that binds need."""
SECONDS = 4.0
"""Timeout of a question; less than the HTTP process waits."""

T = TypeVar("T")


class ReviewUnanswered(Exception):
    """Why the API server could not be asked, or its answer cannot be read."""


class User(msgspec.Struct, frozen=True):
    """A user, as the API server knows it."""

    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _Status(msgspec.Struct):
    authenticated: bool = False
    user: User = User()
    audiences: list[str] = []


class _TokenReview(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)

    def user(self, audience: str) -> User | None:
        """The user with the token; `None` if the API server does not accept it for this audience."""
        status = self.status
        # A server that knows no audiences returns none, and has not checked this one.
        is_checked = not audience or audience in status.audiences
        return status.user if status.authenticated and status.user.username and is_checked else None


class Reviews:
    """Asks the API server about tokens and rights, a few questions at a time."""

    def __init__(self, api: Reader) -> None:
        self._api = api
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._last_problem = ""

    async def ask(self, resource: Resource[Any], spec: dict[str, Any], kind: type[T]) -> T:
        """The answer to a question; an `ReviewUnanswered` without one."""
        async with self._turns:
            try:
                answer = msgspec.json.decode(await self._api.review(resource, spec, timeout=SECONDS), type=kind)
            except (ApiError, msgspec.DecodeError) as error:
                problem = str(error)
                if problem != self._last_problem:
                    logger.warning("cannot check tokens and rights: %s", problem)
                self._last_problem = problem
                raise ReviewUnanswered(problem) from None
        self._last_problem = ""
        return answer

    async def user(self, token: str, audience: str) -> User | None:
        """Whose token it is, for the audience of the API server if this one is empty; `None` if it accepts it not."""
        spec = {"token": token, **({"audiences": [audience]} if audience else {})}
        return (await self.ask(TOKEN_REVIEWS, spec, _TokenReview)).user(audience)

    async def review(self, asked: Review) -> Reviewed:
        """The answer to the HTTP process."""
        try:
            user = await self.user(asked.token, asked.audience)
        except ReviewUnanswered as error:
            return Reviewed(asked.id, "", str(error))
        return Reviewed(asked.id, "" if user is None else user.username)
