"""Kubernetes events: what Maar did or cannot do, said on the user's own object, where `kubectl describe` shows it.

Written in the background, after the cycle, to `events.k8s.io/v1`. Events are for people and may be lost: they never
raise, never hold anything up, and rather than pile up they are dropped and counted. A repetition is no new event: it is
counted in the `series` of the first one, which is written once per window. Other texts of the same reason are few
events, and the rest are repetitions. Every object has a budget of writes, and so have all of them together. Namespaces
take turns, one event each; if too many events wait, the namespace with most of them loses its last one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from maar.kube.client.api import Api
from maar.kube.client.errors import ApiError, Forbidden, NotFound
from maar.kube.kinds.status import micro_time_text
from maar.kube.wire.api_resources import EVENTS
from maar.kube.wire.references import Reference
from maar.kube.write.turns import TenantTurns
from maar.model.text import escaped

K = TypeVar("K")
V = TypeVar("V")
log = logging.getLogger(__name__)

LONGEST = 1024
"""The longest message that the API server accepts, in bytes."""
PER_OBJECT = 20
"""Writes about one object at once; after that one per `REFILL` seconds. Tuned by hand: a job that waits and runs needs
fewer than 10."""
REFILL = 60.0
TEXTS = 3
"""Texts of one reason about one object that are events of their own at once; after that one per `REFILL` seconds. As
many as changes of a verdict; tuned by hand."""
ACTION = "Scheduling"
"""What Maar was doing, which every event must say."""
NAMESPACE = "default"
"""For events about objects without a namespace."""
AT_ONCE, PER_SECOND = 1000.0, 25.0
"""Writes about all objects: at once, and per second after that; tuned by hand."""


@dataclass(slots=True)
class EventCounts:
    written: int = 0
    repeated: int = 0
    """Repetitions: counted within a window, and written once after it."""
    dropped: int = 0
    failed: int = 0


class _Key(NamedTuple):
    """What makes two events the same."""

    regarding: Reference
    reason: str
    code: str


@dataclass(slots=True, eq=False)
class _Said:
    """An event, when it was last written, and how often it occurred."""

    key: _Key
    type: str
    message: str
    name: str
    first: float
    since: float
    """When the last write was requested."""
    last: float
    """When it last occurred."""
    count: int = 1
    written: int = 0

    @property
    def namespace(self) -> str:
        return self.key.regarding.namespace or NAMESPACE


@dataclass(slots=True)
class _Tokens:
    """The writes that an object has left."""

    left: float
    at: float

    def take(self, now: float, most: float, per_second: float) -> bool:
        self.left = min(self.left + max(now - self.at, 0.0) * per_second, most)
        self.at = now
        if self.left < 1.0:
            return False
        self.left -= 1.0
        return True


@dataclass(slots=True)
class _Texts:
    """The texts of one reason about one object."""

    tokens: _Tokens
    last: _Key
    """The latest that became an event."""


@dataclass(eq=False, slots=True)
class EventWriter:
    """Writes events. Create it inside the event loop, and close it."""

    _api: Api
    _component: str
    window: float = 300.0
    most_waiting: int = 5000
    most_remembered: int = 8192
    clock: Callable[[], float] = time.time
    counts: EventCounts = field(default_factory=EventCounts)
    _said: OrderedDict[_Key, _Said] = field(default_factory=OrderedDict)
    _texts: OrderedDict[tuple[Reference, str], _Texts] = field(default_factory=OrderedDict)
    _budgets: OrderedDict[Reference, _Tokens] = field(default_factory=OrderedDict)
    _waiting: TenantTurns[_Said] = field(default_factory=TenantTurns)
    _number: int = 0
    _missing: set[str] = field(default_factory=set)
    _something: asyncio.Event = field(default_factory=asyncio.Event)
    _nothing: asyncio.Event = field(default_factory=asyncio.Event)
    _closing: asyncio.Event = field(default_factory=asyncio.Event)
    _all: _Tokens = field(init=False)
    _task: asyncio.Task[None] = field(init=False)

    def __post_init__(self) -> None:
        self._all = _Tokens(AT_ONCE, self.clock())
        self._nothing.set()
        self._task = asyncio.get_running_loop().create_task(self._write())

    def emit(self, regarding: Reference, type: str, reason: str, message: str, code: str = "") -> None:
        """Emit an event; `type` is `Normal` or `Warning`.

        Events about the same object with the same reason and code are one event: the repetitions are counted, and
        written once per window. Without a code, another message is another event, as long as they are few.
        """
        now = self.clock()
        key = _Key(regarding, reason, code) if code else self._key_of(regarding, reason, message, now)
        said = self._said.get(key)
        if said is not None:
            self._said.move_to_end(key)
            said.count += 1
            said.last = now
            self.counts.repeated += 1
            if now - said.since < self.window:
                return
        if self._task.done() or not self._has_budget(regarding, now):
            self.counts.dropped += 1
            return
        if said is None:
            self._number += 1
            name = f"{regarding.name[:200]}.{int(now * 1e6):x}{self._number:x}"
            said = _kept(self._said, key, _Said(key, type, message, name, now, now, now), self.most_remembered)
        said.since = now
        self._put(said)

    async def close(self, timeout: float = 2.0) -> None:
        """Write all waiting events with their counts, for at most this long, and stop."""
        if self._task.done():
            return
        self._closing.set()
        for said in list(self._said.values()):
            if said.count > said.written:
                self._put(said)
        try:
            async with asyncio.timeout(timeout):
                await self._nothing.wait()
        except TimeoutError:
            self.counts.dropped += len(self._waiting)
        self._task.cancel()
        await asyncio.wait([self._task])

    def _put(self, said: _Said) -> None:
        self._waiting.put(said.namespace, said)
        if len(self._waiting) > self.most_waiting:
            self._said.pop(self._waiting.drop_from_largest().key, None)  # if it occurs again, it is written
            self.counts.dropped += 1
        self._nothing.clear()
        self._something.set()

    def _key_of(self, regarding: Reference, reason: str, message: str, now: float) -> _Key:
        """The key of this text, or that of the latest one with this reason if there were too many texts."""
        key = _Key(regarding, reason, message)
        if key in self._said:
            return key
        about = (regarding, reason)
        texts = _kept(self._texts, about, _Texts(_Tokens(TEXTS, now), key), self.most_remembered)
        if texts.tokens.take(now, TEXTS, 1 / REFILL) or texts.last not in self._said:
            texts.last = key
        return texts.last

    def _has_budget(self, regarding: Reference, now: float) -> bool:
        budget = _kept(self._budgets, regarding, _Tokens(PER_OBJECT, now), self.most_remembered)
        return budget.take(now, PER_OBJECT, 1 / REFILL)

    def _document(self, said: _Said) -> dict[str, Any]:
        document = EVENTS.document(
            {"namespace": said.namespace, "name": said.name},
            regarding=said.key.regarding.document(),
            type=said.type,
            reason=said.key.reason,
            action=ACTION,
            note=_shortened(escaped(said.message)),
            reportingController=self._component,
            reportingInstance=self._component,
            eventTime=micro_time_text(said.first),
        )
        return document | (_series(said) if said.count > 1 else {})

    async def _write(self) -> None:
        while True:
            if not self._waiting:
                self._something.clear()
                self._nothing.set()
                await self._something.wait()
            while not self._closing.is_set() and not self._all.take(self.clock(), AT_ONCE, PER_SECOND):  # noqa: ASYNC110 it looks again now and then
                await asyncio.sleep((1.0 - self._all.left) / PER_SECOND)
            said = self._waiting.take()
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
        count, path = said.count, EVENTS.path(said.namespace)
        if said.written:
            try:
                await self._api.patch(f"{path}/{said.name}", _series(said))
                said.written = count
                return
            except NotFound:
                pass  # API servers forget events after an hour.
        await self._api.create(path, self._document(said))
        said.written = count


def _kept(among: OrderedDict[K, V], key: K, new: V, most: int) -> V:
    """What stands at a key, or the new one; the one that was not used for longest goes if there are too many."""
    found = among.setdefault(key, new)
    among.move_to_end(key)
    if len(among) > most:
        among.popitem(last=False)
    return found


def _series(said: _Said) -> dict[str, Any]:
    return {"series": {"count": said.count, "lastObservedTime": micro_time_text(said.last)}}


def _shortened(message: str) -> str:
    if len(message.encode()) <= LONGEST:
        return message
    return message.encode()[: LONGEST - 3].decode(errors="ignore") + "..."
