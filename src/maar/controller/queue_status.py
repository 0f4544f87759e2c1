"""What each queue has, on its own object: `status.allocated`, as Volcano's scheduler writes it.

Written at most once in a moment and only where it has changed. State and counts of PodGroups are left to Volcano's
controllers, which may go on running.
"""

from __future__ import annotations

from typing import Any

from maar.controller.cache import Cache
from maar.controller.tallies import MOMENT
from maar.kube.kinds.cluster import QUEUES as QUEUES_KIND
from maar.kube.wire.resources import QUEUES
from maar.model.plan import Plan
from maar.model.resources import CPU, EPHEMERAL, MEMORY
from maar.session.state import queue_sums


class QueueStatus:
    """Remembers what was written."""

    def __init__(self) -> None:
        self._written: dict[str, dict[str, str]] = {}
        self._since: float | None = None

    def after(self, cache: Cache, plan: Plan, now: float) -> list[tuple[str, dict[str, Any]]]:
        """The patches to be sent now, each with its path."""
        if self._since is None and (cache.changed or cache.anew or plan.bind or plan.evict):
            self._since = now
        if self._since is None or now - self._since < MOMENT:
            return []
        # What this plan decides is in the next snapshot.
        self._since = now if plan.bind or plan.evict else None
        return self._changed(cache)

    def due(self) -> float | None:
        """When there may be something to write."""
        return None if self._since is None else self._since + MOMENT

    def _changed(self, cache: Cache) -> list[tuple[str, dict[str, Any]]]:
        snapshot, objects = cache.latest, cache.picture.objects.of(QUEUES_KIND)
        sums = queue_sums(snapshot, snapshot.jobs.allocated)
        patches: list[tuple[str, dict[str, Any]]] = []
        for queue, row in zip(snapshot.queues.queues, sums.tolist(), strict=True):
            has = {name: quantity(name, amount) for name, amount in snapshot.axes.amounts(row).items()}
            known = self._written.get(queue.name)
            if queue.name not in objects:
                self._written.pop(queue.name, None)
            elif has != known:
                # After a start nobody knows what is there: all that it does not have is taken out.
                gone = set(snapshot.axes.names if known is None else known) - has.keys()
                self._written[queue.name] = has
                body = {"status": {"allocated": {**dict.fromkeys(sorted(gone)), **has}}}
                patches.append((QUEUES.path(name=queue.name, sub="status"), body))
        return patches


def quantity(name: str, amount: int) -> str:
    """An amount as Kubernetes writes it, exactly."""
    if name == CPU:
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if name in (MEMORY, EPHEMERAL) or name.startswith("hugepages-"):
        for suffix, size in (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
            if amount % size == 0:
                return f"{amount // size}{suffix}"
    return str(amount)
