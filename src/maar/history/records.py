"""Records of the history: measured epochs, accounting events, runs of finished jobs, and forecasts.

Plain data that `maar.web` and the controller make, and the store and the model read. Times are seconds
since 1970, set by the sender; nothing here reads a clock.
"""

from __future__ import annotations

import enum

import msgspec

from maar.lengths.runtimes import RunSample, Traits


class OfJob(msgspec.Struct, frozen=True):
    """A record about one job."""

    namespace: str
    name: str

    @property
    def job(self) -> str:
        return f"{self.namespace}/{self.name}"


class Measurement(OfJob, frozen=True):
    """One epoch of one job."""

    epoch: int
    """Counted from 0, as `range` and Keras do."""
    seconds: float
    workers: int
    arrived: float
    uid: str = ""
    category: str = ""
    accelerator: str = ""
    resized: bool = False
    """The number of workers changed within the epoch, so it counts for no number."""
    local_batch_size: int | None = None
    global_batch_size: int | None = None
    total_epochs: int | None = None
    step_seconds: float | None = None
    nodes: int | None = None
    """Nodes on which the workers ran at its end."""
    noise_scale: float | None = None
    """The gradient noise scale, in samples."""
    goodput: str = ""
    """The job's own progress per second by number of workers, as a JSON object; empty if it knows none."""
    started: float = 0.0
    """Start of the epoch by the clock of the job's node; 0 if not reported."""
    id: int = 0
    """Its row, set by the store."""

    @property
    def batch(self) -> float:
        """Samples per worker and step; 0 if unknown. A worker may have several processes."""
        if self.global_batch_size is not None:
            return self.global_batch_size / self.workers
        return float(self.local_batch_size or 0)

    @property
    def begin(self) -> float:
        """The start of the epoch: as reported, or its arrival minus its duration."""
        return self.started or self.arrived - self.seconds

    @property
    def end(self) -> float:
        return self.begin + self.seconds


class EventKind(enum.StrEnum):
    SUBMITTED = "submitted"
    STARTED = "started"
    """Also after a suspension or eviction; `after` has the number of workers."""
    SUSPENDED = "suspended"
    RESIZED = "resized"
    EVICTED = "evicted"
    """A gang made room for another job, and waits again."""
    STOPPED = "stopped"
    """A gang lost its pods for another reason, and waits again."""
    ENDED = "ended"
    """`how` is completed, failed or deleted."""


RUNS = (EventKind.STARTED, EventKind.RESIZED)
"""Events after which a job runs."""


class Event(OfJob, frozen=True):
    """An accounting event of a job."""

    kind: EventKind
    at: float
    uid: str = ""
    category: str = ""
    accelerator: str = ""
    before: int = 0
    """Workers before the event."""
    after: int = 0
    gpus_per_worker: int = 1
    attained: float | None = None
    """GPU seconds that the job has used until then; None: computed from its sizes."""
    how: str = ""
    id: int = 0
    """Its row, set by the store."""


class FinishedRun(OfJob, frozen=True):
    """A finished job, as forecasts of other jobs need it."""

    uid: str
    owner: str
    stem: str
    """Its name without what differs between runs."""
    queue: str
    submitted: float
    started: float
    """Its first start that this history knows."""
    ended: float
    seconds: float
    """How long it ran; of an elastic job, how long it would have run at the size that its owner requested."""
    how: str
    """Completed, failed or deleted."""
    gpus: int = 0
    """At the requested size."""
    category: str = ""
    """As its owner states it; empty if she does not."""
    accelerator: str = ""
    declared: float | None = None
    """The longest run time that its owner declared, in seconds."""
    asked: str = ""
    """What it asked for, as JSON that `maar.forecast.arrivals` reads; empty if an older Maar wrote the run."""
    id: int = 0
    """Its row, set by the store."""

    @property
    def sample(self) -> RunSample:
        """As run times are learned from it."""
        return RunSample(Traits(self.owner, self.stem, self.gpus, self.category, self.declared), self.seconds)


class Prediction(OfJob, frozen=True):
    """A forecast of a waiting job as it was made, before calibration, and what became of the job."""

    uid: str
    queue: str
    at: float
    age: float
    """Seconds since the job was created."""
    first: bool
    """Whether it is the first one of the job at submission, after 1 minute or after 1 hour. Only these are judged."""
    verdict: str
    start_p50: float | None = None
    start_p90: float | None = None
    shown_p90: float | None = None
    """The calibrated p90 of the start, as people saw it."""
    finish_p50: float | None = None
    finish_p90: float | None = None
    rollouts: int = 0
    started: float | None = None
    gone: float | None = None
    """When the job was gone without a start."""
    arrivals: bool = False
    """Whether jobs that are submitted later were played too."""
    id: int = 0


class Fate(OfJob, frozen=True):
    """What became of a job of which forecasts were made."""

    uid: str
    started: float | None = None
    gone: float | None = None


Record = Measurement | Event
"""What the model learns from."""


def time_of(record: Record) -> float:
    """The time by which records are sorted for the model."""
    return record.end if isinstance(record, Measurement) else record.at
