"""A trace: the submission time, request and duration of each job.

The formats in `maar.sim.traces` read it; `maar.sim.pool` and `maar.sim.cluster` run it. Times are in seconds from any
origin: only differences count.
"""

from __future__ import annotations

import msgspec


class TraceJob(msgspec.Struct, frozen=True):
    """One job of a trace."""

    name: str
    """Unique in the trace."""
    submit: float
    """Time of submission."""
    duration: float
    """Seconds at its requested size, without restarts."""
    gpus: int
    """GPUs at its requested size: `workers * gpus_per_worker`; 0 for a job without GPUs."""
    workers: int = 1
    """Its requested size."""
    gpus_per_worker: int = 1
    min: int = 1
    """Minimum workers; a rigid job has `min == max == workers`."""
    max: int = 1
    queue: str = "default"
    priority: int = 0
    model: str = ""
    """The neural network that it trains, if the trace names it."""
    speedup: tuple[tuple[int, float], ...] = ()
    """Measured points (n, S(n)): the speed on n workers relative to one worker. Without points, linear."""
    iterations: float | None = None
    """Its work, for models that count iterations."""
    iteration_time: float | None = None
    """Seconds per iteration at the requested size."""
    epochs: int | None = None
    cpu: float | None = None
    """CPUs per worker."""
    memory: int | None = None
    """Bytes per worker."""
    limit: float | None = None
    """The longest run time that its owner promises, in seconds. It does not end the job."""

    @property
    def elastic(self) -> bool:
        return self.min < self.max


class Trace(msgspec.Struct, frozen=True):
    """All jobs, in the order of the file."""

    jobs: tuple[TraceJob, ...]
    source: str = ""
    """Its origin, for messages: a path, or how it was made."""
    notes: tuple[str, ...] = ()
    """Limits of the trace that readers of results should know."""
