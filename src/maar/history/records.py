"""What is recorded: epochs that jobs measured, and what happened to jobs.

Plain data, between whoever tells (`maar.web.measurements`, the controller), the store and the model. Times are seconds
since 1970, given by whoever tells; nothing here looks at a clock.
"""

from __future__ import annotations

import enum

import msgspec


class Measurement(msgspec.Struct, frozen=True):
    """One epoch of one job."""

    namespace: str
    name: str
    epoch: int
    """Counted from 0, as `range` and Keras do."""
    seconds: float
    workers: int
    arrived: float
    uid: str = ""
    category: str = ""
    accelerator: str = ""
    resized: bool = False
    """The number of workers changed within the epoch, so that it tells nothing about any number."""
    local_batch_size: int | None = None
    global_batch_size: int | None = None
    total_epochs: int | None = None
    step_seconds: float | None = None
    started: float = 0.0
    """By the clock of the job's node; 0 if it did not say."""
    id: int = 0
    """Its row; given by the store."""

    @property
    def job(self) -> str:
        """`namespace/name`"""
        return f"{self.namespace}/{self.name}"

    @property
    def begin(self) -> float:
        """When the epoch began: as it said, or counted back from its arrival."""
        return self.started or self.arrived - self.seconds

    @property
    def end(self) -> float:
        """When the epoch ended."""
        return self.begin + self.seconds


class EventKind(enum.StrEnum):
    """What can happen to a job."""

    SUBMITTED = "submitted"
    STARTED = "started"
    """Also started again after a suspension; `after` says with how many workers."""
    SUSPENDED = "suspended"
    RESIZED = "resized"
    ENDED = "ended"
    """`how`: completed, failed, deleted."""


class Event(msgspec.Struct, frozen=True):
    """Something that happened to a job."""

    namespace: str
    name: str
    kind: EventKind
    at: float
    uid: str = ""
    category: str = ""
    accelerator: str = ""
    before: int = 0
    """Workers before it."""
    after: int = 0
    """Workers after it."""
    gpus_per_worker: int = 1
    attained: float | None = None
    """GPU seconds that the job had had by then; if not said, added up from its sizes."""
    how: str = ""
    id: int = 0
    """Its row; given by the store."""

    @property
    def job(self) -> str:
        """`namespace/name`"""
        return f"{self.namespace}/{self.name}"


Record = Measurement | Event


def time_of(record: Record) -> float:
    """When it became known that it was so: the order in which the model hears of it."""
    return record.end if isinstance(record, Measurement) else record.at
