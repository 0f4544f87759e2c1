"""Whose turn it is: namespaces, then queues, then jobs, by the plugins' orders.

Used by every action that shares room. A queue's key changes when it is given something; keys only grow while a cycle
allocates, so a heap with stale keys is enough: what comes up is looked at again, and put back if it is no longer first.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Any

from maar.model.jobs import Job
from maar.session.session import Session

Key = tuple[Any, ...]


class Turns:
    """Jobs in the order in which they are served."""

    def __init__(self, session: Session, jobs: Iterable[Job], skip_overused: bool = True) -> None:
        self._session = session
        self._skip_overused = skip_overused
        self._by_namespace = bool(session.hooks.namespace_order)
        self._namespaces: list[tuple[Key, str]] = []
        self._queues: dict[str, list[tuple[Key, str]]] = {}
        self._jobs: dict[tuple[str, str], list[tuple[Key, int]]] = {}
        for job in jobs:
            self.again(job)

    def again(self, job: Job) -> None:
        """Let a job wait for (another) turn."""
        hooks = self._session.hooks
        namespace = job.namespace if self._by_namespace else ""
        queues = self._queues.get(namespace)
        if queues is None:
            queues = self._queues[namespace] = []
            heapq.heappush(self._namespaces, (hooks.namespace_key(namespace), namespace))
        jobs = self._jobs.get((namespace, job.queue))
        if jobs is None:
            jobs = self._jobs[namespace, job.queue] = []
            heapq.heappush(queues, (self._queue_key(job.queue), job.queue))
        heapq.heappush(jobs, (hooks.job_key(job), job.index))

    def next(self) -> Job | None:
        """The job whose turn it is, taken off; overused queues are passed over unless asked otherwise."""
        while self._namespaces:
            namespace = _first(self._namespaces, self._session.hooks.namespace_key)
            queues = self._queues[namespace]
            while queues:
                queue = _first(queues, self._queue_key)
                if self._overused(queue):
                    heapq.heappop(queues)
                    del self._jobs[namespace, queue]
                    continue
                jobs = self._jobs[namespace, queue]
                if not jobs:
                    heapq.heappop(queues)
                    del self._jobs[namespace, queue]
                    continue
                return self._session.job(heapq.heappop(jobs)[1])
            heapq.heappop(self._namespaces)
            del self._queues[namespace]
        return None

    def _queue_key(self, queue: str) -> Key:
        queues = self._session.snapshot.queues
        return self._session.hooks.queue_key(queues.queues[queues.number[queue]])

    def _overused(self, queue: str) -> bool:
        if not self._skip_overused:
            return False
        queues = self._session.snapshot.queues
        reason = self._session.hooks.is_overused(queues.queues[queues.number[queue]])
        if reason is not None:
            self._session.pass_over(queue, reason)
        return reason is not None


def _first(heap: list[tuple[Key, str]], key: Any) -> str:
    """The first of a heap whose keys may be too small by now; its stored key is brought up to date."""
    while True:
        stored, name = heap[0]
        current = key(name)
        if current == stored:
            return name
        heapq.heapreplace(heap, (current, name))
