"""Watches: a stream of lines, one for each event that the client selects.

A watch starts with the events after a version, or with all objects (no version, or `sendInitialEvents`). It continues
with new events, and bookmarks tell the client which version it has reached. A watch ends after its timeout, by a fault,
with its kind, or when its reader is too slow. A slow reader gets no error, as in a real server.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from maar.embedded.http.lists import parse_version, too_large
from maar.embedded.http.selectors import Match
from maar.embedded.objects.api import Api
from maar.embedded.objects.errors import ApiError
from maar.embedded.objects.kinds import Kind
from maar.embedded.objects.store import Event, Item, encode, watch_line

Render = Callable[[Item], bytes]

LONGEST = 3000.0
"""Default duration of a watch in seconds. Real servers use 30 to 60 minutes."""

BEFORE_END = 2.0
"""Seconds before the end of a watch at which it sends a last bookmark, as in a real server."""


@dataclass(slots=True)
class Wanted:
    """The options of a watch request."""

    match: Match | None = None
    version: str = ""
    initial: bool | None = None
    """Send all objects first, then a bookmark (`sendInitialEvents`)."""
    bookmarks: bool = False
    timeout: float = 0.0
    render: Render | None = None
    """How to render an object, for tables. `None` sends the object itself."""


class Watch:
    def __init__(self, api: Api, kind: Kind, wanted: Wanted, *, bookmark_seconds: float, buffer: int) -> None:
        self.api = api
        self.kind = kind
        self.wanted = wanted
        self.table = api.store.table(kind)
        self.bookmark_seconds = bookmark_seconds
        self.buffer = buffer
        self.pending: deque[Event] = deque()
        self.woken = asyncio.Event()
        self.cut = False
        self.first: list[bytes] = []
        self.begun = 0
        """The version at which the stream continues. A bookmark at this version has no information."""

    def open(self) -> None:
        """Take the initial events, and listen from that version on."""
        self.first = self._start()
        self.begun = int(self.wanted.version or 0) or self.api.store.version
        self.table.listeners.append(self._push)
        self.table.on_drop.append(self.close)

    def close(self) -> None:
        """Stop listening and end the stream."""
        self.cut = True
        self.woken.set()
        if self._push in self.table.listeners:
            self.table.listeners.remove(self._push)
            self.table.on_drop.remove(self.close)

    def _push(self, event: Event) -> None:
        if len(self.pending) >= self.buffer:
            self.close()
        self.pending.append(event)
        self.woken.set()

    def _start(self) -> list[bytes]:
        version, now = self.wanted.version, self.api.store.version
        if self.wanted.initial or (self.wanted.initial is None and version in ("", "0")):
            if version and parse_version(version) > now:
                raise too_large(parse_version(version), now)
            items = sorted(self.table.items.items())
            chosen = (item for _, item in items if self.wanted.match is None or self.wanted.match(item.obj))
            lines = [watch_line("ADDED", self._shown(item)) for item in chosen]
            if self.wanted.initial and self.wanted.bookmarks:
                lines.append(self._bookmark(first=True))
            return lines
        if not version:
            return []
        try:
            events = self.table.since(parse_version(version), now)
        except ApiError as error:
            if error.code != 410:
                raise
            self.cut = True
            return [watch_line("ERROR", encode(error.status()))]
        return [line for event in events if (line := self._line(event))]

    def _shown(self, item: Item) -> bytes:
        return self.wanted.render(item) if self.wanted.render else item.rendered(self.kind)

    def _line(self, event: Event) -> bytes | None:
        """The line that this client gets for an event, if any."""
        type: str | None = event.type
        if self.wanted.match is not None:
            is_in = event.type != "DELETED" and self.wanted.match(event.item.obj)
            was_in = event.previous is not None and self.wanted.match(event.previous.obj)
            type = {(True, False): "ADDED", (True, True): "MODIFIED", (False, True): "DELETED"}.get((is_in, was_in))
        if type is None:
            return None
        if self.wanted.render:
            return watch_line(type, self.wanted.render(event.object(type)))
        return event.line(self.kind, type)

    def _bookmark(self, first: bool = False) -> bytes:
        metadata: dict[str, object] = {"resourceVersion": str(self.api.store.version), "creationTimestamp": None}
        if first:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        body = {"kind": self.kind.kind, "apiVersion": self.kind.api_version, "metadata": metadata}
        return watch_line("BOOKMARK", encode(body))

    async def lines(self) -> AsyncIterator[bytes]:
        """The stream in chunks of one or more lines."""
        if self.first:
            yield b"".join(self.first)
            self.first = []
        loop = asyncio.get_running_loop()
        end = loop.time() + (self.wanted.timeout or LONGEST)
        last_call = end - BEFORE_END
        bookmark = loop.time() + self.bookmark_seconds
        while True:
            if self.pending:
                events = list(self.pending)
                self.pending.clear()
                lines = [line for event in events if (line := self._line(event))]
                if lines:
                    yield b"".join(lines)
                continue
            if self.cut or loop.time() >= end:
                return
            if self.wanted.bookmarks and loop.time() >= min(bookmark, last_call):
                if self.api.store.version > self.begun:
                    yield self._bookmark()
                last_call = end if loop.time() >= last_call else last_call
                bookmark = loop.time() + self.bookmark_seconds
                continue
            self.woken.clear()
            await _woken_by(self.woken, min(end, bookmark, last_call) if self.wanted.bookmarks else end)


async def _woken_by(event: asyncio.Event, deadline: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(deadline):
            await event.wait()
