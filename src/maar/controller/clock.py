"""The clock of the controller: the wall clock, without the steps back.

Decisions compare the time with times on objects, so they need the wall clock. The controller also keeps moments in
memory: when a report is due, when the last evictions were. If somebody sets the wall clock back by an hour, these
moments would be an hour away, and everything that waits for them would stop for that long. So the time goes on from
where it was until the wall clock has caught up. After a restart it is the wall clock again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

logger = logging.getLogger("maar.controller")

STEP = 1.0
"""Seconds. The wall clock may go back by less, as time servers adjust it; tuned by hand."""


class Clock:
    """Seconds since 1970. They never go back by more than `STEP`."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._steady = steady
        self._at = steady()
        self._last = wall()
        self._ahead = False
        """Whether the wall clock was set back and has not caught up."""

    def __call__(self) -> float:
        at, wall = self._steady(), self._wall()
        without_step = self._last + at - self._at
        now = wall
        if self._ahead or wall < self._last - STEP:
            now = max(wall, without_step)
            if not self._ahead:
                logger.warning("the clock was set back by %.0f s: going on as if it was not", without_step - wall)
            self._ahead = now > wall
        self._at, self._last = at, now
        return now
