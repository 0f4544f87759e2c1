"""From a plan to the memory of the cluster: writes elections and locks, which the next cycle must find again.

This is part of the outbox. Only what changes is written.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from maar.controller.cache import Cache
from maar.controller.subjects import Subjects
from maar.kube.wire import annotations as known
from maar.kube.wire.api_resources import NODES
from maar.kube.write.executor import Outcome, Patch, Work
from maar.model.plan import Elect, Lock, Plan

Submit = Callable[[Work, Callable[[Outcome], None]], None]


class Memory:
    """Writes what one cycle must tell the next, except for what belongs to a single pod or elastic job."""

    def __init__(self, cache: Cache, subjects: Subjects, submit: Submit) -> None:
        self._cache = cache
        self._subjects = subjects
        self._submit = submit
        self._elect: Elect | None = None
        self._locks: dict[str, Lock] | None = None

    def send(self, plan: Plan, now: float) -> None:
        """Write the plan's election and locks, as annotations on objects."""
        if self._locks is None:
            self._locks = {k.node: k for k in self._cache.latest.cluster.locks}
            self._elect = self._cache.latest.cluster.elect
        for job in plan.expired:
            self._annotate_job(job, {known.ELECTION_EXPIRED[0]: _time(now)})
        if plan.elect != self._elect:
            if self._elect is not None and (plan.elect is None or plan.elect.job != self._elect.job):
                self._annotate_job(self._elect.job, {known.ELECTED_SINCE[0]: None})
            if plan.elect is not None:
                self._annotate_job(plan.elect.job, {known.ELECTED_SINCE[0]: _time(plan.elect.since)})
            self._elect = plan.elect
        locks = {k.node: k for k in plan.locks}
        for node in self._locks.keys() | locks.keys():
            if self._locks.get(node) != locks.get(node):
                lock = locks.get(node)
                notes = {known.LOCKED_FOR: lock and lock.job, known.LOCKED_SINCE: lock and _time(lock.since)}
                self._patch(Patch(NODES.path(name=node), {"metadata": {"annotations": notes}}, "merge"))
        self._locks = locks

    def _annotate_job(self, job: str, annotations: dict[str, str | None]) -> None:
        if (subject := self._subjects.subject_of(job)) is not None:
            self._patch(Patch(subject.path, {"metadata": {"annotations": annotations}}, "merge"))

    def _patch(self, patch: Patch) -> None:
        self._submit(patch, lambda outcome: None)


def _time(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
