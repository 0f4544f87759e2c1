"""The scheduler's side of HTTP: starts the HTTP process (`maar.web.front`), answers its questions, starts it again.

The HTTP process gets the scheduler's state every second, and asks for metrics at most once a second, however many
clients there are. So clients cost the event loop of the scheduler almost nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from maar.controller.observer import Observer
from maar.controller.scheduler import Scheduler
from maar.history.history import History
from maar.kube.client.backoff import Backoff
from maar.web import measurements
from maar.web.actor_metrics import metrics_of
from maar.web.addresses import Address, CannotServe, listening
from maar.web.front.main import Listen, Setting
from maar.web.front.routes import HEALTH, MEASUREMENTS, PAGES
from maar.web.limits import HttpLimits
from maar.web.messages import (
    Alive,
    Channel,
    FromFront,
    Health,
    LogLine,
    MeasurementBatch,
    Page,
    ReadMeasurements,
    Review,
    Reviewed,
    WantPage,
)
from maar.web.reviews import Reviews

logger = logging.getLogger("maar.web")

EVERY = 1.0
"""Seconds for which a state and a page are good."""
LOOK = 0.25
"""Seconds between two looks at the state: a change is sent at once."""
SHARE = 0.02
"""The part of the time that may go into metrics: a page that takes long is good for longer. Tuned by hand."""
STUCK = 60.0
"""Seconds without a sign of the HTTP process after which it is killed; long, because its priority is low."""
UNREAD = 1_000_000
"""Bytes that the HTTP process has not read, above which it gets no more states."""
AGAIN = (0.1, 10.0)
"""The first and the longest pause before the HTTP process starts again, in seconds."""
STEADY = 30.0
"""An HTTP process that lived for this time starts again without a pause."""

Check = Callable[[], str]
"""Returns the problem, or an empty text."""
Addresses = Mapping[str, Address]
"""From a group of paths to its address; equal addresses are one socket."""


class HttpSources(msgspec.Struct, frozen=True):
    """The sources of answers."""

    healthy: Check
    ready: Check
    metrics: Callable[[], bytes]
    history: History
    review: Callable[[Review], Coroutine[Any, Any, Reviewed]]
    on_alive: Callable[[Alive], None] = lambda _: None
    on_restart: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.time


@asynccontextmanager
async def serving(
    observer: Observer,
    history: History,
    scheduler: Scheduler | None = None,
    *,
    addresses: Addresses,
    token_file: Path | None = None,
) -> AsyncIterator[None]:
    """Serve for an observer while the context is open, which is the scheduler, if there is one.

    Raises `CannotServe` if an address is not available.
    """
    metrics = metrics_of(observer, scheduler)
    sources = HttpSources(
        healthy=lambda: observer.trouble,
        ready=observer.not_ready,
        metrics=metrics.text,
        history=history,
        review=Reviews(observer.reader).review,
        on_alive=metrics.on_alive,
        on_restart=metrics.on_restart,
    )
    async with Server(sources, addresses, token_file):
        yield


class Server:
    """The HTTP process and its sockets, while the context is open."""

    def __init__(
        self,
        sources: HttpSources,
        addresses: Addresses,
        token_file: Path | None = None,
        limits: HttpLimits | None = None,
    ) -> None:
        self._sources = sources
        self._addresses = addresses
        self._token_file = token_file
        self._limits = limits or HttpLimits()
        self._sockets: dict[Address, socket.socket] = {}
        self._task: asyncio.Task[None] | None = None
        self.pid = 0
        """The HTTP process."""

    async def __aenter__(self) -> Server:
        try:
            for address in self._addresses.values():
                if address not in self._sockets:
                    self._sockets[address] = listening(address)
        except CannotServe:
            self._close()
            raise
        self._task = asyncio.create_task(self._keep())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._close()

    def port(self, group: str) -> int:
        """The port of a group of paths, also if the kernel chose it."""
        return int(self._sockets[self._addresses[group]].getsockname()[1])

    def _close(self) -> None:
        for each in self._sockets.values():
            each.close()

    async def _keep(self) -> None:
        """Start the HTTP process again whenever it ends."""
        backoff = Backoff(*AGAIN, random.Random(0))
        while True:
            begun = time.monotonic()
            try:
                why = await self._run()
            except Exception as error:  # noqa: BLE001 the process is started again
                why = f"{type(error).__name__}: {error}"
            if time.monotonic() - begun > STEADY:
                backoff = Backoff(*AGAIN, random.Random(0))
            self._sources.on_restart()
            logger.warning("the HTTP process ended, starting it again: %s", why)
            await asyncio.sleep(backoff.next())

    async def _run(self) -> str:
        """Run one HTTP process until it ends; returns why it did."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            groups: dict[socket.socket, set[str]] = {}
            for group, address in self._addresses.items():
                groups.setdefault(self._sockets[address], set()).add(group)
            setting = Setting(
                channel=theirs.fileno(),
                listen=[Listen(each.fileno(), frozenset(served)) for each, served in groups.items()],
                measurements=self._sources.history.on,
                token_file=None if self._token_file is None else str(self._token_file.absolute()),
                limits=self._limits,
            )
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "maar.web.front", msgspec.json.encode(setting).decode()),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), *(each.fileno() for each in groups)),
            )
            self.pid = process.pid
            theirs.close()
            conversation = Conversation(self._sources)
            try:
                why = await conversation.hold(ours)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                code = await process.wait()
        return why or f"exit code {code}"


class Conversation:
    """Answers one HTTP process."""

    def __init__(self, sources: HttpSources) -> None:
        self._sources = sources
        self._lost = asyncio.Event()
        self._heard = time.monotonic()
        self._channel: Channel[FromFront] = Channel(FromFront, self._take, self._lost.set)  # type: ignore[arg-type]
        self._tasks: set[asyncio.Task[None]] = set()

    async def hold(self, ours: socket.socket) -> str:
        """Talk until the connection is lost, or the process is stuck: returns why, if it is known."""
        await asyncio.get_running_loop().create_connection(lambda: self._channel, sock=ours)
        told, told_at = None, 0.0
        try:
            while not self._lost.is_set():
                now = time.monotonic()
                if now - self._heard > STUCK:
                    return f"no sign for {STUCK:.0f} s"
                health = Health(self._sources.healthy(), self._sources.ready())
                if (health != told or now - told_at >= EVERY) and self._channel.unsent < UNREAD:
                    self._channel.send(health)
                    told, told_at = health, now
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK):
                        await self._lost.wait()
        finally:
            self._channel.close()
            for task in self._tasks:
                task.cancel()
        return ""

    def _take(self, message: FromFront) -> None:
        self._heard = time.monotonic()
        match message:
            case WantPage():
                self._channel.send(self._page())
            case MeasurementBatch():
                self._channel.send(measurements.take(self._sources.history, message, self._sources.clock()))
            case Review():
                self._work(self._sources.review(message))
            case ReadMeasurements():
                self._work(measurements.read(self._sources.history, message))
            case Alive():
                self._sources.on_alive(message)
            case LogLine(level, text):
                logger.log(level, "HTTP process: %s", text)

    def _page(self) -> Page:
        begun = time.perf_counter()
        body = self._sources.metrics()
        return Page(body, max(EVERY, (time.perf_counter() - begun) / SHARE))

    def _work(self, answering: Coroutine[Any, Any, Any]) -> None:
        async def answer() -> None:
            self._channel.send(await answering)

        task = asyncio.create_task(answer())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def groups_at(
    address: Address | None, health: Address | None = None, metrics: Address | None = None
) -> dict[str, Address]:
    """Addresses by group; health and metrics are at the common address unless they have their own."""
    wanted = {MEASUREMENTS: address, HEALTH: health or address, PAGES: metrics or address}
    return {group: where for group, where in wanted.items() if where is not None}
