"""When to count a group's pods for its status.

Pods start, end and leave without any decision, often many of a group within a moment. A watch only notes the move here;
a moment later, in the cycle that is then due, the group is counted once (`maar.controller.reports`).
"""

from __future__ import annotations

from maar.controller.cache import Cache
from maar.kube.kinds.cluster import PODS
from maar.kube.kinds.status import Tally
from maar.kube.wire.base import Object
from maar.kube.wire.pods import Pod
from maar.model.jobs import Job

MOMENT = 1.0
"""Seconds for which moves are gathered; tuned by hand."""
EARLY = 0.05
"""Seconds by which a timer may be ahead of the clock; tuned by hand."""


def stage(pod: Object | None) -> str:
    """How far a pod is, as far as it is counted."""
    if not isinstance(pod, Pod) or pod.status.phase == "Pending":
        return ""
    if not pod.finished and pod.metadata.deletion_timestamp is not None:
        return "Leaving"
    return pod.status.phase


def tally(cache: Cache, job: Job) -> Tally:
    """A job's pods as they are now."""
    pods, tasks = cache.picture.objects.of(PODS), cache.latest.tasks.tasks
    stages = [stage(pods.get(tasks[row].key)) for row in cache.latest.jobs.members[job.index].tolist()]
    return Tally(stages.count("Running"), stages.count("Succeeded"), stages.count("Failed"))


class Tallies:
    """The jobs to count, and when."""

    def __init__(self) -> None:
        self._jobs: dict[str, float] = {}
        """Jobs whose pods moved, and since when."""
        self._pods: dict[str, float] = {}
        """Pods that moved before any cycle saw them."""
        self._first = True

    def moved(self, cache: Cache, pod: str, now: float) -> bool:
        """A pod moved on; true if it is the first one to count, so that a cycle must be asked for."""
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
        """The jobs to count now."""
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
        """When the next jobs are to be counted."""
        return min((since + MOMENT for since in self._jobs.values()), default=None)
