"""The interface of the history: record events, add measurements, ask for estimates. It never blocks the caller.

Records go into a bounded queue. One task writes them to the database, in the only thread that talks to it, and reads
new rows, including those of other Maar replicas. If the database is slow or gone, the model gets no new data and
clients that send measurements get an error. Scheduling continues.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from maar.history.address import NONE, read_address
from maar.history.category import category_of, scoped
from maar.history.errors import HistoryError, Refused, Unreachable
from maar.history.estimates import Estimates, Speeds
from maar.history.model import JOBS, Model
from maar.history.news import News
from maar.history.records import Event, EventKind, FinishedRun, Measurement, Record
from maar.history.store import Store
from maar.history.thread import Thread
from maar.lengths.runtimes import RunTimes

T = TypeVar("T")
R = TypeVar("R", Event, Measurement)

logger = logging.getLogger("maar.history")

QUEUE = 10_000
"""Maximum records in the queue; further measurements are refused, and further accounting events are lost."""
BATCH = 500
"""Records per write."""
FED = 1_000
"""Records fed to the model, in some milliseconds, before the event loop continues."""
REFRESH = 10.0
"""Seconds between reads of new rows."""
SLOW = 5.0
"""Seconds after which a call counts as unanswered; the call itself continues."""
RETRY = (1.0, 30.0)
"""The first and the longest pause before a retry after a failure, in seconds."""
READ = 5.0
"""Timeout of a read, in seconds."""
SHOWN = 1_000
"""Measurements of a job that a client can read: more would keep the interpreter busy for too long."""
LAST = 2.0
"""Seconds to write the queue when Maar stops."""
ENDED = 1_000
"""Finished jobs whose late measurements are recognized. Tuned by hand."""


class History:
    """The history of jobs. With the address `none`, it stores and knows nothing."""

    def __init__(
        self,
        address: str = NONE,
        *,
        queue: int = QUEUE,
        refresh: float = REFRESH,
        slow: float = SLOW,
        write: bool = True,
    ) -> None:
        """Without `write` it only reads what another process writes, and creates no tables."""
        self._store = None if address == NONE else Store(read_address(address), write=write)
        self._writes = write
        self._queue: deque[Record | FinishedRun] = deque()
        self._size = queue
        self._refresh = refresh
        self._slow = slow
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._thread: Thread | None = None
        self._asked_at: float | None = None
        self._known: dict[str, Event] = {}
        self._ended: dict[str, Event] = {}
        self._lost = 0
        self.restarts = 0
        """How often the database became available again, or the task that writes to it was started again."""
        self._problem = "the database has not answered yet"
        self._places: dict[str, list[str]] = {}
        """The node of each worker of the jobs that run now."""
        self.on_news: list[Callable[[], None]] = []
        """Called when the model has new data."""
        self.on_ready: list[Callable[[], None]] = []
        """Called when the database becomes available."""
        self.model = Model()
        self._estimates = Estimates(self.model)
        self.run_times = RunTimes()
        """Of finished jobs, from all replicas."""

    # -- start and stop

    def start(self) -> None:
        """Connect to the database in the background; needs a running event loop."""
        if self._store is not None and self._task is None:
            self._thread = Thread("maar-history")
            self._task = asyncio.create_task(self._keep(self._store, self._thread))

    async def close(self) -> None:
        """Try to write the queue within `LAST` seconds, and stop."""
        if self._task is None or self._thread is None or self._store is None:
            return
        if self._queue:
            try:
                async with asyncio.timeout(LAST):
                    await self.settled()
            except TimeoutError:
                logger.warning("history: stopped with %d records not written", len(self._queue))
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
        """Whether a database is configured."""
        return self._store is not None

    @property
    def problem(self) -> str:
        """Why nothing can be written now; empty if writing works."""
        if self._store is None:
            return "no history configured"
        if self._asked_at is not None and asyncio.get_running_loop().time() - self._asked_at > self._slow:
            return f"{self._store.name}: no answer for {self._slow:g} s"
        return self._problem

    # -- writing

    def record(self, event: Event) -> None:
        """Queue an accounting event. Never blocks; if the queue is full, the event is lost and a warning is logged."""
        if self._store is None:
            return
        event = _named(self._completed(event))
        self._know(event)
        self._put_or_lose(event)

    def finished(self, run: FinishedRun) -> None:
        """Queue the run of a finished job, in the same way."""
        self._put_or_lose(run)

    def runs_on(self, job: str, nodes: list[str]) -> None:
        """The workers of a job (`namespace/name`) run on these nodes from now on; on none: it does not run."""
        if nodes:
            self._places[job] = nodes
        else:
            self._places.pop(job, None)

    def nodes_of(self, job: str, workers: int) -> int | None:
        """On how many nodes a job (`namespace/name`) runs now, if it has this many workers; None if unknown."""
        nodes = self._places.get(job, [])
        return len(set(nodes)) if nodes and len(nodes) == workers else None

    def _put_or_lose(self, record: Event | FinishedRun) -> None:
        if self._store is None:
            return
        if len(self._queue) >= self._size:
            self._lost += 1
            if self._lost == 1:
                logger.warning("history: queue for %s is full: accounting events are lost", self._store.name)
            return
        self._put([record])

    def add(self, measurements: Sequence[Measurement]) -> str:
        """Queue measurements. Returns an empty text, or why they are refused."""
        problem = self.problem if self._writes else "this Maar only reads the history"
        if not problem and len(self._queue) + len(measurements) > self._size:
            problem = "queue of measurements is full"
        if not problem:
            self._put([self._placed(self._completed(m)) for m in measurements])
        return problem

    def _put(self, records: Iterable[Record | FinishedRun]) -> None:
        self._queue.extend(records)
        self._idle.clear()
        self._wake.set()

    def _know(self, event: Event) -> None:
        """Remember the last event of a job, to complete later records."""
        known, ended = self._known.get(event.job), self._ended.get(event.job)
        if (known is not None and known.at > event.at) or (ended is not None and ended.uid == event.uid != ""):
            return
        self._known.pop(event.job, None)
        jobs, most = (self._ended, ENDED) if event.kind is EventKind.ENDED else (self._known, JOBS)
        jobs[event.job] = event
        if len(jobs) > most:
            del jobs[next(iter(jobs))]

    def _placed(self, m: Measurement) -> Measurement:
        """A measurement with the nodes of its job, if it does not say them itself."""
        if m.nodes is not None or m.resized:
            return m
        return msgspec.structs.replace(m, nodes=self.nodes_of(m.job, m.workers))

    def _completed(self, record: R) -> R:
        """A record with what events say about its job. A job that no event has named yet stays without a UID."""
        known = self._event_of(record)
        if known is None or (record.uid and record.uid != known.uid):
            return record
        return msgspec.structs.replace(
            record,
            uid=known.uid,
            category=scoped(record.namespace, record.category or known.category),
            accelerator=record.accelerator or known.accelerator,
        )

    def _event_of(self, record: Record) -> Event | None:
        """The last event of the job of a record. Jobs with the same name follow each other."""
        known, ended = self._known.get(record.job), self._ended.get(record.job)
        if isinstance(record, Measurement):
            if ended is not None and record.begin < ended.at:
                return ended
            if known is not None and known.kind is EventKind.SUBMITTED and record.arrived < known.at:
                return None
        return known

    # -- reading

    def speeds(self, job: str, category: str, accelerator: str) -> Speeds:
        """The best known speed-up of a job (`namespace/name`): its own, fitted, or measured points."""
        return self._estimates.speeds((category, accelerator), job)

    def remaining(
        self, job: str, category: str = "", accelerator: str = "", total_epochs: int | None = None
    ) -> float | None:
        """Remaining seconds of a job (`namespace/name`) on one worker; None if unknown."""
        return self._estimates.remaining(job, category, accelerator, total_epochs)

    def restart(self, category: str, accelerator: str) -> float | None:
        """Seconds that a resize costs; None until enough are measured."""
        return self.model.restart((category, accelerator))

    def last(self, job: str) -> Event | None:
        """The last event of an unfinished job (`namespace/name`), from any replica; None if unknown."""
        return self._known.get(job)

    def unfinished(self) -> list[Event]:
        """The last event of every unfinished job."""
        return list(self._known.values())

    async def measurements_of(self, namespace: str, name: str) -> list[Measurement]:
        """The newest stored measurements of a job, oldest first."""
        return await self._read(lambda store: store.measurements_of(namespace, name, newest=SHOWN))

    async def events_of(self, namespace: str, name: str) -> list[Event]:
        """The newest stored events of a job, oldest first."""
        return await self._read(lambda store: store.events_of(namespace, name, newest=SHOWN))

    async def runs(self, after: int = 0, newest: int | None = None) -> list[FinishedRun]:
        """The stored runs of finished jobs with a row above `after`, oldest first."""
        return await self._read(lambda store: store.runs(after, newest=newest))

    async def _read(self, work: Callable[[Store], T]) -> T:
        """What the database answers to a client that waits for it."""
        store, thread = self._store, self._thread
        if store is None or thread is None or self.problem:
            raise Unreachable(self.problem)
        try:
            async with asyncio.timeout(READ):
                return await thread.call(lambda: work(store))
        except TimeoutError:
            raise Unreachable(f"{store.name}: no answer for {READ:g} s") from None

    async def settled(self) -> None:
        """Wait until the queue is written and the model has read it."""
        await self._idle.wait()

    # -- the background

    async def _keep(self, store: Store, thread: Thread) -> None:
        """Write and read until cancelled, whatever happens."""
        while True:
            try:
                await self._run(store, thread)
            except Exception:
                logger.exception("history: internal error; starting again")
                self._problem = "internal error, see the log"
                self.restarts += 1
            await asyncio.sleep(RETRY[1])

    async def _run(self, store: Store, thread: Thread) -> None:
        news = News(store)
        pause = RETRY[0]
        was_there = False
        while True:
            try:
                await self._ask(thread, store.open)
                await self._turn(thread, store, news)
                pause = RETRY[0]
                if self._problem:
                    logger.info("history: %s", store.name)
                    self.restarts += was_there
                    was_there = True
                    self._problem = ""
                    self._lost = 0
                    for listener in self.on_ready:
                        listener()
            except HistoryError as error:
                if self._problem != str(error):
                    logger.warning("history: %s; continuing without it", error)
                self._problem = str(error)
                await self._ask(thread, store.close)  # reconnect: the tables may be gone
                await asyncio.sleep(pause)
                pause = min(2 * pause, RETRY[1])
                continue
            except Exception:
                logger.exception("history: internal error; continuing")
                self._problem = "internal error, see the log"
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
        while self._queue:
            batch = [self._queue[i] for i in range(min(BATCH, len(self._queue)))]
            if any(isinstance(record, Measurement) and not record.uid for record in batch):
                await self._listen(thread, news)  # the replica that decides knows the job
                batch = [self._completed(r) if isinstance(r, Measurement) else r for r in batch]
            await self._write(thread, store, [_named(r) if isinstance(r, Measurement) else r for r in batch])
            for _ in batch:  # only after the write: failed records stay in the queue
                self._queue.popleft()
        await self._listen(thread, news)

    async def _listen(self, thread: Thread, news: News) -> None:
        """Read new rows, including those of other replicas."""
        new = await self._ask(thread, news.read)
        ran = await self._ask(thread, news.read_runs)
        for run in ran:
            self.run_times.add(run.sample)
        for start in range(0, len(new), FED):
            for record in new[start : start + FED]:
                self.model.feed(record)
                if isinstance(record, Event):
                    self._know(record)
            await asyncio.sleep(0)
        if new or ran:
            for listener in self.on_news:
                listener()

    async def _write(self, thread: Thread, store: Store, batch: list[Record | FinishedRun]) -> None:
        try:
            await self._ask(thread, lambda: store.write(batch))
        except Refused as error:
            if len(batch) == 1:
                logger.warning("history: record skipped: %s", error)
                return
            for record in batch:
                await self._write(thread, store, [record])

    async def _ask(self, thread: Thread, work: Callable[[], T]) -> T:
        self._asked_at = asyncio.get_running_loop().time()
        try:
            return await thread.call(work)
        finally:
            self._asked_at = None


def _named(record: R) -> R:
    """A record with a category: as stated, or by the name of the job."""
    category = scoped(record.namespace, record.category) or category_of(record.namespace, record.name)
    return msgspec.structs.replace(record, category=category)
