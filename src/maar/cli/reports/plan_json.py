"""A plan as JSON, a stable format for scripts. Keys and lists are sorted, so that equal plans give equal text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from maar.cli.reports.plan_text import Cycle, WithoutPods
from maar.model.plan import Plan
from maar.model.reasons import Reason
from maar.shards.shard import Step


def as_json(cycles: Iterable[Cycle], without_pods: WithoutPods | None = None, warnings: Sequence[str] = ()) -> str:
    """All cycles; `expected`, `skipped` and `warnings` are present only if there are any."""
    data: dict[str, Any] = {"cycles": [plan_data(c.plan) | _shared(c.step) for c in cycles]}
    if without_pods is not None and without_pods.expected:
        data["expected"] = without_pods.expected
    if without_pods is not None and without_pods.skipped:
        data["skipped"] = msgspec.to_builtins(without_pods.skipped)
    if warnings:
        data["warnings"] = list(warnings)
    return json.dumps(data, indent=2, allow_nan=False) + "\n"


def _shared(step: Step | None) -> dict[str, Any]:
    """What one of several shards asks of others and gives them; nothing for one Maar."""
    if step is None:
        return {}
    wants = [
        {
            "job": w.job,
            "nodes": list(w.nodes),
            "asks": w.asks,
            "victims": sorted(v.task for v in w.victims),
            "elected": w.elected is not None,
        }
        for w in step.wants
    ]
    return {"wants": wants, "lends": {lend.node: lend.to for lend in sorted(step.lends)}}


def plan_data(plan: Plan) -> dict[str, Any]:
    """The plan of one cycle, in JSON types; `chosen`, `hold` and `ungate` are present only if there are any."""
    chosen = {bind.task: dict(bind.chosen) for bind in sorted(plan.bind, key=lambda b: b.task) if bind.chosen}
    holds = [
        {"job": h.job, "node": h.node, "pods": h.count} for h in sorted(plan.reserve, key=lambda h: (h.job, h.node))
    ]
    return {
        "bind": dict(sorted((b.task, b.node) for b in plan.bind)),
        **({"chosen": chosen} if chosen else {}),
        "nominate": dict(sorted((n.task, n.node) for n in plan.nominate)),
        "admit": sorted(a.job for a in plan.admit),
        **({"ungate": sorted(u.task for u in plan.ungate)} if plan.ungate else {}),
        "evict": [
            {"pod": e.task, "for": e.beneficiary, "reason": e.reason} for e in sorted(plan.evict, key=lambda e: e.task)
        ],
        "resize": [{"job": r.job, "from": r.before, "to": r.after} for r in sorted(plan.resize, key=lambda r: r.job)],
        **({"hold": holds} if holds else {}),
        "suspend": sorted(s.job for s in plan.suspend),
        "resume": [{"job": r.job, "to": r.size} for r in sorted(plan.resume, key=lambda r: r.job)],
        "elect": None if plan.elect is None else plan.elect.job,
        "locks": dict(sorted((lock.node, lock.job) for lock in plan.locks)),
        "wake_at": plan.wake_at,
        "waiting": [
            {"job": w.job, "reasons": [_reason(r) for r in w.reasons]}
            for w in sorted(plan.waiting, key=lambda w: w.job)
        ],
    }


def _reason(reason: Reason) -> dict[str, Any]:
    """The plugin, code and message of a reason, and its other fields that are set; not what its code means."""
    data: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(reason, meaning=None))
    if "nodes" in data:
        data["nodes"] = dict(sorted(data["nodes"].items()))
    return data
