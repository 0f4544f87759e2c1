"""The live picture's unreadable pods: those of ours of which nothing but the name counts.

A part of `maar.kube.picture.picture`. Each is a job of its own name that waits with the reason, unless a gang of that
name is there; it goes when the pod does, or can be read. Groups and queues that do not decode are broken where they
stand.
"""

from __future__ import annotations

from collections.abc import Container

from maar.model.jobs import Job
from maar.model.snapshot import Changed


class Unreadable:
    """All of them, by the pod's key, and which of them came or went since the last cycle."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._dirty: set[str] = set()

    def __contains__(self, pod: str) -> bool:
        return pod in self._jobs

    def add(self, pod: str, error: str) -> None:
        """A pod cannot be read."""
        self._jobs[pod] = Job(pod, broken=error)
        self._dirty.add(pod)

    def discard(self, pod: str) -> None:
        """A pod is gone, or another now."""
        if self._jobs.pop(pod, None) is not None:
            self._dirty.add(pod)

    def jobs(self, taken: Container[str]) -> list[Job]:
        """All whose names gangs have not taken."""
        return [job for key, job in self._jobs.items() if key not in taken]

    def take(self, taken: Container[str]) -> dict[str, Changed]:
        """Those that changed since the last time, but for names that gangs have taken."""
        changed: dict[str, Changed] = {}
        for key in self._dirty:
            if key not in taken:
                job = self._jobs.get(key)
                changed[key] = None if job is None else (job, ())
        self._dirty.clear()
        return changed
