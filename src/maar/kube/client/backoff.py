"""How long to wait after something failed: twice as long each time, up to a most, and jittered."""

from __future__ import annotations

import random


class Backoff:
    """The waits of one thing that is tried again and again."""

    def __init__(self, first: float, most: float, dice: random.Random) -> None:
        self.first = first
        self.most = most
        self._dice = dice
        self._failures = 0

    def next(self, at_least: float = 0.0) -> float:
        """The wait after one more failure; what the server asks for is the least."""
        wait = jittered(self.first, self.most, self._failures, self._dice)
        self._failures += 1
        return max(wait, at_least)

    def reset(self) -> None:
        """It went well."""
        self._failures = 0


def jittered(first: float, most: float, failures: int, dice: random.Random) -> float:
    """The wait after so many earlier failures: the upper half of an exponential, so that it is never close to none."""
    return min(first * 2.0 ** min(failures, 60), most) * dice.uniform(0.5, 1.0)
