"""One thread beside the event loop, for calls that may hang.

Written by hand because a program waits at its end for the threads of `asyncio.to_thread` and of every executor: a
database that accepts a connection and never answers would keep a stopped Maar alive.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
Work = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class Thread:
    """Runs calls one after the other; the program does not wait for it at its end."""

    def __init__(self, name: str) -> None:
        self._work: SimpleQueue[Work | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def call(self, work: Callable[[], T]) -> T:
        """The result of a call; cancelling the wait does not cancel the call."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._work.put((work, future))
        return await future

    def stop(self) -> None:
        self._work.put(None)

    def _run(self) -> None:
        while (asked := self._work.get()) is not None:
            work, future = asked
            try:
                _answer(future, work(), None)
            except BaseException as error:  # noqa: BLE001 the caller raises it
                _answer(future, None, error)
            del asked, work, future


def _answer(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    def answer() -> None:
        if not future.done():
            future.set_result(result) if error is None else future.set_exception(error)

    loop = future.get_loop()
    try:
        loop.call_soon_threadsafe(answer)
    except RuntimeError:
        if not loop.is_closed():  # a closed loop needs no answer
            raise
