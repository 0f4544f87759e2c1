"""Unreadable pods: pods of ours of which only the name can be read.

A part of the picture. Each is a job with the key of the pod that waits with the reason, unless a gang has that key. It
goes when the pod is gone or can be read. PodGroups and queues that cannot be decoded are handled where they are kept.
"""

from __future__ import annotations

from collections.abc import Container

from maar.model.jobs import Job
from maar.model.snapshot import Changed


class Unreadable:
    """Unreadable pods by key, and which of them changed since the last cycle."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._dirty: set[str] = set()

    def __contains__(self, pod: str) -> bool:
        return pod in self._jobs

    def add(self, pod: str, error: str) -> None:
        self._jobs[pod] = Job(pod, broken=error)
        self._dirty.add(pod)

    def discard(self, pod: str) -> None:
        """A pod is gone, or can be read now."""
        if self._jobs.pop(pod, None) is not None:
            self._dirty.add(pod)

    def jobs(self, taken: Container[str]) -> list[Job]:
        """The jobs of unreadable pods whose key no gang has."""
        return [job for key, job in self._jobs.items() if key not in taken]

    def take(self, taken: Container[str]) -> dict[str, Changed]:
        """The jobs that changed since the last time and whose key no gang has."""
        changed: dict[str, Changed] = {}
        for key in self._dirty:
            if key not in taken:
                job = self._jobs.get(key)
                changed[key] = None if job is None else (job, ())
        self._dirty.clear()
        return changed
