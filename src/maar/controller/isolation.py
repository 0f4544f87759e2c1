"""Finds the jobs because of which a decision fails, and sets them aside, so that all other jobs are decided.

A decision that raises is a bug of ours, and one job's data may trigger it in every cycle. Ending the process would not
help: it would start again, read the same job and end again. So the decision is repeated without some of the jobs until
the culprits are known. A job that is set aside is invalid with the reason, and keeps the room of its running pods.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec.structs import replace

from maar.model.jobs import Job
from maar.model.shapes import Shape
from maar.model.snapshot import Changed, Cluster
from maar.model.tasks import Status, Task

MOST = 16
"""Culprits that are searched for one by one; if there are more, all suspects are set aside. Tuned by hand."""
TAKES_ROOM = (Status.BOUND, Status.RELEASING)


def culprits(fails: Callable[[frozenset[str]], bool], suspects: Sequence[str]) -> frozenset[str] | None:
    """A small set of jobs without which `fails` is false; the first suspects are preferred.

    `None` if it fails even without all of them: no job is to blame. Takes about log2 of the suspects attempts for each
    culprit.
    """
    found: frozenset[str] = frozenset()
    if not fails(found):
        return found
    if fails(frozenset(suspects)):
        return None
    for _ in range(MOST):
        least, most = 0, len(suspects)  # it fails without the first `least` suspects, and not without the first `most`
        while most - least > 1:
            middle = (least + most) // 2
            if fails(found | frozenset(suspects[:middle])):
                least = middle
            else:
                most = middle
        found |= {suspects[most - 1]}
        if not fails(found):
            return found
    return frozenset(suspects)


def bare_job(job: Job, tasks: Collection[Task], reason: str) -> tuple[Job, tuple[Task, ...]]:
    """A job that is set aside: only its queue and the room of its pods are left of it."""
    kept = tuple(
        Task(
            task.key,
            job.key,
            Shape(requests=task.shape.requests),
            status=task.status,
            node=task.node,
            created=task.created,
            uid=task.uid,
            preemptable=False,
            budgets=task.budgets,
        )
        for task in tasks
        if task.status in TAKES_ROOM
    )
    return Job(job.key, queue=job.queue, created=job.created, uid=job.uid, broken=reason), kept


def bare_change(change: Changed, reason: str) -> Changed:
    return None if change is None else bare_job(*change, reason)


def bare_cluster(cluster: Cluster, reasons: Mapping[str, str]) -> Cluster:
    """The cluster with these jobs set aside, each for its reason."""
    tasks: dict[str, list[Task]] = {key: [] for key in reasons}
    others: list[Task] = []
    for task in cluster.tasks:
        tasks.get(task.job, others).append(task)
    jobs = []
    for job in cluster.jobs:
        if job.key in reasons:
            job, kept = bare_job(job, tasks[job.key], reasons[job.key])
            others.extend(kept)
        jobs.append(job)
    return replace(cluster, jobs=tuple(jobs), tasks=tuple(others))
