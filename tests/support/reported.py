"""All writes after a plan, as an outbox makes them that has finished everything before."""

from __future__ import annotations

from maar.controller.reporting.job_reports import Writes
from maar.controller.reporting.reports import Reports
from maar.controller.snapshots.cycle import Cycle


def reported(reports: Reports, cycle: Cycle) -> list[Writes]:
    found = [_ended(reports, writes) for writes in reports.after(cycle)]
    while (writes := reports.next()) is not None:
        found.append(_ended(reports, writes))
    return found


def _ended(reports: Reports, writes: Writes) -> Writes:
    for _ in writes.patches:
        reports.ended(writes.job)
    return writes
