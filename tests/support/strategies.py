"""Hypothesis strategies for random small clusters, for property tests.

    @given(clusters())
    def test_...(cluster): ...

Every cluster is possible: no node holds more than it has, nominations fit into free or releasing capacity, and gangs
run whole, with a surplus, or (after a crash) in part. Smaller draws are simpler clusters, so failures shrink well. Only
tests use hypothesis; nothing that ships imports it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from maar.model.elastic import Elastic
from maar.model.jobs import Job, Phase
from maar.model.nodes import Node
from maar.model.queues import Queue
from maar.model.resources import CPU, MEMORY
from maar.model.shapes import Shape
from maar.model.snapshot import Budget, Cluster
from maar.model.tasks import Status, Task
from maar.testing.builders import GPU, node, shape

QUEUES = ("default", "red", "blue")
PRIORITIES = (0, 1, 2)
FREE = shape(cpu=0, memory=0)
"""A best-effort shape: a pod slot and nothing else."""

STATES = ("waiting", "running", "surplus", "promised", "leaving", "crashed", "unborn")
"""The states of a gang."""

Rooms = dict[str, dict[str, int]]
"""The capacity that each node has left of each resource."""


def pick(draw: st.DrawFn, *options: Sequence[Any]) -> list[Any]:
    """One of each option, in a single draw, because draws are most of the cost of an example. First is simplest."""
    code, chosen = draw(st.integers(0, math.prod(map(len, options)) - 1)), []
    for choices in options:
        code, at = divmod(code, len(choices))
        chosen.append(choices[at])
    return chosen


def _node(draw: st.DrawFn, name: str) -> Node:
    """A node with few GPUs, CPUs and pod slots, so each of them can run out."""
    cpu, gpu, pods = pick(draw, range(2, 9), range(5), (110, 110, 4, 2))
    return node(name, cpu=cpu, memory="64Gi", gpu=gpu, pods=pods)


def _shape(draw: st.DrawFn) -> Shape:
    """A shape with GPUs, CPUs, or (sometimes) nothing at all."""
    free, cpu, gpu = pick(draw, (False, False, False, True), (1, 2, 3), (0, 1, 2))
    return FREE if free else shape(cpu=cpu, gpu=gpu)


def _gang(draw: st.DrawFn, name: str) -> tuple[Job, list[Task]]:
    """A gang without nodes, whose minimum is possible."""
    key = f"ns/{name}"
    queue, priority, created, preempts, promise = pick(
        draw, QUEUES, PRIORITIES, (0.0, 1.0, 2.0), (True, True, True, False), (None, None, 5.0, 100.0)
    )
    size, spare, roles, more, two = pick(draw, (1, 2, 3, 4), (0, 1, 2, 3), (False, True), (0, 0, 1, -1), (False, True))
    minimum = max(size - spare, 1)
    role_min: dict[str, int] = {}
    names, kinds = [""] * size, [_shape(draw)] * size
    if roles and size > 1:
        names = ["ps"] + ["worker"] * (size - 1)
        role_min = {"ps": 1, "worker": max(size - 1 - spare, 0)}
        # Usually the roles add up to the minimum. Sometimes the job wants more, or less (then roles do not count).
        minimum = min(max(sum(role_min.values()) + more, 1), size)
        if two:
            kinds = [_shape(draw), *kinds[1:]]
    job = Job(
        key,
        queue=queue,
        min_member=minimum,
        role_min=role_min,
        priority=priority,
        created=created,
        preempts=preempts,
        promise=promise,
    )
    members = [
        Task(f"{key}-{i}", key, kind, role=role, index=i, priority=priority, created=created, controlled=True)
        for i, (kind, role) in enumerate(zip(kinds, names, strict=True))
    ]
    return job, members


def _guarded(draw: st.DrawFn, members: list[Task]) -> list[Task]:
    """Sometimes protects one task or all tasks from eviction, or makes them differ from the others."""
    guards = ("", "", "", "pinned", "critical", "tight", "wide", "promise", "important")
    guard, every, at = pick(draw, guards, (False, True), range(len(members)))
    return [_guard(task, guard if every or task.index == at else "") for task in members]


def _guard(task: Task, guard: str) -> Task:
    match guard:
        case "pinned":
            return replace(task, preemptable=False)
        case "critical":
            return replace(task, critical=True)
        case "tight" | "wide":
            return replace(task, budgets=(f"ns/{guard}",))
        case "promise":
            return replace(task, promise=10.0)
        case "important":
            return replace(task, priority=task.priority + 1)
    return task


@st.composite
def clusters(draw: st.DrawFn, *, gangs: int = 8) -> Cluster:
    """One to six nodes, with gangs that run, wait, are released, are nominated, or run in part."""
    machines = [_node(draw, f"n{i}") for i in range(draw(st.integers(1, 6)))]
    now: Rooms = {n.name: dict(n.allocatable) for n in machines}
    coming: Rooms = {n.name: dict(n.allocatable) for n in machines}
    jobs: list[Job] = []
    tasks: list[Task] = []
    for i in range(draw(st.integers(0, gangs))):
        job, members = _gang(draw, f"j{i}")
        state, start, part = pick(draw, STATES, range(len(machines)), (1, 2, 3, 4))
        order = [m.name for m in machines[start:] + machines[:start]]
        match state:
            case "running":
                members = _settle(members, len(members), order, (now, coming), Status.BOUND)
            case "surplus":
                members = _settle(members, least(job, members), order, (now, coming), Status.BOUND)
            case "leaving":
                members = _settle(members, len(members), order, (now,), Status.RELEASING)
            case "promised":
                members = _settle(members, least(job, members), order, (coming,), Status.NOMINATED)
            case "crashed":
                members = _settle(members, min(part, len(members)), order, (now, coming), Status.BOUND)
            case "unborn":
                job, members = replace(job, phase=Phase.PENDING, min_resources={CPU: 1000 * part, GPU: part // 2}), []
        jobs.append(job)
        tasks.extend(_guarded(draw, members) if members else [])
    tight, wide, red, blue = pick(draw, (0, 1, -1), (1, 2, 4), (1, 2, 3), (1, 2, 3))
    return Cluster(
        nodes=tuple(machines),
        tasks=tuple(tasks),
        jobs=tuple(jobs),
        queues=(Queue("red", weight=red), Queue("blue", weight=blue)),
        budgets=(Budget("ns/tight", tight), Budget("ns/wide", wide)),
    )


ELASTIC_STATES = ("suspended", "running", "grown", "unmade")
"""The states of an elastic job: suspended; all workers run; only the minimum runs; pods are still being created."""


@st.composite
def elastic_clusters(draw: st.DrawFn, *, gangs: int = 5, elastic: int = 5, gpus_only: bool = False) -> Cluster:
    """Clusters with elastic jobs beside the gangs, in the capacity that the gangs leave."""
    base: Cluster = draw(clusters(gangs=gangs))
    used: Rooms = {n.name: dict(n.allocatable) for n in base.nodes}
    for task in base.tasks:
        if task.node and task.status in (Status.BOUND, Status.RELEASING, Status.NOMINATED):
            _take((used,), task.node, task.shape, 1)
    jobs, tasks = list(base.jobs), list(base.tasks)
    for i in range(draw(st.integers(1, elastic))):
        job, members = _elastic(draw, f"e{i}", used, [n.name for n in base.nodes], gpus_only)
        jobs.append(job)
        tasks.extend(members)
    return replace(base, jobs=tuple(jobs), tasks=tuple(tasks))


def _elastic(draw: st.DrawFn, name: str, used: Rooms, nodes: list[str], gpus_only: bool) -> tuple[Job, list[Task]]:
    key = f"ns/{name}"
    queue, priority, created, low, more, gpu = pick(
        draw, QUEUES, PRIORITIES, (0.0, 1.0, 2.0), (1, 2, 3), (0, 1, 2, 4), (1, 1, 2, 0)
    )
    state, size, start = pick(draw, ELASTIC_STATES, range(1, 8), range(len(nodes)))
    of = shape(cpu=0 if gpus_only else 1, memory=0 if gpus_only else "1Gi", gpu=1 if gpus_only else gpu)
    size = min(max(size, low), low + more)
    order = nodes[start:] + nodes[:start]
    members = [
        Task(f"{key}-w-{i}", key, of, role="w", index=i, priority=priority, created=created, controlled=True)
        for i in range(size)
    ]
    holds: tuple[tuple[str, int], ...] = ()
    if state != "suspended":
        members = _settle(members, size if state == "running" else low, order, (used,), Status.BOUND)
    if state == "unmade" and members[0].node:
        members = members[:low]
        holds = ((members[0].node, size - low),) if size > low else ()
    suspended = state == "suspended" or not members[0].node
    elastic = Elastic(low, low + more, of, size=size, requested=low, suspended=suspended, role="w", reserved=holds)
    job = Job(key, queue=queue, min_member=low, priority=priority, created=created, elastic=elastic)
    return job, [] if suspended else members


def short(job: Job, tasks: Sequence[Task], statuses: tuple[Status, ...]) -> bool:
    """Whether the tasks in these statuses are below the minimum of a gang or of one of its roles."""
    have = [t.role for t in tasks if t.status in statuses]
    minimums = job.role_min if job.min_member >= sum(job.role_min.values()) else {}
    return len(have) < job.min_member or any(have.count(role) < n for role, n in minimums.items())


def least(job: Job, members: Sequence[Task]) -> int:
    """How many tasks, counted from the first, reach the minimum of a gang and of its roles."""
    counts = range(job.min_member, len(members))
    return next((n for n in counts if not short(job, members[:n], tuple(Status))), len(members))


def shuffled(cluster: Cluster, seed: int) -> Cluster:
    """The same cluster with every list in a random order."""
    dice = random.Random(seed)
    parts = {
        name: tuple(dice.sample(whole := getattr(cluster, name), len(whole)))
        for name in ("nodes", "tasks", "jobs", "queues", "budgets", "hypernodes", "locks")
    }
    return replace(cluster, **parts)


def _settle(members: list[Task], count: int, order: list[str], rooms: tuple[Rooms, ...], status: Status) -> list[Task]:
    """Put the first `count` tasks on the first nodes that fit; change nothing if one task does not fit."""
    place: list[str] = []
    for task in members[:count]:
        found = next((name for name in order if all(_fits(room[name], task.shape) for room in rooms)), None)
        if found is None:
            for name, back in zip(place, members, strict=False):
                _take(rooms, name, back.shape, -1)
            return members
        _take(rooms, found, task.shape, 1)
        place.append(found)
    placed = [replace(t, status=status, node=n, started=t.created) for t, n in zip(members, place, strict=False)]
    return [*placed, *members[count:]]


def _fits(room: dict[str, int], of: Shape) -> bool:
    return all(room.get(name, 0) >= amount for name, amount in of.requests)


def _take(rooms: tuple[Rooms, ...], name: str, of: Shape, times: int) -> None:
    for room in rooms:
        for resource, amount in of.requests:
            room[name][resource] -= times * amount


def described(cluster: Cluster) -> str:
    """A short description of a cluster, for the note of a failing example."""
    lines = [f"{n.name}: {_amounts(n.allocatable)}" for n in cluster.nodes]
    for job in cluster.jobs:
        what = f"{job.key} in {job.queue}: minimum {job.min_member} {job.role_min or ''} priority {job.priority}"
        lines.append(f"{what} created {job.created:g} {job.phase} {'' if job.preempts else 'never preempts'}")
        if (e := job.elastic) is not None:
            lines.append(f"  elastic {e.min}..{e.max} size {e.size} suspended {e.suspended} holds {e.reserved}")
        for t in (t for t in cluster.tasks if t.job == job.key):
            guard = [n for n in ("critical", "resident") if getattr(t, n)] + [*t.budgets]
            guard += [] if t.preemptable else ["pinned"]
            lines.append(
                f"  {t.key} {t.role} {t.status.name} {t.node} {_amounts(dict(t.shape.requests))} {guard or ''}"
            )
    lines += [f"budget {b.key}: {b.allowed}" for b in cluster.budgets]
    return "\n".join(lines)


def _amounts(of: dict[str, int]) -> str:
    return ", ".join(f"{name.rpartition('/')[2]} {amount}" for name, amount in of.items() if name != MEMORY)
