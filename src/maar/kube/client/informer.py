"""One kind of object, kept up to date: a list, then a watch, resumed for as long as that is possible.

Informers stand before the cycle: each feeds a sink, which only notes what changed; the controller decides later, so
that a watch is always read at once. They are independent streams: an object may arrive before what it refers to.

    list --> watch --> ended, cut or stalled --> watch from the last version seen --> ...
     ^                                            |
     `------- 410: that version is too old <------'

A kind whose CRD is deleted ends its informer, and all of its objects have gone with it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic, TypeVar

from maar.kube.client.api import PAGE, Api
from maar.kube.client.backoff import Backoff
from maar.kube.client.errors import ApiError, Gone, NotFound, ServerFault
from maar.kube.client.streams import Broken
from maar.kube.wire.base import Object
from maar.kube.wire.resources import Resource

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True)
class Replaced(Generic[T]):
    """All objects that there are: what the sink knew and is not among them has gone."""

    objects: list[T | Broken]


@dataclass(frozen=True, slots=True)
class Changed(Generic[T]):
    """An object is new, or is not what it was."""

    object: T | Broken


@dataclass(frozen=True, slots=True)
class Removed(Generic[T]):
    """An object has gone; the namespace is empty for kinds that have none."""

    namespace: str
    name: str
    uid: str
    object: T | Broken


Delta = Replaced[T] | Changed[T] | Removed[T]


@dataclass(frozen=True)
class Pace:
    """The times of an informer, in seconds."""

    first: float = 0.1
    """The wait after a first failure."""
    most: float = 5.0
    """The longest wait: what an API server that restarts may cost us; by taste."""
    watch: float = 300.0
    """A watch is asked for this long, to twice this long (client-go's choice), so that not all end at once."""
    stall: float = 90.0
    """Without a byte for this long the connection is dropped: API servers send a bookmark every minute."""
    healthy: float = 0.1
    """A watch that was open for this long, or brought something, has worked, and its cut is no failure: the next one
    starts at once. One that is closed sooner, again and again, waits ever longer; by taste."""
    gone: float = 5.0
    """A kind that is not found for this long is not served any more; an API server that has just been started may not
    know its CRDs yet; by taste."""
    jitter: float = 0.05
    """At once, but not all informers in the same moment; by taste."""


@dataclass(slots=True)
class Counts:
    """What an informer has done so far."""

    lists: int = 0
    watches: int = 0
    resumes: int = 0
    """Watches that went on from where the one before had ended."""
    events: int = 0
    bookmarks: int = 0
    broken: int = 0
    """Objects that did not decode, as often as they came."""
    errors: int = 0


class Informer(Generic[T]):
    """Feeds `sink` with all objects of a kind; `run` it as a task."""

    def __init__(
        self,
        api: Api,
        resource: Resource[T],
        sink: Callable[[Delta[T]], None],
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        seed: int = 0,
        pace: Pace = Pace(),  # noqa: B008
        page: int = PAGE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.api = api
        self.resource = resource
        self.synced = asyncio.Event()
        """Set once the first list has reached the sink, or there is nothing to list."""
        self.counts = Counts()
        self.error = ""
        """What went wrong last; empty once a watch has brought something."""
        self._sink = sink
        self._namespace = namespace
        self._labels = label_selector
        self._fields = field_selector
        self._pace = pace
        self._page = page
        self._clock = clock
        self._dice = random.Random(f"{resource}{seed}")
        self._version = ""
        self._odd: dict[str, str] = {}
        """Objects that do not decode, and why not."""
        self._opened: float | None = None
        """Since when the watch is open, or was."""
        self._missing: float | None = None
        """Since when the server does not know the kind."""
        self._heard = clock()

    def lag_seconds(self) -> float:
        """How long ago the server was last heard of: how old, at worst, the sink's picture is."""
        return self._clock() - self._heard

    async def run(self) -> None:
        """Until cancelled, or until the server does not serve the kind any more: then all of its objects have gone."""
        backoff = Backoff(self._pace.first, self._pace.most, self._dice)
        while True:
            wait, self._opened = 0.0, None
            version = self._version
            try:
                if not self._version:
                    await self._list()
                    version = self._version
                await self._watch()
            except Gone as error:
                log.info("%s: list again: %s", self.resource, error)
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
                wait = max(wait, self._dice.uniform(0.0, self._pace.jitter))
            else:
                wait = backoff.next(wait)
            await asyncio.sleep(wait)

    def _worked(self, version: str) -> bool:
        """Whether the watch that began there and has just ended was one, however it ended."""
        if self._opened is None or not self._version:
            return False
        return self._version != version or self._clock() - self._opened >= self._pace.healthy

    def _is_gone(self) -> bool:
        """Whether the kind has not been found for so long that it is no longer there."""
        now = self._clock()
        self._missing = now if self._missing is None else self._missing
        if now - self._missing < self._pace.gone:
            return False
        log.warning("%s: not served any more", self.resource)
        self._sink(Replaced([]))
        self.synced.set()
        return True

    async def _list(self) -> None:
        listed = await self.api.list(
            self.resource,
            self._namespace,
            label_selector=self._labels,
            field_selector=self._fields,
            limit=self._page,
        )
        self.counts.lists += 1
        self._missing = None
        odd, self._odd = self._odd, {}
        for item in listed.items:
            if isinstance(item, Broken):
                self._tell(item, odd)
        self._heard = self._clock()
        self._sink(Replaced(listed.items))
        self._version = listed.resource_version
        self.synced.set()

    async def _watch(self) -> None:
        """One watch, from the last version on, until it ends in any way."""
        counts, sink, kind = self.counts, self._sink, self.resource
        watch = self.api.watch(
            kind,
            self._version,
            self._namespace,
            label_selector=self._labels,
            field_selector=self._fields,
            timeout_seconds=self._pace.watch * self._dice.uniform(1.0, 2.0),
            stall_seconds=self._pace.stall,
            on_open=self._is_open,
        )
        counts.resumes += counts.watches >= counts.lists
        counts.watches += 1
        async with aclosing(watch) as events:
            async for event in events:
                self._heard, self.error = self._clock(), ""
                item = event.object
                if item is None:
                    counts.bookmarks += 1
                else:
                    counts.events += 1
                    if isinstance(item, Broken):
                        self._check(item)
                    if event.type == "DELETED":
                        sink(_removed(item))
                    else:
                        sink(Changed(item))
                self._version = event.resource_version or self._version

    def _is_open(self) -> None:
        self._opened = self._heard = self._clock()
        self._missing = None

    def _check(self, item: Broken) -> None:
        """Something changed that we cannot read: if not even its name, only a list tells what there is now."""
        self._tell(item, self._odd)
        if not item.name:
            self._version = ""
            raise ServerFault(item.error, verb="WATCH", path=self.resource.path(self._namespace))

    def _tell(self, item: Broken, known: dict[str, str]) -> None:
        """Say that an object does not decode, unless that is known: of a node nothing else would tell."""
        self.counts.broken += 1
        name = f"{item.namespace}/{item.name}".removeprefix("/")
        if name and known.get(name) != item.error:
            log.warning("%s `%s` does not decode: %s", item.kind, name, item.error)
        self._odd[name] = item.error

    def _failed(self, error: ApiError) -> None:
        self.counts.errors += 1
        message = str(error)
        if message != self.error:
            log.warning("%s: tried again: %s", self.resource, message)
        self.error = message


def _removed(item: T | Broken) -> Removed[T]:
    if isinstance(item, Broken):
        return Removed(item.namespace, item.name, item.uid, item)
    metadata = item.metadata
    return Removed(metadata.namespace, metadata.name, metadata.uid, item)
