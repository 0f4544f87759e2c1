"""The cluster after a plan is carried out, where no executor does it: `maar plan` between cycles, tests, the simulator.

Bound pods run. Pods lose the gates that the plan removes. Evicted and deleting pods are gone and not created again.
Admitted groups are in the queue. Elastic jobs have their new sizes and pods. The next snapshot finds the plan's
nominations, reserved room, election, locks and facts, and when the sizes of each pool changed.
"""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from maar.model.elastic_outcome import jobs_after, tasks_after
from maar.model.jobs import Job, Phase
from maar.model.minimum import has_minimum
from maar.model.plan import Bind, Plan
from maar.model.snapshot import Budget, Cluster
from maar.model.tasks import READY, Gate, Status, Task


def carry_out(cluster: Cluster, plan: Plan, now: float) -> Cluster:
    """The cluster after `plan`, which was decided at `now`."""
    bound = {b.task: b for b in plan.bind}
    nominated = {n.task: n.node for n in plan.nominate}
    gone = {e.task for e in plan.evict}
    ungated = {u.task for u in plan.ungate}
    tasks = tuple(
        _after(_open(task) if task.key in ungated else task, bound, nominated, now)
        for task in cluster.tasks
        if task.key not in gone and task.status is not Status.RELEASING
    )
    tasks = tasks_after(tasks, cluster.jobs, plan, now)
    jobs = jobs_after(cluster.jobs, plan)
    admitted = {a.job for a in plan.admit}
    return replace(
        cluster,
        tasks=tasks,
        jobs=_jobs_after(jobs, tasks, admitted),
        budgets=_budgets_after(cluster, gone),
        elect=plan.elect,
        locks=plan.locks,
        facts=plan.facts,
        resized={**cluster.resized, **dict.fromkeys(plan.pools.values(), now)},
    )


def _after(task: Task, bound: dict[str, Bind], nominated: dict[str, str], now: float) -> Task:
    if (bind := bound.get(task.key)) is not None:
        return replace(task, status=Status.BOUND, node=bind.node, started=now, chosen=bind.chosen)
    if task.status not in (Status.PENDING, Status.NOMINATED):
        return task
    node = nominated.get(task.key, "")
    status = Status.NOMINATED if node else Status.PENDING
    return task if (task.status, task.node) == (status, node) else replace(task, status=status, node=node)


def _open(task: Task) -> Task:
    return replace(task, status=Status.PENDING, gate=Gate.OPENED, blocked="")


def _budgets_after(cluster: Cluster, gone: set[str]) -> tuple[Budget, ...]:
    """Each evicted pod uses up one allowed disruption of its budgets, until it is created again."""
    spent = Counter(budget for task in cluster.tasks if task.key in gone for budget in task.budgets)
    return tuple(replace(b, allowed=max(b.allowed - spent[b.key], 0)) if spent[b.key] else b for b in cluster.budgets)


def _jobs_after(jobs: tuple[Job, ...], tasks: tuple[Task, ...], admitted: set[str]) -> tuple[Job, ...]:
    ready: dict[str, list[Task]] = {}
    alive = {task.job for task in tasks}
    for task in tasks:
        if task.status in READY:
            ready.setdefault(task.job, []).append(task)
    after = []
    for job in jobs:
        if not job.declared and job.key not in alive:
            continue
        phase = Phase.INQUEUE if job.key in admitted else job.phase
        if phase is not Phase.PENDING and has_minimum(job, ready.get(job.key, ())):
            phase = Phase.RUNNING
        after.append(job if phase is job.phase else replace(job, phase=phase))
    return tuple(after)
