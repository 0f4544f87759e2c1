"""The virtual cluster: nodes and jobs of a trace as the model's nouns, and what operators and kubelets do to them.

Below `maar.sim.cluster`, which knows the time. Jobs are kept one by one, so that a snapshot costs what changed. A plan
is carried out at once and by the same code as `maar plan` does it (`maar.model.outcome`), on the jobs that it touches;
in addition pods that were evicted are made anew, as job controllers do.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from maar.model.elastic import Elastic
from maar.model.jobs import Job
from maar.model.nodes import Node
from maar.model.outcome import carry_out
from maar.model.plan import Plan
from maar.model.queues import Queue
from maar.model.resources import CPU, MEMORY, PODS
from maar.model.shapes import Shape
from maar.model.snapshot import Changed, Cluster, Snapshot
from maar.model.tasks import Status, Task
from maar.sim.trace import TraceJob

GPU = "nvidia.com/gpu"
NAMESPACE = "sim"
ROLE = "worker"

CPUS_PER_GPU = 16
GIB = 2**30
MEMORY_PER_GPU = 128 * GIB
"""What a virtual node has beside each GPU: plenty, as common GPU machines do, so that GPUs are what is short. A worker
that says nothing asks for a CPU and a GiB."""


def node_name(number: int, of: int) -> str:
    """Names that sort as their numbers do."""
    return f"node-{number:0{len(str(of - 1))}}"


def make_nodes(count: int, gpus: int) -> list[Node]:
    """Equal nodes."""
    return [Node(node_name(i, count), room_of_node(gpus)) for i in range(count)]


def room_of_node(gpus: int) -> dict[str, int]:
    """What an empty one takes."""
    room = max(gpus, 1)
    amounts = {CPU: room * CPUS_PER_GPU * 1000, MEMORY: room * MEMORY_PER_GPU, PODS: 110}
    return {**amounts, **({GPU: gpus} if gpus else {})}


def key_of(job: TraceJob) -> str:
    """What it is called in the cluster."""
    return f"{NAMESPACE}/{job.name}"


def make_job(job: TraceJob, now: float, managed: bool, restart: float) -> tuple[Job, tuple[Task, ...]]:
    """A gang whose pods wait; or an elastic job, which waits to be resumed. `managed`: rigid ones too wait for that."""
    shape = shape_of(job)
    key = key_of(job)
    if job.elastic or managed:
        elastic = Elastic(
            job.min,
            job.max,
            shape,
            size=job.workers,
            requested=job.workers,
            suspended=True,
            role=ROLE,
            restart=restart,
            speedup=job.speedup,
        )
        return Job(key, job.queue, job.min, priority=job.priority, created=now, elastic=elastic), ()
    gang = Job(key, job.queue, job.workers, priority=job.priority, created=now)
    return gang, tuple(_pod(gang, shape, i, now) for i in range(job.workers))


def shape_of(job: TraceJob) -> Shape:
    """What one of its workers needs."""
    requests = {
        CPU: round((job.cpu if job.cpu is not None else 1) * 1000),
        MEMORY: job.memory if job.memory is not None else GIB,
        GPU: job.gpus_per_worker if job.gpus else 0,
        PODS: 1,
    }
    return Shape(requests=tuple(sorted((name, amount) for name, amount in requests.items() if amount)))


def _pod(job: Job, shape: Shape, index: int, now: float) -> Task:
    name = f"{job.key}-{ROLE}-{index}"
    return Task(name, job.key, shape, role=ROLE, index=index, priority=job.priority, created=now, controlled=True)


class Virtual:
    """What there is now."""

    def __init__(self, nodes: Iterable[Node], queues: Iterable[str]) -> None:
        self._rest = Cluster(nodes=tuple(nodes), queues=tuple(Queue(name) for name in sorted(set(queues))))
        self.jobs: dict[str, tuple[Job, tuple[Task, ...]]] = {}
        self._job_of: dict[str, str] = {}
        self._changed: set[str] = set()
        self._touchy: set[str] = set()
        """Jobs to whom room is promised, or for whom it is kept: each plan says anew what is."""
        self._snapshot: Snapshot | None = None

    def put(self, job: Job, tasks: tuple[Task, ...]) -> None:
        """A job comes, or is another now."""
        old = self.jobs.get(job.key)
        for task in old[1] if old else ():
            self._job_of.pop(task.key, None)
        self.jobs[job.key] = (job, tasks)
        self._job_of.update((task.key, job.key) for task in tasks)
        self._changed.add(job.key)
        kept = job.elastic is not None and bool(job.elastic.holds)
        if kept or any(task.status is Status.NOMINATED for task in tasks):
            self._touchy.add(job.key)
        else:
            self._touchy.discard(job.key)

    def remove(self, key: str) -> None:
        """A job is gone."""
        for task in self.jobs.pop(key)[1]:
            self._job_of.pop(task.key, None)
        self._changed.add(key)
        self._touchy.discard(key)

    def set_nodes(self, nodes: Iterable[Node]) -> None:
        """Nodes came, went or changed."""
        self._rest = replace(self._rest, nodes=tuple(nodes))
        self._snapshot = None

    def snapshot(self) -> Snapshot:
        """The cluster now; costs what changed since the last one."""
        following = None
        if self._snapshot is not None:
            changed: dict[str, Changed] = {key: self.jobs.get(key) for key in sorted(self._changed)}
            following = self._snapshot.after(self._rest, changed)
        if following is None:
            jobs = tuple(job for job, _ in self.jobs.values())
            tasks = tuple(task for _, of in self.jobs.values() for task in of)
            following = Snapshot(replace(self._rest, jobs=jobs, tasks=tasks))
        self._snapshot = following
        self._changed.clear()
        return following

    def carry_out(self, plan: Plan, now: float) -> set[str]:
        """Do what a plan says, at once: the jobs that it touched."""
        evicted = {self._job_of[e.task] for e in plan.evict}
        touched = self._touched(plan) | evicted
        parts = [self.jobs[key] for key in sorted(touched)]
        jobs, tasks = tuple(job for job, _ in parts), tuple(task for _, of in parts for task in of)
        after = carry_out(replace(self._rest, jobs=jobs, tasks=tasks), plan, now)
        by_job: dict[str, list[Task]] = {job.key: [] for job in after.jobs}
        for task in after.tasks:
            by_job[task.job].append(task)
        for job in after.jobs:
            made = self._made_anew(job, by_job[job.key], now) if job.key in evicted else by_job[job.key]
            if (job, tuple(made)) != self.jobs[job.key]:
                self.put(job, tuple(made))
        self._rest = replace(self._rest, elect=after.elect, locks=after.locks)
        return touched

    def _touched(self, plan: Plan) -> set[str]:
        tasks = (*(b.task for b in plan.bind), *(n.task for n in plan.nominate))
        sizes = (*(r.job for r in plan.resize), *(s.job for s in plan.suspend), *(r.job for r in plan.resume))
        others = (*(a.job for a in plan.admit), *(h.job for h in plan.hold), *plan.expired)
        return {*(self._job_of[task] for task in tasks), *sizes, *others, *self._touchy}

    def _made_anew(self, job: Job, left: list[Task], now: float) -> list[Task]:
        """A gang's pods that were evicted are made again, to wait."""
        if job.elastic is not None:
            return left
        there = {task.key for task in left}
        gone = [task for task in self.jobs[job.key][1] if task.key not in there]
        return [*left, *(_pod(job, task.shape, task.index, now) for task in gone)]
