"""One job's newest epochs and changes of size, as much as the model must remember to judge the next."""

from __future__ import annotations

from collections import deque

from maar.history.records import Event, Measurement, Record

NEWEST = 32
"""So many epochs and changes of one job are remembered: late word comes within a few epochs. By taste."""


class Progress:
    """How far a job is, and its newest epochs."""

    __slots__ = ("_changes", "accelerator", "category", "epoch", "epochs", "resize", "total", "uid")

    def __init__(self) -> None:
        self.uid = ""
        self.category = ""
        self.accelerator = ""
        self.epoch: int | None = None
        """The last one that it told of; it goes back when a training starts again from a checkpoint."""
        self.total: int | None = None
        self.epochs: deque[Measurement] = deque(maxlen=NEWEST)
        """Epochs that had one size throughout."""
        self.resize: Event | None = None
        """The last resize, if no epoch has ended since."""
        self._changes: deque[float] = deque(maxlen=NEWEST)

    @property
    def left(self) -> int | None:
        """Epochs left, if it said how many there are."""
        if self.total is None:
            return None
        return max(0, self.total - (0 if self.epoch is None else self.epoch + 1))

    def known(self, record: Record) -> None:
        """Who the job is, as far as the record says."""
        self.uid = record.uid or self.uid
        self.category = record.category or self.category
        self.accelerator = record.accelerator or self.accelerator

    def measured(self, m: Measurement) -> None:
        """An epoch has ended."""
        self.epoch = m.epoch
        self.total = m.total_epochs if m.total_epochs is not None else self.total

    def remember(self, m: Measurement) -> None:
        """It had one size throughout, as far as is known yet."""
        self.epochs.append(m)

    def changed_within(self, begin: float, end: float) -> bool:
        """Whether the size changed between two times."""
        return any(begin < at < end for at in self._changes)

    def changed(self, at: float) -> list[Measurement]:
        """The size changed; the epochs in which it did are forgotten and handed back."""
        self._changes.append(at)
        spoilt = [m for m in self.epochs if m.begin < at < m.end]
        for m in spoilt:
            self.epochs.remove(m)
        return spoilt
