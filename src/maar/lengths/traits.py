"""What is known of the length of a job before it runs: the traits by which it is compared with finished jobs."""

from __future__ import annotations

from maar.lengths.runtimes import Traits
from maar.model.jobs import Job
from maar.model.name_stems import stem_of
from maar.model.resources import is_accelerator
from maar.model.shapes import Shape
from maar.model.tasks import Task, longest_promise


def traits_of(job: Job, tasks: tuple[Task, ...], category: str = "") -> Traits:
    """The traits of a job. Its owner is its namespace; `category` is what the history calls it."""
    namespace, _, name = job.key.partition("/")
    limit = job.promise if job.promise is not None else longest_promise(tasks)
    return Traits(namespace, stem_of(name), _gpus(job, tasks), category, limit)


def gpus_of(shape: Shape) -> int:
    return sum(amount for name, amount in shape.requests if is_accelerator(name))


def _gpus(job: Job, tasks: tuple[Task, ...]) -> int:
    """GPUs of a job at the requested size; before there are pods, as declared."""
    if job.elastic is not None:
        return (job.elastic.requested or job.elastic.min) * gpus_of(job.elastic.shape)
    if not tasks:
        return sum(amount for name, amount in (job.min_resources or {}).items() if is_accelerator(name))
    return sum(gpus_of(task.shape) for task in tasks)
