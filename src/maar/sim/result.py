"""What a run gives: what became of each job, how busy the GPUs were, and the numbers that sum it up.

Made by `maar.sim.pool` and `maar.sim.cluster`; read by `maar simulate` and `maar.sim.report`. Plain data that goes
from one process to another.

Fairness is the finish-time ratio of Themis (NSDI 2020): how long a job took, from its submission to its end, divided by
what it would have taken alone on its share of the GPUs. Its share is all GPUs divided by the mean number of jobs that
were there (waiting or running) while it was. A job that asks for more than its share would run on its share, slower by
as much; one that asks for less would run as it asks. A ratio of 1 is what it could expect; above, it was treated worse.
"""

from __future__ import annotations

import msgspec
import numpy as np


class JobRecord(msgspec.Struct, frozen=True):
    """What became of one job. Times are those of the trace, in seconds."""

    name: str
    submit: float
    started: float
    """When it first ran."""
    end: float
    waited: float
    """Seconds between submission and end in which it had no workers."""
    ran: float
    """Seconds in which it had workers, restarts and lost work among them."""
    restarts: int
    """How often it lost time to a change after its first start: resized, stopped and started again, moved, failed."""
    gpu_seconds: float
    """Seconds multiplied by the GPUs that it had."""
    gpus: int = 0
    """GPUs at its requested size."""
    workers: int = 1
    """Its requested size."""
    queue: str = "default"
    ratio: float = 1.0
    """Its finish-time ratio (see above)."""
    sizes: tuple[tuple[float, int], ...] = ()
    """Every change of its number of workers: (when, how many from then on); the last is (end, 0)."""

    @property
    def jct(self) -> float:
        """Its completion time: from submission to end."""
        return self.end - self.submit


class Sample(msgspec.Struct, frozen=True):
    """How the cluster stood from one moment until the next sample, on average."""

    time: float
    gpus: float
    """GPUs in use."""
    running: float
    """Jobs that run."""
    waiting: float
    """Jobs that wait."""


class Run(msgspec.Struct, frozen=True):
    """One policy on one trace."""

    policy: str
    gpus: int
    """How many there are in the cluster."""
    jobs: tuple[JobRecord, ...]
    """In the order of the trace; only jobs that ended."""
    samples: tuple[Sample, ...] = ()
    """Rising in time; the last one is where it ended."""
    events: int = 0
    """Moments at which something happened."""
    decisions: int = 0
    """How often the policy was asked."""
    gpu_utilisation: float = 0.0
    """GPU seconds in use, of all that were there between the first submission and the last end."""
    unfinished: tuple[str, ...] = ()
    """Jobs that can never run there (more workers at least than the cluster takes)."""

    @property
    def makespan(self) -> float:
        """From the first submission to the last end."""
        return max((j.end for j in self.jobs), default=0.0) - min((j.submit for j in self.jobs), default=0.0)

    @property
    def summary(self) -> Summary:
        """The numbers that sum it up."""
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
    """One run in numbers: the fields of `maar simulate -o json`. Times are seconds."""

    policy: str
    jobs: int
    """Jobs that ended."""
    avg_jct: float
    p50_jct: float
    p95_jct: float
    p99_jct: float
    """Percentiles are interpolated between the two nearest jobs."""
    makespan: float
    avg_wait: float
    gpu_utilisation: float
    """0 to 1."""
    restarts: int
    worst_ratio: float
    """Of the finish-time ratios (see above)."""
    mean_ratio: float
    unfinished: int
    """Jobs that could not run there."""
