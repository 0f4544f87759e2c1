"""Equal jobs are asked once: which jobs cannot get room because equal jobs have just been refused it.

Jobs are equal if they differ only in name and age: same queue, namespace, priority, shape, usable nodes, and nothing
placed. Where room could not be made for a number of pods, it cannot be made for as many or more of the same, until the
cluster changes: then the action clears the verdicts. Each job has its own reason; equal numbers of pods share its text.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from maar.model.fitting import MANY
from maar.model.jobs import Job
from maar.model.reasons import Reason
from maar.session.placement import Group, domains_of
from maar.session.plain import plain_kind
from maar.session.session import Session


class Verdicts:
    """The refusals of one action since the last change of the cluster."""

    def __init__(self) -> None:
        self._refused: dict[Hashable, dict[int, Reason]] = {}
        """The reason by number of pods, for each kind of jobs."""
        self._may_not_take: dict[Hashable, int] = {}
        """The fewest pods of each kind of jobs for which their queue may not take room from others."""

    def clear(self) -> None:
        self._refused.clear()
        self._may_not_take.clear()

    def may_take(self, kind: Hashable, count: int, ask: Callable[[], bool]) -> bool:
        """Whether the queue may take room from others for as many pods of the kind; asked once for as many or more."""
        if kind is None:
            return ask()
        if count >= self._may_not_take.get(kind, MANY):
            return False
        may = ask()
        if not may:
            self._may_not_take[kind] = count
        return may

    def is_hopeless(self, kind: Hashable, count: int) -> bool:
        """Whether as many pods of the kind, or fewer, have been refused."""
        return kind is not None and any(refused <= count for refused in self._refused.get(kind, ()))

    def reason(self, kind: Hashable, count: int) -> Reason | None:
        """The reason of a refused job that asked for exactly as many pods, if there is one."""
        return None if kind is None else self._refused.get(kind, {}).get(count)

    def refuse(self, kind: Hashable, count: int, reason: Reason) -> None:
        if kind is not None:
            self._refused.setdefault(kind, {})[count] = reason


def kind_of(session: Session, job: Job, needs: Callable[[], list[tuple[Group, int]]]) -> tuple[Hashable, int]:
    """What decides whether room can be made for a job, besides the number of pods that it needs, and this number.

    The kind is `None` if it is not only this. Of plain gangs it is known without the groups that they need.
    """
    state, hooks = session.state, session.hooks
    if hooks.job_scores or hooks.bundles or hooks.bundle_scores or hooks.shared_rooms:
        return None, 0
    if next(iter(domains_of(session, job)), None) is not None:
        return None, 0
    plain = plain_kind(session, job)
    if plain is None:
        if job.elastic is not None or job.subgroups or job.role_min:
            return None, 0
        if state.job_ready.item(job.index) or state.job_nominated.item(job.index):
            return None, 0
        groups = needs()
        if len(groups) != 1:
            return None, 0
        shape, count = groups[0][0].shape, groups[0][1]
    else:
        shape, count = plain.shape, plain.needs
    within = session.open_to(job)
    nodes = None if within is None else within.tobytes()
    return (job.queue, job.namespace, job.priority, shape, nodes), count
