"""Waiting: after failures, twice as long each time (capped, with jitter); for an event; for tasks that have to end."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterable
from typing import Any


class Backoff:
    def __init__(self, first: float, most: float, dice: random.Random) -> None:
        self.first = first
        self.most = most
        self._dice = dice
        self._failures = 0

    def next(self, at_least: float = 0.0) -> float:
        """The wait after one more failure; `at_least` is the wait that the server asks for."""
        wait = jittered(self.first, self.most, self._failures, self._dice)
        self._failures += 1
        return max(wait, at_least)

    def reset(self) -> None:
        self._failures = 0


def jittered(first: float, most: float, failures: int, dice: random.Random) -> float:
    """The wait after this many earlier failures: a random 50% to 100% of the exponential, so never close to zero."""
    return min(first * 2.0 ** min(failures, 60), most) * dice.uniform(0.5, 1.0)


async def happens(event: asyncio.Event, within: float | None) -> None:
    """Return when the event is set, or after these seconds.

    Not `wait_for`: before Python 3.12 it may swallow a cancellation that arrives together with the event.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within):
            await event.wait()


async def cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and return when all of them have ended, however they did."""
    tasks = tuple(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
