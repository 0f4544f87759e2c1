"""Brakes on evictions: paused, capped by rate, or switched off by queue; settable while running.

They work on the plan, all or nothing for each beneficiary: a job whose victims may not all go now gets neither the
evictions nor the promised room, and is decided anew in the next cycle.
"""

from __future__ import annotations

from collections import deque

import msgspec
from msgspec.structs import replace

from maar.model.plan import Evict, Plan
from maar.model.snapshot import Snapshot

MINUTE = 60.0


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What the owner of a cluster may set."""

    paused: bool = False
    per_minute: int | None = None
    """At most so many evictions in any minute; missing: as many as it takes."""
    queues_off: tuple[str, ...] = ()
    """Queues whose pods are never evicted."""


class Brakes:
    """Lets evictions through, or not."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self._recent: deque[float] = deque()
        self.held = 0
        """How many evictions have been held back."""

    def apply(self, plan: Plan, snapshot: Snapshot, now: float) -> Plan:
        """The plan without evictions that may not happen now, and without what they were for."""
        if not plan.evict:
            return plan
        while self._recent and self._recent[0] <= now - MINUTE:
            self._recent.popleft()
        by_job: dict[str, list[Evict]] = {}
        for evict in plan.evict:
            by_job.setdefault(evict.beneficiary, []).append(evict)
        stopped = {job for job, evictions in by_job.items() if not self._pass(evictions, snapshot, now)}
        if not stopped:
            return plan
        of = snapshot.tasks
        return replace(
            plan,
            evict=tuple(e for e in plan.evict if e.beneficiary not in stopped),
            nominate=tuple(n for n in plan.nominate if of.tasks[of.number[n.task]].job not in stopped),
            wake_at=min(filter(None, (plan.wake_at, self._next(now))), default=None),
        )

    def _pass(self, evictions: list[Evict], snapshot: Snapshot, now: float) -> bool:
        table, limit = snapshot.tasks, self.settings.per_minute
        queues = {snapshot.jobs.jobs[int(table.job[table.number[e.task]])].queue for e in evictions}
        room = limit is None or len(self._recent) + len(evictions) <= limit or (not self._recent and limit > 0)
        if self.settings.paused or queues & set(self.settings.queues_off) or not room:
            self.held += len(evictions)
            return False
        self._recent.extend([now] * len(evictions))
        return True

    def _next(self, now: float) -> float | None:
        """When the rate lets more through."""
        return self._recent[0] + MINUTE if self._recent and not self.settings.paused else None
