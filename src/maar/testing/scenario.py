"""Scenes: a cluster and a configuration, run for some cycles, with invariants checked after each cycle.

    plans = scene(cluster(...), configured("actions: 'allocate'\\n..."))
    assert plans[0].bind == ...

`scene` runs until nothing moves, and then five more cycles in which nothing may move: a plan that is carried out and
decided again must not change anything.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

import numpy as np

from maar.config.config import Config
from maar.config.file import read_config
from maar.decide import decide
from maar.model.jobs import Phase
from maar.model.minimum import lack_of
from maar.model.outcome import carry_out
from maar.model.plan import Cause, Plan
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import READY, Subgroup, Task
from maar.registry import catalog

STABLE_ROUNDS = 5
"""Number of quiet cycles that show that a scene has settled."""


def configured(text: str) -> Config:
    """The configuration from its YAML text, which must not give a warning."""
    loaded = read_config(text, "scene", catalog())
    assert not loaded.warnings, loaded.warnings
    return loaded.config


def cycles(cluster: Cluster, config: Config, count: int, now: float = 0.0) -> tuple[list[Plan], Cluster]:
    """Run `count` cycles, one second apart, and carry out each plan; returns the plans and the final cluster."""
    plans = []
    for i in range(count):
        plan = decide(Snapshot(cluster), config, now + i)
        after = carry_out(cluster, plan, now + i)
        check_invariants(cluster, plan, after)
        plans.append(plan)
        cluster = after
    return plans, cluster


def scene(cluster: Cluster, config: Config, now: float = 0.0, most: int = 30) -> list[Plan]:
    """The plans of all cycles until nothing moves; nothing may move in the five cycles after that."""
    plans: list[Plan] = []
    for i in range(most):
        done, after = cycles(cluster, config, 1, now + i)
        still = not done[0].moves and _state(done[0]) == _state(plans[-1] if plans else Plan())
        cluster = after
        plans.extend(done)
        if still:
            break
    else:
        raise AssertionError(f"still moving after {most} cycles: {plans[-1]}")
    quiet, _ = cycles(cluster, config, STABLE_ROUNDS, now + len(plans))
    for plan in quiet:
        assert not plan.moves, f"moved after it had settled: {plan}"
        assert _state(plan) == _state(plans[-1]), "the state changed after it had settled"
    return plans


def _state(plan: Plan) -> tuple[object, ...]:
    return plan.nominate, plan.reserve, plan.elect, plan.locks


def check_invariants(before: Cluster, plan: Plan, after: Cluster) -> None:
    """Check what no plan may break: capacity, gangs, bounds, and no operation twice."""
    _check_room(before, after)
    _check_sizes(before, plan)
    _check_gangs(before, plan, after)
    _check_subgroups(before, plan, after)
    doubled = [t for t, n in Counter([b.task for b in plan.bind] + [e.task for e in plan.evict]).items() if n > 1]
    assert not doubled, f"named twice in one plan: {doubled}"


def _check_room(before: Cluster, after: Cluster) -> None:
    snapshot, was = Snapshot(after), Snapshot(before)
    over = snapshot.used > snapshot.nodes.allocatable
    for row in np.flatnonzero(over.any(axis=1)).tolist():
        name = snapshot.nodes.names[row]
        grew = snapshot.axes.amounts(snapshot.used[row]) != was.axes.amounts(was.used[was.nodes.row[name]])
        assert not grew, f"over-committed: {name} uses {snapshot.axes.amounts(snapshot.used[row])}"


def _check_sizes(before: Cluster, plan: Plan) -> None:
    """Elastic jobs stay within their bounds, change once per plan, and lose no pod to eviction while they run."""
    elastic = {job.key: job.elastic for job in before.jobs if job.elastic is not None}
    changed = [*(r.job for r in plan.resize), *(r.job for r in plan.resume), *(s.job for s in plan.suspend)]
    assert len(changed) == len(set(changed)), f"changed twice in one plan: {changed}"
    for job, size in (*((r.job, r.after) for r in plan.resize), *((r.job, r.size) for r in plan.resume)):
        bounds = elastic[job]
        assert bounds is not None
        assert bounds.min <= size <= bounds.max, f"outside of its bounds: {job} gets {size}"
    of = {task.key: task.job for task in before.tasks}
    moved = [e for e in plan.evict if e.cause is not Cause.MIGRATED]
    evicted = [e.task for e in moved if (e_ := elastic.get(of[e.task])) is not None and e_.pausable]
    assert not evicted, f"evicted instead of resized: {evicted}"


def _check_gangs(before: Cluster, plan: Plan, after: Cluster) -> None:
    """A gang in the plan ends with its minimum or without a pod; a gang that was partial before may stay partial."""
    jobs = {job.key: job for job in before.jobs if job.phase is not Phase.COMPLETED}
    of = {task.key: task.job for task in before.tasks}
    touched = {of[b.task] for b in plan.bind} | {of[e.task] for e in plan.evict}
    touched -= {s.job for s in plan.suspend}
    was, now = _ready(before), _ready(after)
    for job in sorted(touched):
        begun = was[job] and lack_of(jobs[job], was[job]).total
        lack = lack_of(jobs[job], now[job])
        assert not now[job] or not lack.total or begun, f"gang in part: {job} has {len(now[job])} and lacks {lack}"


def _check_subgroups(before: Cluster, plan: Plan, after: Cluster) -> None:
    """A subgroup in the plan ends with its size or without a pod, unless it was partial before; nor are there too few.

    Domains are not checked: they need a plugin.
    """
    policies = {job.key: job.subgroups for job in before.jobs if job.subgroups}
    if not policies:
        return
    of = {task.key: task for task in before.tasks}
    touched = [of[key] for key in (*(b.task for b in plan.bind), *(e.task for e in plan.evict))]
    touched = [task for task in touched if task.job in policies]
    was, now = _subgroups(before), _subgroups(after)
    for task in touched:
        if task.subgroup is not None:
            size, at = policies[task.job][task.subgroup.policy].size, (task.job, task.subgroup)
            whole = now[at] == 0 or now[at] >= size or 0 < was[at] < size
            assert whole, f"subgroup in part: {task.job} {task.subgroup} has {now[at]} of {size}"
    had_pods, left = _ready(before), _ready(after)
    for job in {task.job for task in touched if left[task.job]}:
        for i, policy in enumerate(policies[job]):
            had, has = (
                sum(n >= policy.size for (key, sub), n in counts.items() if (key, sub.policy) == (job, i))
                for counts in (was, now)
            )
            assert has >= min(policy.least, max(had, 0)), f"too few subgroups: {job} has {has} of {policy.least}"
            assert has >= policy.least or len(left[job]) <= len(had_pods[job]), f"begun without its subgroups: {job}"


def _subgroups(cluster: Cluster) -> Counter[tuple[str, Subgroup]]:
    """How many tasks of each subgroup are ready."""
    ready = (t for t in cluster.tasks if t.status in READY)
    return Counter((t.job, t.subgroup) for t in ready if t.subgroup is not None)


def _ready(cluster: Cluster) -> Mapping[str, list[Task]]:
    """The tasks of each job that run or have run."""
    found: dict[str, list[Task]] = defaultdict(list)
    for task in cluster.tasks:
        if task.status in READY:
            found[task.job].append(task)
    return found
