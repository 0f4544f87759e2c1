"""Exponential backoff: the wait doubles with each failure. Capped, with jitter."""

from __future__ import annotations

import random


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
