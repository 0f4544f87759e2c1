"""What a run is played on, and what changes cost there: the choices of `maar simulate` as plain data."""

from __future__ import annotations

import msgspec

from maar.sim.faults import NO_FAULTS, Faults


class Setting(msgspec.Struct, frozen=True):
    """A virtual cluster. Times are seconds."""

    nodes: int
    gpus_per_node: int
    restart: float = 30.0
    """What a job loses each time its size changes, or it is started again; 30 is what live pools reckon with."""
    checkpoint: float = 600.0
    """Jobs save their work so often while they run: what a failing node or an eviction costs, beside the restart. Ten
    minutes are chosen by taste."""
    horizon: float = 600.0
    """Growth that does not pay for its restart within so long is not made, as in live pools."""
    hysteresis: int = 0
    """Changes of so many workers or fewer are not made, as in live pools."""
    patience: float = 30.0
    """What time alone changes (a demotion, a promotion) is acted on so long after the last decision at the earliest, or
    at the next arrival or end: the rate limit of live pools."""
    faults: Faults = NO_FAULTS
    model: str = "default"

    @property
    def gpus(self) -> int:
        """All GPUs."""
        return self.nodes * self.gpus_per_node
