"""The newest epochs and changes of size of one job, which the model needs to judge the next epoch."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

import msgspec

from maar.history.records import Event, Measurement, Record

_goodput = msgspec.json.Decoder(dict[int, float])

NEWEST = 32
"""Remembered epochs and changes per job: late records arrive within a few epochs. Tuned by hand."""


@dataclass(slots=True)
class Progress:
    """The progress of a job, and its newest epochs."""

    uid: str = ""
    category: str = ""
    accelerator: str = ""
    epoch: int | None = None
    """The last reported epoch; it decreases when a training restarts from a checkpoint."""
    total: int | None = None
    noise: float | None = None
    """The last reported noise scale."""
    goodput: tuple[tuple[int, float], ...] = ()
    """The last reported goodput: workers, and progress per second."""
    largest: int = 0
    """The largest number of workers that it reported."""
    epochs: deque[Measurement] = field(default_factory=lambda: deque(maxlen=NEWEST))
    """Epochs without a change of size."""
    resize: Event | None = None
    """The last resize, until an epoch shows its effect."""
    _changes: deque[float] = field(default_factory=lambda: deque(maxlen=NEWEST))

    def left(self, expected: int | None) -> int | None:
        """Epochs left, of the total that the job reported, else of the expected one."""
        total = expected if self.total is None else self.total
        if total is None:
            return None
        return max(0, total - (0 if self.epoch is None else self.epoch + 1))

    def known(self, record: Record) -> None:
        """Update UID, category and accelerator from a record."""
        self.uid = record.uid or self.uid
        self.category = record.category or self.category
        self.accelerator = record.accelerator or self.accelerator

    def measured(self, m: Measurement) -> None:
        """Update the epoch, the total and the job's own knowledge from a measurement."""
        self.epoch = m.epoch
        self.total = m.total_epochs if m.total_epochs is not None else self.total
        self.noise = m.noise_scale if m.noise_scale is not None else self.noise
        self.goodput = _points(m.goodput) or self.goodput
        self.largest = max(self.largest, m.workers)

    def remember(self, m: Measurement) -> None:
        """Keep an epoch without a known change of size."""
        self.epochs.append(m)

    def changed_within(self, begin: float, end: float) -> bool:
        """Whether the size changed between two times."""
        return any(begin < at < end for at in self._changes)

    def changed(self, at: float) -> list[Measurement]:
        """Note a change of size; removes and returns the epochs that contain it."""
        self._changes.append(at)
        spoilt = [m for m in self.epochs if m.begin < at < m.end]
        for m in spoilt:
            self.epochs.remove(m)
        return spoilt


def _points(goodput: str) -> tuple[tuple[int, float], ...]:
    """A stored goodput; empty if there is none, or if another program wrote something else."""
    try:
        points = _goodput.decode(goodput) if goodput else {}
    except msgspec.DecodeError:
        return ()
    return tuple(sorted((n, speed) for n, speed in points.items() if n >= 1 and 0.0 < speed < math.inf))
