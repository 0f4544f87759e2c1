"""An event loop whose time passes only while nothing is left to do: hours of a simulated cluster take a minute.

Real sockets and threads work: before time is moved to the next timer, they have a moment to report something. So time
that a busy machine takes for its work does not count, which makes measurements of simulated hours repeatable.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

MOMENT = 0.003
"""Real seconds in which sockets and threads may report something before time moves on."""

SHORTEST = 1e-5
"""Seconds by which time moves at least: rounding must not hide that it moved."""


class _Selector(selectors.DefaultSelector):
    """Waits for sockets; if there is nothing to wait for, it moves the time instead."""

    passed = 0.0
    """Seconds by which the time was moved."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if found or timeout is None or timeout <= 0:
            return found or super().select(timeout)
        found = super().select(MOMENT)
        if not found:
            self.passed += max(timeout, SHORTEST)
        return found


class QuickLoop(asyncio.SelectorEventLoop):
    """The loop."""

    def __init__(self) -> None:
        self._clock = _Selector()
        self.began = time.time()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.passed


def wall() -> float:
    """Seconds since 1970 in the running loop."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, QuickLoop)
    return loop.began + loop.time()


def run(main: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, in quick time."""
    with asyncio.Runner(loop_factory=QuickLoop) as runner:
        return runner.run(main)
