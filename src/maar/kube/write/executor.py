"""Carries out decisions in the background; no cycle waits for it.

Many writes are in flight at once, up to a bound. Writes to the same object are sent one after the other, in the order
of submission. An attempt that can be repeated is repeated, with growing delays during which other writes are sent.
Every other outcome goes to the submitter, which corrects the cache. The executor decides nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from maar.kube.client.api import Api
from maar.kube.client.backoff import jittered
from maar.kube.client.errors import ApiError, DisruptionRefused
from maar.kube.write.work import Again, Bind, Create, Delete, Done, Evict, Failed, Outcome, Patch, Work, attempt

__all__ = ["Bind", "Create", "Delete", "Done", "Evict", "Executor", "Failed", "Outcome", "Patch", "Patience", "Work"]

log = logging.getLogger(__name__)

Callback = Callable[[Work, Outcome], None]


@dataclass(frozen=True)
class Patience:
    """How long writes are tried again, in seconds; all tuned by hand."""

    first: float = 0.1
    most: float = 5.0
    unanswered: float = 60.0
    """For a server that does not answer, fails or is busy: longer than its restart takes."""
    disruption: float = 30.0
    """For a budget that refuses an eviction."""


@dataclass(slots=True)
class Counts:
    """What an executor has done so far."""

    done: int = 0
    failed: int = 0
    retries: int = 0


@dataclass(slots=True)
class _Entry:
    work: Work
    done: Callback
    attempts: int = 0
    begun: float = 0.0


@dataclass(slots=True)
class _Lines:
    """The entries of each key, in order, and the keys whose first entry can start now."""

    entries: dict[str, deque[_Entry]] = field(default_factory=dict)
    ready: deque[str] = field(default_factory=deque)

    def join(self, entry: _Entry) -> None:
        key = entry.work.key
        if key in self.entries:
            self.entries[key].append(entry)
        else:
            self.entries[key] = deque([entry])
            self.ready.append(key)

    def leave(self, key: str) -> None:
        """The first entry of a key is finished."""
        line = self.entries[key]
        line.popleft()
        if line:
            self.ready.append(key)
        else:
            del self.entries[key]


class Executor:
    """Writes to one API server. Create and use it inside the event loop; `submit` never waits."""

    def __init__(
        self,
        api: Api,
        *,
        in_flight: int = 64,
        patience: Patience = Patience(),  # noqa: B008
        seed: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counts = Counts()
        self.pending = 0
        """Submitted and not finished."""
        self._api = api
        self._in_flight = in_flight
        self._patience = patience
        self._dice = random.Random(seed)
        self._clock = clock
        self._lines = _Lines()
        self._workers: set[asyncio.Task[None]] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._room = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False
        self.on_failed: list[Callable[[BaseException], None]] = []
        """Called if a worker ends because of an unexpected error: some writes may never be sent."""

    def submit(self, work: Work, done: Callback = lambda work, outcome: None) -> None:
        """Start a write; `done` is called in the event loop with its outcome."""
        if self._closed:
            raise RuntimeError("the executor is closed")
        self.pending += 1
        self._idle.clear()
        self._lines.join(_Entry(work, done))
        self._start()

    async def drain(self, timeout: float | None = None) -> bool:
        """Wait until nothing is pending; false after the timeout."""
        try:
            async with asyncio.timeout(timeout):
                await self._idle.wait()
            return True
        except TimeoutError:
            return False

    async def has_room(self, patience: float) -> None:
        """Wait until everything pending can be in flight at once, at most this many seconds."""
        if self.pending <= self._in_flight:
            return
        self._room.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._room.wait()

    async def close(self) -> None:
        """Stop at once: pending writes are dropped without a callback. Call `drain` first to finish them."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        workers = list(self._workers)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

    def _start(self) -> None:
        free = self._in_flight - len(self._workers)
        for _ in range(min(free, len(self._lines.ready))):
            worker = asyncio.get_running_loop().create_task(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._ended)

    def _ended(self, worker: asyncio.Task[None]) -> None:
        if not worker.cancelled() and (error := worker.exception()) is not None:
            for listener in self.on_failed:
                listener(error)

    async def _work(self) -> None:
        try:
            while self._lines.ready:
                await self._step(self._lines.ready.popleft())
        finally:
            # Here, not when the task is done: a submit in between must see that a worker may start.
            current = asyncio.current_task()
            assert current is not None
            self._workers.discard(current)

    async def _step(self, key: str) -> None:
        entry = self._lines.entries[key][0]
        outcome = await self._once(entry)
        if isinstance(outcome, Again):
            self._timers[key] = asyncio.get_running_loop().call_later(self._wait(entry, outcome), self._wake, key)
        else:
            self._finish(key, entry, outcome)

    async def _once(self, entry: _Entry) -> Outcome | Again:
        if not entry.attempts:
            entry.begun = self._clock()
        try:
            outcome = await attempt(self._api, entry.work, entry.attempts)
        except Exception as error:
            # A bug of ours: it must not affect the next write, and this one is repeated with a delay.
            log.exception("%s failed", entry.work)
            outcome = Again(ApiError(f"{type(error).__name__}: {error}"))
        entry.attempts += 1
        if isinstance(outcome, Again):
            refused = isinstance(outcome.error, DisruptionRefused)
            limit = self._patience.disruption if refused else self._patience.unanswered
            if self._clock() - entry.begun >= limit:
                return Failed(outcome.error, final=refused)
        return outcome

    def _wait(self, entry: _Entry, outcome: Again) -> float:
        self.counts.retries += 1
        log.debug("%s is tried again: %s", entry.work, outcome.error)
        wait = jittered(self._patience.first, self._patience.most, entry.attempts - 1, self._dice)
        return max(wait, outcome.error.retry_after)

    def _wake(self, key: str) -> None:
        del self._timers[key]
        self._lines.ready.append(key)
        self._start()

    def _finish(self, key: str, entry: _Entry, outcome: Outcome) -> None:
        self._lines.leave(key)
        self.pending -= 1
        if isinstance(outcome, Failed):
            self.counts.failed += 1
            log.warning("%s failed: %s", entry.work, outcome.error)
        else:
            self.counts.done += 1
        try:
            entry.done(entry.work, outcome)
        except Exception:
            log.exception("the callback of %s failed", entry.work)
        if self.pending <= self._in_flight:
            self._room.set()
        if not self.pending:
            self._idle.set()
