"""cooldown: a pod that has just started is not evicted for a while.

It votes on victims (Volcano's `cdp`): a pod with `volcano.sh/cooldown-time` may not be evicted until this long after
its start. If a cooldown protects a possible victim, the session wakes when it ends.
"""

from __future__ import annotations

import numpy as np

from maar.config.config import WithoutArguments
from maar.model.resources import Floats, Ints, Mask
from maar.model.snapshot import Snapshot
from maar.session.eviction.protection import unprotected
from maar.session.hooks import Claim
from maar.session.register import Register
from maar.session.session import Session

NAME = "cooldown"


class Cooldown(WithoutArguments):
    def open(self, session: Session, on: Register) -> None:
        """Register the votes; cooldowns are computed only when victims are requested."""
        self._session = session
        self._ends: Floats | None = None
        on.preemptable(self._victims, alone=True)
        on.reclaimable(self._victims, alone=True)

    def _victims(self, claim: Claim, tasks: Ints) -> Mask | None:
        if self._ends is None:
            self._ends = protected_until(self._session.snapshot)
        ends = self._ends[tasks]
        if np.isneginf(ends).all():
            return None
        young = (ends > self._session.now) & ~unprotected(self._session, tasks)
        if young.any():
            self._session.wake(float(ends[young].min()))
        return np.asarray(~young)


def protected_until(snapshot: Snapshot) -> Floats:
    """When the cooldown of each task ends; minus infinity for tasks without one."""
    seconds = np.array([t.cooldown for t in snapshot.tasks.tasks], dtype=np.float64)
    return np.where(seconds > 0, snapshot.tasks.started + seconds, -np.inf)
