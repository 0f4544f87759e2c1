"""The virtual cluster of a run and the cost of changes: the options of `maar simulate` as plain data."""

from __future__ import annotations

from typing import Literal

import msgspec

from maar.sim.faults import Faults
from maar.sim.papers.applications import Rates


class Setting(msgspec.Struct, frozen=True):
    """A virtual cluster. Times are in seconds."""

    nodes: int
    gpus_per_node: int
    restart: float = 30.0
    """Time that a job loses when its size changes or it starts again; the default is that of live pools."""
    checkpoint: float = 600.0
    """Interval at which running jobs save their work. A failing node or an eviction loses the work since the last save.
    Tuned by hand."""
    horizon: float = 600.0
    """A job grows only if that pays for its restart within this time, as in live pools."""
    hysteresis: int = 0
    """Changes of at most this many workers are skipped, as in live pools."""
    patience: float = 30.0
    """Minimum delay after a decision before time alone (a demotion, a promotion) causes the next one; arrivals and ends
    do not wait. It is the rate limit of live pools."""
    faults: Faults = Faults()
    model: str = "default"
    interval: float = 0.0
    """Seconds between decisions, at multiples of it; with 0, every event causes a decision."""
    lengths: Literal["known", "unknown", "learnt"] = "known"
    """What policies know of how long jobs take: all of it, nothing, or what jobs that ended before tell."""
    rates: Rates | None = None
    """The table of the model `rates`."""
    speeds_known: bool = True
    """Whether policies know these rates; otherwise they learn them from jobs that run."""

    @property
    def gpus(self) -> int:
        return self.nodes * self.gpus_per_node
