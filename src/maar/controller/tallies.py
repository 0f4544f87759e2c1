"""How many pods of a group run, and how many have ended: what its users see counted in its status.

Pods move on (start, end, leave) without any decision, often many of a group within a moment. What a watch shows of that
is only noted here; a moment later the group is counted once, in the cycle that is then due, and the counts are written
if they are others than before. A write of the group's phase takes the counts along.
"""

from __future__ import annotations

from typing import NamedTuple

from maar.controller.cache import Cache
from maar.kube.kinds.cluster import PODS
from maar.kube.kinds.status import CountingStatus
from maar.kube.wire.base import Object
from maar.kube.wire.pods import Pod
from maar.model.jobs import Job

MOMENT = 1.0
"""Seconds for which moves are gathered; by taste."""
EARLY = 0.05
"""Seconds by which a timer may be ahead of the clock."""


class Tally(NamedTuple):
    """The pods of one group, named as every dialect that counts them does."""

    running: int = 0
    succeeded: int = 0
    failed: int = 0

    def since(self, before: Tally) -> dict[str, int]:
        """What is to be written: what is not none, or was not."""
        pairs = zip(self._fields, self, before, strict=True)
        return {name: now for name, now, then in pairs if now or then}


def stage(pod: Object | None) -> str:
    """Where a pod stands, as far as it is counted."""
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


def counted_before(group: Object) -> Tally:
    """What a group's object says about its pods."""
    status = getattr(group, "status", None)
    return Tally(status.running, status.succeeded, status.failed) if isinstance(status, CountingStatus) else Tally()


class Tallies:
    """Who is to be counted, and when."""

    def __init__(self) -> None:
        self._jobs: dict[str, float] = {}
        """Whose pods moved, and since when."""
        self._pods: dict[str, float] = {}
        """Pods that moved before any cycle saw them."""
        self._first = True

    def moved(self, cache: Cache, pod: str, now: float) -> bool:
        """A pod moved on; true if nobody's had before, so that a cycle is to be asked for."""
        if self._first:
            return False  # The first cycle counts everybody.
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
            return {job for job in cache.latest.jobs.number if cache.picture.group_of(job) is not None}
        for pod, since in self._pods.items():
            if (task := cache.find(pod)) is not None:
                self._jobs.setdefault(task.job, since)
        self._pods.clear()
        due = {job for job, since in self._jobs.items() if now - since >= MOMENT - EARLY}
        for job in due:
            del self._jobs[job]
        return due

    def due(self) -> float | None:
        """When the next are to be counted."""
        return min((since + MOMENT for since in self._jobs.values()), default=None)
