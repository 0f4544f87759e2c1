"""Kubernetes events: what Maar did or cannot do, said on the user's own object, where `kubectl describe` shows it.

Written in the background, after the cycle. Events are for people and may be lost: they never raise, never hold anything
up, and rather than pile up they are dropped and counted.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from maar.kube.client.api import Api
from maar.kube.client.errors import ApiError, Forbidden, NotFound
from maar.kube.wire.api_resources import EVENTS, Resource
from maar.kube.wire.base import Object

log = logging.getLogger(__name__)

LONGEST = 1024
"""The longest message that the API server accepts."""


class Reference(NamedTuple):
    """The object that an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""

    @classmethod
    def to(cls, resource: Resource[Object], item: Object) -> Reference:
        metadata = item.metadata
        return cls(resource.api_version, resource.kind, metadata.namespace, metadata.name, metadata.uid)

    def document(self) -> dict[str, str]:
        fields = zip(("apiVersion", "kind", "namespace", "name", "uid"), self, strict=True)
        return {key: value for key, value in fields if value}


@dataclass(slots=True)
class Counts:
    written: int = 0
    repeated: int = 0
    """Repetitions: counted within a window, and written once after it."""
    dropped: int = 0
    failed: int = 0


@dataclass(slots=True)
class _Said:
    """An event, the start of its window, and how often it occurred."""

    path: str
    document: dict[str, Any]
    since: float
    count: int = 1
    written: int = 0


class EventWriter:
    """Writes events. Create it inside the event loop, and close it."""

    def __init__(
        self,
        api: Api,
        component: str,
        namespace: str = "default",
        *,
        instance: str = "",
        window: float = 300.0,
        most_waiting: int = 1000,
        most_remembered: int = 4096,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.counts = Counts()
        self._api = api
        self._component = component
        self._instance = instance or component
        self._namespace = namespace
        """The namespace for events about objects without one."""
        self._window = window
        self._most_waiting = most_waiting
        self._most_remembered = most_remembered
        self._clock = clock
        self._said: OrderedDict[tuple[Reference, str, str], _Said] = OrderedDict()
        self._waiting: deque[_Said] = deque()
        self._number = 0
        self._missing: set[str] = set()
        self._something = asyncio.Event()
        self._nothing = asyncio.Event()
        self._nothing.set()
        self._task = asyncio.get_running_loop().create_task(self._write())

    def emit(
        self, regarding: Reference, type: str, reason: str, message: str, related: Reference | None = None
    ) -> None:
        """Emit an event; `type` is `Normal` or `Warning`. A repetition is counted, and written once per window."""
        key = (regarding, reason, message)
        said = self._said.get(key)
        now = self._clock()
        if said is not None:
            said.count += 1
            self.counts.repeated += 1
            if now - said.since < self._window:
                return
        if len(self._waiting) >= self._most_waiting or self._task.done():
            self.counts.dropped += 1
            return
        if said is None:
            said = self._said[key] = self._new(regarding, type, reason, message, related, now)
            if len(self._said) > self._most_remembered:
                self._said.popitem(last=False)
        said.since = now
        self._put(said)

    async def close(self, timeout: float = 2.0) -> None:
        """Write all waiting events with their counts, for at most this long, and stop."""
        if self._task.done():
            return
        waiting = {id(said) for said in self._waiting}
        for said in self._said.values():
            if said.count > said.written and id(said) not in waiting and len(self._waiting) < self._most_waiting:
                self._put(said)
        try:
            async with asyncio.timeout(timeout):
                await self._nothing.wait()
        except TimeoutError:
            self.counts.dropped += len(self._waiting)
        self._task.cancel()
        await asyncio.wait([self._task])

    def _put(self, said: _Said) -> None:
        self._waiting.append(said)
        self._nothing.clear()
        self._something.set()

    def _new(
        self, regarding: Reference, type: str, reason: str, message: str, related: Reference | None, now: float
    ) -> _Said:
        namespace = regarding.namespace or self._namespace
        self._number += 1
        name = f"{regarding.name[:200]}.{int(now * 1e6):x}{self._number:x}"
        at = _text(now)
        document: dict[str, Any] = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"namespace": namespace, "name": name},
            "involvedObject": regarding.document(),
            "type": type,
            "reason": reason,
            "message": message if len(message) <= LONGEST else message[: LONGEST - 3] + "...",
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        }
        if related is not None:
            document["related"] = related.document()
        return _Said(EVENTS.path(namespace), document, now)

    async def _write(self) -> None:
        while True:
            if not self._waiting:
                self._something.clear()
                self._nothing.set()
                await self._something.wait()
            said = self._waiting.popleft()
            try:
                if said.count > said.written:
                    await self._one(said)
                    self.counts.written += 1
            except ApiError as error:
                self.counts.failed += 1
                self._tell(error)
            except Exception:
                self.counts.failed += 1
                log.exception("an event was not written")

    def _tell(self, error: ApiError) -> None:
        """Log a missing right once: without it no event is ever written."""
        message = str(error)
        missing = isinstance(error, Forbidden) and "grant `" in message  # any other message may differ for each event
        if missing and message not in self._missing:
            self._missing.add(message)
            log.warning("events are not written: %s", message)
        else:
            log.debug("an event was not written: %s", message)

    async def _one(self, said: _Said) -> None:
        count, latest = said.count, {"count": said.count, "lastTimestamp": _text(self._clock())}
        if said.written:
            try:
                await self._api.patch(f"{said.path}/{said.document['metadata']['name']}", latest)
                said.written = count
                return
            except NotFound:
                pass  # API servers forget events after an hour.
        await self._api.create(said.path, said.document | latest if count > 1 else said.document)
        said.written = count


def _text(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
