"""Who asks, and what she may see: bearer tokens (`authentication`), and rights by SubjectAccessReview.

A viewer may see the jobs of namespaces in which she may list pods: asked cluster-wide first, then for each namespace.
Answers are kept for a minute. If the API server cannot be asked, nothing is shown.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from maar.kube.client.reader import Reader
from maar.kube.wire.api_resources import ACCESS_REVIEWS
from maar.views.sight import ALL, Sight
from maar.web import authentication
from maar.web.api.errors import Refused
from maar.web.authentication import KEPT, SECONDS, Denied, KeptAnswers, Tokens, once
from maar.web.limits import HttpLimits
from maar.web.reviews import Reviews, ReviewUnanswered, User

ANONYMOUS = User("system:anonymous", groups=["system:unauthenticated"])
"""As Kubernetes calls a client without credentials: with `--anonymous`, its rights apply."""


class _AccessStatus(msgspec.Struct):
    allowed: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


class RightsCheck:
    """Checks tokens and rights of one cluster."""

    def __init__(
        self,
        api: Reader,
        *,
        anonymous: bool = False,
        limits: HttpLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reviews = Reviews(api)
        self.anonymous = anonymous
        """Whether users without credentials are answered."""
        self.clock = clock
        self._tokens: Tokens[User] = Tokens(self._reviews.user, limits or HttpLimits(), clock)
        self._rights: KeptAnswers[tuple[bytes, str], bool] = KeptAnswers(clock, SECONDS, KEPT)
        self._asked: dict[tuple[bytes, str], asyncio.Task[bool]] = {}
        """Questions on their way."""

    def forget(self) -> None:
        self._tokens.forget()

    async def user(self, header: str | None, client: str, *, again: bool = False) -> User:
        """The user with this `Authorization` header; raises `Refused`. `again`: ask, whatever was known about it."""
        if header is None and self.anonymous:
            return ANONYMOUS
        token = bearer(header or "")
        with _refusing():
            return await self._tokens.user(token, client, again=again)

    async def sight(self, user: User, namespaces: Iterable[str]) -> Sight:
        """What a user may see of these namespaces."""
        who = hashlib.sha256(msgspec.msgpack.encode(user)).digest()
        with _refusing():
            if await self._may_list_pods(user, who, ""):
                return ALL
            names = sorted(set(namespaces))
            allowed = await asyncio.gather(*(self._may_list_pods(user, who, name) for name in names))
        return Sight(name for name, yes in zip(names, allowed, strict=True) if yes)

    async def _may_list_pods(self, user: User, who: bytes, namespace: str) -> bool:
        known = self._rights.get((who, namespace))
        if known is not None:
            return known[0]
        return await once(self._asked, (who, namespace), lambda: self._ask_right(user, who, namespace))

    async def _ask_right(self, user: User, who: bytes, namespace: str) -> bool:
        about = {"verb": "list", "resource": "pods", "group": "", "version": "v1"}
        spec: dict[str, Any] = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            "resourceAttributes": {**about, "namespace": namespace} if namespace else about,
        }
        allowed = (await self._reviews.ask(ACCESS_REVIEWS, spec, _AccessReview)).status.allowed
        self._rights.put((who, namespace), allowed)
        return allowed


@contextmanager
def _refusing() -> Iterator[None]:
    """Answer as this server does when a token is denied, or cannot be checked."""
    try:
        yield
    except Denied as error:
        raise Refused(error.status, str(error), after=error.after, sign_in=error.status == 401) from None
    except ReviewUnanswered:
        raise Refused(503, "the API server cannot be asked about tokens and rights now", after=5) from None


def bearer(header: str) -> str:
    """The token in an `Authorization` header; raises `Refused`."""
    with _refusing():
        return authentication.bearer(header)
