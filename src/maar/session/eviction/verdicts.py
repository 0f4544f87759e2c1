"""Equal jobs are asked once: which jobs cannot get room because equal jobs have just been refused it.

Jobs are equal if they differ only in name and age: same queue, namespace, priority, shape, usable nodes, and nothing
placed. Where room could not be made for a number of pods, it cannot be made for as many or more of the same, until the
cluster changes: then the action clears the verdicts. Each job has its own reason; equal numbers of pods share its text.
"""

from __future__ import annotations

from collections.abc import Hashable

from maar.model.jobs import Job
from maar.model.reasons import Reason
from maar.session.placement import Group, domains_of
from maar.session.session import Session


class Verdicts:
    """The refusals of one action since the last change of the cluster."""

    def __init__(self) -> None:
        self._refused: dict[Hashable, dict[int, Reason]] = {}
        """The reason by number of pods, for each kind of jobs."""

    def clear(self) -> None:
        self._refused.clear()

    def is_hopeless(self, kind: Hashable, count: int) -> bool:
        """Whether as many pods of the kind, or fewer, have been refused."""
        return kind is not None and any(refused <= count for refused in self._refused.get(kind, ()))

    def reason(self, kind: Hashable, count: int) -> Reason | None:
        """The reason of a refused job that asked for exactly as many pods, if there is one."""
        return None if kind is None else self._refused.get(kind, {}).get(count)

    def refuse(self, kind: Hashable, count: int, reason: Reason) -> None:
        if kind is not None:
            self._refused.setdefault(kind, {})[count] = reason


def kind_of(session: Session, job: Job, needs: list[tuple[Group, int]]) -> Hashable:
    """What decides whether room can be made for a job, besides the number of pods; `None` if it is not only this."""
    state, hooks = session.state, session.hooks
    if len(needs) > 1 or job.elastic is not None or job.subgroups or job.role_min:
        return None
    if state.job_ready.item(job.index) or state.job_nominated.item(job.index):
        return None
    if hooks.job_scores or hooks.bundles or hooks.bundle_scores or hooks.shared_rooms:
        return None
    if next(iter(domains_of(session, job)), None) is not None:
        return None
    within = session.open_to(job)
    nodes = None if within is None else within.tobytes()
    return job.queue, job.namespace, job.priority, needs[0][0].shape, nodes
