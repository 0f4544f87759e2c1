"""The result of a run: the outcome of each job, the use of GPUs, and a summary.

`maar.sim.pool` and `maar.sim.cluster` make it; `maar simulate` and `maar.sim.report` read it. It is plain data that can
be sent to another process.

Fairness is the finish-time ratio of Themis (NSDI 2020): the time from submission to end, divided by the time that the
job would take alone on its share of the GPUs. The share is all GPUs divided by the mean number of jobs that were
waiting or running during the life of the job. A job that asks for more than its share would run slower, in proportion;
a job that asks for less would run at the size that it asks for. A ratio of 1 is fair; above 1, the job was treated
worse.
"""

from __future__ import annotations

import msgspec
import numpy as np


class JobRecord(msgspec.Struct, frozen=True):
    """The outcome of one job. Times are those of the trace, in seconds."""

    name: str
    submit: float
    started: float
    """Time of its first start."""
    end: float
    waited: float
    """Seconds between submission and end in which it had no workers."""
    ran: float
    """Seconds in which it had workers, including restarts and lost work."""
    restarts: int
    """Changes that cost it time after its first start: resizes, stops and starts, moves, failures."""
    gpu_seconds: float
    """Seconds multiplied by its GPUs."""
    gpus: int = 0
    """GPUs at its requested size."""
    workers: int = 1
    """Its requested size."""
    queue: str = "default"
    ratio: float = 1.0
    """Its finish-time ratio (see the module)."""
    sizes: tuple[tuple[float, int], ...] = ()
    """Every change of its workers as (time, workers from then on); the last is (end, 0)."""

    @property
    def jct(self) -> float:
        """Completion time: from submission to end."""
        return self.end - self.submit


class Sample(msgspec.Struct, frozen=True):
    """The average state of the cluster from `time` until the next sample."""

    time: float
    gpus: float
    """GPUs in use."""
    running: float
    waiting: float


class Run(msgspec.Struct, frozen=True):
    """The result of one policy on one trace."""

    policy: str
    gpus: int
    """GPUs of the cluster."""
    jobs: tuple[JobRecord, ...]
    """In the order of the trace; only jobs that ended."""
    samples: tuple[Sample, ...] = ()
    """In order of time; the last sample is at the end of the run."""
    events: int = 0
    """Moments with at least one event."""
    decisions: int = 0
    """How often the policy was asked."""
    gpu_utilisation: float = 0.0
    """The share of available GPU seconds in use, between the first submission and the last end."""
    unfinished: tuple[str, ...] = ()
    """Jobs that did not end, for example because their minimum does not fit in the cluster."""

    @property
    def makespan(self) -> float:
        """Seconds from the first submission to the last end."""
        return max((j.end for j in self.jobs), default=0.0) - min((j.submit for j in self.jobs), default=0.0)

    @property
    def summary(self) -> Summary:
        jct = np.array([j.jct for j in self.jobs] or [0.0])
        ratio = np.array([j.ratio for j in self.jobs] or [0.0])
        p50, p95, p99 = (float(p) for p in np.percentile(jct, (50, 95, 99)))
        return Summary(
            policy=self.policy,
            jobs=len(self.jobs),
            avg_jct=float(jct.mean()),
            p50_jct=p50,
            p95_jct=p95,
            p99_jct=p99,
            makespan=self.makespan,
            avg_wait=float(np.mean([j.waited for j in self.jobs] or [0.0])),
            gpu_utilisation=self.gpu_utilisation,
            restarts=sum(j.restarts for j in self.jobs),
            worst_ratio=float(ratio.max()),
            mean_ratio=float(ratio.mean()),
            unfinished=len(self.unfinished),
        )


class Summary(msgspec.Struct, frozen=True):
    """One run in numbers: the fields of `maar simulate -o json`. Times are in seconds."""

    policy: str
    jobs: int
    """Jobs that ended."""
    avg_jct: float
    p50_jct: float
    p95_jct: float
    p99_jct: float
    """Percentiles interpolate between the two nearest jobs."""
    makespan: float
    avg_wait: float
    gpu_utilisation: float
    """0 to 1."""
    restarts: int
    worst_ratio: float
    """The largest finish-time ratio."""
    mean_ratio: float
    unfinished: int
    """Jobs that did not end."""
