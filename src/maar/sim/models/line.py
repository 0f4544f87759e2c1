"""The line of the model `default`: jobs that wait so far behind others that a policy need not be asked about them.

Many policies serve jobs one after the other in some order and pass over what does not fit. Where a job does not fit,
none that needs as many GPUs and comes after it does either. So the waiting jobs stand in *lanes*, those that need as
much in one, in the policy's own order. The first of each lane are on the desk, its *front*; the others are kept. As
long as somebody in the front of each lane is left waiting, those behind would be, too, and the answer is that to all.
A question so costs what runs, however many wait.

Who comes new, or stops, is on the desk as well, in no lane. When there are many of these, the policy is asked about
all once more (`maar.sim.models.default`), and the order in which it served them makes the lanes anew.

While it waits, a job keeps its place among the others that wait. The exception is a promotion (tiresias): who could be
promoted is put on the desk before.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np

from maar.model.resources import Floats, Ints, Mask
from maar.sim.models.desk import Desk

FRONT = 16
"""Jobs in the front of a lane. By measurement: more make every question longer, fewer have to be asked about again."""
FEW = 256
"""So many waiting jobs in no lane are no matter, by measurement."""
ROOT = 6
"""Where many wait, it is so many times the root of their number: half for longer questions, half for asking all."""
EARLY = 1.0
"""Seconds before its promotion a job is on the desk, by taste: far more than any rounding of times."""


@dataclass(slots=True)
class Lane:
    """Jobs that need as many GPUs each."""

    numbers: Ints
    """Those behind the front, in order; some may be on the desk again."""
    front: int
    """How many of the front are left waiting."""
    at: int = 0
    """Who comes next."""


class Line:
    """Who waits where."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.lanes: list[Lane] = []
        self._aside: Mask = np.zeros(len(desk.kept["work"]), dtype=np.bool_)
        """By number: who is kept."""
        self._kept = 0
        self._fronts = 0
        self._due: Ints = np.zeros(0, dtype=np.int64)
        self._times: list[float] = []
        self._next = 0

    def is_long(self, waiting: int) -> bool:
        """Whether too many of those that wait on the desk are in no lane."""
        return waiting - self._fronts > max(FEW, ROOT * math.isqrt(self._kept + waiting))

    def next_due(self) -> float:
        """When the first of those that are kept is promoted."""
        while self._next < len(self._times) and not self._aside[self._due[self._next]]:
            self._next += 1  # on the desk again
        return self._times[self._next] if self._next < len(self._times) else math.inf

    def bring(self, numbers: Ints, now: float) -> None:
        """Put them on the desk again."""
        self._aside[numbers] = False
        self._kept -= len(numbers)
        before = len(self._desk)
        self._desk.put(numbers)
        np.subtract(now, self._desk.begun[before:], out=self._desk.waited[before:])

    def bring_all(self, now: float) -> None:
        """There is no line any more."""
        if self._kept:
            self.bring(self._aside.nonzero()[0], now)
        self._desk.lane[:] = -1
        self.lanes, self._fronts = [], 0
        self._times, self._next = [], 0

    def set_aside(self, order: Ints, needs: Ints, due: Floats) -> None:
        """Lanes of all rows that wait, from the order in which they were served and what they need.

        `due` says when a row's job would be promoted: those that are kept are brought before that.
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
        """Put those on the desk that are promoted by then, or nearly; whether there are any."""
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
        """Their jobs are served, or stop: they are in no front any more."""
        if self.lanes:
            for lane in self._desk.lane[rows].tolist():
                if lane >= 0:
                    self.lanes[lane].front -= 1
                    self._fronts -= 1
            self._desk.lane[rows] = -1

    def suffices(self, lanes: Ints, now: float) -> bool:
        """Whether somebody is left in every front if these are served. If not, more come to the front."""
        enough = True
        for number, count in Counter(lanes[lanes >= 0].tolist()).items():
            lane = self.lanes[number]
            if count >= lane.front and self._fill(number, lane, max(FRONT, count), now):
                enough = False
        return enough

    def _fill(self, number: int, lane: Lane, count: int, now: float) -> bool:
        """So many more come to the front of a lane; whether there were any."""
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
