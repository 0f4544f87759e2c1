"""Reads new rows of the database, from all replicas, each row once.

Rows get their number when they are written and become visible when they are committed. With several writers, a lower
number may become visible after a higher one. So each read starts a little before the end of the last read.
"""

from __future__ import annotations

from typing import TypeVar

from maar.history.records import Event, FinishedRun, Measurement, Record, time_of
from maar.history.store import Store

T = TypeVar("T", Measurement, Event, FinishedRun)

FIRST = 100_000
"""Newest rows of each table to read at the start; more would not improve the model."""
RUNS = 20_000
"""Newest runs to read at the start: run times look back less for any one group of jobs. Tuned by hand."""
BACK = 1_000
"""Rows before the last one that are read again: two batches."""


class News:
    """A reader with its position in each table."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._measured = SeenRows()
        self._happened = SeenRows()
        self._ran = SeenRows()

    def read(self) -> list[Record]:
        """The new records, in order of time."""
        events = self._store.events(self._happened.start, newest=FIRST)
        measurements = self._store.measurements(self._measured.start, newest=FIRST)
        return sorted((*self._happened.new(events), *self._measured.new(measurements)), key=time_of)

    def read_runs(self) -> list[FinishedRun]:
        """The new runs of finished jobs, oldest first."""
        return self._ran.new(self._store.runs(self._ran.start, newest=RUNS))


class SeenRows:
    """The rows of one table that have been read."""

    def __init__(self) -> None:
        self._last = 0
        self._lately: set[int] = set()

    @property
    def start(self) -> int:
        """The next read returns rows above this number."""
        return max(0, self._last - BACK)

    def new(self, rows: list[T]) -> list[T]:
        """The rows that have not been read before; marks them as read."""
        fresh = [row for row in rows if row.id not in self._lately]
        if rows:
            self._last = max(self._last, rows[-1].id)
            self._lately = {row.id for row in rows if row.id > self.start}
        return fresh
