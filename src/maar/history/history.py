"""History as the rest of Maar sees it: tell it what happened, ask it what is known, and never wait for it.

Records go into a queue with an end; one task takes them from there to the database, in the one thread that talks to
it, and brings back what is new in it, also what other Maars wrote. A database that is slow or gone costs the model its
news, and whoever brings measurements a refusal; scheduling does not notice.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from maar.elastic.speedup import Curve
from maar.history.address import NONE, read_address
from maar.history.category import category_of
from maar.history.errors import HistoryError, Refused, Unreachable
from maar.history.estimates import Estimates
from maar.history.model import JOBS, Key, Model
from maar.history.news import News
from maar.history.records import Event, EventKind, Measurement, Record
from maar.history.store import Store
from maar.history.thread import Thread

T = TypeVar("T")
R = TypeVar("R", Event, Measurement)

logger = logging.getLogger("maar.history")

QUEUE = 10_000
"""Records that wait for the database; more are refused (measurements) or lost (accounting)."""
BATCH = 500
"""Records that are written at once."""
HEARD = 1_000
"""Records that the model hears of in one go, some milliseconds, before others get their turn."""
REFRESH = 10.0
"""Seconds between two looks at what others wrote."""
SLOW = 5.0
"""A write that takes longer means that the database is not there; the write itself is waited for."""
RETRY = (1.0, 30.0)
"""The first and the longest pause before a database that failed is asked again."""
READ = 5.0
"""Seconds that a reader waits at most."""
LAST = 2.0
"""Seconds that a stop gives to what is queued."""


class History:
    """What jobs did. Without an address (`none`) it knows nothing, and takes nothing."""

    def __init__(
        self, address: str = NONE, *, queue: int = QUEUE, refresh: float = REFRESH, slow: float = SLOW
    ) -> None:
        self._store = None if address == NONE else Store(read_address(address))
        self._queue: deque[Record] = deque()
        self._size = queue
        self._refresh = refresh
        self._slow = slow
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._thread: Thread | None = None
        self._asked_at: float | None = None
        self._known: dict[str, Event] = {}
        self._lost = 0
        self._problem = "the database has not answered yet"
        self.on_news: list[Callable[[], None]] = []
        """Called when the model has heard something new."""
        self.on_ready: list[Callable[[], None]] = []
        """Called when the database answers, for the first time or again."""
        self.model = Model()
        self._estimates = Estimates(self.model)

    # -- its life

    def start(self) -> None:
        """Begin to talk to the database, in the background; needs a running event loop."""
        if self._store is not None and self._task is None:
            self._thread = Thread("maar-history")
            self._task = asyncio.create_task(self._run(self._store, self._thread))

    async def close(self) -> None:
        """Give what is queued a moment to be written, and stop."""
        if self._task is None or self._thread is None or self._store is None:
            return
        if self._queue:
            try:
                async with asyncio.timeout(LAST):
                    await self.settled()
            except TimeoutError:
                logger.warning("history: %d records are not written", len(self._queue))
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        try:
            async with asyncio.timeout(LAST):
                await self._thread.call(self._store.close)
        except TimeoutError:
            logger.warning("history: %s still does not answer", self._store.name)
        self._thread.stop()
        self._task = self._thread = None
        self._problem = "the history is closed"

    @property
    def on(self) -> bool:
        """Whether there is a database at all."""
        return self._store is not None

    @property
    def problem(self) -> str:
        """Why nothing can be written now; empty if it can."""
        if self._store is None:
            return "there is no history"
        if self._asked_at is not None and asyncio.get_running_loop().time() - self._asked_at > self._slow:
            return f"{self._store.name}: no answer for {self._slow:g} s"
        return self._problem

    # -- telling

    def record(self, event: Event) -> None:
        """Something happened to a job. Never waits; if too much waits already it is lost, which the log says."""
        if self._store is None:
            return
        event = self._completed(event)
        self._know(event)
        if len(self._queue) >= self._size:
            self._lost += 1
            if self._lost == 1:
                logger.warning("history: too much waits for %s: accounting is being lost", self._store.name)
            return
        self._put([event])

    def add(self, measurements: Sequence[Measurement]) -> str:
        """Epochs that jobs measured: empty if they will be written, else why not."""
        problem = self.problem
        if not problem and len(self._queue) + len(measurements) > self._size:
            problem = "too many measurements wait to be written"
        if not problem:
            self._put([self._completed(m) for m in measurements])
        return problem

    def _put(self, records: Iterable[Record]) -> None:
        self._queue.extend(records)
        self._idle.clear()
        self._wake.set()

    def _know(self, event: Event) -> None:
        """What was last said about a job completes what comes next."""
        known = self._known.get(event.job)
        if known is not None and known.at > event.at:
            return
        self._known.pop(event.job, None)
        if event.kind is not EventKind.ENDED:
            self._known[event.job] = event
        if len(self._known) > JOBS:
            del self._known[next(iter(self._known))]

    def _completed(self, record: R) -> R:
        known = self._known.get(record.job)
        if known is None or (record.uid and record.uid != known.uid):
            category = record.category or category_of(record.namespace, record.name)
            return msgspec.structs.replace(record, category=category)
        return msgspec.structs.replace(
            record,
            uid=known.uid,
            category=record.category or known.category,
            accelerator=record.accelerator or known.accelerator,
        )

    # -- asking

    def curves(self) -> Mapping[Key, Mapping[int, float]]:
        """The measured points {workers: speed-up} of each (category, accelerator) that has any."""
        return self.model.points()

    def points(self, category: str, accelerator: str) -> Mapping[int, float]:
        """The points to believe for a job: its own, else those of its category elsewhere; none is linear."""
        return self.model.points_for((category, accelerator))

    def curve(self, category: str, accelerator: str) -> Curve:
        """The same, as a curve."""
        return self._estimates.curve((category, accelerator))

    def remaining(
        self, job: str, category: str = "", accelerator: str = "", total_epochs: int | None = None
    ) -> float | None:
        """Seconds that a job (`namespace/name`) would still take on one worker; None if nobody knows."""
        return self._estimates.remaining(job, category, accelerator, total_epochs)

    def restart(self, category: str, accelerator: str) -> float | None:
        """Seconds that a resize costs; None until some were seen."""
        return self.model.restart((category, accelerator))

    def last(self, job: str) -> Event | None:
        """What was last told of a job (`namespace/name`) that has not ended, by any Maar; None if nothing is known."""
        return self._known.get(job)

    def unfinished(self) -> list[Event]:
        """The same of all jobs that have not ended."""
        return list(self._known.values())

    async def measurements_of(self, namespace: str, name: str) -> list[Measurement]:
        """What is stored of a job."""
        store, thread = self._store, self._thread
        if store is None or thread is None or self.problem:
            raise Unreachable(self.problem)
        try:
            async with asyncio.timeout(READ):
                return await thread.call(lambda: store.measurements_of(namespace, name))
        except TimeoutError:
            raise Unreachable(f"{store.name}: no answer for {READ:g} s") from None

    async def settled(self) -> None:
        """Until all that was told is written and the model has heard of it."""
        await self._idle.wait()

    # -- the background

    async def _run(self, store: Store, thread: Thread) -> None:
        news = News(store)
        pause = RETRY[0]
        while True:
            try:
                await self._ask(thread, store.open)
                await self._turn(thread, store, news)
                pause = RETRY[0]
                if self._problem:
                    logger.info("history: %s", store.name)
                    self._problem = ""
                    self._lost = 0
                    for listener in self.on_ready:
                        listener()
            except HistoryError as error:
                if self._problem != str(error):
                    logger.warning("history: %s; going on without it", error)
                self._problem = str(error)
                await self._ask(thread, store.close)  # begin anew: its tables may be gone
                await asyncio.sleep(pause)
                pause = min(2 * pause, RETRY[1])
                continue
            except Exception:
                logger.exception("history: a mistake of ours; going on")
                self._problem = "a mistake of ours, see the log"
                await asyncio.sleep(RETRY[1])
                continue
            if not self._queue:
                self._idle.set()
                await self._rest()

    async def _rest(self) -> None:
        self._wake.clear()
        try:
            async with asyncio.timeout(self._refresh):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _turn(self, thread: Thread, store: Store, news: News) -> None:
        """Write what waits, and hear what is new."""
        while self._queue:
            batch = [self._queue[i] for i in range(min(BATCH, len(self._queue)))]
            await self._write(thread, store, batch)
            for _ in batch:  # only now: what fails stays, to be written again
                self._queue.popleft()
        heard = await self._ask(thread, news.read)
        for start in range(0, len(heard), HEARD):
            for record in heard[start : start + HEARD]:
                self.model.feed(record)
                if isinstance(record, Event):
                    self._know(record)
            await asyncio.sleep(0)
        if heard:
            for listener in self.on_news:
                listener()

    async def _write(self, thread: Thread, store: Store, batch: list[Record]) -> None:
        try:
            await self._ask(thread, lambda: store.write(batch))
        except Refused as error:
            if len(batch) == 1:
                logger.warning("history: a record is left out: %s", error)
                return
            for record in batch:
                await self._write(thread, store, [record])

    async def _ask(self, thread: Thread, work: Callable[[], T]) -> T:
        self._asked_at = asyncio.get_running_loop().time()
        try:
            return await thread.call(work)
        finally:
            self._asked_at = None
