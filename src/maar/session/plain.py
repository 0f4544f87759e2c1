"""Plain gangs: all of their pods are pending and alike, and nothing else distinguishes them than name and age.

Thousands of waiting jobs are plain. What is decided or said about one holds for all of its kind, and depends on few
numbers. Any other job has no kind here, and is looked at by itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maar.model.jobs import Job
from maar.session.no_room import shapes_of_jobs
from maar.session.session import Session

OWNER, KINDS = "plain", "kinds"


class PlainKind(NamedTuple):
    """What plain gangs have in common. Two gangs of one kind differ in name and age."""

    queue: str
    namespace: str
    priority: int
    shape: int
    pods: int
    """How many pods there are, all of them pending."""
    least: int
    """The minimum."""

    @property
    def needs(self) -> int:
        """How many pods it must get at once."""
        return max(self.least, 1)


def plain_kind(session: Session, job: Job) -> PlainKind | None:
    """The kind of a gang that is plain now."""
    kind = session.memo.fixed(OWNER, KINDS, lambda: _kinds(session)).get(job.index)
    return kind if kind is not None and session.state.job_pending.item(job.index) == kind.pods else None


def _kinds(session: Session) -> dict[int, PlainKind]:
    """The kinds of jobs that are plain while all of their pods are pending."""
    jobs, tasks, gang = session.snapshot.jobs, session.snapshot.tasks, session.hooks.gang
    if gang is None or tasks.priorities_differ or not tasks.all_preempt:
        return {}
    shapes, sizes = shapes_of_jobs(session), jobs.sizes.tolist()
    protected = np.bincount(tasks.job[~tasks.preemptable], minlength=len(jobs)).tolist()
    found = {}
    for i in jobs.active:
        job = jobs.jobs[i]
        if shapes[i] < 0 or protected[i] or jobs.best_effort[i] or len(jobs.role_names[i]) != 1:
            continue
        if job.elastic is not None or job.closeness is not None or job.subgroups or job.role_min:
            continue
        least = gang.minimum(job)
        if least <= sizes[i]:
            found[i] = PlainKind(job.queue, job.namespace, job.priority, shapes[i], sizes[i], least)
    return found
