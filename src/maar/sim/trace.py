"""A trace: which jobs came when, what they asked for and how long they would run.

Between the formats that read one (`maar.sim.traces`) and the runs that play it (`maar.sim.pool`, `maar.sim.cluster`).
Times are seconds, from any moment on: only their differences count.
"""

from __future__ import annotations

import msgspec


class TraceJob(msgspec.Struct, frozen=True):
    """One job of a trace."""

    name: str
    """Unique in the trace."""
    submit: float
    """Seconds: when it came."""
    duration: float
    """Seconds that it runs at its requested size, without restarts."""
    gpus: int
    """All its GPUs at its requested size: `workers * gpus_per_worker`; 0 for a job without."""
    workers: int = 1
    """Its requested size."""
    gpus_per_worker: int = 1
    min: int = 1
    """The fewest workers it runs with; a rigid job has `min == max == workers`."""
    max: int = 1
    queue: str = "default"
    priority: int = 0
    model: str = ""
    """The neural network that it trains, where the trace says so."""
    speedup: tuple[tuple[int, float], ...] = ()
    """How many times as fast as on one worker it is on n: measured points (n, S(n)). None: linear."""
    iterations: float | None = None
    """Its work, for models that count iterations."""
    iteration_time: float | None = None
    """Seconds of one iteration at the requested size, as the trace has it."""
    epochs: int | None = None
    cpu: float | None = None
    """CPUs of each worker."""
    memory: int | None = None
    """Bytes of each worker."""

    @property
    def elastic(self) -> bool:
        """Whether its size may change."""
        return self.min < self.max


class Trace(msgspec.Struct, frozen=True):
    """All jobs, in the order of the file."""

    jobs: tuple[TraceJob, ...]
    source: str = ""
    """Where it comes from, for a person: a path, or how it was made."""
    notes: tuple[str, ...] = ()
    """What a person should know who reads results of it: what the source could not say."""
