"""default: a job progresses at its speed-up, and pauses for some seconds after each change.

Progress is computed from the last change of a job's size, so that errors do not add up. A change of size, or a start
after a stop, costs `restart` seconds at the new size. Changes by the policy lose no work. A failure loses the work
since the last save; jobs save every `checkpoint` seconds after a change.

GPUs are only counted. For failures, running jobs are assigned to GPUs in the order in which they began to run.

Active jobs are on a *desk* (`maar.sim.models.desk`), except waiting jobs that the policy need not be asked about
(`maar.sim.models.line`).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from maar.config.config import Registration, Serving
from maar.elastic.allocate import wake_after
from maar.elastic.damping import Damping, damped, may_damp
from maar.elastic.jobs import Jobs, make_jobs
from maar.elastic.order import Serve, fitting, is_promoted
from maar.elastic.speedup import curve
from maar.model.resources import Floats, Ints
from maar.sim.lengths import Learnt
from maar.sim.models.desk import OTHER, Desk
from maar.sim.models.line import Line
from maar.sim.setting import Setting
from maar.sim.trace import TraceJob

NAME = "default"


class Default:
    """The jobs of one run."""

    together = 0.0

    def __init__(self, jobs: list[TraceJob], policy: Registration, setting: Setting) -> None:
        self._policy = policy
        self._setting = setting
        self.arguments = policy.arguments()
        promotes = policy.promotes_after
        self._promotes_after = None if promotes is None else promotes(self.arguments)
        table = table_of(jobs)
        self.width: Ints = table.gpus
        self.least: Ints = table.min
        self.alone: Floats = np.array([job.duration for job in jobs])
        self._damping: Damping | None = None
        damps = setting.hysteresis or (setting.restart > 0 and not policy.weighs_restarts)
        if (table.min < table.max).any() and damps:
            self._damping = Damping(setting.hysteresis, setting.horizon)
        self.desk = Desk(table)
        self._learnt = Learnt(jobs, table.remaining) if setting.lengths == "learnt" else None
        # A place in the line is fixed while a job waits, but what is known of its length is not.
        in_line = policy.serving is Serving.IN_LINE and self._learnt is None
        self.line = Line(self.desk) if in_line else None
        self.serve: Serve | None = None if self.line is None else self._serve
        self._is_whole = False
        """Whether the question is about all jobs, to make new lanes from the answer."""
        self._widths: list[int] = table.gpus.tolist()
        self._offsets: list[int] = table.offset.tolist()
        self._rates: list[float] = table.curves.tolist()
        self._running = 0
        self._used = 0
        """GPUs in use."""
        self._served: tuple[Ints, Ints] | None = None
        """The policy's order in the last question, and the GPUs that each job in it needs."""

    def arrive(self, first: int, last: int, now: float) -> None:
        span = slice(first, last)
        self.desk.kept["begun"][span] = self.desk.kept["counted"][span] = now
        self.desk.put(span)

    def advance(self, now: float) -> None:
        """Update the columns to now. For waiting jobs, only `waited` changes."""
        desk = self.desk
        done = np.maximum(now - desk.moves, 0.0)
        done *= desk.rate
        np.subtract(desk.work, done, out=desk.remaining)
        np.subtract(desk.total, desk.remaining, out=desk.done)
        attained = (now - desk.counted) * desk.takes
        attained += desk.had
        attained -= desk.forgiven
        np.maximum(attained, 0.0, out=desk.attained)
        runs = desk.takes > 0
        np.subtract(now, desk.begun, out=desk.waited)
        np.copyto(desk.ran, desk.waited, where=runs)
        desk.waited[runs] = 0.0
        np.add(desk.idle, desk.waited, out=desk.delayed)

    def ended(self, now: float) -> list[int]:
        rows = (self.desk.end <= now).nonzero()[0]
        numbers: list[int] = self.desk.number[rows].tolist()
        self._running -= len(rows)
        self._used -= int(self.desk.takes[rows].sum())
        if self._learnt is not None:
            self._learnt.ended(numbers)
        self.desk.remove(rows)
        return numbers

    def fail(self, now: float, first: int, last: int) -> list[int]:
        """Stop the jobs on these GPUs; they lose unsaved work."""
        desk = self.desk
        rows = desk.size.nonzero()[0]
        rows = rows[np.lexsort((desk.number[rows], desk.begun[rows]))]
        ends = np.cumsum(desk.takes[rows])
        hit = rows[(ends > first) & (np.concatenate(([0], ends[:-1])) < last)]
        if self._setting.checkpoint > 0:
            unsaved = np.mod(np.maximum(now - desk.moves[hit], 0.0), self._setting.checkpoint)
            desk.remaining[hit] += unsaved * desk.rate[hit]
        changes = self._changes(hit, np.zeros(len(desk), dtype=np.int64))
        if changes:
            self._resize(hit, changes, now)
        return [number for number, *_ in changes]

    def question(self, now: float) -> Jobs:
        """The desk, after adding jobs whose place in the line changes."""
        if self.line is not None:
            self._is_whole = self.line.is_long(len(self.desk) - self._running)
            if self._is_whole:
                self.line.bring_all(now)
            else:
                self.line.bring_due(now, now)
        return self._asked()

    def _asked(self) -> Jobs:
        """The desk as the policy sees it."""
        jobs = self.desk.jobs
        if self._setting.lengths == "known":
            return jobs
        remaining = np.full(len(jobs), np.inf)
        if self._learnt is not None:
            rows = np.flatnonzero(np.isinf(jobs.promised))
            remaining[rows] = self._learnt.left(self.desk.number[rows], jobs.done[rows])
        return replace(jobs, remaining=remaining)

    def _serve(self, order: Ints, needs: Ints, gpus: int) -> tuple[Ints, int]:
        """Count GPUs, and remember the order for new lanes."""
        self._served = order, needs
        return fitting(order, needs, gpus)

    def suffices(self, now: float, workers: Ints) -> bool:
        if self.line is None or not self.line.lanes:
            return True
        return self.line.suffices(self.desk.lane[workers > self.desk.size], now)

    def answer(self, now: float, workers: Ints, gpus: int) -> tuple[list[int], list[int]]:
        """Resize jobs, damped as in live pools."""
        desk = self.desk
        rows = (workers != desk.size).nonzero()[0]
        changes = self._changes(rows, workers)
        if self._damping is not None and may_damp([change[1:] for change in changes], gpus - self._used):
            restart = np.full(len(desk), 0.0 if self._policy.weighs_restarts else self._setting.restart)
            workers = damped(self._asked(), desk.size, workers, gpus, restart, self._damping)
            rows = (workers != desk.size).nonzero()[0]
            changes = self._changes(rows, workers)
        if changes:
            self._resize(rows, changes, now)
        if self._is_whole and self.line is not None and self._served is not None:
            self.line.set_aside(*self._served, self._due())
        return [number for number, *_ in changes], [after for _, _, after, _ in changes]

    def _changes(self, rows: Ints, workers: Ints) -> list[tuple[int, int, int, int]]:
        """For each row: the job number, its size before and after, and its GPUs per worker."""
        numbers: list[int] = self.desk.number[rows].tolist()
        widths = [self._widths[number] for number in numbers]
        return list(zip(numbers, self.desk.size[rows].tolist(), workers[rows].tolist(), widths, strict=True))

    def _resize(self, rows: Ints, changes: list[tuple[int, int, int, int]], now: float) -> None:
        """Change sizes one by one, because changes are few."""
        parts = []
        for (number, before, after, width), columns in zip(changes, self.desk.part(rows), strict=True):
            rate = self._rates[self._offsets[number] + after]
            parts.append(self._resized(columns, after * width, rate, now))
            self._used += (after - before) * width
            self._running += (after > 0) - (before > 0)
        self.desk.write(rows, parts)
        self.desk.size[rows] = [after for _, _, after, _ in changes]
        if self.line is not None:
            self.line.leave(rows)

    def _resized(self, columns: list[float], takes: int, rate: float, now: float) -> tuple[float, ...]:
        """The columns `OTHER` of one job after a change to `takes` GPUs and the speed `rate`."""
        job = dict(zip(OTHER, columns, strict=True))
        took, first, remaining = job["takes"], job["first_start"], job["remaining"]
        job["had"] += (now - job["counted"]) * took
        moves, end = now, math.inf
        if takes:
            moves += self._setting.restart if first < math.inf else 0.0
            end = moves + remaining / rate
        if takes and not took:
            if self._promotes_after is not None and is_promoted(job["ran"], job["waited"], self._promotes_after):
                job.update(forgiven=job["had"], attained=0.0)  # it returns to the first queue, as in live pools
            job.update(first_start=min(first, now), restart=self._setting.restart, idle=job["delayed"])
            job.update(ran=0.0, waited=0.0, begun=now)
        elif took and not takes:
            job.update(ran=now - job["begun"], begun=now)
        job.update(work=remaining, moves=moves, rate=rate, end=end, counted=now, takes=takes)
        return tuple(job.values())

    def _due(self) -> Floats:
        """The promotion time of each row; infinite if never, or if already promoted."""
        desk = self.desk
        if self._promotes_after is None:
            return np.full(len(desk), np.inf)
        ever = (desk.ran > 0) & ~is_promoted(desk.ran, desk.waited, self._promotes_after)
        return np.where(ever, desk.begun + self._promotes_after * desk.ran, np.inf)

    def next_end(self) -> float:
        end = self.desk.end
        return float(end[end.argmin()]) if len(end) else math.inf

    def next_change(self, now: float) -> float:
        """The time that the algorithm names, but at least `patience` seconds from now."""
        at, soonest = self._next_change(now), now + self._setting.patience
        while self.line is not None and at > soonest and self.line.bring_due(now, min(at, self.line.next_due())):
            at = self._next_change(now)
        return at

    def _next_change(self, now: float) -> float:
        if self._policy.wake_after is None:
            return math.inf
        after = wake_after(self._policy, self._asked(), self.desk.size, self.arguments)
        return np.inf if after is None else now + max(after, self._setting.patience)


def table_of(jobs: list[TraceJob]) -> Jobs:
    """All jobs of a trace as columns; a worker without GPUs counts as one GPU. The speed-ups of a trace are true."""
    speedups = {job.speedup: curve(dict(job.speedup)) for job in jobs}
    table = make_jobs(
        [job.name for job in jobs],
        min=[job.min for job in jobs],
        max=[job.max for job in jobs],
        requested=[job.workers for job in jobs],
        gpus=[max(job.gpus_per_worker, 1) for job in jobs],
        priority=[job.priority for job in jobs],
        submit=[job.submit for job in jobs],
        measured=[job.max for job in jobs],
        speedup=[speedups[job.speedup] for job in jobs],
    )
    speed = table.speed(table.requested)
    table.remaining[:] = np.array([job.duration for job in jobs]) * speed
    table.promised[:] = np.array([math.inf if job.limit is None else job.limit for job in jobs]) * speed
    return table
