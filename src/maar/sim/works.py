"""How each job of a virtual cluster progresses.

A gang progresses while its minimum runs, and an elastic job at the speed-up of its running workers. A change of size,
or a start after a stop, costs `restart` seconds. Jobs save their work when their size changes, when they are suspended,
and every `checkpoint` seconds. An eviction or a failing node loses the work since the last save. As in the model
`default`, progress is computed from the last change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec

from maar.elastic.speedup import Curve, curve
from maar.sim.trace import TraceJob

EPOCHS = 100
"""Epochs of a job whose trace does not say. Tuned by hand."""


class Costs(msgspec.Struct, frozen=True):
    """What changes cost."""

    restart: float
    """Seconds until a job that starts again makes progress."""
    checkpoint: float = 600.0
    """Seconds between saves of work."""


@dataclass(slots=True)
class JobWork:
    """The work of one job, in seconds on one worker."""

    number: int
    left: float
    """Work left at `moves`."""
    speeds: list[float]
    """S(0), S(1), ..."""
    size: int = 0
    moves: float = 0.0
    """Start of its progress at the current size; in the future during a restart."""
    end: float = math.inf
    started: bool = False
    epoch: float = math.inf
    """Work in one epoch. A job reports the end of each epoch."""
    reported: float = math.inf
    """The work left in its last report."""

    def news(self, now: float) -> float | None:
        """The work left, if it changed by at least one epoch since the last report; else None."""
        if self.size == 0 and self.reported < math.inf:
            return None
        left = self.remaining(now)
        if abs(self.reported - left) < self.epoch:
            return None
        self.reported = left
        return left

    def remaining(self, now: float) -> float:
        return self.left - max(now - self.moves, 0.0) * self.speeds[self.size]

    def resize(self, now: float, size: int, costs: Costs, lost: bool = False) -> None:
        """Change the number of workers. If `lost`, the work since the last save is lost."""
        left = self.remaining(now)
        if lost and self.size and costs.checkpoint > 0:
            left += math.fmod(max(now - self.moves, 0.0), costs.checkpoint) * self.speeds[self.size]
        self.left = left
        self.moves = now + (costs.restart if size and self.started else 0.0)
        self.size = size
        self.started = self.started or size > 0
        self.end = self.moves + self.left / self.speeds[size] if size else math.inf


def make_work(number: int, job: TraceJob) -> JobWork:
    speedup: Curve = curve(dict(job.speedup))
    speeds: list[float] = speedup.values(max(job.max, job.workers)).tolist()
    work = job.duration * speeds[job.workers]
    return JobWork(number, work, speeds, epoch=work / (job.epochs or EPOCHS))
