"""One running Maar: an observer, and what acts on its decisions: writes, reports, accounts, leadership.

`maar run` and `maar demo` start it. A stop lets writes in flight finish.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from maar.controller.foreign import ForeignBinds
from maar.controller.history.accounting import Accounting
from maar.controller.history.lives import Lives
from maar.controller.history.runs import Runs
from maar.controller.observer import Observer
from maar.controller.reporting.pod_counts import MOMENT
from maar.controller.reporting.reports import Reports
from maar.controller.settings.brakes import Brakes
from maar.controller.settings.config_file import ConfigFile
from maar.controller.settings.settings import Settings
from maar.controller.shards.front import Shards
from maar.controller.take_over import take_over
from maar.controller.watching import BoundByAnother, PodMoved, PodNews, Retold
from maar.controller.writing.outbox import Outbox
from maar.controller.writing.provisioning import Provisioning
from maar.controller.writing.publishing import Publisher
from maar.history.history import History
from maar.kube.client.api import Api
from maar.kube.client.backoff import Backoff, cancel
from maar.kube.client.errors import NOT_NOW, ApiError, Conflict
from maar.kube.kinds import AnyJobKind
from maar.kube.kinds.cluster import PODS as PODS_KIND
from maar.kube.kinds.cluster import QUEUES as QUEUE_KIND
from maar.kube.kinds.kind import JobKind
from maar.kube.picture.picture import part_of
from maar.kube.wire.annotations import ELASTIC
from maar.kube.wire.api_resources import PODS, QUEUES, Resource
from maar.kube.wire.base import Object
from maar.kube.wire.references import pod_reference
from maar.kube.write.decided import DecidedVictim
from maar.kube.write.events import EventWriter
from maar.kube.write.executor import Executor, Lane
from maar.kube.write.intents import Intents
from maar.model.queues import DEFAULT

logger = logging.getLogger("maar")

LIST_SIZES = 10.0
"""Seconds for the lists of elastic jobs at a take-over; tuned by hand. A kind that may not be listed any more must not
stop it for ever."""
LAST_WRITES = 5.0
"""Seconds that a stop waits for writes in flight."""


class Scheduler(Observer):
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
        """Without intents, no lease protects the writes: only for a scheduler that is the only one by construction."""
        super().__init__(api, settings, config, brakes, record, history, clock)
        self.api = api
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
        self.outbox = Outbox(
            self.cache,
            self.executor,
            self.events,
            self._reports,
            self._provisioning,
            settings,
            lambda: settings.pod_events or config.config.pod_events,
            self.loop.trigger,
        )
        self.shards: Shards | None = None
        self.publisher = Publisher(self._writer, config, settings, self._is_first, self._clock, brakes=self.brakes)
        if self._history is not None:
            self._account(self._history)
        self.leading = False
        """Whether this instance decides for the cluster."""
        self.on_watched.append(self._watches)
        self.on_pod.append(self._on_pod)

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

    def _account(self, history: History) -> None:
        """Record in the history what happens to jobs."""
        lives = Lives(self.picture, self._clock)
        accounting, runs = Accounting(lives, self.picture, history), Runs(self.picture, history)
        lives.listeners += accounting.on_moment, runs.on_moment
        history.on_ready.append(self.loop.trigger)
        self.loop.on_cycle += lives.on_cycle, accounting.on_cycle
        self.outbox.on_given.append(lives.bound)
        self.outbox.resizes.on_written.append(lives.resized)

    def _on_pod(self, news: PodNews) -> None:
        match news:
            case PodMoved(key):  # its group is counted again after a moment
                if self._reports.tallies.moved(self.cache, key, self._clock()):
                    asyncio.get_running_loop().call_later(MOMENT, self.loop.trigger)
            case Retold(pod):  # if Maar did not write it, it is corrected
                if self._leads() and not self.executor.may_have_written(pod):
                    self._reports.contradicted(pod.key, self._clock())
                    self.loop.trigger_later()
            case BoundByAnother(pod):  # pods of other shards are bound by these
                own = self.cache.own
                task = None if own.is_all else self.cache.find(pod.key)
                if self.shards is None or (task is not None and own.has_job(task.job)):
                    self.foreign.bound(pod)

    # -- the default queue

    def _watches(self, resource: Resource[Object]) -> None:
        if resource == QUEUES:
            self.background(self._make_default_queue())

    async def _make_default_queue(self) -> None:
        """Create the default queue, unless it is there; the server serves Volcano's queues."""
        if (informer := self.informers.get(QUEUES)) is None:
            return
        await informer.synced.wait()
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

    # -- running

    async def lead(self) -> None:
        """Decide until cancelled; then let writes in flight finish, unless the lease is lost."""
        beside = [asyncio.create_task(self.loads.run())]
        try:
            if self.shards is None:
                await self.take_over()
            self.leading = True
            beside.append(asyncio.create_task(self.publisher.run()))
            await self.loop.run(self.outbox, self.shards)
        finally:
            self.leading = False
            await cancel(beside)
            if self._intents is None or not self._intents.lost:
                await self.executor.drain(LAST_WRITES)
            self.executor.stop()

    def share(self, rack_label: str = "") -> Shards:
        """Be one of several that share the cluster as shards, from now on; before the first decision."""
        self.shards = Shards(self._writer, self.cache, self.outbox, self._list_pods, self.loop.trigger, rack_label)
        return self.shards

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

    def _not_braked(self, victims: list[DecidedVictim]) -> list[DecidedVictim]:
        """The victims that the brakes permit. A pod whose queue is not known is protected as if its queue were."""
        brakes = self.brakes.settings
        if brakes.paused or not brakes.queues_off:
            return [] if brakes.paused else victims
        part = part_of(self.picture, {victim.namespace for victim in victims})
        jobs = part.take(self._clock()).changed.values()
        free = {task.uid for of in jobs if of is not None and of[0].queue not in brakes.queues_off for task in of[1]}
        return [victim for victim in victims if victim.uid in free]

    def _tell_victim(self, victim: DecidedVictim) -> None:
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

    async def close(self) -> None:
        await super().close()
        await self.executor.close()
        await self.events.close()


def _may_be_elastic(kind: AnyJobKind, item: Object, names: frozenset[str]) -> bool:
    try:
        return ELASTIC in item.metadata.annotations or kind.elastic(item, None, names) is not None
    except Exception:  # noqa: BLE001 it cannot be read now, but perhaps it could be
        return True
