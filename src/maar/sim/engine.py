"""Virtual time: a calendar of events with a fixed order, used by both depths.

It is a heap of (time, priority, sequence, event). Events at one moment are handled in the order of `SimEventKind`, and
events of one kind in the order in which they were added. The caller takes all events of one moment together (`next`),
changes its cluster, and asks its policy once.
"""

from __future__ import annotations

import enum
import math
from heapq import heappop, heappush
from typing import Any, NamedTuple


class SimEventKind(enum.IntEnum):
    """Kinds of events, in the order in which events at one moment are handled."""

    END = 0
    """A running job ends."""
    NODE = 1
    """A node fails, is repaired, is drained or comes back."""
    ARRIVAL = 2
    WAKE = 3
    """Time alone changes the policy's answer."""


ALONE = frozenset({SimEventKind.END, SimEventKind.WAKE})
"""Kinds with at most one event in the calendar: a new event replaces the old one."""


class SimEvent(NamedTuple):
    kind: SimEventKind
    what: Any = None


class Calendar:
    """All future events."""

    def __init__(self, together: float = 0.0) -> None:
        self._heap: list[tuple[float, int, int, SimEvent]] = []
        self._sequence = 0
        self._current: dict[SimEventKind, int] = {}
        self._together = together
        """Relative tolerance for simultaneous events of one kind."""

    def add(self, time: float, event: SimEvent) -> None:
        """Add an event; an infinite time means never."""
        self._sequence += 1
        if event.kind in ALONE:
            self._current[event.kind] = self._sequence
        if time < math.inf:
            heappush(self._heap, (time, event.kind, self._sequence, event))

    def next(self) -> tuple[float, list[SimEvent]] | None:
        """The next moment and all its events; None if no event is left."""
        self._drop()
        if not self._heap:
            return None
        now = self._heap[0][0]
        latest = now + abs(now) * self._together
        events: list[SimEvent] = []
        while self._heap and self._belongs(now, latest, events):
            events.append(heappop(self._heap)[3])
            self._drop()
        return now, events

    def _belongs(self, now: float, latest: float, events: list[SimEvent]) -> bool:
        """Whether the first event of the heap belongs to the moment `now`, which has `events` so far."""
        time, kind, _, _ = self._heap[0]
        return time == now or (time <= latest and kind in {event.kind for event in events})

    def _drop(self) -> None:
        """Remove replaced events from the top of the heap."""
        while self._heap:
            _, _, sequence, event = self._heap[0]
            if self._current.get(event.kind, sequence) == sequence:
                return
            heappop(self._heap)
