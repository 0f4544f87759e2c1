"""A proxy that holds requests back until it is told to let them through, whatever became of their sender.

It can also change each pod before an eviction of it arrives, as an owner does who changes her pods all the time.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from aiohttp import web
from tests.support.patience import until
from tests.support.proxy import Fate, Proxy


class HoldingProxy(Proxy):
    """Holds requests that `holds` chooses by method and path."""

    def __init__(self, server: str, ca: Path) -> None:
        super().__init__(server, ca)
        self.holds: Callable[[str, str], bool] = lambda method, path: False
        self.held: Counter[str] = Counter()
        """How many requests were held, by the last part of their path."""
        self.statuses: list[int] = []
        """What the server answered to those that were let through."""
        self.holds_by_uid = False
        """Whether evictions are held that state no version."""
        self.restless = False
        """Whether each pod changes before an eviction of it arrives."""
        self.changes = 0
        self._go = asyncio.Event()

    async def __aenter__(self) -> HoldingProxy:
        await super().__aenter__()
        return self

    async def let_through(self) -> list[int]:
        """Let all held requests through, and return the server's answers."""
        self._go.set()
        await until(lambda: len(self.statuses) >= self.held.total(), "all held requests are answered")
        return self.statuses

    async def _forward(self, request: web.Request, body: bytes, fate: Fate) -> web.StreamResponse:
        evicts = request.path.endswith("/eviction")
        by_uid = evicts and "resourceVersion" not in json.loads(body)["deleteOptions"]["preconditions"]
        chosen = self.holds(request.method, request.path) or (self.holds_by_uid and by_uid)
        held = not self._go.is_set() and chosen
        if self.restless and evicts:
            await self._change(request)
        if held:
            self.held[request.path.rpartition("/")[2]] += 1
            await self._go.wait()
        response = await super()._forward(request, body, fate)
        if held:
            self.statuses.append(response.status)
        return response

    async def _change(self, eviction: web.Request) -> None:
        """Change the pod of an eviction, with the rights of its sender."""
        self.changes += 1
        note = {"metadata": {"annotations": {"example.com/number": str(self.changes)}}}
        headers = {
            "Authorization": eviction.headers["Authorization"],
            "Content-Type": "application/merge-patch+json",
        }
        url = self._server + eviction.path.removesuffix("/eviction")
        async with self._session.patch(url, json=note, headers=headers) as answer:
            await answer.read()
