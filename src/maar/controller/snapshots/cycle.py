"""One cycle as the loop publishes it: what it saw, what it decided, and all jobs that wait.

It never changes. Metrics, accounts, reports, shards, shadow mode and `maar web` are made from it, and from nothing that
later cycles change.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from maar.controller.snapshots.own import EVERYTHING, OwnPart
from maar.model.plan import Plan, Wait
from maar.model.snapshot import Changed, Snapshot
from maar.model.tasks import Task

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Cycle(msgspec.Struct, frozen=True):
    """The result of one cycle."""

    number: int
    now: float
    snapshot: Snapshot
    plan: Plan
    """Its `waiting` has the jobs that the cycle looked at."""
    seconds: float = 0.0
    """How long the cycle took."""
    waits: Mapping[str, Wait] = NOTHING
    """All jobs of this process that wait, also those that the cycle skipped, because nothing had changed for them."""
    skipped: frozenset[str] = frozenset()
    """The jobs that it skipped."""
    changed: Mapping[str, Changed] = NOTHING
    """The jobs that changed since the cycle before; `None`: it is gone."""
    rebuilt: bool = False
    """Whether nodes or queues changed, or this is the first cycle: anything may be different."""
    pods: Mapping[str, Task] = NOTHING
    """The pods that the plan binds, evicts, nominates or ungates, as the snapshot has them."""
    own: OwnPart = EVERYTHING

    def everything(self) -> dict[str, Changed]:
        """All jobs, as `changed` has those that changed."""
        jobs, tasks = self.snapshot.jobs, self.snapshot.tasks.tasks
        return {job.key: (job, tuple(tasks[t] for t in jobs.members[i])) for i, job in enumerate(jobs.jobs)}
