"""Which job is looked at next, when many have news: one namespace after the other, as fast as their writes end.

Reports are made from the newest state, when they can be sent: a namespace has few unfinished writes, and a job is
looked at again only once its last writes have ended. So what is queued is bounded, news that come meanwhile replace
each other, and a namespace with thousands of waiting jobs does not delay the reports of another one.
"""

from __future__ import annotations

from collections import Counter, OrderedDict

MOST = 32
"""Unfinished writes of a namespace with which no more of its jobs are looked at: enough for all slots of the executor.
Tuned by hand."""


class Backlog:
    """The jobs to look at, by namespace."""

    def __init__(self) -> None:
        self._jobs: dict[str, OrderedDict[str, None]] = {}
        self._turns: OrderedDict[str, None] = OrderedDict()
        """The namespaces that may have a turn, in this order."""
        self._of_namespace: Counter[str] = Counter()
        """Unfinished writes."""
        self._of_job: Counter[str] = Counter()
        self._again: set[str] = set()
        """Jobs that are to be looked at once their writes have ended."""

    def add(self, job: str) -> None:
        """A job has news."""
        if self._of_job[job]:
            self._again.add(job)
            return
        namespace = _namespace(job)
        self._jobs.setdefault(namespace, OrderedDict()).setdefault(job)
        self._ask(namespace)

    def discard(self, job: str) -> None:
        """There is nothing to say about a job any more."""
        self._again.discard(job)
        namespace = _namespace(job)
        jobs = self._jobs.get(namespace, OrderedDict())
        if job in jobs:
            del jobs[job]
        if not jobs:
            self._jobs.pop(namespace, None)
            self._turns.pop(namespace, None)

    def take(self) -> str | None:
        """The next job, if there is one whose writes may be sent now."""
        if not self._turns:
            return None
        namespace = next(iter(self._turns))
        job = next(iter(self._jobs[namespace]))
        self._turns.move_to_end(namespace)
        self.discard(job)
        return job

    def began(self, job: str, writes: int) -> None:
        """Writes about a job were submitted."""
        if writes:
            namespace = _namespace(job)
            self._of_job[job] += writes
            self._of_namespace[namespace] += writes
            if self._of_namespace[namespace] >= MOST:
                self._turns.pop(namespace, None)

    def ended(self, job: str) -> None:
        """A write about a job has ended."""
        namespace = _namespace(job)
        for unfinished, key in ((self._of_job, job), (self._of_namespace, namespace)):
            unfinished[key] -= 1
            if not unfinished[key]:
                del unfinished[key]
        if job not in self._of_job and job in self._again:
            self._again.discard(job)
            self.add(job)
        self._ask(namespace)

    def _ask(self, namespace: str) -> None:
        if namespace in self._jobs and self._of_namespace[namespace] < MOST:
            self._turns.setdefault(namespace)


def _namespace(job: str) -> str:
    return job.partition("/")[0]
