"""All writes after a plan, as an outbox makes them that has finished everything before."""

from __future__ import annotations

from maar.controller.reporting.reports import Reports
from maar.controller.reporting.telling import Writes
from maar.model.plan import Plan


def reported(reports: Reports, plan: Plan, now: float) -> list[Writes]:
    found = [_ended(reports, writes) for writes in reports.after(plan, now)]
    while (writes := reports.next()) is not None:
        found.append(_ended(reports, writes))
    return found


def _ended(reports: Reports, writes: Writes) -> Writes:
    for _ in writes.patches:
        reports.ended(writes.job)
    return writes
