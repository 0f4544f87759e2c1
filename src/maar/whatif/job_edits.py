"""Edits of jobs: add, end, release, priority, minimum, queue, requests."""

from __future__ import annotations

from msgspec.structs import replace

from maar.model.jobs import Job, OnHold
from maar.model.queues import QueueTree
from maar.model.resources import PODS, quantity
from maar.model.shapes import Shape
from maar.model.tasks import Status, Task
from maar.model.words import count as counted
from maar.model.words import number
from maar.whatif.edit import (
    Edit,
    EditError,
    Scene,
    all_found,
    at_least,
    ended,
    found,
    job_of,
    new,
    quoted,
    swapped,
    with_job,
)

HIGHEST = 2_000_001_000
"""The highest priority that Kubernetes has: its class `system-node-critical`."""
UNPLACED = (Status.PENDING, Status.NOMINATED, Status.BLOCKED)


class AddJobs(Edit, frozen=True):
    """Add jobs with their pods, as a reader of manifests made them."""

    jobs: tuple[Job, ...]
    tasks: tuple[Task, ...] = ()

    def applied(self, scene: Scene) -> Scene:
        cluster = scene.cluster
        new("jobs", "job", [job.key for job in self.jobs], [job.key for job in cluster.jobs])
        new("tasks", "pod", [task.key for task in self.tasks], [task.key for task in cluster.tasks])
        names, nodes = {job.key for job in self.jobs}, {"", *(node.name for node in cluster.nodes)}
        for i, task in enumerate(self.tasks):
            found(f"tasks[{i}].job", "job", task.job, names)
            found(f"tasks[{i}].node", "node", task.node, nodes)
        added = replace(cluster, jobs=(*cluster.jobs, *self.jobs), tasks=(*cluster.tasks, *self.tasks))
        return replace(scene, cluster=added)

    def words(self, scene: Scene) -> str:
        count = counted(len(self.tasks), "pod")
        return f"add job{'' if len(self.jobs) == 1 else 's'} {quoted(job.key for job in self.jobs)} with {count}"


class EndJobs(Edit, frozen=True):
    """Jobs end, and their pods are gone."""

    jobs: tuple[str, ...]

    def applied(self, scene: Scene) -> Scene:
        cluster, ended = scene.cluster, set(self.jobs)
        all_found("jobs", "job", self.jobs, {job.key for job in cluster.jobs})
        jobs = tuple(job for job in cluster.jobs if job.key not in ended)
        tasks = tuple(task for task in cluster.tasks if task.job not in ended)
        return replace(scene, cluster=replace(cluster, jobs=jobs, tasks=tasks))

    def words(self, scene: Scene) -> str:
        return f"end job{'' if len(self.jobs) == 1 else 's'} {quoted(self.jobs)}"


class Release(Edit, frozen=True):
    """The owner of a job no longer holds it."""

    job: str

    def applied(self, scene: Scene) -> Scene:
        return with_job(scene, replace(job_of(scene, self.job), on_hold=OnHold.NO))

    def words(self, scene: Scene) -> str:
        return f"release `{self.job}`, which its owner holds"


class SetPriority(Edit, frozen=True):
    """Another priority of a job and its pods."""

    job: str
    priority: int

    def applied(self, scene: Scene) -> Scene:
        job = job_of(scene, self.job)
        at_least("priority", self.priority, -(2**31), HIGHEST)
        after = with_job(scene, replace(job, priority=self.priority))
        tasks = swapped(after.cluster.tasks, lambda t: t.job == self.job, lambda t: replace(t, priority=self.priority))
        return replace(after, cluster=replace(after.cluster, tasks=tasks))

    def words(self, scene: Scene) -> str:
        now = job_of(scene, self.job).priority
        verb = "raise" if self.priority >= now else "lower"
        others = {job.key for job in scene.cluster.jobs if now <= job.priority == self.priority - 1}
        passed = sorted(others - ended(scene.cluster) - {self.job})
        more = f" and {len(passed) - 1} more" if len(passed) > 1 else ""
        above = f", above `{passed[0]}`{more}" if passed else ""
        return f"{verb} the priority of `{self.job}` from {now} to {self.priority}{above}"


class SetMinimum(Edit, frozen=True):
    """Another minimum of a job. What its group declares for the minimum changes in proportion.

    A minimum below the sum of its roles' minimums replaces these, as the plugin `gang` reads it.
    """

    job: str
    minimum: int

    def applied(self, scene: Scene) -> Scene:
        job = job_of(scene, self.job)
        elastic, before = job.elastic, max(job.min_member, 1)
        beside = 0 if elastic is None else len(elastic.beside)
        at_least("minimum", self.minimum, 1 + beside, 2**31 if elastic is None else elastic.max + beside)
        if elastic is not None:
            elastic = replace(elastic, min=self.minimum - beside)

        def part(amounts: dict[str, int]) -> dict[str, int]:
            return {name: -(-amount * self.minimum // before) for name, amount in amounts.items()}

        resources = None if job.min_resources is None else part(job.min_resources)
        changed = replace(
            job,
            min_member=self.minimum,
            min_resources=resources,
            quota_needs=part(job.quota_needs),
            elastic=elastic,
        )
        return with_job(scene, changed)

    def words(self, scene: Scene) -> str:
        now = job_of(scene, self.job).min_member
        verb = "raise" if self.minimum >= now else "lower"
        return f"{verb} the minimum of `{self.job}` from {number(now)} to {counted(self.minimum, 'pod')}"


class SetQueue(Edit, frozen=True):
    """A job moves to another queue."""

    job: str
    queue: str

    def applied(self, scene: Scene) -> Scene:
        job = job_of(scene, self.job)
        found("queue", "queue", self.queue, QueueTree(scene.cluster.queues).number)
        return with_job(scene, replace(job, queue=self.queue))

    def words(self, scene: Scene) -> str:
        return f"move `{self.job}` from queue `{job_of(scene, self.job).queue}` to queue `{self.queue}`"


class SetRequest(Edit, frozen=True):
    """Limit what each pod of a job that has no node yet requests of a resource."""

    job: str
    resource: str
    amount: int

    def applied(self, scene: Scene) -> Scene:
        job = job_of(scene, self.job)
        at_least("amount", self.amount, 0)
        if self.resource == PODS:
            raise EditError("resource", f"expected a resource that pods request, got `{PODS}`")
        found("resource", "resource of the job", self.resource, {r for s in self._shapes(scene) for r, _ in s.requests})
        tasks = swapped(scene.cluster.tasks, self._is_meant, lambda t: replace(t, shape=self._capped(t.shape)))
        if job.elastic is not None:
            beside = tuple(map(self._capped, job.elastic.beside))
            job = replace(job, elastic=replace(job.elastic, shape=self._capped(job.elastic.shape), beside=beside))
        after = with_job(scene, job)
        return replace(after, cluster=replace(after.cluster, tasks=tasks))

    def words(self, scene: Scene) -> str:
        now = max(dict(shape.requests).get(self.resource, 0) for shape in self._shapes(scene))
        less = f"{quantity(self.resource, self.amount)} {self.resource}"
        return f"request {less} for each pod of `{self.job}` instead of {quantity(self.resource, now)}"

    def _is_meant(self, task: Task) -> bool:
        return task.job == self.job and task.status in UNPLACED

    def _shapes(self, scene: Scene) -> list[Shape]:
        elastic = job_of(scene, self.job).elastic
        workers = [] if elastic is None else [elastic.shape, *elastic.beside]
        return [*(task.shape for task in scene.cluster.tasks if self._is_meant(task)), *workers]

    def _capped(self, shape: Shape) -> Shape:
        amounts = ((name, min(n, self.amount) if name == self.resource else n) for name, n in shape.requests)
        return replace(shape, requests=tuple(amounts))
