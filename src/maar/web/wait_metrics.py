"""How long jobs wait: a histogram by queue, from the creation of a job to its first start. Part of `maar.web.metrics`.

The text is written by hand, as that of queues: there may be thousands of them.
"""

from __future__ import annotations

from bisect import bisect_left

from maar.controller.snapshots.cycle import Cycle
from maar.model.snapshot import Snapshot
from maar.web.queue_metrics import escaped, queue_of

NAME = "maar_job_wait_seconds"
WHAT = "Time from the creation of a job to its first start"
SECONDS = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 3 * 24 * 3600, 7 * 24 * 3600)
MOST_QUEUES = 1_000
"""Queues with a histogram of their own: the others share the one without a name. Tuned by hand: 15 lines each."""


class Waits:
    """The waits of one queue."""

    def __init__(self) -> None:
        self.counts = [0] * (len(SECONDS) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(SECONDS, seconds)] += 1
        self.sum += seconds


class WaitMetrics:
    """Observes first starts, and writes the histogram."""

    def __init__(self) -> None:
        self._ran: dict[str, str] = {}
        """The uid of each job that has run, by its key: an evicted job that starts again has waited before."""
        self._queues: dict[str, Waits] = {}
        self._begun = False

    def on_cycle(self, cycle: Cycle) -> None:
        snapshot = cycle.snapshot
        for key, changed in (cycle.changed if self._begun else cycle.everything()).items():
            row = snapshot.jobs.number.get(key)
            if changed is None:
                self._ran.pop(key, None)
            elif row is not None and snapshot.jobs.ready[row]:
                self._ran[key] = changed[0].uid
        self._begun = True
        for key in {cycle.pods[bind.task].job for bind in cycle.plan.bind}:
            self._starts(key, snapshot, cycle.now)

    def _starts(self, key: str, snapshot: Snapshot, now: float) -> None:
        job = snapshot.jobs.jobs[snapshot.jobs.number[key]]
        if self._ran.get(key) == job.uid:
            return
        self._ran[key] = job.uid
        self.observe(queue_of(snapshot, key), max(now - job.created, 0.0))

    def observe(self, queue: str, seconds: float) -> None:
        """A job of the queue started after waiting this long."""
        if queue not in self._queues and len(self._queues) >= MOST_QUEUES:
            queue = ""
        self._queues.setdefault(queue, Waits()).observe(seconds)

    def text(self) -> bytes:
        lines = [f"# HELP {NAME} {WHAT}\n# TYPE {NAME} histogram\n"]
        for queue, waits in self._queues.items():
            label, count = f'queue="{escaped(queue)}"', 0
            for bound, more in zip((*map(str, SECONDS), "+Inf"), waits.counts, strict=True):
                count += more
                lines.append(f'{NAME}_bucket{{{label},le="{bound}"}} {count}\n')
            lines += [f"{NAME}_sum{{{label}}} {waits.sum}\n", f"{NAME}_count{{{label}}} {count}\n"]
        return "".join(lines).encode()
