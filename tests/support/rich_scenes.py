"""Random small clusters that use every part of the model at once, from a seed: to compare plans of two versions.

Unlike the strategies for hypothesis they do not shrink, cost little, and are the same everywhere for the same seed.
Volumes, ports, affinity, spread, racks, subgroups, roles, budgets, locks, promised and releasing room, quotas, node
groups and elastic jobs all occur, often together. Nodes hold what they have; little of it is free.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from maar.model.jobs import Closeness, Job, Phase, SubgroupPolicy
from maar.model.nodes import Node
from maar.model.plan import Elect, Lock
from maar.model.queues import NodeGroups, Queue
from maar.model.selectors import (
    NodeTerm,
    PodSelector,
    PodTerm,
    Port,
    Requirement,
    Selector,
    Spread,
    Taint,
    Toleration,
)
from maar.model.shapes import Shape
from maar.model.snapshot import Budget, Cluster
from maar.model.tasks import Status, Subgroup, Task
from maar.model.topology import HyperNode, Member
from maar.model.volumes import VolumeNeed, VolumeRoom
from maar.testing.builders import GPU, Gang, cluster, elastic, node, shape

Dice = random.Random
RED = PodSelector(Selector((Requirement("app", "In", ("red",)),)), None)
BLUE = PodSelector(Selector((Requirement("app", "In", ("blue",)),)), None)
HOST, RACK = "kubernetes.io/hostname", "rack"
GROUPS = NodeGroups(required=("g1", "g2"))
DISK, LOCAL = "csi/disk", "class/local"

CONFIGS = (
    "",
    """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}, {name: binpack}]
""",
    """
actions: "enqueue, elect, allocate, reserve, backfill, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: reservation}]
- plugins: [{name: predicates}, {name: capacity}, {name: nodeorder}, {name: topology}, {name: pdb}]
""",
    """
tenants: untrusted
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: sla}, {name: cooldown}]
- plugins: [{name: predicates}, {name: proportion}, {name: topology}, {name: task-topology}, {name: drf}]
""",
    """
actions: "resize, enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: nodegroup}]
- plugins: [{name: predicates}, {name: capacity}, {name: binpack}, {name: topology}, {name: resource-strategy-fit}]
""",
)
"""The first is the default configuration."""


def scene(seed: int) -> Cluster:
    """A random cluster."""
    dice = Dice(seed)
    machines = [_node(dice, i) for i in range(dice.randint(2, 7))]
    free = {n.name: dict(n.allocatable) for n in machines}
    queues = list(_queues(dice))
    gangs = [_gang(dice, i, [q.name for q in queues], free) for i in range(dice.randint(3, 14))]
    workers = [_elastic(dice, i, [q.name for q in queues]) for i in range(dice.choice((0, 0, 0, 1, 2)))]
    made = cluster(machines, gangs, workers, queues, list(_hypernodes(dice, machines)))
    budgets = (Budget("ns/b", dice.randint(0, 2)),) if dice.random() < 0.3 else ()
    return replace(made, rooms=tuple(_rooms(dice, machines)), budgets=budgets, **_election(dice, machines, gangs))


def plain(made: Cluster) -> Cluster:
    """The same cluster without anything that counters count: only resources limit how many pods fit on a node."""

    def only_resources(of: Shape) -> Shape:
        return replace(of, ports=(), affinity=(), anti_affinity=(), spread=(), matches=(), volume_needs=())

    tasks = tuple(replace(task, shape=only_resources(task.shape)) for task in made.tasks)
    elastics = [job.elastic and replace(job.elastic, shape=only_resources(job.elastic.shape)) for job in made.jobs]
    jobs = tuple(replace(job, elastic=of) for job, of in zip(made.jobs, elastics, strict=True))
    return replace(made, tasks=tasks, jobs=jobs, rooms=())


def _node(dice: Dice, i: int) -> Node:
    taints = (Taint("special"),) if dice.random() < 0.1 else ()
    labels = {RACK: f"r{i % 3}", "zone": f"z{i % 2}", HOST: f"n{i}"}
    if dice.random() < 0.8:
        labels["volcano.sh/nodegroup-name"] = dice.choice(("g1", "g2"))
    pods = dice.choice((110, 110, 110, 3, 5))
    gpu, unschedulable = dice.choice((0, 2, 4, 8)), dice.random() < 0.08
    return node(
        f"n{i}", cpu=8, memory="32Gi", gpu=gpu, pods=pods, labels=labels, taints=taints, unschedulable=unschedulable
    )


def _queues(dice: Dice) -> Iterator[Queue]:
    for name in dice.sample(("red", "blue", "green"), dice.randint(1, 3)):
        limit = {GPU: dice.randint(2, 16)} if dice.random() < 0.3 else None
        deserved = {GPU: dice.randint(0, 8), "cpu": 8000} if dice.random() < 0.5 else None
        yield Queue(name, weight=dice.randint(1, 3), capability=limit, deserved=deserved, node_groups=GROUPS)


def _hypernodes(dice: Dice, machines: list[Node]) -> Iterator[HyperNode]:
    if dice.random() < 0.5:
        for number in range(2):
            members = tuple(Member(name=n.name) for n in machines[number::2])
            yield HyperNode(f"s{number}", 1, members)
        yield HyperNode("top", 2, (Member("HyperNode", "s0"), Member("HyperNode", "s1")))


def _rooms(dice: Dice, machines: list[Node]) -> Iterator[VolumeRoom]:
    yield VolumeRoom(DISK, "NodeVolumeLimits", "cannot attach more volumes", others=dice.randint(1, 3))
    nodes = {n.name: dice.randint(0, 2) for n in machines}
    total = dice.choice((None, 1, 2))
    yield VolumeRoom(LOCAL, "NoFreeVolume", "have no free volume", nodes=nodes, others=0, total=total)


def _constraints(dice: Dice) -> dict[str, Any]:
    """The constraints of a shape: mostly none."""
    found: dict[str, Any] = {}
    if dice.random() < 0.15:
        found["ports"] = (Port(8080),)
    if dice.random() < 0.25:
        found["matches"] = tuple(sorted(dice.choice(((RED,), (BLUE,), (RED, BLUE)))))
    if dice.random() < 0.12:
        found["anti_affinity"] = (PodTerm(dice.choice((RED, BLUE)), dice.choice((HOST, RACK))),)
    if dice.random() < 0.1:
        found["affinity"] = (PodTerm(dice.choice((RED, BLUE)), dice.choice((HOST, RACK))),)
    if dice.random() < 0.15:
        found["spread"] = (Spread(RED, dice.choice((HOST, RACK, "zone")), dice.randint(1, 2), dice.random() < 0.7),)
        found["matches"] = (RED,)
    if dice.random() < 0.25:
        needs = [VolumeNeed(DISK, "disk", dice.randint(1, 2)), VolumeNeed(LOCAL, "local", 1)]
        found["volume_needs"] = tuple(sorted(dice.sample(needs, dice.randint(1, 2))))
    if dice.random() < 0.1:
        found["node_selector"] = (Requirement(RACK, "In", (dice.choice(("r0", "r1", "r9")),)),)
    if dice.random() < 0.05:
        found["node_terms"] = (NodeTerm(fields=(Requirement("metadata.name", "In", ("n1",)),)),)
    if dice.random() < 0.3:
        found["tolerations"] = (Toleration("special", "Exists"),)
    return found


def _shape(dice: Dice) -> Shape:
    if dice.random() < 0.08:
        return shape(cpu=0, memory=0, **_constraints(dice))
    return shape(cpu=dice.choice((1, 1, 2, 4)), memory="1Gi", gpu=dice.choice((0, 0, 1, 2, 4)), **_constraints(dice))


def _gang(dice: Dice, i: int, queues: list[str], free: dict[str, dict[str, int]]) -> Gang:
    key, size = f"ns/g{i}", dice.choice((1, 1, 2, 3, 4, 6))
    state = dice.choice(("waiting", "waiting", "running", "running", "running", "leaving", "promised", "part"))
    priority = dice.choice((0, 1, 5, 5) if state == "waiting" else (0, 0, 0, 1))
    roles = dice.random() < 0.2 and size > 1
    policies: tuple[SubgroupPolicy, ...] = ()
    if not roles and size >= 4 and dice.random() < 0.4:
        close = Closeness(RACK, hard=dice.random() < 0.7) if dice.random() < 0.5 else None
        policies = (SubgroupPolicy("part", 2, dice.randint(0, size // 2), close),)
    kinds = [_shape(dice) for _ in range(2 if roles else 1)]
    least = size if dice.random() < 0.6 else dice.randint(1, size)
    if policies:
        least = min(least, 2 * policies[0].least) or 1
    guard = dice.choice(("", "", "", "budget", "fixed", "cooldown", "never"))
    members = []
    for number in range(size):
        role = ("master", "worker")[number > 0] if roles else ""
        of = kinds[number > 0] if roles else kinds[0]
        one = Task(
            f"{key}-{number}",
            key,
            of,
            role=role,
            index=number,
            priority=priority,
            created=float(i),
            controlled=dice.random() < 0.8,
            preemptable=guard != "fixed",
            preempts=guard != "never",
            budgets=("ns/b",) if guard == "budget" else (),
            cooldown=1000.0 if guard == "cooldown" else 0.0,
            subgroup=Subgroup(0, (str(number // 2),)) if policies else None,
        )
        members.append(_placed(dice, one, state if state != "part" else ("running", "waiting")[number % 2], free))
    job = Job(
        key,
        queue=dice.choice(queues) if dice.random() < 0.95 else "nowhere",
        min_member=least,
        role_min={"master": 1, "worker": max(least - 1, 1)} if roles and dice.random() < 0.6 else {},
        priority=priority,
        created=float(i),
        phase=dice.choice((Phase.INQUEUE, Phase.INQUEUE, Phase.INQUEUE, Phase.PENDING))
        if state == "waiting"
        else Phase.RUNNING,
        closeness=_closeness(dice) if state == "waiting" and dice.random() < 0.2 else None,
        subgroups=policies,
        uid=key,
    )
    return Gang(job, tuple(members))


def _closeness(dice: Dice) -> Closeness:
    hard = dice.random() < 0.7
    return Closeness(RACK, hard=hard) if dice.random() < 0.5 else Closeness(tier=dice.randint(1, 3), hard=hard)


def _placed(dice: Dice, task: Task, state: str, free: dict[str, dict[str, int]]) -> Task:
    """The task on a node that has room for it, in the given state. If no node has room, the task waits."""
    if state == "waiting":
        return task
    names = [name for name, has in free.items() if all(has.get(r, 0) >= n for r, n in task.shape.requests)]
    if not names:
        return task
    name = dice.choice(names)
    for resource, amount in task.shape.requests:
        free[name][resource] -= amount
    if state == "promised":
        return replace(task, status=Status.NOMINATED, node=name)
    status = Status.BOUND if state == "running" else Status.RELEASING
    return replace(task, status=status, node=name, started=float(dice.randint(0, 90)))


def _elastic(dice: Dice, i: int, queues: list[str]) -> Gang:
    low = dice.randint(1, 3)
    fields = {"queue": dice.choice(queues), "created": float(20 + i), "uid": f"e{i}"}
    return elastic(
        f"e{i}", low, low + dice.randint(0, 3), gpu=dice.choice((1, 2)), priority=dice.choice((0, 5)), job=fields
    )


def _election(dice: Dice, machines: list[Node], gangs: list[Gang]) -> dict[str, Any]:
    """Sometimes a job is elected, and some nodes are locked for it."""
    if dice.random() < 0.8:
        return {}
    job = dice.choice(gangs).job
    nodes = dice.sample(machines, dice.randint(0, len(machines)))
    return {"elect": Elect(job.key, 50.0, job.uid), "locks": tuple(Lock(n.name, job.key, 50.0, job.uid) for n in nodes)}
