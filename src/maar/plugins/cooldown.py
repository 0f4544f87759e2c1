"""cooldown: a pod that has just started is left alone for a while.

A voter on victims (Volcano's `cdp`): pods with `volcano.sh/cooldown-time` may not be evicted until that long after
their start. Whenever this keeps somebody's victim alive, the session wakes at the moment it ends.
"""

from __future__ import annotations

import numpy as np

from maar.config.config import NoArguments
from maar.model.resources import Floats, Ints, Mask
from maar.model.snapshot import Snapshot
from maar.session.hooks import Claim
from maar.session.register import Register
from maar.session.session import Session

NAME = "cooldown"
Arguments = NoArguments


class Cooldown:
    """Wires cooldown times to votes on victims."""

    def __init__(self, arguments: NoArguments) -> None:
        del arguments
        self._ends: Floats | None = None

    def open(self, session: Session, on: Register) -> None:
        """Register; cooldowns are only looked up when somebody asks for victims."""
        self._session = session
        on.preemptable(self._victims)
        on.reclaimable(self._victims)

    def _victims(self, claim: Claim, tasks: Ints) -> Mask | None:
        if self._ends is None:
            self._ends = protected_until(self._session.snapshot)
        ends = self._ends[tasks]
        if np.isneginf(ends).all():
            return None
        young = ends > self._session.now
        if young.any():
            self._session.wake(float(ends[young].min()))
        return np.asarray(~young)


def protected_until(snapshot: Snapshot) -> Floats:
    """When each task's cooldown ends; for tasks without one, before all time."""
    seconds = np.array([t.cooldown for t in snapshot.tasks.tasks], dtype=np.float64)
    return np.where(seconds > 0, snapshot.tasks.started + seconds, -np.inf)
