"""The order of service: namespaces, then queues, then jobs, by the orders of the plugins.

Every action that shares room uses it. A queue's key changes when the queue gets something, and keys only grow during a
cycle. So a heap with stale keys is enough: the first entry is checked again, and put back if it is no longer first. The
key may depend on the job that the queue would place next; a queue that gets another first job is then put into the heap
once more.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from maar.model.jobs import Job
from maar.session.session import Session

Key = tuple[Any, ...]


class Turns:
    """Jobs in the order of service."""

    def __init__(
        self,
        session: Session,
        jobs: Iterable[Job],
        skip_overused: bool = True,
        skip: Callable[[Session, Job], bool] | None = None,
    ) -> None:
        """`skip` says which jobs have no turn: asked when it would be theirs."""
        self._session = session
        self._skip = skip
        self._skip_overused = skip_overused
        self._by_namespace = bool(session.hooks.namespace_order)
        self._namespaces: list[tuple[Key, str]] = []
        self._queues: dict[str, list[tuple[Key, str]]] = {}
        self._jobs: dict[tuple[str, str], list[tuple[Key, int]]] = {}
        for job in jobs:
            self.again(job)

    def again(self, job: Job) -> None:
        """Add a job, or give it another turn."""
        hooks = self._session.hooks
        namespace = job.namespace if self._by_namespace else ""
        queues = self._queues.get(namespace)
        if queues is None:
            queues = self._queues[namespace] = []
            heapq.heappush(self._namespaces, (hooks.namespace_key(namespace), namespace))
        jobs = self._jobs.setdefault((namespace, job.queue), [])
        is_new = not jobs
        heapq.heappush(jobs, (hooks.job_key(job), job.index))
        if is_new or (hooks.queues_by_job and jobs[0][1] == job.index):
            heapq.heappush(queues, (self._queue_key(namespace, job.queue), job.queue))

    def next(self) -> Job | None:
        """Remove and return the next job; overused queues are skipped if `skip_overused` is set."""
        while self._namespaces:
            namespace = _first(self._namespaces, self._session.hooks.namespace_key)
            queues = self._queues[namespace]
            while queues:
                queue = _first(queues, partial(self._queue_key, namespace))
                if (namespace, queue) not in self._jobs:
                    heapq.heappop(queues)  # put into the heap more than once
                    continue
                if self._overused(queue):
                    heapq.heappop(queues)
                    del self._jobs[namespace, queue]
                    continue
                job = self._head(self._jobs[namespace, queue])
                if job is not None:
                    heapq.heappop(self._jobs[namespace, queue])
                    return job
                heapq.heappop(queues)
                del self._jobs[namespace, queue]
            heapq.heappop(self._namespaces)
            del self._queues[namespace]
        return None

    def _queue_key(self, namespace: str, queue: str) -> Key:
        queues, hooks = self._session.snapshot.queues, self._session.hooks
        first = self._head(self._jobs.get((namespace, queue), [])) if hooks.queues_by_job else None
        return hooks.queue_key(queues.queues[queues.number[queue]], first)

    def _head(self, jobs: list[tuple[Key, int]]) -> Job | None:
        """The next job of a queue, after those that have no turn."""
        while jobs:
            job = self._session.job(jobs[0][1])
            if self._skip is None or not self._skip(self._session, job):
                return job
            heapq.heappop(jobs)
        return None

    def _overused(self, queue: str) -> bool:
        if not self._skip_overused:
            return False
        queues = self._session.snapshot.queues
        reason = self._session.hooks.is_overused(queues.queues[queues.number[queue]])
        if reason is not None:
            self._session.pass_over(queue, reason)
        return reason is not None


def _first(heap: list[tuple[Key, str]], key: Any) -> str:
    """The first name of a heap whose stored keys may be too small; stale keys are updated."""
    while True:
        stored, name = heap[0]
        current = key(name)
        if current == stored:
            return name
        heapq.heapreplace(heap, (current, name))
