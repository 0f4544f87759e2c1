"""Waiting for sockets, a little longer where much goes on.

Under load every answer and every line of a watch would wake the event loop by itself, and waking costs as much as what
is done then. So while it is busy it pauses for a moment before it looks: what has come by then is read together. One
that was idle looks at once.
"""

from __future__ import annotations

import asyncio
import selectors
import time

BUSY = 0.01
"""Seconds since the loop last waited, below which it is busy; by taste."""
PAUSE = 0.008
"""Seconds of a pause: little beside what a server under load takes to answer. By taste."""

Ready = list[tuple[selectors.SelectorKey, int]]


class Gathering(selectors.DefaultSelector):
    """The platform's own selector, which gathers."""

    _last = 0.0

    def select(self, timeout: float | None = None) -> Ready:
        """What is ready; at once if there is something else to do."""
        ready: Ready = super().select(timeout)
        if timeout is not None and timeout <= 0:
            return ready
        if ready and time.monotonic() - self._last < BUSY:
            time.sleep(PAUSE)
            ready = super().select(0)
        self._last = time.monotonic()
        return ready


def gathering_loop() -> asyncio.AbstractEventLoop:
    """An event loop that gathers."""
    return asyncio.SelectorEventLoop(Gathering())
