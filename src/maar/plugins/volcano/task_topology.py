"""task-topology: pods of a job share nodes, or avoid each other, as the owner of the job states for its roles.

The annotations of a PodGroup name roles with affinity and anti-affinity, and the order of roles. The pods of a job are
divided into buckets (`maar.plugins.volcano.buckets`), each meant for one node, and placed bucket by bucket, the largest
first. The score of a node counts the pods of the bucket that are there and those that would still fit, without one
point for each pod there that the role should avoid.

It only prefers nodes. A topology that cannot be used counts as missing, and the job says so while it waits.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np

from maar.model.codes import REMARK, Code, Meaning
from maar.model.fitting import Mode, count
from maar.model.jobs import Job
from maar.model.reasons import Reason
from maar.model.resources import CPU, MEMORY, PODS, Floats, Ints, Mask
from maar.model.tasks import Status
from maar.model.words import count as counted
from maar.model.words import number
from maar.plugins.volcano.buckets import OUTSIDE, Buckets, RoleWishes, fill, unknown_role, wishes_of
from maar.session.register import Register
from maar.session.session import Session

NAME = "task-topology"
IGNORED = Code(
    "TaskTopologyIgnored",
    Meaning("Waiting", "the owner corrects the annotation; the job is scheduled without it", REMARK),
)
MOST_PODS = 2000
"""Pods of a job with a topology; tuned by hand. Buckets take time with the square of their number."""
MOST_ROLES = 100
"""Roles of such a job; tuned by hand. The matrices of its wishes have as many rows and columns."""
MEBI = 2.0**20
HIGHEST = 100.0
LARGEST = 1e6
"""Larger weights count as this."""


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The weight of the score."""

    weight: float = msgspec.field(name="task-topology.weight", default=1.0)


class BucketPlan(NamedTuple):
    """The buckets of one job."""

    first: int
    """The number of its first task."""
    wishes: RoleWishes
    role: Ints
    """The role of each of its tasks, counted from the first role of the job."""
    buckets: Buckets

    def bucket(self, tasks: Ints) -> Ints:
        return self.buckets.of_pod[tasks - self.first]


class TaskTopologyPlugin:
    def __init__(self, arguments: Arguments) -> None:
        self._weight = max(min(arguments.weight, LARGEST), -LARGEST)
        self._plans: dict[int, BucketPlan | None] = {}

    def open(self, session: Session, on: Register) -> None:
        """Register the hooks, if a waiting job has a topology."""
        self._session = session
        jobs = [session.job(i) for i in session.snapshot.jobs.active]
        stated = [job for job in jobs if job.task_topology is not None]
        if not stated:
            return
        for job in stated:
            problem = problem_of(session, job)
            if problem:
                self._plans[job.index] = None
                if not session.is_pending(job):
                    session.note(job, self._ignored(job, problem))
        on.task_order(self._order)
        on.bundles(self._bundles)
        on.bundle_score(self._score)

    def _ignored(self, job: Job, problem: str) -> Reason:
        what = f"its task topology is ignored: {problem}"
        return Reason(NAME, IGNORED.name, what)

    def _plan(self, job: Job) -> BucketPlan | None:
        if job.task_topology is None:
            return None
        if job.index not in self._plans:
            self._plans[job.index] = plan_of(self._session, job)
        return self._plans[job.index]

    # -- the order of tasks

    def _order(self, tasks: Ints) -> Ints:
        """Pods in buckets first, the larger bucket first; in a bucket by the order of roles."""
        plan = self._plan(self._session.job(int(self._session.snapshot.tasks.job[tasks[0]])))
        if plan is None:
            return np.zeros(len(tasks), dtype=np.int64)
        bucket, rank = plan.bucket(tasks), plan.wishes.rank[plan.role[tasks - plan.first]]
        waiting = np.bincount(bucket[bucket >= 0], minlength=int(bucket.max(initial=0)) + 1)
        outside = bucket == OUTSIDE
        keys = (np.where(outside, 0, column) for column in (-waiting[bucket], bucket, rank))
        rows = np.stack([outside, *keys], axis=1)
        return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)

    def _bundles(self, job: Job, tasks: Ints) -> Ints | None:
        plan = self._plan(job)
        return None if plan is None else plan.bucket(tasks)

    # -- nodes

    def _score(self, job: Job, tasks: Ints) -> Floats | None:
        plan = self._plan(job)
        if plan is None or self._weight == 0:
            return None
        buckets = plan.bucket(tasks)
        if buckets[0] == OUTSIDE or (buckets != buckets[0]).any():
            return None
        points = points_of(self._session, plan, int(tasks[0]))
        return points * (self._weight * HIGHEST / plan.buckets.largest)


def problem_of(session: Session, job: Job) -> str:
    """Why the topology of a job cannot be used; empty if it can."""
    topology = job.task_topology
    assert topology is not None, job.key
    if topology.problem:
        return topology.problem
    size = int(session.snapshot.jobs.sizes[job.index])
    if size > MOST_PODS:
        return f"the job has {counted(size, 'pod')}, expected at most {number(MOST_PODS)}"
    roles = session.snapshot.jobs.role_names[job.index]
    if len(roles) > MOST_ROLES:
        return f"the job has {len(roles)} roles, expected at most {MOST_ROLES}"
    missing = unknown_role(topology, roles) if size else None
    return "" if missing is None else f"no pod of the job has the role `{missing}`"


def plan_of(session: Session, job: Job) -> BucketPlan:
    """The buckets of a job, from the pods that run and wait when the session opens."""
    assert job.task_topology is not None, job.key
    snapshot, table = session.snapshot, session.snapshot.tasks
    first, last = snapshot.jobs.members.span(job.index)
    role, status = snapshot.jobs.own_role[first:last], table.status[first:last]
    wishes = wishes_of(job.task_topology, snapshot.jobs.role_names[job.index])
    there = np.isin(status, (Status.BOUND, Status.PENDING, Status.NOMINATED))
    node = np.where(status == Status.BOUND, table.node[first:last], -1)
    chosen = np.flatnonzero(there & ((status != Status.BOUND) | (node >= 0)))
    found = fill(wishes, role[chosen], node[chosen], request_sizes(session, table.shape[first:last][chosen]))
    of_pod = np.full(last - first, OUTSIDE, dtype=np.int64)
    of_pod[chosen] = found.of_pod
    return BucketPlan(first, wishes, role, Buckets(of_pod, found.largest))


def request_sizes(session: Session, shapes: Ints) -> Floats:
    """How much pods request, as one number. As in Volcano, a core, a GiB of memory and a device count alike."""
    axes = session.snapshot.axes
    scale = {CPU: 1.0, MEMORY: 1 / MEBI, "ephemeral-storage": 1 / MEBI, PODS: 0.0}
    weights = np.array([scale.get(name, 1000.0) for name in axes.names])
    return np.asarray(session.snapshot.shapes.requests[shapes] @ weights)


def points_of(session: Session, plan: BucketPlan, task: int) -> Floats:
    """The points of each node for a waiting task: pods of its bucket there, and that still fit, less those to avoid."""
    state, snapshot = session.state, session.snapshot
    nodes, roles = len(snapshot.nodes), plan.role
    members = plan.first + np.arange(len(roles))
    status, rows = state.status[members], state.node[members]
    placed = np.isin(status, (Status.BOUND, Status.NOMINATED)) & (rows >= 0)
    mine = plan.buckets.of_pod == plan.bucket(np.array([task]))[0]
    points = np.bincount(rows[placed & mine], minlength=nodes).astype(np.float64)
    avoided = placed & (plan.wishes.dislikes[roles[task - plan.first]][roles] > 0)
    points -= np.bincount(rows[avoided], minlength=nodes)
    waiting = members[mine & (status == Status.PENDING) & (members != task)]
    fits, together = how_many_fit(session, task, waiting)
    return np.where(fits, points + together, 0.0)


def how_many_fit(session: Session, task: int, others: Ints) -> tuple[Mask, Floats]:
    """Whether each node takes a task, and how many tasks with the first of the others it takes, with room to come."""
    snapshot = session.snapshot
    free = session.capacity.free(Mode.UNNOMINATED)
    shape = snapshot.tasks.shape
    free = free - snapshot.shapes.requests[shape[task]]
    fits = (free >= 0).all(axis=1)
    together, going = np.ones(len(free)), np.ones(len(free), dtype=np.bool_)
    shapes = shape[others]
    ends = [*(np.flatnonzero(shapes[1:] != shapes[:-1]) + 1).tolist(), len(shapes)] if len(shapes) else []
    for begin, end in pairwise([0, *ends]):
        request = snapshot.shapes.requests[shapes[begin]]
        more = np.where(going, np.minimum(count(free, request), end - begin), 0)
        together += more
        free = free - np.outer(more, request)
        going &= more == end - begin
    return fits, together
