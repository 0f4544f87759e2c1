"""The line of the model `default`: waiting jobs that the policy need not be asked about.

Many policies serve jobs in some order and skip jobs that do not fit. If a job does not fit, no later job that needs as
many GPUs fits either. So waiting jobs are in *lanes*: one lane for each number of GPUs, in the policy's order. The
first jobs of each lane, its *front*, are on the desk; the others are kept. As long as a job in the front of each lane
stays waiting, the jobs behind it would stay waiting too, and the answer is the same as for all jobs. The cost of a
question then depends on the running jobs, not on the waiting ones.

New jobs and stopped jobs are on the desk too, in no lane. When these are many, the policy is asked about all jobs
(`maar.sim.models.default`), and the lanes are made again from the order in which it served them.

A waiting job keeps its place among the waiting jobs. The exception is a promotion (tiresias): a job is put on the desk
before its promotion.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np

from maar.model.resources import Floats, Ints, Mask
from maar.sim.models.desk import Desk

FRONT = 16
"""Jobs in the front of a lane. Measured: more make every question slower, fewer cause repeated questions."""
FEW = 256
"""Waiting jobs in no lane that never cause new lanes. Measured."""
ROOT = 6
"""With many waiting jobs, this times the square root of their number: balances long questions against new lanes."""
EARLY = 1.0
"""Seconds on the desk before a promotion: far more than rounding errors. Tuned by hand."""


@dataclass(slots=True)
class Lane:
    """Waiting jobs that need the same number of GPUs."""

    numbers: Ints
    """Jobs behind the front, in order; some may be on the desk again."""
    front: int
    """Jobs of the front that still wait."""
    at: int = 0
    """Index in `numbers` of the next job."""


class Line:
    """The lanes of waiting jobs."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.lanes: list[Lane] = []
        self._aside: Mask = np.zeros(len(desk.kept["work"]), dtype=np.bool_)
        """Whether each job, by number, is kept off the desk."""
        self._kept = 0
        self._fronts = 0
        self._due: Ints = np.zeros(0, dtype=np.int64)
        self._times: list[float] = []
        self._next = 0

    def is_long(self, waiting: int) -> bool:
        """Whether too many of the waiting jobs on the desk are in no lane."""
        return waiting - self._fronts > max(FEW, ROOT * math.isqrt(self._kept + waiting))

    def next_due(self) -> float:
        """The time of the first promotion of a kept job."""
        while self._next < len(self._times) and not self._aside[self._due[self._next]]:
            self._next += 1  # on the desk again
        return self._times[self._next] if self._next < len(self._times) else math.inf

    def bring(self, numbers: Ints, now: float) -> None:
        """Put kept jobs on the desk again."""
        self._aside[numbers] = False
        self._kept -= len(numbers)
        before = len(self._desk)
        self._desk.put(numbers)
        np.subtract(now, self._desk.begun[before:], out=self._desk.waited[before:])
        np.add(self._desk.idle[before:], self._desk.waited[before:], out=self._desk.delayed[before:])

    def bring_all(self, now: float) -> None:
        """Put all kept jobs on the desk and remove all lanes."""
        if self._kept:
            self.bring(self._aside.nonzero()[0], now)
        self._desk.lane[:] = -1
        self.lanes, self._fronts = [], 0
        self._times, self._next = [], 0

    def set_aside(self, order: Ints, needs: Ints, due: Floats) -> None:
        """Make lanes of all waiting rows, from the order in which the policy served them and their GPUs.

        `due` has the promotion time of each row: kept jobs return to the desk before it.
        """
        desk = self._desk
        waits = desk.size[order] == 0
        order, needs = order[waits], needs[waits]
        behind = [order[:0]]
        for need in np.unique(needs).tolist():
            rows = order[needs == need]
            desk.lane[rows[:FRONT]] = len(self.lanes)
            self.lanes.append(Lane(desk.number[rows[FRONT:]], len(rows[:FRONT])))
            self._fronts += len(rows[:FRONT])
            behind.append(rows[FRONT:])
        rows = np.concatenate(behind)
        self._set_due(desk.number[rows], due[rows])
        self._aside[desk.number[rows]] = True
        self._kept = len(rows)
        desk.keep(rows)

    def _set_due(self, numbers: Ints, due: Floats) -> None:
        ever = due < np.inf
        numbers, due = numbers[ever], due[ever]
        order = np.argsort(due, kind="stable")
        self._due, self._times = numbers[order], due[order].tolist()

    def bring_due(self, now: float, by: float) -> bool:
        """Put the jobs on the desk that are promoted until `by`, plus `EARLY`. Returns whether there are any."""
        first = last = self._next
        while last < len(self._times) and self._times[last] <= by + EARLY:
            last += 1
        if last == first:
            return False
        self._next = last
        numbers = self._due[first:last]
        numbers = numbers[self._aside[numbers]]
        if len(numbers):
            self.bring(numbers, now)
        return len(numbers) > 0

    def leave(self, rows: Ints) -> None:
        """Take jobs that start or stop out of their lanes."""
        if self.lanes:
            for lane in self._desk.lane[rows].tolist():
                if lane >= 0:
                    self.lanes[lane].front -= 1
                    self._fronts -= 1
            self._desk.lane[rows] = -1

    def suffices(self, lanes: Ints, now: float) -> bool:
        """Whether every front keeps a waiting job if the jobs of `lanes` are served. If not, fill the fronts."""
        enough = True
        for number, count in Counter(lanes[lanes >= 0].tolist()).items():
            lane = self.lanes[number]
            if count >= lane.front and self._fill(number, lane, max(FRONT, count), now):
                enough = False
        return enough

    def _fill(self, number: int, lane: Lane, count: int, now: float) -> bool:
        """Add `count` jobs to the front of a lane. Returns whether there are any."""
        found: list[int] = []
        while len(found) < count and lane.at < len(lane.numbers):
            some = lane.numbers[lane.at : lane.at + count - len(found)]
            lane.at += len(some)
            found += some[self._aside[some]].tolist()
        if not found:
            return False
        before = len(self._desk)
        self.bring(np.array(found, dtype=np.int64), now)
        self._desk.lane[before:] = number
        lane.front += len(found)
        self._fronts += len(found)
        return True
