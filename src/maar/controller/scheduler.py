"""One running Maar: connects watches, the loop, writes, leadership and health. `maar run` and `maar demo` start it.

Start order: connect, discover what the server serves, watch it, wait until every kind is listed once, become the
leader, decide. No cycle runs before the first sync. A stop lets writes in flight finish.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from maar.controller.clock import Clock
from maar.controller.foreign import ForeignBinds
from maar.controller.history.accounting import Accounting
from maar.controller.history.gang_accounting import GangAccounting
from maar.controller.history.knowledge import Learner, learnt_from
from maar.controller.history.runs import Runs, length_of
from maar.controller.loads.gatherer import Gatherer
from maar.controller.loop import Loop
from maar.controller.record import Recorder
from maar.controller.reporting.reports import Reports
from maar.controller.reporting.subjects import pod_reference
from maar.controller.reporting.tallies import MOMENT
from maar.controller.settings.brakes import Brakes
from maar.controller.settings.config_file import ConfigFile
from maar.controller.settings.settings import Settings
from maar.controller.shards.front import Shards
from maar.controller.shards.membership import Membership
from maar.controller.snapshots.cache import Cache
from maar.controller.take_over import take_over
from maar.controller.watching import Sink
from maar.controller.writing.outbox import Outbox
from maar.controller.writing.provisioning import Provisioning
from maar.controller.writing.publishing import Publisher
from maar.history.history import History
from maar.kube.client.api import Api
from maar.kube.client.backoff import Backoff, cancel, happens
from maar.kube.client.discovery import served
from maar.kube.client.errors import NOT_NOW, ApiError, Conflict
from maar.kube.client.informer import Informer
from maar.kube.kinds import WATCHED, AnyJobKind
from maar.kube.kinds.cluster import PODS as PODS_KIND
from maar.kube.kinds.cluster import QUEUES as QUEUE_KIND
from maar.kube.kinds.kind import JobKind
from maar.kube.picture.picture import Picture, part_of
from maar.kube.wire import cluster as wire
from maar.kube.wire.annotations import ELASTIC
from maar.kube.wire.api_resources import PODS, QUEUES, Resource
from maar.kube.wire.base import Object
from maar.kube.wire.pods import Pod
from maar.kube.write.decided import Victim
from maar.kube.write.events import EventWriter
from maar.kube.write.executor import Executor, Lane
from maar.kube.write.intents import Intents
from maar.model.queues import DEFAULT

T = TypeVar("T")
logger = logging.getLogger("maar")

LIST_SIZES = 10.0
"""Seconds for the lists of elastic jobs at a take-over; tuned by hand. A kind that may not be listed any more must not
stop it for ever."""
LAST_WRITES = 5.0
"""Seconds that a stop waits for writes in flight."""


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


class Scheduler:
    """One running Maar."""

    def __init__(
        self,
        api: Api,
        settings: Settings,
        config: ConfigFile,
        brakes: Brakes | None = None,
        record: Path | None = None,
        history: History | None = None,
        intents: Intents | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Without a history, decisions use only the cluster. The caller starts and closes the history.

        Without intents, no lease protects the writes: only for a scheduler that is the only one by construction.
        """
        self.api = api
        self._settings = settings
        self._clock = clock or Clock()
        self.config = config
        self.brakes = brakes or Brakes()
        self._history = known = history if history is not None and history.on else None
        learnt = None if known is None else partial(learnt_from, known)
        self.picture = Picture(settings.scheduler_names, self._is_ours, learnt)
        self.cache = Cache(self.picture, None if known is None else partial(length_of, known, self.picture))
        self._intents = intents
        pods = self.picture.objects.of(PODS_KIND)
        self.executor = Executor(api, in_flight=settings.in_flight, gate=intents, watched=pods.get)
        self.executor.on_failed.append(self.fail)
        self.events = EventWriter(self._writer, "maar")
        self.foreign = ForeignBinds(settings.scheduler_names, self._leads)
        status = partial(self.executor.submit, lane=Lane.STATUS)
        self._provisioning = Provisioning(
            self.cache, lambda: config.config.autoscaling.provisioning_class, status, self.events.emit
        )
        self._reports = Reports(self.cache, may_ask=self._provisioning.may_be_unschedulable)
        self._recorder = None if record is None else Recorder(record)
        self.outbox = Outbox(
            self.cache,
            self.executor,
            self.events,
            self._reports,
            self._provisioning,
            settings,
            lambda: settings.pod_events or config.config.pod_events,
            self._trigger,
        )
        self.membership: Membership | None = None
        """Which shards this process holds, once it may hold some."""
        self.shards: Shards | None = None
        self.loop = Loop(
            self.cache,
            None if settings.dry_run else self.outbox,
            config.current,
            settings,
            self.brakes,
            self._recorder,
            self._clock,
        )
        self.loads = Gatherer(api, self.picture, lambda: config.config.metrics, self.look_again, self._clock)
        self.publisher = Publisher(self._writer, config, settings, self._is_first, self._clock, brakes=self.brakes)
        self._learner = Learner(self._learn, self._trigger, settings.learn_every)
        if known is not None:
            self._remember(known)
        self.informers: dict[Resource[Object], Informer[Object]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._look_for_kinds = asyncio.Event()
        self.leading = False
        """Whether this instance decides for the cluster."""
        self.trouble = ""
        """The error that ended a background task."""
        self._failed = asyncio.Event()
        self._closing = False
        config.on_changed.append(self._trigger)
        config.on_changed.append(self.loads.look)

    def _leads(self) -> bool:
        """Whether no other instance of Maar decides: false at once after this one was frozen for too long."""
        return self.leading and (self._intents is None or not self._intents.lost)

    def _is_first(self) -> bool:
        """Whether this process decides alone, or for the first shard."""
        return self.shards is None or 0 in self.shards.holding.shards

    @property
    def _writer(self) -> Api:
        """Writes nothing once the lease is lost."""
        intents = self._intents
        return self.api if intents is None else self.api.while_not(lambda: intents.lost)

    def _remember(self, history: History) -> None:
        """Learn from the history, and record events in it; shadow mode has no events to record."""
        history.on_news.append(self._learner.news)
        if not self._settings.dry_run:
            accounting = Accounting(self.picture, history, self._clock)
            history.nodes_of = accounting.nodes_of
            history.on_ready.append(self._trigger)
            self.loop.on_cycle.append(accounting.on_cycle)
            self.loop.on_cycle.append(GangAccounting(self.picture, history).on_cycle)
            self.loop.on_cycle.append(Runs(self.picture, history).on_cycle)
            self.outbox.on_given.append(accounting.given)
            self.outbox.resizes.on_written.append(accounting.wrote)

    def _learn(self) -> bool:
        """Update what the history says about jobs; returns whether anything changed for decisions."""
        elastic, lengths = self.picture.learn(), self.cache.learn()
        return elastic or lengths

    def _trigger(self) -> None:
        self.loop.trigger()

    def _moved(self, pod: str) -> None:
        """A pod changed its stage: its group is counted again after a moment."""
        if not self._settings.dry_run and self._reports.tallies.moved(self.cache, pod, self._clock()):
            asyncio.get_running_loop().call_later(MOMENT, self._trigger)

    def _retold(self, pod: Pod) -> None:
        """A waiting pod shows another reason or nominated node. If Maar did not write it, it is corrected."""
        if self._leads() and not self.executor.may_have_written(pod):
            self._reports.contradicted(pod.key, self._clock())
            self.loop.trigger_later()

    def _bound_by_another(self, pod: Pod) -> None:
        """A waiting pod was bound, and not by this process. Pods of other shards are bound by these."""
        own = self.cache.own
        task = None if own.is_all else self.cache.find(pod.key)
        if self.shards is None or (task is not None and own.has_job(task.job)):
            self.foreign.bound(pod)

    def look_again(self) -> None:
        """Look at all jobs, because the rules have changed."""
        self.cache.wake_all()
        self.loop.trigger()

    def _is_ours(self, node: wire.Node) -> bool:
        selector = self._settings.node_selector
        return selector is None or selector.matches(node.metadata.labels)

    # -- starting

    async def sync(self) -> None:
        """Watch everything that the server serves, and wait until every kind is listed once."""
        await when_it_answers(self._discover)
        self.background(self._discover_again(), endless=True)
        self.background(self.config.watch(), endless=True)
        await asyncio.gather(*(informer.synced.wait() for informer in self.informers.values()))
        self.background(self._make_default_queue())

    async def _discover(self) -> None:
        wanted = [kind for kind in WATCHED if kind.family not in self._settings.without]
        found = await served(self.api, wanted)
        watched = {(resource.group, resource.plural) for resource in self.informers}
        for kind, resource in sorted(found.items(), key=lambda pair: str(pair[1])):
            if (resource.group, resource.plural) in watched:
                continue
            self.picture.served[kind] = resource
            sink = Sink(
                self.picture,
                kind,
                self._trigger,
                self.cache.wake_all,
                self.loop.trigger_later,
                self._moved,
                self._bound_by_another,
                self._retold,
            )
            informer = self.informers[resource] = Informer(
                self.api,
                resource,
                sink,
                namespace=self._settings.namespace if kind.only else None,
                field_selector=f"metadata.name={kind.only}" if kind.only else "",
            )
            self.background(self._watch(resource, informer))

    async def _watch(self, resource: Resource[Object], informer: Informer[Object]) -> None:
        """Watch until the kind is no longer served: its CRD was deleted, and may be created again."""
        await informer.run()
        del self.informers[resource]
        self._look_for_kinds.set()

    async def _discover_again(self) -> None:
        while True:
            await happens(self._look_for_kinds, self._settings.discover_again)
            self._look_for_kinds.clear()
            queues_before = QUEUES in self.informers
            with contextlib.suppress(ApiError):
                await self._discover()
            if QUEUES in self.informers and not queues_before:
                self.background(self._make_default_queue())

    async def _make_default_queue(self) -> None:
        """Create the default queue if the server serves Volcano's queues."""
        if QUEUES not in self.informers or self._settings.dry_run:
            return
        await self.informers[QUEUES].synced.wait()
        queue = QUEUES.document({"name": DEFAULT}, spec={"weight": 1, "reclaimable": True})
        backoff = Backoff(0.1, 30.0, random.Random(0))
        while QUEUES in self.informers and DEFAULT not in self.picture.objects.of(QUEUE_KIND):
            try:
                await self._writer.create(QUEUES.path(), queue)
                return
            except Conflict:
                return
            except NOT_NOW as error:  # An unavailable webhook of Volcano also gives this.
                logger.warning("creating the default queue failed, will retry: %s", error)
                await asyncio.sleep(backoff.next(error.retry_after))
            except ApiError as error:
                logger.warning("creating the default queue failed: %s", error)
                return

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

    # -- running

    async def lead(self) -> None:
        """Decide until cancelled; then let writes in flight finish, unless the lease is lost."""
        beside = [asyncio.create_task(self.loads.run())]
        try:
            if self.shards is None:
                await self.take_over()
            self.leading = not self._settings.dry_run
            if self.leading:
                beside.append(asyncio.create_task(self.publisher.run()))
            await self.loop.run()
        finally:
            self.leading = False
            await cancel(beside)
            if self._intents is None or not self._intents.lost:
                await self.executor.drain(LAST_WRITES)
            self.executor.stop()

    def share(self, rack_label: str = "") -> Shards:
        """Be one of several that share the cluster as shards, from now on; before the first decision."""
        shards = Shards(self._writer, self.cache, self.outbox, self._list_pods, self._trigger, rack_label)
        self.shards = self.loop.shards = shards
        return shards

    async def take_over(self) -> None:
        """Settle everything that earlier leaders may have sent, and learn what became of it."""
        if self._intents is not None:
            await take_over(
                self._writer,
                self._intents,
                self._list_pods,
                self._paths,
                may_evict=self._not_braked,
                evicted=self._tell_victim,
            )

    def _not_braked(self, victims: list[Victim]) -> list[Victim]:
        """The victims that the brakes permit. A pod whose queue is not known is protected as if its queue were."""
        brakes = self.brakes.settings
        if brakes.paused or not brakes.queues_off:
            return [] if brakes.paused else victims
        part = part_of(self.picture, {victim.namespace for victim in victims})
        jobs = part.take(self._clock()).changed.values()
        free = {task.uid for of in jobs if of is not None and of[0].queue not in brakes.queues_off for task in of[1]}
        return [victim for victim in victims if victim.uid in free]

    def _tell_victim(self, victim: Victim) -> None:
        regarding = pod_reference(f"{victim.namespace}/{victim.name}", victim.uid)
        self.events.emit(regarding, "Normal", "Preempted", "evicted: an earlier leader of Maar had decided it")

    async def _list_pods(self) -> None:
        """List all pods, and the kinds of elastic jobs: their size says which workers count for the limit of a queue.

        Watches of different kinds are not ordered, so a size could be older than the pods.
        """
        sized = dict.fromkeys(self.picture.served[kind] for kind, _ in self._elastic())
        lists = [asyncio.create_task(self.informers[r].list_again()) for r in sized if r in self.informers]
        try:
            await self.informers[PODS].list_again()
            if lists:
                await asyncio.wait(lists, timeout=LIST_SIZES)
        finally:
            for unfinished in lists:
                unfinished.cancel()

    def _elastic(self) -> Iterator[tuple[AnyJobKind, Object]]:
        """Objects that are elastic jobs, or may be."""
        for kind in self.picture.served:
            if isinstance(kind, JobKind) and kind.write is not None:
                for item in self.picture.objects.of(kind).values():
                    if _may_be_elastic(kind, item, self._settings.scheduler_names):
                        yield kind, item

    def _paths(self) -> Iterator[str]:
        """The objects that a Maar may bind, evict or resize."""
        picture, names = self.picture, self._settings.scheduler_names
        for pod in picture.objects.of(PODS_KIND).values():
            if pod.spec.scheduler_name in names and not pod.finished:
                yield PODS.path(pod.namespace, pod.name)
        yield from (picture.path(kind, item) for kind, item in self._elastic())

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
        await self.executor.close()
        await self.events.close()
        if self._recorder is not None:
            self._recorder.close()


def _may_be_elastic(kind: AnyJobKind, item: Object, names: frozenset[str]) -> bool:
    try:
        return ELASTIC in item.metadata.annotations or kind.elastic(item, None, names) is not None
    except Exception:  # it cannot be read now, but perhaps it could be
        return True
