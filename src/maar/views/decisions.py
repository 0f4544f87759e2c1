"""Decisions: one plan as people read it, grouped by job. Operations on other jobs are numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from maar.model.plan import Bind, Nominate, Plan, Wait
from maar.views.records import DecisionView, EvictView, Happened, Moved, PlanView, SizeView
from maar.views.sight import Sight


class ShownCycle(msgspec.Struct, frozen=True):
    """A plan, and what it needs to be shown later, when its snapshot is gone."""

    number: int
    at: float
    seconds: float
    plan: Plan
    jobs: dict[str, str]
    """The job of each pod that the plan moves."""
    namespaces: frozenset[str] = frozenset()
    recording: str = ""
    """The recording that it comes from; empty: this process decided it in shadow."""


def short(plan: Plan) -> Plan:
    """The plan without reasons and sizes that stay, which the next cycles have too."""
    stopped = {suspend.job for suspend in plan.suspend}
    return msgspec.structs.replace(
        plan,
        waiting=tuple(Wait(wait.job, ()) for wait in plan.waiting),
        targets=tuple(target for target in plan.targets if target.job in stopped),
        deserved=(),
        reserve=(),
    )


def moves_of(plan: Plan) -> tuple[object, ...]:
    """What a plan does, to compare it with another one."""
    sizes = [(r.job, r.after) for r in plan.resize], [r.job for r in plan.suspend], [r.job for r in plan.resume]
    return plan.bind, plan.evict, plan.nominate, plan.admit, plan.ungate, sizes


class Now(Protocol):
    """How the cluster is now, to compare decisions with."""

    def node_of(self, pod: str) -> str | None:
        """The node of a pod: empty while it waits, `None` if it is gone or leaves."""

    def size_of(self, job: str) -> int | None:
        """The workers that an elastic job has; `None` if it is gone."""

    def is_admitted(self, job: str) -> bool:
        """Whether a job is there and admitted."""


def plan_view(plan: Plan, jobs: Mapping[str, str], namespaces: frozenset[str], sight: Sight) -> PlanView:
    """What a plan does; `jobs` has the job of each pod that it moves."""
    others = Counter[str]()
    bind, nominate = (
        _moved(jobs, moves, kind, sight, others) for moves, kind in ((plan.bind, "bind"), (plan.nominate, "nominate"))
    )
    return PlanView(
        bind=bind,
        nominate=nominate,
        evict=_evictions(plan, jobs, namespaces, sight, others),
        admit=tuple(a.job for a in plan.admit if _seen(a.job, "admit", sight, others)),
        sizes=_sizes(plan, namespaces, sight, others),
        waiting=len(plan.waiting),
        others=dict(sorted(others.items())),
    )


def decision_view(cycle: ShownCycle, sight: Sight, now: Now | None = None) -> DecisionView:
    """One decision, and what happened then if `now` is given."""
    return DecisionView(
        **msgspec.structs.asdict(plan_view(cycle.plan, cycle.jobs, cycle.namespaces, sight)),
        number=cycle.number,
        at=cycle.at,
        seconds=round(cycle.seconds, 6),
        shadow=not cycle.recording,
        recording=cycle.recording,
        wake_at=cycle.plan.wake_at,
        happened=Happened() if now is None else _happened(cycle.plan, sight, now),
    )


def _seen(key: str, kind: str, sight: Sight, others: Counter[str]) -> bool:
    if sight.of(key):
        return True
    others[kind] += 1
    return False


def _moved(
    jobs: Mapping[str, str], moves: Iterable[Bind | Nominate], kind: str, sight: Sight, others: Counter[str]
) -> tuple[Moved, ...]:
    found: dict[str, dict[str, str]] = {}
    for move in moves:
        if _seen(move.task, kind, sight, others):
            found.setdefault(jobs.get(move.task, move.task), {})[move.task.partition("/")[2]] = move.node
    return tuple(Moved(job=job, pods=pods) for job, pods in sorted(found.items()))


def _evictions(
    plan: Plan, jobs: Mapping[str, str], namespaces: frozenset[str], sight: Sight, others: Counter[str]
) -> tuple[EvictView, ...]:
    found: dict[tuple[str, str, str, str], list[str]] = {}
    for evict in plan.evict:
        if _seen(evict.task, "evict", sight, others):
            key = (jobs.get(evict.task, evict.task), evict.beneficiary, evict.reason, evict.cause.value)
            found.setdefault(key, []).append(evict.task.partition("/")[2])
    return tuple(
        EvictView(
            job=job,
            pods=tuple(sorted(pods)),
            beneficiary=sight.named(whom),
            reason=sight.said(reason, namespaces),
            cause=cause,
        )
        for (job, whom, reason, cause), pods in sorted(found.items())
    )


def _sizes(plan: Plan, namespaces: frozenset[str], sight: Sight, others: Counter[str]) -> tuple[SizeView, ...]:
    now = {target.job: target.size for target in plan.targets}
    changes = [(r.job, r.before, r.after, r.why) for r in plan.resize]
    changes += [(s.job, now.get(s.job, 0), 0, s.why) for s in plan.suspend]
    changes += [(r.job, 0, r.size, r.why) for r in plan.resume]
    return tuple(
        SizeView(job=job, before=before, after=after, why=sight.said(why, namespaces))
        for job, before, after, why in sorted(changes)
        if _seen(job, "resize", sight, others)
    )


def _happened(plan: Plan, sight: Sight, now: Now) -> Happened:
    counts = Counter[str]()
    moves: tuple[Bind | Nominate, ...] = (*plan.bind, *plan.nominate)
    for move in moves:
        if sight.of(move.task):
            node = now.node_of(move.task)
            if node is None:
                counts["gone"] += 1
            elif not node:
                counts["waiting"] += 1
            else:
                counts["same_node" if node == move.node else "other_node"] += 1
    for admit in plan.admit:
        if sight.of(admit.job):
            counts["admitted" if now.is_admitted(admit.job) else "not_admitted"] += 1
    for evict in plan.evict:
        if sight.of(evict.task):
            counts["stayed" if now.node_of(evict.task) else "evicted"] += 1
    sizes = [(r.job, r.after) for r in plan.resize]
    sizes += [(r.job, 0) for r in plan.suspend]
    sizes += [(r.job, r.size) for r in plan.resume]
    for job, size in sizes:
        if sight.of(job):
            counts["resized" if now.size_of(job) == size else "other_size"] += 1
    return Happened(**counts)
