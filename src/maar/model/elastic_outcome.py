"""Elastic jobs after a plan is carried out: their operators create and delete workers at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from maar.model.elastic import Elastic, Past
from maar.model.jobs import Job
from maar.model.plan import Plan
from maar.model.shapes import Shape
from maar.model.tasks import UNBORN, Status, Task


class NewSize(NamedTuple):
    """The size that a plan gives a job, and the past that is written with it."""

    size: int
    past: Past


NewSizes = dict[str, NewSize]
"""The sizes that a plan changes, by job."""


def sizes_of(plan: Plan) -> NewSizes:
    return {
        **{r.job: NewSize(r.after, r.past) for r in plan.resize},
        **{r.job: NewSize(r.size, r.past) for r in plan.resume},
        **{s.job: NewSize(0, s.past) for s in plan.suspend},
    }


def jobs_after(jobs: Iterable[Job], plan: Plan) -> tuple[Job, ...]:
    sizes = sizes_of(plan)
    reserved: dict[str, list[tuple[str, int]]] = {}
    for reserve in plan.reserve:
        reserved.setdefault(reserve.job, []).append((reserve.place, reserve.count))
    return tuple(
        job if job.elastic is None else replace(job, elastic=_after(job, job.elastic, sizes, reserved)) for job in jobs
    )


def _after(job: Job, elastic: Elastic, sizes: NewSizes, reserved: dict[str, list[tuple[str, int]]]) -> Elastic:
    room = tuple(sorted(reserved.get(job.key, ())))
    if job.key not in sizes:
        return replace(elastic, reserved=room)
    size, past = sizes[job.key]
    return replace(elastic, size=size or elastic.size, suspended=size == 0, past=past, reserved=room)


def tasks_after(tasks: Iterable[Task], jobs: Iterable[Job], plan: Plan, now: float) -> tuple[Task, ...]:
    """The tasks after operators have followed: they delete the highest indices and create missing pods as pending.

    The pods of a job of fixed size that is suspended are tasks that do not exist yet.
    """
    jobs = list(jobs)
    resumed = {resume.job for resume in plan.resume}
    rigid = {job.key for job in jobs if job.elastic is not None and not job.is_elastic}
    stopped = rigid.intersection(suspend.job for suspend in plan.suspend)
    if rigid:
        tasks = tuple(_created(t, now) if t.unborn and t.job in resumed else t for t in tasks)
        tasks = tuple(_uncreated(t) if t.job in stopped else t for t in tasks)
    sizes = {job: new for job, new in sizes_of(plan).items() if job not in stopped}
    for job in jobs:
        if job.elastic is not None and not job.elastic.suspended and job.key not in {*sizes, *stopped}:
            sizes[job.key] = NewSize(job.elastic.size, job.elastic.past)
    if not sizes:
        return tuple(tasks)
    elastic = {job.key: job for job in jobs if job.key in sizes and job.elastic is not None}
    kept = [task for task in tasks if task.job not in elastic or _stays(task, elastic[task.job], sizes)]
    made: list[Task] = []
    for key, job in elastic.items():
        made.extend(_made(job, [t for t in kept if t.job == key], sizes[key].size, now))
    return (*kept, *made)


def _created(task: Task, now: float) -> Task:
    return replace(task, key=task.pod, unborn=False, created=now, status=Status.PENDING, node="")


def _uncreated(task: Task) -> Task:
    key = f"{task.key}{UNBORN}{task.job.partition('/')[2]}"
    return replace(task, key=key, uid="", unborn=True, status=Status.PENDING, node="", started=None)


def _stays(task: Task, job: Job, sizes: NewSizes) -> bool:
    size = sizes[job.key].size
    assert job.elastic is not None
    return size > 0 and (task.role != job.elastic.role or task.index < size)


def _made(job: Job, existing: list[Task], size: int, now: float) -> list[Task]:
    elastic = job.elastic
    assert elastic is not None
    if size == 0:
        return []
    known = {task.index for task in existing if task.role == elastic.role}
    stem = f"{job.key}-{elastic.role}" if elastic.role else job.key
    made = [_pod(job, f"{stem}-{i}", elastic.shape, elastic.role, i, now) for i in range(size) if i not in known]
    if not any(task.role != elastic.role for task in existing):
        made += [_pod(job, f"{job.key}-beside-{i}", s, "beside", i, now) for i, s in enumerate(elastic.beside)]
    return made


def _pod(job: Job, key: str, shape: Shape, role: str, index: int, now: float) -> Task:
    return Task(
        key, job.key, shape, Status.PENDING, role=role, index=index, priority=job.priority, created=now, controlled=True
    )
