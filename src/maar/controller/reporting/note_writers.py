"""Which of several jobs writes the note on the object that their owner submitted.

The groups of a LeaderWorkerSet, or the steps of a JobSet, are jobs of their own, and their object has one annotation
for all of them. One job that waits writes it; the others leave it alone. It is removed when none of them waits.
"""

from __future__ import annotations

from collections.abc import Callable


class Tellers:
    """The jobs that share an object, and the one that writes its note."""

    def __init__(self) -> None:
        self._teller: dict[str, str] = {}
        """By the path of the object."""
        self._sharing: dict[str, set[str]] = {}
        self._path: dict[str, str] = {}
        """The object of each job."""
        self._next: set[str] = set()
        self._left: set[str] = set()
        """Objects whose teller has gone."""

    def tells(self, job: str, path: str, waits: bool, others: Callable[[str], bool]) -> bool:
        """Whether a job writes the note on its object; `others` says whether another job waits."""
        self._path[job] = path
        sharing = self._sharing.setdefault(path, set())
        sharing.add(job)
        teller = self._teller.setdefault(path, job)
        if teller == job and not waits:
            self._hand_over(path, [other for other in sharing if other != job and others(other)])
        elif teller != job and waits and not others(teller):
            self._teller[path] = job
        return self._teller[path] == job

    def object_of(self, job: str) -> str | None:
        """The path of the object whose note a job shares; before another one is its object, it must leave."""
        return self._path.get(job)

    def leave(self, job: str) -> str | None:
        """A job has gone, or its object has no note any more; returns the object if no other job has it."""
        path = self._path.pop(job, None)
        if path is None:
            return None
        sharing = self._sharing[path]
        sharing.discard(job)
        if not sharing:
            del self._sharing[path], self._teller[path]
            return path
        if self._teller[path] == job:
            self._left.add(path)
        return None

    def take(self, waits: Callable[[str], bool]) -> set[str]:
        """Jobs that have become the teller because another one is not any more: their notes are due."""
        for path in self._left:
            sharing = self._sharing.get(path)
            if sharing and self._teller[path] not in sharing:
                self._hand_over(path, [job for job in sharing if waits(job)] or list(sharing))
        self._left.clear()
        found, self._next = self._next, set()
        return found

    def _hand_over(self, path: str, jobs: list[str]) -> None:
        if jobs:
            self._teller[path] = min(jobs)
            self._next.add(min(jobs))
