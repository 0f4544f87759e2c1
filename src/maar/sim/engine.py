"""Virtual time: what happens next, in an order that never varies.

The engine under both depths. A heap of (time, priority, sequence, event): events at one moment are handled in the order
of `EventKind`, and two of one kind in the order in which they were added. The caller takes all events of one moment
together (`next`), changes its cluster, and asks its policy once.
"""

from __future__ import annotations

import enum
import math
from heapq import heappop, heappush
from typing import Any, NamedTuple


class EventKind(enum.IntEnum):
    """What happens, in the order in which it counts where it happens at one moment."""

    END = 0
    """Running jobs have done their work."""
    NODE = 1
    """A node fails, is repaired, is drained or comes back."""
    ARRIVAL = 2
    WAKE = 3
    """Time alone changes the policy's answer."""


ALONE = frozenset({EventKind.END, EventKind.WAKE})
"""Of these only the next one is announced: a new one takes the place of the last."""


class Event(NamedTuple):
    """Something that happens."""

    kind: EventKind
    what: Any = None


class Calendar:
    """All that is going to happen."""

    def __init__(self, together: float = 0.0) -> None:
        self._heap: list[tuple[float, int, int, Event]] = []
        self._sequence = 0
        self._current: dict[EventKind, int] = {}
        self._together = together
        """Times of one kind that are equal within so much of themselves are one moment."""

    def add(self, time: float, event: Event) -> None:
        """Something happens at that time; an infinite one is never."""
        self._sequence += 1
        if event.kind in ALONE:
            self._current[event.kind] = self._sequence
        if time < math.inf:
            heappush(self._heap, (time, event.kind, self._sequence, event))

    def next(self) -> tuple[float, list[Event]] | None:
        """The next moment and all that happens then; None if nothing ever will."""
        self._drop()
        if not self._heap:
            return None
        now = self._heap[0][0]
        latest = now + abs(now) * self._together
        events: list[Event] = []
        while self._heap and self._is_one(now, latest, events):
            events.append(heappop(self._heap)[3])
            self._drop()
        return now, events

    def _is_one(self, now: float, latest: float, events: list[Event]) -> bool:
        """Whether what comes next is of the moment that has these events already."""
        time, kind, _, _ = self._heap[0]
        return time == now or (time <= latest and kind in {event.kind for event in events})

    def _drop(self) -> None:
        """Forget what was announced differently since."""
        while self._heap:
            _, _, sequence, event = self._heap[0]
            if self._current.get(event.kind, sequence) == sequence:
                return
            heappop(self._heap)
