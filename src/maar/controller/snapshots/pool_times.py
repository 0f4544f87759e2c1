"""When the sizes of each pool last changed, with changes that are decided and not written yet.

Part of the cache: a change counts as soon as it is decided, and no longer if it was refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from maar.model.plan import Plan


class PoolTimes:
    """The last change of each pool."""

    def __init__(self) -> None:
        self._made: dict[str, float] = {}
        self._decided: dict[str, tuple[str, float]] = {}
        """Changes on their way, by job: its pool, and the time."""

    def begin(self, known: Mapping[str, float]) -> None:
        """Start from what the cluster remembers."""
        self._made, self._decided = dict(known), {}

    def current(self) -> dict[str, float]:
        times = dict(self._made)
        for pool, at in self._decided.values():
            times[pool] = max(at, times.get(pool, at))
        return times

    def decide(self, plan: Plan, now: float) -> None:
        """A plan changes sizes."""
        self._decided.update((job, (pool, now)) for job, pool in plan.pools.items())

    def settle(self, job: str, *, made: bool) -> None:
        """The change of a job was written, or refused."""
        decided = self._decided.pop(job, None)
        if decided is not None and made:
            pool, at = decided
            self._made[pool] = max(at, self._made.get(pool, at))
