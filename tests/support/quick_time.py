"""An event loop whose time passes only while nothing is left to do: hours of a simulated cluster take a minute.

Real sockets work: those of this program have their data before time is moved to the next timer. For the work of a
thread, ask time to stand `still`. So time that a busy machine takes for its work does not count, which makes
measurements of simulated hours repeatable.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from tests.support.patience import PATIENCE

T = TypeVar("T")

LOOKS = 2
"""How often sockets are looked at before time moves on, after others had the processor."""


SHORTEST = 1e-5
"""Seconds by which time moves at least: rounding must not hide that it moved."""


class _Selector(selectors.DefaultSelector):
    """Waits for sockets; if there is nothing to wait for, it moves the time instead."""

    passed = 0.0
    """Seconds by which the time was moved."""
    still = 0
    """For how many coroutines time stands still."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if found or timeout is None or timeout <= 0:
            return found or super().select(timeout)
        if self.still:
            if not (found := super().select(PATIENCE)):
                raise TimeoutError(f"nothing has happened for {PATIENCE:g} s, while time stands still")
            return found
        for _ in range(LOOKS):
            os.sched_yield()
            if found := super().select(0):
                return found
        self.passed += max(timeout, SHORTEST)
        return []


class QuickLoop(asyncio.SelectorEventLoop):
    """The loop."""

    def __init__(self) -> None:
        self.clock = _Selector()
        self.began = time.time()
        super().__init__(self.clock)
        # A timer is due within this time. By default it is a nanosecond: after some months that is less than the
        # distance of two floats, and a timer for now would never be due.
        self._clock_resolution = SHORTEST

    def time(self) -> float:
        return self.clock.passed


def running() -> QuickLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, QuickLoop)
    return loop


def wall() -> float:
    """Seconds since 1970 in the running loop."""
    return running().began + running().time()


async def still(work: Coroutine[Any, Any, T]) -> T:
    """Wait for the work of a thread, while no time passes."""
    clock = running().clock
    clock.still += 1
    try:
        return await work
    finally:
        clock.still -= 1


def run(main: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, in quick time."""
    with asyncio.Runner(loop_factory=QuickLoop) as runner:
        return runner.run(main)
