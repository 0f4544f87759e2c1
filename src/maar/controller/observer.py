"""The observer: watches a cluster, decides about it after each change, and publishes each cycle. It cannot write.

`maar web` and shadow mode are an observer and nothing else. In `maar run` the scheduler adds to it what acts.

Start order: connect, discover what the server serves, watch it, wait until every kind is listed once, decide. No cycle
runs before the first sync.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from maar.controller.clock import Clock
from maar.controller.history.knowledge import Learner, learnt_from, length_of
from maar.controller.loads.gatherer import Gatherer
from maar.controller.loop import Loop
from maar.controller.record import Recorder
from maar.controller.settings.brakes import Brakes
from maar.controller.settings.config_file import ConfigFile
from maar.controller.settings.settings import Settings
from maar.controller.snapshots.cache import Cache
from maar.controller.watching import PodNews, Sink
from maar.history.history import History
from maar.kube.client.backoff import Backoff, cancel, happens
from maar.kube.client.discovery import served
from maar.kube.client.errors import NOT_NOW, ApiError
from maar.kube.client.informer import Informer
from maar.kube.client.reader import Reader
from maar.kube.kinds import WATCHED
from maar.kube.kinds.cluster import NODES, PODS
from maar.kube.picture.picture import Picture
from maar.kube.wire import cluster as wire
from maar.kube.wire.api_resources import Resource
from maar.kube.wire.base import Object

T = TypeVar("T")
logger = logging.getLogger("maar")


async def when_it_answers(ask: Callable[[], Awaitable[T]]) -> T:
    """The answer of the server; asks again while it does not answer, for example during a restart."""
    backoff = Backoff(0.1, 5.0, random.Random(0))
    while True:
        try:
            return await ask()
        except NOT_NOW as error:
            logger.warning("the API server does not answer yet: %s", error)
            await asyncio.sleep(backoff.next(error.retry_after))


class BackgroundTaskFailed(Exception):
    """A task that decisions depend on has ended unexpectedly."""


class Observer:
    """Watches one cluster, and decides about it."""

    def __init__(
        self,
        api: Reader,
        settings: Settings,
        config: ConfigFile,
        brakes: Brakes | None = None,
        record: Path | None = None,
        history: History | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Without a history, decisions use only the cluster. The caller starts and closes the history."""
        self.reader = api.reader()
        self._settings = settings
        self._clock = clock or Clock()
        self.config = config
        self.brakes = brakes or Brakes()
        self._history = known = history if history is not None and history.on else None
        learnt = None if known is None else partial(learnt_from, known)
        self.picture = Picture(settings.scheduler_names, self._is_ours, learnt)
        self.cache = Cache(self.picture, None if known is None else partial(length_of, known, self.picture))
        self._recorder = None if record is None else Recorder(record)
        self.loop = Loop(self.cache, config.current, settings, self.brakes, self._recorder, self._clock)
        self.loads = Gatherer(self.reader, self.picture, lambda: config.config.metrics, self.look_again, self._clock)
        self._learner = Learner(self._learn, self.loop.trigger, settings.learn_every)
        if known is not None:
            known.on_news.append(self._learner.news)
        self.informers: dict[Resource[Object], Informer[Object]] = {}
        self.on_watched: list[Callable[[Resource[Object]], None]] = []
        """Called for each kind that the server serves, when it begins to be watched."""
        self.on_pod: list[Callable[[PodNews], None]] = []
        """Called for news about pods that change no decision by themselves."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._look_for_kinds = asyncio.Event()
        self.trouble = ""
        """The error that ended a background task."""
        self._failed = asyncio.Event()
        self._closing = False
        config.on_changed.append(self.loop.trigger)
        config.on_changed.append(self.loads.look)

    def _learn(self) -> bool:
        """Update what the history says about jobs; returns whether anything changed for decisions."""
        elastic, lengths = self.picture.learn(), self.cache.learn()
        return elastic or lengths

    def look_again(self) -> None:
        """Look at all jobs, because the rules have changed."""
        self.loop.trigger(wake=True)

    def _is_ours(self, node: wire.Node) -> bool:
        selector = self._settings.node_selector
        return selector is None or selector.matches(node.metadata.labels)

    # -- watching

    async def sync(self) -> None:
        """Watch everything that the server serves, and wait until every kind is listed once."""
        await when_it_answers(self._discover)
        self.background(self._discover_again(), endless=True)
        self.background(self.config.watch(), endless=True)
        await asyncio.gather(*(informer.synced.wait() for informer in self.informers.values()))
        objects = self.picture.objects
        logger.info("initial lists complete: nodes: %d, pods: %d", len(objects.of(NODES)), len(objects.of(PODS)))

    async def _discover(self) -> None:
        wanted = [kind for kind in WATCHED if kind.family not in self._settings.without]
        found = await served(self.reader, wanted)
        watched = {(resource.group, resource.plural) for resource in self.informers}
        for kind, resource in sorted(found.items(), key=lambda pair: str(pair[1])):
            if (resource.group, resource.plural) in watched:
                continue
            self.picture.served[kind] = resource
            informer = self.informers[resource] = Informer(
                self.reader,
                resource,
                Sink(self.picture, kind, self.loop, self._tell),
                namespace=self._settings.namespace if kind.only else None,
                field_selector=f"metadata.name={kind.only}" if kind.only else "",
            )
            self.background(self._watch(resource, informer))
            for listener in self.on_watched:
                listener(resource)

    def _tell(self, news: PodNews) -> None:
        for listener in self.on_pod:
            listener(news)

    async def _watch(self, resource: Resource[Object], informer: Informer[Object]) -> None:
        """Watch until the kind is no longer served: its CRD was deleted, and may be created again."""
        await informer.run()
        del self.informers[resource]
        self._look_for_kinds.set()

    async def _discover_again(self) -> None:
        while True:
            await happens(self._look_for_kinds, self._settings.discover_again)
            self._look_for_kinds.clear()
            with contextlib.suppress(ApiError):
                await self._discover()

    def background(self, work: Coroutine[Any, Any, Any], *, endless: bool = False) -> None:
        """Run beside the loop; if it fails, or ends although it is endless, `failed` raises and the process ends."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, endless))

    async def failed(self) -> None:
        """Raises once a background task has failed: a process that no longer watches must not keep its lease."""
        await self._failed.wait()
        raise BackgroundTaskFailed(f"a background task of the scheduler failed: {self.trouble}")

    def _ended(self, endless: bool, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if self._closing:
            return
        error = asyncio.CancelledError("by no one") if task.cancelled() else task.exception()
        if error is not None or endless:
            self.fail(error or RuntimeError(f"{task.get_coro()} has ended"))

    def fail(self, error: BaseException) -> None:
        """Something that watching, deciding or writing depends on has ended: `failed` raises, and the process ends."""
        self.trouble = self.trouble or f"{type(error).__name__}: {error}"
        self._failed.set()
        logger.error("a background task of the scheduler failed: %s", self.trouble, exc_info=error)

    # -- deciding

    async def observe(self) -> None:
        """Decide until cancelled. Nobody carries out the plans."""
        gathering = asyncio.create_task(self.loads.run())
        try:
            await self.loop.run()
        finally:
            await cancel([gathering])

    def lags(self) -> dict[str, float]:
        """Seconds since the last sign of each watch."""
        return {str(resource): informer.lag_seconds() for resource, informer in self.informers.items()}

    def not_ready(self) -> str:
        """What is missing before the first decision; empty if nothing is."""
        missing = [str(r) for r, informer in self.informers.items() if not informer.synced.is_set()]
        if not self.informers:
            return "not connected yet"
        return f"not listed yet: {', '.join(missing)}" if missing else ""

    def restarts(self) -> dict[str, int]:
        """How often each part that decisions do not depend on has started again."""
        return {
            "recording": 0 if self._recorder is None else self._recorder.restarts,
            "history": 0 if self._history is None else self._history.restarts,
            "load": self.loads.restarts,
        }

    async def close(self) -> None:
        self._closing = True
        self._learner.close()
        await cancel(self._tasks)
        if self._recorder is not None:
            self._recorder.close()
