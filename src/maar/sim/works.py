"""How the jobs of a virtual cluster progress, one by one.

A gang works while all its minimum runs, an elastic job as fast as its speed-up says for the workers that run. A change
of size, and a start after a stop, cost `restart` seconds. Work is saved when a size changes or a job is suspended, and
every `checkpoint` seconds in between: an eviction or a failing node loses what came after that. As in the model
`default` of counted GPUs, progress is reckoned from the last change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from maar.elastic.speedup import Curve, curve
from maar.sim.setting import Setting
from maar.sim.trace import TraceJob

EPOCHS = 100
"""Of a job that does not say; by taste."""


@dataclass(slots=True)
class Work:
    """One job's work: all in seconds on one worker."""

    number: int
    left: float
    """At `moves`."""
    speeds: list[float]
    """S(0), S(1), ..."""
    size: int = 0
    moves: float = 0.0
    """Since when, or from when on, it makes progress."""
    end: float = math.inf
    started: bool = False
    epoch: float = math.inf
    """How much work is in an epoch; its end is told."""
    told: float = math.inf
    """What was last told of what is left."""

    def news(self, now: float) -> float | None:
        """What is left, if an epoch's work was done or lost since that was last told."""
        if self.size == 0 and self.told < math.inf:
            return None
        left = self.remaining(now)
        if abs(self.told - left) < self.epoch:
            return None
        self.told = left
        return left

    def remaining(self, now: float) -> float:
        """What is left."""
        return self.left - max(now - self.moves, 0.0) * self.speeds[self.size]

    def resize(self, now: float, size: int, setting: Setting, lost: bool = False) -> None:
        """It has so many workers from now on; what was not saved is lost if it did not see that coming."""
        left = self.remaining(now)
        if lost and self.size and setting.checkpoint > 0:
            left += math.fmod(max(now - self.moves, 0.0), setting.checkpoint) * self.speeds[self.size]
        self.left = left
        self.moves = now + (setting.restart if size and self.started else 0.0)
        self.size = size
        self.started = self.started or size > 0
        self.end = self.moves + self.left / self.speeds[size] if size else math.inf


def make_work(number: int, job: TraceJob) -> Work:
    """A job's work when it comes."""
    speedup: Curve = curve(dict(job.speedup))
    speeds: list[float] = speedup.values(max(job.max, job.workers)).tolist()
    work = job.duration * speeds[job.workers]
    return Work(number, work, speeds, epoch=work / (job.epochs or EPOCHS))
