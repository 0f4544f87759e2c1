"""The virtual cluster: the nodes and jobs of a run as objects of `maar.model`, with the effects of plans.

`maar.sim.cluster` uses it and keeps the time. Jobs are stored one by one, so that the cost of a snapshot depends on
what changed. A plan takes effect at once, by the same code as in `maar plan` (`maar.model.outcome`), on the jobs that
it touches. Evicted pods are created again, as job controllers do.
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
"""CPUs and memory of a virtual node per GPU: plenty, as on common GPU machines, so that only GPUs are scarce. A worker
without its own numbers requests one CPU and one GiB."""


def node_name(number: int, of: int) -> str:
    """A node name; names sort in the order of the numbers."""
    return f"node-{number:0{len(str(of - 1))}}"


def make_nodes(count: int, gpus: int) -> list[Node]:
    return [Node(node_name(i, count), room_of_node(gpus)) for i in range(count)]


def room_of_node(gpus: int) -> dict[str, int]:
    """The allocatable resources of a node."""
    room = max(gpus, 1)
    amounts = {CPU: room * CPUS_PER_GPU * 1000, MEMORY: room * MEMORY_PER_GPU, PODS: 110}
    return {**amounts, **({GPU: gpus} if gpus else {})}


def key_of(job: TraceJob) -> str:
    return f"{NAMESPACE}/{job.name}"


def make_job(job: TraceJob, now: float, managed: bool, restart: float) -> tuple[Job, tuple[Task, ...]]:
    """A gang with pending pods, or a suspended elastic job. With `managed`, rigid jobs too can be suspended."""
    shape = shape_of(job)
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
        return replace(_gang(job, now), min_member=job.min, elastic=elastic), ()
    gang = _gang(job, now)
    return gang, tuple(_pod(gang, shape, i, now) for i in range(job.workers))


def _gang(job: TraceJob, now: float) -> Job:
    return Job(key_of(job), job.queue, job.workers, priority=job.priority, created=now, promise=job.limit)


def shape_of(job: TraceJob) -> Shape:
    """The shape of one worker of a job."""
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
    """The current state of the virtual cluster."""

    def __init__(self, nodes: Iterable[Node], queues: Iterable[str]) -> None:
        self._rest = Cluster(nodes=tuple(nodes), queues=tuple(Queue(name) for name in sorted(set(queues))))
        self.jobs: dict[str, tuple[Job, tuple[Task, ...]]] = {}
        self._job_of: dict[str, str] = {}
        self._changed: set[str] = set()
        self._changes = 0
        self._touchy: set[str] = set()
        """Jobs with nominated or reserved room: each plan states these again."""
        self._snapshot: Snapshot | None = None

    @classmethod
    def of(cls, cluster: Cluster) -> Virtual:
        """A virtual cluster in the state of `cluster`, of which it keeps everything."""
        virtual = cls((), ())
        virtual._rest = replace(cluster, jobs=(), tasks=())
        members: dict[str, list[Task]] = {job.key: [] for job in cluster.jobs}
        for task in cluster.tasks:
            members[task.job].append(task)
        for job in cluster.jobs:
            virtual.put(job, tuple(members[job.key]))
        return virtual

    def cluster(self) -> Cluster:
        """The current state as plain data."""
        jobs = tuple(job for job, _ in self.jobs.values())
        return replace(self._rest, jobs=jobs, tasks=tuple(task for _, tasks in self.jobs.values() for task in tasks))

    @property
    def around(self) -> Cluster:
        """The current state without jobs and tasks."""
        return self._rest

    @property
    def version(self) -> tuple[int, Cluster]:
        """Differs whenever anything has changed: a count of changed jobs, and the rest of the cluster."""
        return self._changes, self._rest

    def put(self, job: Job, tasks: tuple[Task, ...]) -> None:
        old = self.jobs.get(job.key)
        for task in old[1] if old else ():
            self._job_of.pop(task.key, None)
        self.jobs[job.key] = (job, tasks)
        self._job_of.update((task.key, job.key) for task in tasks)
        self._changed.add(job.key)
        self._changes += 1
        has_room = job.elastic is not None and bool(job.elastic.reserved)
        if has_room or any(task.status is Status.NOMINATED for task in tasks):
            self._touchy.add(job.key)
        else:
            self._touchy.discard(job.key)

    def remove(self, key: str) -> None:
        for task in self.jobs.pop(key)[1]:
            self._job_of.pop(task.key, None)
        self._changed.add(key)
        self._changes += 1
        self._touchy.discard(key)

    def set_nodes(self, nodes: Iterable[Node]) -> None:
        self._rest = replace(self._rest, nodes=tuple(nodes))
        self._snapshot = None

    def snapshot(self) -> Snapshot:
        """A snapshot of the cluster; its cost depends on the changes since the last one."""
        following = None
        if self._snapshot is not None:
            changed: dict[str, Changed] = {key: self.jobs.get(key) for key in sorted(self._changed)}
            following = self._snapshot.after(self._rest, changed)
        if following is None:
            following = Snapshot(self.cluster())
        self._snapshot = following
        self._changed.clear()
        return following

    def carry_out(self, plan: Plan, now: float) -> set[str]:
        """Apply a plan at once; returns the jobs that it touched."""
        evicted = {self._job_of[e.task] for e in plan.evict}
        touched = self._touched(plan) | evicted
        parts = [self.jobs[key] for key in sorted(touched)]
        jobs, tasks = tuple(job for job, _ in parts), tuple(task for _, members in parts for task in members)
        after = carry_out(replace(self._rest, jobs=jobs, tasks=tasks), plan, now)
        by_job: dict[str, list[Task]] = {job.key: [] for job in after.jobs}
        for task in after.tasks:
            by_job[task.job].append(task)
        for job in after.jobs:
            made = self._recreated(job, by_job[job.key], now) if job.key in evicted else by_job[job.key]
            if (job, tuple(made)) != self.jobs[job.key]:
                self.put(job, tuple(made))
        for key in sorted(touched - by_job.keys()):
            self.remove(key)  # it had no object of its own, and no controller creates its pods again
        self._rest = replace(
            self._rest,
            elect=after.elect,
            locks=after.locks,
            facts=after.facts,
            resized=after.resized,
        )
        return touched

    def _touched(self, plan: Plan) -> set[str]:
        tasks = (*(b.task for b in plan.bind), *(n.task for n in plan.nominate), *(u.task for u in plan.ungate))
        sizes = (*(r.job for r in plan.resize), *(s.job for s in plan.suspend), *(r.job for r in plan.resume))
        others = (*(a.job for a in plan.admit), *(h.job for h in plan.reserve))
        return {*(self._job_of[task] for task in tasks), *sizes, *others, *self._touchy}

    def _recreated(self, job: Job, left: list[Task], now: float) -> list[Task]:
        """The remaining pods and, for a gang, its evicted pods as new pending pods if a controller creates them."""
        if job.elastic is not None:
            return left
        remaining = {task.key for task in left}
        gone = [task for task in self.jobs[job.key][1] if task.key not in remaining and task.controlled]
        return [*left, *(pending_again(task, now) for task in gone)]


def pending_again(task: Task, now: float) -> Task:
    """The pod that a controller creates in the place of one that is gone."""
    return replace(task, status=Status.PENDING, node="", started=None, created=now, checkpoint=None, leaves=None)
