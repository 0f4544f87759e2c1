"""The real HTTP process of Maar, with sources that a test chooses instead of a scheduler."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from maar.history.history import History
from maar.web.addresses import Address
from maar.web.limits import HttpLimits
from maar.web.messages import Review, Reviewed
from maar.web.reviews import Reviews
from maar.web.server import HttpSources, Server, groups_at

TEAM = "system:serviceaccount:team:default"


def token(user: str = TEAM, secret: str = "valid", **claims: object) -> str:
    """A token as Kubernetes makes them, with a signature that `Tokens` knows."""
    parts = (b'{"alg":"RS256"}', json.dumps({"sub": user, **claims}).encode(), secret.encode())
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


class Tokens:
    """An API server that knows some tokens, and counts how often it is asked."""

    def __init__(self, known: Mapping[str, str]) -> None:
        """`known` is from a token to its user name."""
        self.known = dict(known)
        self.asked: list[Review] = []
        self.problem = ""

    async def review(self, asked: Review) -> Reviewed:
        self.asked.append(asked)
        return Reviewed(asked.id, "" if self.problem else self.known.get(asked.token, ""), self.problem)


class Scheduler:
    """The state that the HTTP process shows."""

    def __init__(self) -> None:
        self.trouble = ""
        self.missing = ""
        self.pages = 0
        self.restarts = 0
        self.page: Callable[[], bytes] = lambda: b"page %d\n" % self.pages

    def metrics(self) -> bytes:
        self.pages += 1
        return self.page()


@asynccontextmanager
async def fronting(
    history: History | None = None,
    tokens: Tokens | Reviews | None = None,
    token_file: Path | None = None,
    limits: HttpLimits | None = None,
    scheduler: Scheduler | None = None,
    address: Address = Address("127.0.0.1", 0),  # noqa: B008
    health: Address | None = None,
    metrics: Address | None = None,
    clock: Callable[[], float] = lambda: 1000.0,
) -> AsyncIterator[Server]:
    """An HTTP process; `address` is that of all groups of paths that have no other."""
    shown = scheduler or Scheduler()

    def restarted() -> None:
        shown.restarts += 1

    sources = HttpSources(
        healthy=lambda: shown.trouble,
        ready=lambda: shown.missing,
        metrics=shown.metrics,
        history=history or History("none"),
        review=(tokens or Tokens({})).review,
        on_restart=restarted,
        clock=clock,
    )
    async with Server(sources, groups_at(address, health, metrics), token_file, limits) as server:
        yield server
