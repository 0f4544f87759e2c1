"""What is new in the database since one last looked, by this Maar or another, each record once.

Rows are numbered when they are written and seen when they are committed, so that with several writers a lower number
may come to light after a higher one: each look begins a little before the end of the last.
"""

from __future__ import annotations

from typing import TypeVar

from maar.history.records import Event, Measurement, Record, time_of
from maar.history.store import Store

T = TypeVar("T", Measurement, Event)

FIRST = 100_000
"""So many of the newest rows of each table are read at the start; more would tell the model nothing new."""
BACK = 1_000
"""So many rows before the last one seen are looked at again: two batches."""


class News:
    """Where one has read to."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._measured = Seen()
        self._happened = Seen()

    def read(self) -> list[Record]:
        """What is new, in the order of time."""
        events = self._store.events(self._happened.start, newest=FIRST)
        measurements = self._store.measurements(self._measured.start, newest=FIRST)
        return sorted((*self._happened.new(events), *self._measured.new(measurements)), key=time_of)


class Seen:
    """The rows of one table that were seen."""

    def __init__(self) -> None:
        self._last = 0
        self._lately: set[int] = set()

    @property
    def start(self) -> int:
        """Rows above this one are to be read."""
        return max(0, self._last - BACK)

    def new(self, rows: list[T]) -> list[T]:
        """Those that were not seen before, which now they are."""
        fresh = [row for row in rows if row.id not in self._lately]
        if rows:
            self._last = max(self._last, rows[-1].id)
            self._lately = {row.id for row in rows if row.id > self.start}
        return fresh
