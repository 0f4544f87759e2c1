"""default: a job works as fast as its speed-up says, and stands still for some seconds after each change.

Progress is reckoned from the last change of a job's size, not from event to event: no error adds up. A change of size,
and a start after a stop, cost `restart` seconds at the new size. Changes that the policy makes lose no work. What fails
loses what it did since it last saved its work, which it does every `checkpoint` seconds after a change.

GPUs are only counted. Where some fail, jobs are thought to lie side by side in the order in which they began to run.

The jobs that are there lie on a *desk*: a table with a row for each, for some that are still to come, and for some that
ended, which both cannot run (`max` 0). So most events copy nothing; the desk is laid anew when too much of it is dead.
Its rows then stand in the order in which the policy last served them, which makes the next sort cheap.
"""

from __future__ import annotations

import numpy as np

from maar.elastic.allocate import wake_after
from maar.elastic.brakes import Brakes, braked
from maar.elastic.jobs import Jobs, make_jobs
from maar.elastic.speedup import curve
from maar.elastic.tiresias import promoted
from maar.model.resources import Floats, Ints
from maar.session.config import Kind
from maar.sim.models.model import Seen
from maar.sim.setting import Setting
from maar.sim.trace import TraceJob

NAME = "default"

AHEAD = 64
"""Rows for jobs to come, at least, when the desk is laid anew. By measurement: more does not help."""
OWN = ("number", "size", "takes", "work", "moves", "rate", "end", "begun", "had", "counted", "forgiven")
"""The desk's columns beside those that algorithms see."""


class Default:
    """The jobs of one run."""

    together = 0.0

    def __init__(self, jobs: list[TraceJob], policy: Kind, setting: Setting) -> None:
        self._policy = policy
        self._setting = setting
        self.arguments = policy.arguments()
        self._all = table_of(jobs)
        self.width: Ints = self._all.gpus
        self.least: Ints = self._all.min
        self.alone: Floats = np.array([job.duration for job in jobs])
        self._most: Ints = self._all.max.copy()
        self._all.max[:] = 0
        self._brakes: Brakes | None = None
        if (self.least < self._most).any() and (setting.restart > 0 or setting.hysteresis):
            self._brakes = Brakes(setting.hysteresis, setting.horizon)
        self._come = 0
        """Jobs with lower numbers have arrived."""
        self._next = 0
        """The row of the next to come."""
        self._dead = 0
        """Rows of jobs that have ended."""
        self._room = Seen(0)
        self._columns(0)
        self._jobs = self._all.only(np.zeros(0, dtype=np.int64))
        self._restart: Floats = np.zeros(0)
        self._running: Ints = np.zeros(0, dtype=np.int64)
        """Rows of jobs that have workers."""

    def _columns(self, n: int) -> None:
        self.number: Ints = np.zeros(n, dtype=np.int64)
        self.size: Ints = np.zeros(n, dtype=np.int64)
        self.takes: Ints = np.zeros(n, dtype=np.int64)
        """GPUs that it has."""
        self.work: Floats = np.zeros(n)
        """Seconds on one worker that are left at `moves`."""
        self.moves: Floats = np.zeros(n)
        """Since when, or from when on, it makes progress."""
        self.rate: Floats = np.zeros(n)
        self.end: Floats = np.full(n, np.inf)
        self.begun: Floats = np.zeros(n)
        """Since when it runs, or waits."""
        self.had: Floats = np.zeros(n)
        """GPU seconds that it had at `counted`."""
        self.counted: Floats = np.zeros(n)
        self.forgiven: Floats = np.zeros(n)
        """GPU seconds before its last promotion."""

    def _lay(self) -> None:
        """The desk anew: those that are there, in the order in which they were served last, and some that will come."""
        seen = self._room.order
        alive = self._jobs.max > 0
        order = np.flatnonzero(alive)
        if seen is not None:
            late = alive.copy()
            late[seen] = False
            order = np.concatenate((seen[alive[seen]], np.flatnonzero(late)))
        coming = np.arange(self._come, min(self._come + max(AHEAD, len(order)), len(self._all)))
        jobs, kept = self._jobs, {name: getattr(self, name) for name in OWN}
        self._columns(len(order) + len(coming))
        for name, values in kept.items():
            getattr(self, name)[: len(order)] = values[order]
        self.number[len(order) :] = coming
        self._jobs = self._all.only(self.number)
        for name in ("max", "remaining", "attained", "first_start", "waited", "ran"):
            getattr(self._jobs, name)[: len(order)] = getattr(jobs, name)[order]
        self._restart = np.full(len(self.number), self._setting.restart)
        self._running = self.size.nonzero()[0]
        self._room, self._dead, self._next = Seen(0), 0, len(order)

    def arrive(self, first: int, last: int, now: float) -> None:
        """They wait."""
        for number in range(first, last):
            while self._next < len(self.number) and self.number[self._next] < number:
                self._next += 1  # one that never comes: it could not run
                self._dead += 1
            if self._next == len(self.number):
                self._come = number
                self._lay()
            row = self._next
            self._next += 1
            self._jobs.max[row] = self._most[number]
            self.work[row] = self._jobs.remaining[row]
            self.begun[row] = self.counted[row] = now
        self._come = last

    def advance(self, now: float) -> None:
        """Bring the columns up to now."""
        jobs, rows = self._jobs, self._running
        jobs.remaining[rows] = self.work[rows] - np.maximum(now - self.moves[rows], 0.0) * self.rate[rows]
        attained = self.had[rows] + (now - self.counted[rows]) * self.takes[rows]
        jobs.attained[rows] = np.maximum(attained - self.forgiven[rows], 0.0)
        np.subtract(now, self.begun, out=jobs.waited)
        jobs.ran[rows] = jobs.waited[rows]
        jobs.waited[rows] = 0.0

    def ended(self, now: float) -> Ints:
        """Those whose end it is."""
        rows = (self.end <= now).nonzero()[0]
        self.size[rows] = self.takes[rows] = self._jobs.max[rows] = 0
        self.end[rows] = np.inf
        self._jobs.ran[rows] = 0.0
        self._running = self.size.nonzero()[0]
        self._dead += len(rows)
        return self.number[rows]

    def fail(self, now: float, first: int, last: int) -> Ints:
        """Those that lie there lose what they have not saved."""
        rows = self._running[np.lexsort((self.number[self._running], self.begun[self._running]))]
        ends = np.cumsum(self.takes[rows])
        hit = rows[(ends > first) & (np.concatenate(([0], ends[:-1])) < last)]
        if self._setting.checkpoint > 0:
            unsaved = np.mod(np.maximum(now - self.moves[hit], 0.0), self._setting.checkpoint)
            self._jobs.remaining[hit] += unsaved * self.rate[hit]
        self._resize(hit, np.zeros(len(hit), dtype=np.int64), now)
        return self.number[hit]

    def question(self, now: float) -> tuple[Jobs, Ints]:
        """The desk."""
        if self._dead > AHEAD and 2 * self._dead > len(self.number):
            self._lay()
        return self._jobs, self.number

    def room(self, gpus: int) -> int:
        """A number of GPUs."""
        self._room = Seen(gpus)
        return self._room

    def answer(self, now: float, workers: Ints, gpus: int) -> tuple[Ints, Ints]:
        """What is worth it, as live pools reckon."""
        rows = (workers != self.size).nonzero()[0]
        if self._brakes is not None and self.size[rows].any():
            workers = braked(self._jobs, self.size, workers, gpus, self._restart, self._brakes)
            rows = (workers != self.size).nonzero()[0]
        sizes = workers[rows]
        if len(rows):
            self._resize(rows, sizes, now)
        return self.number[rows], sizes

    def _resize(self, rows: Ints, sizes: Ints, now: float) -> None:
        """Other sizes from now on."""
        jobs, before = self._jobs, self.size[rows]
        self.had[rows] += (now - self.counted[rows]) * self.takes[rows]
        self.counted[rows] = now
        self.work[rows] = jobs.remaining[rows]
        runs = sizes > 0
        again = runs & (jobs.first_start[rows] < np.inf)
        self.moves[rows] = now + np.where(again, self._setting.restart, 0.0)
        self.rate[rows] = rate = jobs.curves[jobs.offset[rows] + sizes]
        self.end[rows] = np.inf
        self.end[rows[runs]] = self.moves[rows[runs]] + self.work[rows[runs]] / rate[runs]
        starts = rows[runs & (before == 0)]
        self._forgive(starts)
        jobs.first_start[starts] = np.minimum(jobs.first_start[starts], now)
        jobs.ran[starts] = jobs.waited[starts] = 0.0
        stops = rows[~runs & (before > 0)]
        jobs.ran[stops] = now - self.begun[stops]
        self.begun[starts] = self.begun[stops] = now
        self.size[rows] = sizes
        self.takes[rows] = sizes * jobs.gpus[rows]
        self._running = self.size.nonzero()[0]

    def _forgive(self, starts: Ints) -> None:
        """Who was promoted begins at the top again, as in live pools."""
        knob = getattr(self.arguments, "knob", None)
        if knob is not None and len(starts):
            free = starts[promoted(self._jobs, knob, starts)]
            self.forgiven[free] = self.had[free]
            self._jobs.attained[free] = 0.0

    def next_end(self) -> float:
        """The earliest."""
        return float(self.end.min(initial=np.inf))

    def next_change(self, now: float) -> float:
        """What the algorithm says, but not at once."""
        after = wake_after(self._policy, self._jobs, self.size, self.arguments)
        return np.inf if after is None else now + max(after, self._setting.patience)


def table_of(jobs: list[TraceJob]) -> Jobs:
    """All jobs of a trace as columns; what has no GPU counts as a slot of one."""
    speedups = {job.speedup: curve(dict(job.speedup)) for job in jobs}
    table = make_jobs(
        [job.name for job in jobs],
        min=[job.min for job in jobs],
        max=[job.max for job in jobs],
        requested=[job.workers for job in jobs],
        gpus=[max(job.gpus_per_worker, 1) for job in jobs],
        priority=[job.priority for job in jobs],
        submit=[job.submit for job in jobs],
        speedup=[speedups[job.speedup] for job in jobs],
    )
    table.remaining[:] = np.array([job.duration for job in jobs]) * table.speed(table.requested)
    return table
