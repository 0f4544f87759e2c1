"""Keeps one kind of object up to date: a list, then a watch that is resumed as long as possible.

Informers run before the cycle. Each feeds a sink that only records changes; the controller decides later, so that a
watch is never read late. Informers are independent: an object may arrive before an object that it refers to.

    list --> watch --> ended, cut or stalled --> watch from the last version seen --> ...
     ^                                            |
     `------- 410: that version is too old <------'

When the CRD of a kind is deleted, its informer reports all objects as removed and ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import InitVar, dataclass, field
from typing import Generic, TypeVar

from maar.kube.client.backoff import Backoff, happens
from maar.kube.client.errors import ApiError, Gone, NotFound, ServerFault
from maar.kube.client.reader import PAGE, Reader
from maar.kube.client.streams import Broken
from maar.kube.wire.api_resources import Resource
from maar.kube.wire.base import Object

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True)
class Replaced(Generic[T]):
    """The complete list of objects: every known object that is not in it was removed."""

    objects: list[T | Broken]


@dataclass(frozen=True, slots=True)
class Changed(Generic[T]):
    """An object was added or modified."""

    object: T | Broken


@dataclass(frozen=True, slots=True)
class Removed(Generic[T]):
    namespace: str
    name: str
    object: T | Broken


Delta = Replaced[T] | Changed[T] | Removed[T]


@dataclass(frozen=True)
class InformerPace:
    """Timing of an informer, in seconds; `most`, `healthy`, `gone` and `jitter` are tuned by hand."""

    first: float = 0.1
    """The wait after the first failure."""
    most: float = 5.0
    """The longest wait, and so the longest delay after an API server has restarted."""
    watch: float = 300.0
    """A watch is requested for this to twice this duration, as in client-go, so that not all end at once."""
    stall: float = 90.0
    """Without data for this long the connection is dropped; API servers send a bookmark every minute."""
    healthy: float = 0.1
    """A watch that was open for this long, or delivered something, made progress: the next watch starts at once. After
    watches that end sooner, the wait grows."""
    gone: float = 5.0
    """A kind that is not found for this long is no longer served; after a start, an API server may not know its CRDs
    yet."""
    jitter: float = 0.05
    """Longest random wait before the next watch, so that not all informers start theirs at the same time."""


@dataclass(slots=True)
class InformerCounts:
    """Counters of an informer."""

    lists: int = 0
    watches: int = 0
    resumes: int = 0
    """Watches that continued from the end of the previous watch."""
    events: int = 0
    bookmarks: int = 0
    broken: int = 0
    """Objects that could not be decoded, counted each time they arrived."""
    errors: int = 0


@dataclass(eq=False, slots=True)
class Informer(Generic[T]):
    """Feeds `sink` with all objects of a kind; `run` it as a task."""

    api: Reader
    resource: Resource[T]
    _sink: Callable[[Delta[T]], None]
    namespace: str | None = None
    field_selector: str = ""
    seed: InitVar[int] = 0
    pace: InformerPace = InformerPace()
    page: int = PAGE
    clock: Callable[[], float] = time.monotonic
    synced: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the first list has reached the sink, or the kind is not served."""
    counts: InformerCounts = field(default_factory=InformerCounts)
    error: str = ""
    """The last error; empty after a watch has delivered something."""
    _version: str = ""
    _opened: float | None = None
    """When the current or last watch was opened."""
    _asked: list[asyncio.Future[None]] = field(default_factory=list)
    """Each is done once a list that began after it was asked for has reached the sink."""
    _interrupt: asyncio.Timeout = field(default_factory=lambda: asyncio.timeout(None))
    _hurry: asyncio.Event = field(default_factory=asyncio.Event)
    _missing: float | None = None
    """When the server was first found not to serve the kind."""
    _dice: random.Random = field(init=False)
    _heard: float = field(init=False)

    def __post_init__(self, seed: int) -> None:
        self._dice = random.Random(f"{self.resource}{seed}")
        self._heard = self.clock()

    def lag_seconds(self) -> float:
        """Seconds since the server last sent something: the maximum age of the sink's data."""
        return self.clock() - self._heard

    async def run(self) -> None:
        """Runs until cancelled, or until the server no longer serves the kind; then removes all of its objects."""
        backoff = Backoff(self.pace.first, self.pace.most, self._dice)
        while True:
            wait, self._opened = 0.0, None
            is_asked, has_listed = bool(self._asked), False
            version = self._version = "" if self._asked else self._version
            try:
                if not self._version:
                    await self._list_asked()
                    version, has_listed = self._version, True
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0 if self._asked else None) as self._interrupt:
                        await self._watch()
            except Gone as error:
                log.info("%s: listing again: %s", self.resource, error)
                self._version = ""
            except NotFound as error:
                self._failed(error)
                if self._is_gone():
                    return
            except ApiError as error:
                self._failed(error)
                wait = error.retry_after
            if self._worked(version):
                backoff.reset()
                wait = max(wait, self._dice.uniform(0.0, self.pace.jitter))
            else:
                wait = backoff.next(wait)
            is_new = bool(self._asked) and (has_listed or not is_asked)
            await self._pause(0.0 if is_new else wait)

    async def _pause(self, seconds: float) -> None:
        """Wait, until somebody asks for a list: a take-over does not wait because earlier requests have failed."""
        self._hurry.clear()
        await happens(self._hurry, seconds)

    async def list_again(self) -> None:
        """List everything again, and return when the sink has it: the list shows all that happened before this call."""
        asked = asyncio.get_running_loop().create_future()
        self._asked.append(asked)
        self._hurry.set()
        with contextlib.suppress(RuntimeError):  # no watch is open
            self._interrupt.reschedule(0)
        await asked

    async def _list_asked(self) -> None:
        """List, and tell those who had asked for it before. A list that is on its way may be too old for others."""
        asked, self._asked = self._asked, []
        try:
            await self._list()
        except BaseException:
            self._asked = asked + self._asked
            raise
        for one in asked:
            if not one.done():
                one.set_result(None)

    def _worked(self, version: str) -> bool:
        """Whether the watch that started from `version` made progress, however it ended."""
        if self._opened is None or not self._version:
            return False
        return self._version != version or self.clock() - self._opened >= self.pace.healthy

    def _is_gone(self) -> bool:
        """Whether the kind has not been found for longer than `Pace.gone`; if so, tells the sink."""
        now = self.clock()
        self._missing = now if self._missing is None else self._missing
        if now - self._missing < self.pace.gone:
            return False
        log.warning("%s: no longer served", self.resource)
        self._sink(Replaced([]))
        self.synced.set()
        return True

    async def _list(self) -> None:
        listed = await self.api.list(self.resource, self.namespace, field_selector=self.field_selector, limit=self.page)
        self.counts.lists += 1
        self._missing = None
        self.counts.broken += sum(isinstance(item, Broken) for item in listed.items)
        self._heard = self.clock()
        self._sink(Replaced(listed.items))
        self._version = listed.resource_version
        self.synced.set()

    async def _watch(self) -> None:
        """One watch from the last version, until it ends or fails."""
        counts, sink, kind = self.counts, self._sink, self.resource
        watch = self.api.watch(
            kind,
            self._version,
            self.namespace,
            field_selector=self.field_selector,
            timeout_seconds=self.pace.watch * self._dice.uniform(1.0, 2.0),
            stall_seconds=self.pace.stall,
            on_open=self._is_open,
        )
        counts.resumes += counts.watches >= counts.lists
        counts.watches += 1
        async with aclosing(watch) as events:
            async for event in events:
                self._heard, self.error = self.clock(), ""
                item = event.object
                if item is None:
                    counts.bookmarks += 1
                else:
                    counts.events += 1
                    if isinstance(item, Broken):
                        self._check(item)
                    if event.type == "DELETED":
                        sink(Removed(item.namespace, item.name, item))
                    else:
                        sink(Changed(item))
                self._version = event.resource_version or self._version

    def _is_open(self) -> None:
        self._opened = self._heard = self.clock()
        self._missing = None

    def _check(self, item: Broken) -> None:
        """Handles an object that cannot be decoded; if it has no name, only a new list shows the current state."""
        self.counts.broken += 1
        if not item.name:
            self._version = ""
            raise ServerFault(item.error, verb="WATCH", path=self.resource.path(self.namespace))

    def _failed(self, error: ApiError) -> None:
        self.counts.errors += 1
        message = str(error)
        if message != self.error:
            log.warning("%s: retrying: %s", self.resource, message)
        self.error = message
