"""The parts of the HTTP process, and how it starts and ends.

`maar.web.server` starts it as `python -m maar.web.front` and passes listening sockets and one end of a socket pair. It
ends when the other end is closed, so it never outlives the scheduler.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import signal
import socket
import time
from pathlib import Path

import msgspec

from maar.web.front.access import TokenCheck, Verdict
from maar.web.front.connections import Door, House
from maar.web.front.questions import Pages, Posts, Questions
from maar.web.front.routes import MEASUREMENTS, Routes
from maar.web.limits import HttpLimits, Rate, TokenBucket
from maar.web.messages import Alive, Channel, FromScheduler, Health, LogLine, Page, Review, Reviewed, Stored, Taken

EVERY = 1.0
"""Seconds between two signs of life, and between two checks of all connections."""
FILES = 4_096
"""Open files that this process asks for."""
SPARE_FILES = 32
BACKLOG = 512
"""Connections that the kernel may accept for us."""
LINES = Rate(0.2, 10)
"""Lines for the scheduler's log; tuned by hand."""
LONGEST_LINE = 8_000
"""Characters of such a line, which may be a traceback."""


class Listen(msgspec.Struct, frozen=True):
    """A listening socket, and the groups of paths that are served there."""

    fd: int
    served: frozenset[str]


class Setting(msgspec.Struct, frozen=True):
    """What the scheduler's process passes."""

    channel: int
    """The file descriptor of the socket pair."""
    listen: list[Listen]
    measurements: bool
    """Whether there is a history."""
    token_file: str | None = None
    limits: HttpLimits = HttpLimits()


class Log(logging.Handler):
    """Sends log lines to the scheduler's process, which knows how to write them: few, and short ones.

    A client that finds an error could else make the scheduler write its log all the time.
    """

    def __init__(self, channel: Channel[FromScheduler]) -> None:
        super().__init__()
        self._channel = channel
        self._turns = TokenBucket(LINES, time.monotonic())
        self._left_out = 0

    def emit(self, record: logging.LogRecord) -> None:
        if not self._turns.take(time.monotonic()):
            self._left_out += 1
            return
        text = self.format(record)
        if len(text) > LONGEST_LINE:
            text = f"{text[: LONGEST_LINE // 2]} ... {text[-LONGEST_LINE // 2 :]}"
        if self._left_out:
            text, self._left_out = f"{text} (lines left out before: {self._left_out})", 0
        self._channel.send(LogLine(record.levelno, text))


class Front:
    """The parts of this process."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._ended = asyncio.Event()
        self._begun = asyncio.Event()
        self._channel: Channel[FromScheduler] = Channel(FromScheduler, self._take, self._ended.set)  # type: ignore[arg-type]
        send, limits, clock = self._channel.send, setting.limits, time.monotonic
        self._reviews: Questions[Verdict] = Questions(send, limits.waiting)
        self._reads: Questions[Stored] = Questions(send, limits.waiting)
        self._pages = Pages(send, clock)
        self._posts = Posts(send, clock)
        token_file = None if setting.token_file is None else Path(setting.token_file)
        access = TokenCheck(self._ask, token_file, limits, clock)
        self._routes = Routes(access, self._pages, self._posts, self._reads, limits, clock)
        self._house = House(self._routes, limits, clock)

    async def _ask(self, token: str, audience: str) -> Verdict:
        return await self._reviews.ask(lambda number: Review(number, token, audience))

    def _take(self, message: FromScheduler) -> None:
        match message:
            case Health():
                self._routes.took(message)
                self._begun.set()
            case Page():
                self._pages.take(message)
            case Reviewed(id, user, problem):
                self._reviews.answered(id, (user, problem))
            case Taken(problems):
                self._posts.answered(problems)
            case Stored(id):
                self._reads.answered(id, message)

    async def run(self) -> None:
        """Serve until the scheduler's process ends."""
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self._channel, sock=socket.socket(fileno=self._setting.channel))
        logging.basicConfig(level=logging.WARNING, handlers=[Log(self._channel)])
        living = asyncio.create_task(self._live())
        async with asyncio.TaskGroup() as group:
            ending = group.create_task(self._ended.wait())
            await asyncio.wait([ending, group.create_task(self._begun.wait())], return_when=asyncio.FIRST_COMPLETED)
            self._begun.set()
            most = min(self._setting.limits.connections, _files() // max(len(self._setting.listen), 1))
            for listen in self._setting.listen:
                served = listen.served if self._setting.measurements else listen.served - {MEASUREMENTS}
                door = Door(self._house, served, most)
                await loop.create_server(door, sock=socket.socket(fileno=listen.fd), backlog=BACKLOG)
        living.cancel()

    async def _live(self) -> None:
        while True:
            responses = dict(self._house.responses)
            self._house.responses.clear()
            self._channel.send(Alive(self._house.connections, responses))
            await asyncio.sleep(EVERY)
            self._house.sweep()
            self._routes.forget()


def _files() -> int:
    """How many files this process may open for connections."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return max(resource.getrlimit(resource.RLIMIT_NOFILE)[0] - SPARE_FILES, 1)


def main(text: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the scheduler, which then ends this process.
    setting = msgspec.json.decode(text, type=Setting)

    async def run() -> None:
        await Front(setting).run()

    asyncio.run(run())
    os._exit(0)  # No request is worth waiting for.
