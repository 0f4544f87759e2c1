"""A work queue of changed keys, used by every controller in this process.

Listeners of the store must not write. They add a key, and the queue processes it a moment later, once, however often it
changed. The queue works in batches, so requests are answered in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

PIECE = 100
"""Keys in one batch. Tuned by hand."""


class Dirty(Generic[K]):
    """Keys to process, each once, in the order of arrival."""

    def __init__(self, look: Callable[[K], None], delay: float = 0.0) -> None:
        self.look = look
        self.delay = delay
        """Seconds to wait for more changes of the same keys, if processing is expensive."""
        self.keys: dict[K, None] = {}
        self.closed = False
        self._scheduled = False

    def add(self, key: K) -> None:
        self.keys[key] = None
        if not self._scheduled and not self.closed:
            self._scheduled = True
            asyncio.get_running_loop().call_later(self.delay, self._work)

    def close(self) -> None:
        """Drop all keys and process no more."""
        self.closed = True
        self.keys.clear()

    def _work(self) -> None:
        self._scheduled = False
        for key in list(self.keys)[:PIECE]:
            # Processing one key may close the queue or remove other keys.
            if key in self.keys:
                del self.keys[key]
                self.look(key)
        if self.keys and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._work)
