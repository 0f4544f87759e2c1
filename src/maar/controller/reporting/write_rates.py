"""How often Maar writes: token buckets, as plain data.

A bucket is full at first. A write takes one token; without a token it waits. So a few writes may come at once, and
after that their number in any time is bounded, whatever happens.
"""

from __future__ import annotations

import msgspec


class WriteTokens(msgspec.Struct, frozen=True):
    """Tokens at a moment."""

    tokens: float
    at: float

    def filled(self, now: float, most: float, per_second: float) -> WriteTokens:
        """The bucket at a later moment. A clock that was set back adds nothing."""
        return WriteTokens(min(self.tokens + max(now - self.at, 0.0) * per_second, most), now)

    def taken(self) -> WriteTokens:
        return WriteTokens(self.tokens - 1.0, self.at)

    def next(self, per_second: float) -> float:
        """When the bucket has a token."""
        return self.at + max(1.0 - self.tokens, 0.0) / per_second


class Pace:
    """One write per interval, for all writers that share it."""

    def __init__(self, every: float) -> None:
        self._every = every
        self._last = float("-inf")

    def take(self, now: float) -> bool:
        """Whether a write may be sent now; if so, it counts as sent."""
        if self._last <= now < self._last + self._every:
            return False
        self._last = now
        return True

    def due(self) -> float:
        """When the next write may be sent."""
        return self._last + self._every
