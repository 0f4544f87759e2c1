"""What has changed and must be looked at: the queue of every controller in this process.

Listeners of the store must not write, so they only say what to look at; a moment later, in pieces so that requests are
answered between them, each is looked at once however often it changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

PIECE = 100
"""Looked at before requests get their turn again; chosen by taste."""


class Dirty(Generic[K]):
    """Keys to look at, each once, in the order in which they came."""

    def __init__(self, look: Callable[[K], None], delay: float = 0.0) -> None:
        self.look = look
        self.delay = delay
        """Seconds to wait for more of the same; for looks that cost."""
        self.keys: dict[K, None] = {}
        self.closed = False
        self._scheduled = False

    def add(self, key: K) -> None:
        """Look at a key soon."""
        self.keys[key] = None
        if not self._scheduled and not self.closed:
            self._scheduled = True
            asyncio.get_running_loop().call_later(self.delay, self._work)

    def close(self) -> None:
        """Look at nothing any more."""
        self.closed = True
        self.keys.clear()

    def _work(self) -> None:
        self._scheduled = False
        for key in list(self.keys)[:PIECE]:
            # One look may close us, or make another look unnecessary.
            if key in self.keys:
                del self.keys[key]
                self.look(key)
        if self.keys and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._work)
