"""Everything about one job that its owner asks while it waits: needs, place, reasons, and what would unblock it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec

from maar.config.config import Config
from maar.model.jobs import Job
from maar.model.reasons import Reason
from maar.model.resources import PODS, devices_first, quantity
from maar.model.shapes import Shape
from maar.model.snapshot import Cluster
from maar.model.tasks import Task
from maar.whatif.answer import Decided, decided
from maar.whatif.edit import Scene, job_of
from maar.whatif.place import Place, place_of
from maar.whatif.started import Start
from maar.whatif.unblock import Unblocked, unblock


class Needs(msgspec.Struct, frozen=True):
    """Equal pods of a job: how many, and what each requests, in Kubernetes' notation."""

    pods: int
    requests: dict[str, str]
    role: str = ""


class Bounds(msgspec.Struct, frozen=True):
    """The number of workers of an elastic job."""

    min: int
    max: int
    now: int


class Why(msgspec.Struct, frozen=True):
    """The answer about one job."""

    job: str
    queue: str
    priority: int
    start: Start
    """How far it is after the plan of this moment."""
    since: float
    """When it was created, or began to wait again. Seconds since 1970."""
    minimum: int
    needs: tuple[Needs, ...]
    declared: dict[str, str]
    """What its group declares for the minimum, in Kubernetes' notation: for a group without pods this counts."""
    pods: dict[str, int]
    """What it has: the number of pods by status."""
    elastic: Bounds | None
    place: Place | None
    """`None` if it is not in the order: it does not wait, is not valid, or is suspended."""
    reasons: tuple[Reason, ...]
    unblock: Unblocked


def why(
    cluster: Cluster,
    config: Config,
    now: float,
    job: str,
    go_on: Callable[[], bool] = lambda: True,
    before: Decided | None = None,
) -> Why:
    """The answer about a job; an `EditError` if the cluster has no such job.

    `go_on` limits the search for changes. `before` is the plan of this moment with its reasons, if the caller has it.
    """
    scene = Scene(cluster, config)
    asked = job_of(scene, job)
    tasks = [task for task in cluster.tasks if task.job == job]
    found = before or decided(scene, now)
    return Why(
        job,
        asked.queue,
        asked.priority,
        found.outcome.of(job),
        asked.waits_since,
        asked.min_member,
        _needs(asked, tasks),
        _declared(asked),
        dict(sorted(Counter(task.status.name.lower() for task in tasks).items())),
        _bounds(asked),
        place_of(found.snapshot, config, now, job),
        _reasons(found, job),
        unblock(cluster, config, now, job, go_on, before=found),
    )


def _bounds(job: Job) -> Bounds | None:
    elastic = job.elastic
    return Bounds(elastic.min, elastic.max, elastic.now) if elastic is not None and job.is_elastic else None


def _needs(job: Job, tasks: list[Task]) -> tuple[Needs, ...]:
    """Its pods by role and shape; of a suspended elastic job, its fewest workers and the pods beside them."""
    kinds = Counter((task.role, task.shape) for task in tasks if not (job.is_suspended and job.is_elastic))
    if kinds:
        return tuple(Needs(count, _requests(shape), role) for (role, shape), count in kinds.items())
    if job.elastic is not None:
        beside = Counter(job.elastic.beside).items()
        workers = Needs(job.elastic.min, _requests(job.elastic.shape), job.elastic.role)
        return (workers, *(Needs(count, _requests(shape), "") for shape, count in beside))
    return ()


def _declared(job: Job) -> dict[str, str]:
    amounts = job.min_resources or {}
    return {name: quantity(name, amounts[name]) for name in devices_first(amounts)}


def _requests(shape: Shape) -> dict[str, str]:
    """Devices first."""
    amounts = dict(shape.requests)
    return {name: quantity(name, amounts[name]) for name in devices_first(amounts) if amounts[name] and name != PODS}


def _reasons(found: Decided, job: str) -> tuple[Reason, ...]:
    return next((wait.reasons for wait in found.plan.waiting if wait.job == job), ())
