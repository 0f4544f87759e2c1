"""The embedded server: a listening socket, the HTTP handler behind it, and the parts that simulate a cluster.

In a program with an event loop:

    async with EmbeddedServer(parts=[Kubelets(), Jobs()]) as server:
        print(server.url)

In a program without one, on its own thread and event loop:

    server = EmbeddedServer().start()
    ...
    server.stop()
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Protocol, TypeVar

import yaml
from aiohttp import web

from maar.embedded.http.faults import Faults
from maar.embedded.http.handler import Handler
from maar.embedded.objects.api import Api
from maar.embedded.parts.budgets import Budgets
from maar.embedded.parts.collector import Collector
from maar.embedded.parts.upstream import GroupProtection

T = TypeVar("T")

HOST = "127.0.0.1"
HISTORY = 50_000
"""How many events of each kind a watch can resume from. A burst of 10,000 pods makes about 40,000 events."""


class Part(Protocol):
    """A controller or kubelet in this process. It runs on the server's event loop between `open` and `close`."""

    def open(self, api: Api) -> None:
        """Start listening and working."""

    def close(self) -> None:
        """Stop, and leave nothing scheduled."""


def controllers() -> list[Part]:
    """The parts of every cluster: garbage collection, disruption budgets, protection of PodGroups in use."""
    return [Collector(), Budgets(), GroupProtection()]


class EmbeddedServer:
    """An API server in this process, with `parts` beside it. `bare` leaves out `controllers()`, for tests."""

    def __init__(
        self,
        port: int = 0,
        *,
        parts: Iterable[Part] = (),
        bare: bool = False,
        token: str = "",
        history: int = HISTORY,
        bookmark_seconds: float = 5.0,
        watch_buffer: int = 20_000,
    ) -> None:
        self.port = port
        self.api = Api(history)
        self.faults = Faults()
        self.parts: list[Part] = [*([] if bare else controllers()), *parts]
        self.token = token
        self.handler = Handler(
            self.api, self.faults, token=token, bookmark_seconds=bookmark_seconds, watch_buffer=watch_buffer
        )
        self._web: web.Server | None = None
        self._socket: asyncio.Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._cutter: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def kubeconfig(self, path: str | Path) -> Path:
        """Write a kubeconfig file for this server and return its path."""
        place = Path(path)
        user = {"token": self.token} if self.token else {}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "embedded", "cluster": {"server": self.url}}],
            "users": [{"name": "embedded", "user": user}],
            "contexts": [{"name": "embedded", "context": {"cluster": "embedded", "user": "embedded"}}],
            "current-context": "embedded",
        }
        place.write_text(yaml.safe_dump(config, sort_keys=False))
        return place

    async def open(self) -> None:
        """Start listening, then start the parts."""
        self._loop = asyncio.get_running_loop()
        await self._listen()
        for part in self.parts:
            part.open(self.api)
        self._cutter = asyncio.create_task(self._cut_periodically())

    async def close(self) -> None:
        """Stop the parts, then cut all connections."""
        for part in reversed(self.parts):
            part.close()
        if self._cutter is not None:
            self._cutter.cancel()
            await asyncio.gather(self._cutter, return_exceptions=True)
        await self._hang_up()

    async def __aenter__(self) -> EmbeddedServer:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def restart(self, down: float = 0.0) -> None:
        """Cut all connections and accept none for `down` seconds. Stored objects stay."""
        await self._hang_up()
        await asyncio.sleep(down)
        await self._listen()

    def cut_watches(self) -> int:
        """End all watches, as a server does with slow clients, and return how many there were."""
        watches = tuple(self.handler.watches)
        for watch in watches:
            watch.close()
        return len(watches)

    def add(self, part: Part) -> None:
        """Start one more part while the server runs."""
        self.parts.append(part)
        part.open(self.api)

    def start(self) -> EmbeddedServer:
        """Run the server on its own thread. Returns when the server listens."""
        ready = threading.Event()
        failure: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, args=(ready, failure), name="maar-embedded", daemon=True)
        self._thread.start()
        ready.wait()
        if failure:
            self._thread.join()
            raise failure[0]
        return self

    def stop(self) -> None:
        """End the thread that `start` started."""
        assert self._loop is not None, "call start before stop"
        assert self._thread is not None, "call start before stop"
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join()

    def call(self, function: Callable[..., T], *arguments: object) -> T:
        """Call a function on the server's event loop from another thread: `server.call(kubelets.kill, "node-3")`."""

        async def called() -> T:
            return function(*arguments)

        assert self._loop is not None, "call start before call"
        return asyncio.run_coroutine_threadsafe(called(), self._loop).result()

    def call_restart(self, down: float = 0.0) -> None:
        """`restart`, from another thread."""
        assert self._loop is not None, "call start before call_restart"
        asyncio.run_coroutine_threadsafe(self.restart(down), self._loop).result()

    def _run(self, ready: threading.Event, failure: list[BaseException]) -> None:
        async def serve() -> None:
            self._done = asyncio.Event()
            async with self:
                ready.set()
                await self._done.wait()

        try:
            asyncio.run(serve())
        except BaseException as error:  # noqa: BLE001 the thread that waits raises it
            failure.append(error)
        finally:
            ready.set()

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        self._web = web.Server(self.handler, handler_cancellation=True, access_log=None)
        self._socket = await loop.create_server(self._web, HOST, self.port, reuse_address=True, backlog=1024)
        self.port = self._socket.sockets[0].getsockname()[1]

    async def _hang_up(self) -> None:
        if self._socket is None or self._web is None:
            return
        loop = asyncio.get_running_loop()
        for listening in self._socket.sockets:
            # Stop accepting first. asyncio loses a connection that it accepted but did not wrap before the server
            # closed: the connection is neither served nor closed.
            loop.remove_reader(listening.fileno())
        await _turns(3)
        self._socket.close()
        for _ in range(3):
            self.cut_watches()
            for connection in list(self._web.connections):
                if connection.transport is not None:
                    connection.transport.abort()
            await _turns(1)
        await self._web.shutdown(timeout=1.0)
        await self._socket.wait_closed()
        self._socket = self._web = None

    async def _cut_periodically(self) -> None:
        while True:
            every = self.faults.cut_watches_every
            await asyncio.sleep(every or 0.05)
            if every and self.faults.cut_watches_every:
                self.cut_watches()


async def _turns(count: int) -> None:
    """Let the event loop run the callbacks that are ready."""
    for _ in range(count):
        await asyncio.sleep(0)
