"""When to count a group's pods for its status.

Pods start, end and leave without a decision, often many pods of a group at about the same time. A watch only notes the
change here. A moment later a cycle runs, and `reports` counts the group once.
"""

from __future__ import annotations

from maar.controller.snapshots.cache import Cache
from maar.kube.kinds.cluster import PODS
from maar.kube.kinds.status import Tally
from maar.kube.wire.pods import stage
from maar.model.jobs import Job

MOMENT = 1.0
"""Seconds during which changes are gathered; tuned by hand."""
EARLY = 0.05
"""Seconds by which a timer may be ahead of the clock; tuned by hand."""


def tally(cache: Cache, job: Job) -> Tally:
    pods, tasks = cache.picture.objects.of(PODS), cache.latest.tasks.tasks
    stages = [stage(pods.get(tasks[row].key)) for row in cache.latest.jobs.members[job.index].tolist()]
    return Tally(stages.count("Running"), stages.count("Succeeded"), stages.count("Failed"))


class Tallies:
    """Which jobs to count, and when."""

    def __init__(self) -> None:
        self._jobs: dict[str, float] = {}
        """Jobs whose pods changed, and since when."""
        self._pods: dict[str, float] = {}
        """Pods that changed before any cycle saw them."""
        self._first = True

    def moved(self, cache: Cache, pod: str, now: float) -> bool:
        """Note that a pod changed; returns true if nothing else was waiting, so that a cycle must be requested."""
        if self._first:
            return False  # The first cycle counts every group.
        alone = not self._jobs and not self._pods
        task = cache.find(pod)
        if task is None:
            self._pods.setdefault(pod, now)
        else:
            self._jobs.setdefault(task.job, now)
        return alone

    def take(self, cache: Cache, now: float) -> set[str]:
        if self._first:
            self._first = False
            return set(cache.latest.jobs.number)
        for pod, since in self._pods.items():
            if (task := cache.find(pod)) is not None:
                self._jobs.setdefault(task.job, since)
        self._pods.clear()
        due = {job for job, since in self._jobs.items() if now - since >= MOMENT - EARLY}
        for job in due:
            del self._jobs[job]
        return due

    def due(self) -> float | None:
        return min((since + MOMENT for since in self._jobs.values()), default=None)
