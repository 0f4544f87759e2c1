"""From the history to decisions: what was measured is laid over elastic jobs, and news are looked at.

The history hears of epochs all the time; each could change how many workers somebody gets. So news are gathered for
some seconds, then every elastic job is asked about, and only if something else is known of one a cycle is due. While
the database is away, what is known stays.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from maar.history.category import category_of
from maar.history.history import History
from maar.kube.read.knowledge import Learnt, Who


class FromHistory:
    """What a history knows of jobs."""

    def __init__(self, history: History) -> None:
        self._history = history

    def of(self, who: Who) -> Learnt:
        """What it knows of one now."""
        history, category = self._history, who.category or category_of(who.namespace, who.name)
        left = history.remaining(f"{who.namespace}/{who.name}", category, who.accelerator, who.epochs)
        return Learnt(
            speedup=tuple(sorted(history.points(category, who.accelerator).items())),
            remaining=math.inf if left is None else left,
            restart=history.restart(category, who.accelerator),
        )


class Learner:
    """Has news looked at, not too often."""

    def __init__(self, learn: Callable[[], bool], trigger: Callable[[], None], every: float) -> None:
        """`learn` looks, and says whether there is something new for decisions."""
        self._look = learn
        self._trigger = trigger
        self._every = every
        self._last = -math.inf
        self._due: asyncio.TimerHandle | None = None

    def news(self) -> None:
        """Something is new."""
        if self._due is None:
            loop = asyncio.get_running_loop()
            self._due = loop.call_later(max(self._last + self._every - loop.time(), 0.0), self._learn)

    def close(self) -> None:
        """Learn no more."""
        if self._due is not None:
            self._due.cancel()

    def _learn(self) -> None:
        self._due = None
        self._last = asyncio.get_running_loop().time()
        if self._look():
            self._trigger()
