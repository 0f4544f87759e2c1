"""Gangs in subgroups, and a plain reference of what a plan may do to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from maar.model.jobs import Closeness, SubgroupPolicy
from maar.model.snapshot import Cluster
from maar.model.tasks import Status, Subgroup, Task
from maar.model.topology import HyperNode, Member
from maar.testing.builders import Gang, gang


def divided(
    name: str,
    sizes: Sequence[int],
    *,
    size: int,
    minimum: int = 0,
    least: int = 0,
    tier: int | None = 1,
    hard: bool = True,
    loose: int = 0,
    gpu: int = 1,
    **fields: Any,
) -> Gang:
    """A gang of subgroups `workers/0`, ... with as many tasks as in `sizes`, and tasks in no subgroup after them."""
    close = None if tier is None else Closeness(tier=tier, hard=hard)
    policy = SubgroupPolicy("workers", size, least, close)
    made = gang(name, sum(sizes) + loose, minimum=minimum, gpu=gpu, subgroups=(policy,), **fields)
    of = [Subgroup(0, (str(number),)) for number, count in enumerate(sizes) for _ in range(count)] + [None] * loose
    return replace(made, tasks=tuple(replace(task, subgroup=s) for task, s in zip(made.tasks, of, strict=True)))


def switches(*nodes: Sequence[str]) -> list[HyperNode]:
    """A HyperNode of tier 1 for each list of nodes, and one of tier 2 above them."""
    leaves = [HyperNode(f"s{i}", 1, tuple(Member(name=n) for n in names)) for i, names in enumerate(nodes)]
    top = HyperNode("top", 2, tuple(Member(kind="HyperNode", name=leaf.name) for leaf in leaves))
    return [*leaves, top]


def wrongs(before: Cluster, after: Cluster, leaves: Sequence[Sequence[str]]) -> list[str]:
    """Everything that is wrong with the step from one cluster to the next; `leaves` are the switches of tier 1."""
    found = []
    for job in after.jobs:
        was, now = _running(before, job.key), _running(after, job.key)
        for subgroup in {task.subgroup for task in (*was, *now) if task.subgroup is not None}:
            policy = job.subgroups[subgroup.policy]
            old, new = ([t for t in tasks if t.subgroup == subgroup] for tasks in (was, now))
            changed = {t.key for t in old} != {t.key for t in new}
            if changed and 0 < len(new) < policy.size and not 0 < len(old) < policy.size:
                found.append(f"{job.key} {subgroup}: {len(new)} of {policy.size} pods")
            if {t.key for t in new} - {t.key for t in old} and policy.closeness is not None and policy.closeness.hard:
                nodes = {t.node for t in new}
                if policy.closeness.tier == 1 and not any(nodes <= set(leaf) for leaf in leaves):
                    found.append(f"{job.key} {subgroup}: on {sorted(nodes)}")
        if len(now) != len(was) and now:
            least = all(_complete(now, i, p.size) >= p.least for i, p in enumerate(job.subgroups))
            had = all(_complete(was, i, p.size) >= p.least for i, p in enumerate(job.subgroups))
            begun = bool(was) and not (had and len(was) >= job.min_member)
            if not begun and not (least and len(now) >= job.min_member):
                found.append(f"{job.key}: {len(now)} pods are not its minimum")
    for node in after.nodes:
        used = [dict(t.shape.requests) for t in after.tasks if t.node == node.name and t.status is Status.BOUND]
        for resource, has in node.allocatable.items():
            if sum(request.get(resource, 0) for request in used) > has:
                found.append(f"{node.name}: over-committed")
    return found


def _running(cluster: Cluster, job: str) -> list[Task]:
    return [task for task in cluster.tasks if task.job == job and task.status is Status.BOUND]


def _complete(tasks: Sequence[Task], policy: int, size: int) -> int:
    """How many subgroups of a policy have their size."""
    subgroups = [task.subgroup for task in tasks if task.subgroup is not None and task.subgroup.policy == policy]
    return sum(subgroups.count(subgroup) >= size for subgroup in set(subgroups))
