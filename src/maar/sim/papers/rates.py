"""rates: progress by application, epoch and size from a table (`maar.sim.papers.applications`), on nodes.

A worker is a GPU. A job lies inside one node or on whole nodes (`packing`). Every start, resize and move costs
`restart` seconds, also the first start, as in the simulator of Pollux. Progress is computed from the last event.

Policies see speed-ups as Maar fits them everywhere: rising and flattening. They are fitted to the table, or, if speeds
are learnt, to the rates that jobs of the same application have shown so far in epochs near to the job's: as points, or
as step times once there are enough (`maar.elastic.steps`, as history does).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import median

import numpy as np

from maar.config.config import Registration
from maar.elastic import price
from maar.elastic.allocate import wake_after
from maar.elastic.damping import Damping, damped
from maar.elastic.jobs import Jobs, filled
from maar.elastic.order import Serve
from maar.elastic.speedup import Floats, curve
from maar.elastic.steps import Basis, MeasuredSteps, fit, learnt
from maar.model.resources import Ints
from maar.model.words import unknown
from maar.sim.lengths import Learnt
from maar.sim.models.model import Names
from maar.sim.papers.applications import Application
from maar.sim.papers.packing import Packing
from maar.sim.setting import Setting
from maar.sim.trace import TraceJob

NAME = "rates"

SHOWN = 1.0
"""Seconds in an epoch at one size after which its rate is known. Tuned by hand."""
OLD = 1.25
EARLY = 3
"""A rate is used for epochs up to `OLD` times later or earlier, counted from `EARLY` epochs before the first. Tuned by
hand: with all rates, sizes that were measured too early are never tried again, and the mean completion is twice as
long."""


class Rated:
    """The jobs of one run."""

    together = 0.0
    serve: Serve | None = None

    def __init__(self, jobs: list[TraceJob], policy: Registration, setting: Setting) -> None:
        if setting.rates is None:
            raise ValueError("model `rates` needs a table of rates")
        if setting.faults.events or setting.faults.chance:
            raise ValueError("model `rates` does not support failing or draining nodes")
        self._policy, self._setting = policy, setting
        self.arguments = policy.arguments()
        if policy.name == price.NAME:
            self.arguments = price.Arguments(node=setting.gpus_per_node)
        known = setting.rates.applications
        for job in jobs:
            if job.model not in known:
                raise ValueError(f"job `{job.name}`: {unknown('application', job.model, known)}")
        names = sorted({job.model for job in jobs})
        speeds = {name: TrueSpeeds(known[name], setting.speeds_known, setting.gpus_per_node) for name in names}
        n = len(jobs)
        self._of = [speeds[job.model] for job in jobs]
        self._total: Floats = np.array([of.total for of in self._of])
        self._learnt = Learnt(jobs, self._total) if setting.lengths == "learnt" else None
        self._names = [job.name for job in jobs]
        self.width: Ints = np.ones(n, dtype=np.int64)
        self.least: Ints = np.array([of.least for of in self._of], dtype=np.int64)
        self._most: Ints = np.array([of.most for of in self._of], dtype=np.int64)
        self._asked: Ints = np.clip(np.array([job.workers for job in jobs], dtype=np.int64), self.least, self._most)
        self.alone: Floats = np.array(
            [of.seconds(0, 0.0, size) for of, size in zip(self._of, self._asked.tolist(), strict=True)]
        )
        self._submit: Floats = np.array([job.submit for job in jobs])
        self._priority: Ints = np.array([job.priority for job in jobs], dtype=np.int64)
        self._rank: Ints = np.empty(n, dtype=np.int64)
        self._rank[sorted(range(n), key=self._names.__getitem__)] = np.arange(n)
        self._size: Ints = np.zeros(n, dtype=np.int64)
        self._progress: Floats = np.zeros(n)
        self._epoch = [0] * n
        self._moves: Floats = np.zeros(n)
        """Start of progress at the current size, or the time up to which progress is counted."""
        self._end: Floats = np.full(n, np.inf)
        self._first: Floats = np.full(n, np.inf)
        self._begun: Floats = self._submit.copy()
        """Start of the current period of running or waiting."""
        self._ran: Floats = np.zeros(n)
        self._idle: Floats = np.zeros(n)
        self._attained: Floats = np.zeros(n)
        self._counted = 0.0
        self._active: Ints = np.zeros(0, dtype=np.int64)
        self._nodes = Packing(setting.nodes, setting.gpus_per_node)

    def arrive(self, first: int, last: int, now: float) -> None:
        self._active = np.concatenate((self._active, np.arange(first, last)))

    def advance(self, now: float) -> None:
        """Count progress and service until now."""
        self._attained += (now - self._counted) * self._size
        self._counted = now
        for number in self._active[self._size[self._active] > 0].tolist():
            seconds = now - float(self._moves[number])
            if seconds > 0:
                self._moves[number] = now
                self._epoch[number], self._progress[number] = self._of[number].run(
                    self._epoch[number], float(self._progress[number]), int(self._size[number]), seconds
                )

    def ended(self, now: float) -> list[int]:
        done = self._end[self._active] <= now
        numbers = self._active[done]
        for number in numbers.tolist():
            self._nodes.remove(number)
        self._size[numbers], self._end[numbers] = 0, np.inf
        self._active = self._active[~done]
        if self._learnt is not None:
            self._learnt.ended(numbers.tolist())
        return list(numbers.tolist())

    def fail(self, now: float, first: int, last: int) -> list[int]:
        raise NotImplementedError

    def question(self, now: float) -> Jobs:
        return self._table(now)

    def _table(self, now: float) -> Jobs:
        rows = self._active
        n = len(rows)
        found: dict[tuple[int, int], int] = {}
        curves: list[Floats] = []
        offset, measured = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        done, alone = np.zeros(n), np.zeros(n)
        start = 0
        for row, number in enumerate(rows.tolist()):
            of, epoch = self._of[number], self._epoch[number]
            speedup, base, largest = of.belief(epoch)
            at = found.get((id(of), epoch))
            if at is None:
                at = found[id(of), epoch] = start
                curves.append(speedup)
                start += len(speedup)
            offset[row], measured[row] = at, largest
            progress = float(self._progress[number])
            if base > 0:
                done[row], alone[row] = progress / base, base
        left = np.full(n, np.inf)
        np.divide(self._left(rows), alone, out=left, where=alone > 0)
        waits = self._size[rows] == 0
        waited = np.where(waits, now - self._begun[rows], 0.0)
        return filled(
            Names(self._names, rows),
            np.concatenate(curves) if curves else np.zeros(1),
            min=self.least[rows],
            max=self._most[rows],
            requested=self._asked[rows],
            gpus=self.width[rows],
            priority=self._priority[rows],
            submit=self._submit[rows],
            remaining=left,
            attained=self._attained[rows],
            first_start=self._first[rows],
            waited=waited,
            ran=np.where(waits, self._ran[rows], now - self._begun[rows]),
            rank=self._rank[rows],
            offset=offset,
            reach=self._most[rows],
            size=self._size[rows],
            measured=measured,
            restart=np.full(n, self._setting.restart),
            done=done,
            delayed=self._idle[rows] + waited,
        )

    def _left(self, rows: Ints) -> Floats:
        """The progress that is left, as policies know it. Jobs report their progress, so lengths are learnt as that."""
        if self._setting.lengths == "unknown":
            return np.full(len(rows), np.inf)
        if self._learnt is not None:
            return self._learnt.left(rows, self._progress[rows])
        return self._total[rows] - self._progress[rows]

    def suffices(self, now: float, workers: Ints) -> bool:
        return True

    def answer(self, now: float, workers: Ints, gpus: int) -> tuple[list[int], list[int]]:
        """Resize jobs, damped as in live pools, and place them on nodes."""
        rows, setting = self._active, self._setting
        if not self._policy.weighs_restarts:
            damping = Damping(setting.hysteresis, setting.horizon)
            restart = np.full(len(rows), setting.restart)
            workers = damped(self._table(now), self._size[rows], workers, gpus, restart, damping)
        sizes = dict(zip(rows.tolist(), workers.tolist(), strict=True))
        changed = {number: size for number, size in sizes.items() if size != self._size[number]}
        least = {number: int(self.least[number]) for number in changed}
        reached, moved = self._nodes.settle(changed, least)
        reached = {number: size for number, size in reached.items() if size or self._size[number]}
        reached.update((number, int(self._size[number])) for number in sorted(moved))
        for number, size in reached.items():
            self._resize(number, size, now)
        return list(reached), list(reached.values())

    def _resize(self, number: int, size: int, now: float) -> None:
        before = int(self._size[number])
        self._size[number] = size
        if size:
            self._moves[number] = now + self._setting.restart
            took = self._of[number].seconds(self._epoch[number], float(self._progress[number]), size)
            self._end[number] = self._moves[number] + took
            self._first[number] = min(self._first[number], now)
        else:
            self._end[number] = np.inf
        if size and not before:
            self._idle[number] += now - self._begun[number]
            self._begun[number], self._ran[number] = now, 0.0
        elif before and not size:
            self._ran[number] = now - self._begun[number]
            self._begun[number] = now

    def next_end(self) -> float:
        return float(self._end[self._active].min(initial=np.inf))

    def next_change(self, now: float) -> float:
        if self._policy.wake_after is None:
            return math.inf
        after = wake_after(self._policy, self._table(now), self._size[self._active], self.arguments)
        return math.inf if after is None else now + max(after, self._setting.patience)


class TrueSpeeds:
    """The true rates of one application, and what policies believe."""

    def __init__(self, application: Application, known: bool, gpus_per_node: int = 1) -> None:
        self._each = gpus_per_node
        self.least, self.most = application.sizes[0], application.sizes[-1]
        self.total = application.ends[-1]
        self._application = application
        self._table = application.table()
        self._ends = application.ends
        lengths = np.diff(self._ends, prepend=0.0)
        with np.errstate(divide="ignore"):
            seconds = lengths[:, None] / self._table
        self._after: Floats = np.concatenate((np.cumsum(seconds[::-1], axis=0)[::-1], np.zeros((1, self.most + 1))))
        """Seconds from the beginning of each epoch to the end, by size."""
        self._shown: dict[int, dict[int, float]] | None = None if known else {}
        """By size and epoch: the rates that jobs have shown; None if policies know all rates."""
        self._beliefs: dict[int, tuple[Floats, float, int]] = {}

    def seconds(self, epoch: int, progress: float, size: int) -> float:
        """Seconds that a job still needs at one size."""
        rest = (self._ends[epoch] - progress) / float(self._table[epoch, size])
        return rest + float(self._after[epoch + 1, size])

    def run(self, epoch: int, progress: float, size: int, seconds: float) -> tuple[int, float]:
        """The epoch and the progress after some seconds."""
        while True:
            rate = float(self._table[epoch, size])
            need = (self._ends[epoch] - progress) / rate
            self._show(epoch, size, min(need, seconds), rate)
            if seconds < need:
                return epoch, progress + seconds * rate
            seconds -= need
            progress = self._ends[epoch]
            if epoch + 1 == len(self._ends):
                return epoch, progress
            epoch += 1

    def _show(self, epoch: int, size: int, seconds: float, rate: float) -> None:
        if self._shown is not None and seconds >= SHOWN:
            known = self._shown.setdefault(size, {})
            if epoch not in known:
                known[epoch] = rate
                self._beliefs.clear()

    def belief(self, epoch: int) -> tuple[Floats, float, int]:
        """What policies believe in an epoch: S(0), S(1), ...; the progress per second on one GPU; the largest size.

        The largest size is the largest measured one. Before anything is measured: linear, 0 and 0.
        """
        if epoch not in self._beliefs:
            points = self._points(epoch)
            rates: Mapping[int, float] = points
            if self._shown is not None:
                steps = fit(
                    MeasuredSteps(size, 1 / rate, math.ceil(size / self._each), epochs=self._count(size, epoch))
                    for size, rate in points.items()
                )
                speeds, basis = learnt(points, steps)
                if basis is Basis.STEPS:
                    alone = median(rate / speeds[size] for size, rate in points.items() if size in speeds)
                    rates = {size: alone * speed for size, speed in speeds.items()}
            values = curve(rates).values(self.most)
            base = float(values[1]) if points else 0.0
            self._beliefs[epoch] = values / (base or 1.0), base, max(points, default=0)
        return self._beliefs[epoch]

    def _count(self, size: int, epoch: int) -> int:
        """Epochs near to this one in which a size was shown."""
        assert self._shown is not None
        return max(sum(_is_recent(then, epoch) for then in self._shown[size]), 1)

    def _points(self, epoch: int) -> dict[int, float]:
        """Rates by size: those of the table, or those that were shown, without old ones if any is recent."""
        if self._shown is None:
            return dict(zip(self._application.sizes, self._application.rates[epoch], strict=True))
        nearest = {size: min(rates, key=lambda e: (abs(e - epoch), e)) for size, rates in self._shown.items()}
        recent = {size: e for size, e in nearest.items() if _is_recent(e, epoch)}
        return {size: self._shown[size][e] for size, e in (recent or nearest).items()}


def _is_recent(then: int, epoch: int) -> bool:
    """Whether a rate of one epoch still holds in another: training changes fast at first, and slowly later."""
    before, after = sorted((then, epoch))
    return after + EARLY <= OLD * (before + EARLY)
