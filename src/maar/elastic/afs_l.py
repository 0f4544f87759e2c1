"""afs-l: GPUs one at a time, each to the job where it shortens the average job time most.

Source: Hwang et al., "Elastic Resource Sharing for Distributed Deep Learning", NSDI 2021. Every term uses the job's own
size (Voda mixes up the sizes).

The comparison of two jobs is not transitive, so the winner is defined by one scan in (submit, name) order, in which the
current winner stays. A full scan for every GPU is too slow. But a grant changes only the winner, so the scan before it
stays valid. The champions of the scan are kept as a stack, and the scan continues where the last champion entered.
numpy finds the next job that beats a champion among all that follow.
"""

from __future__ import annotations

import numpy as np

from maar.config.config import NoArguments
from maar.elastic.jobs import Ints, Jobs, Mask
from maar.elastic.order import in_order
from maar.elastic.speedup import Floats

NAME = "afs-l"

NEAR = 256
"""How many jobs are checked first; found by measurement: the next champion is often near."""


def plan(jobs: Jobs, gpus: int, arguments: NoArguments) -> Ints:
    """One more worker (or `min` for a job without workers) to the winner of each scan, until nothing fits.

    Job a has the shorter remaining / S(n), job b the longer. If both have no workers, the one with less remaining time
    wins. Otherwise b wins if (S_b(n_b+1) - S_b(n_b)) / S_b(n_b+1) > (S_a(n_a+1) - S_a(n_a)) / S_a(n_a), else a. On ties
    the earlier job counts as shorter. A higher priority always wins. A job at `max`, or whose next workers do not fit,
    drops out.
    """
    workers = np.zeros(len(jobs), dtype=np.int64)
    order = in_order(jobs)
    left = gpus
    for rows in np.split(order, np.flatnonzero(np.diff(jobs.priority[order])) + 1):
        if len(rows):
            workers[rows], left = _Scan(jobs.only(rows)).run(left)
    return workers


class _Scan:
    """Jobs of one priority, in the order of the scan."""

    __slots__ = (
        "_at",
        "_champions",
        "_fresh",
        "_length",
        "_need",
        "_of_longer",
        "_of_shorter",
        "_open",
        "_size",
        "jobs",
    )

    def __init__(self, jobs: Jobs) -> None:
        n = len(jobs)
        self.jobs = jobs
        self._size = [0] * n
        self._length: Floats = np.full(n, np.inf)
        """remaining / S(n)"""
        self._of_longer: Floats = np.ones(n)
        """(S(n+1) - S(n)) / S(n+1): the value of the longer of two jobs."""
        self._of_shorter: Floats = np.full(n, np.inf)
        """(S(n+1) - S(n)) / S(n): the value of the shorter."""
        self._fresh: Floats = jobs.remaining.copy()
        """For comparison with a job without workers: the remaining time; -inf for a job with a finite length."""
        self._need: Ints = jobs.min * jobs.gpus
        """GPUs of the next step; 0 if the job is out."""
        self._open = n
        """How many jobs are not out."""
        self._champions: list[int] = []
        """The winners of the scan so far; each beat the one before."""
        self._at = 0
        """Where the scan continues."""

    def run(self, left: int) -> tuple[Ints, int]:
        """Grant workers until nothing fits; returns the workers of each job and the GPUs left."""
        largest = int(self._need.max())
        while True:
            if left < largest:
                self._drop(self._need > left)
                largest = int(self._need.max())
            if self._open == 0:
                return np.array(self._size, dtype=np.int64), left
            winner = self._winner()
            left -= int(self._need[winner])
            self._grow(winner)

    def _winner(self) -> int:
        champions = self._champions
        if not champions:
            champions.append(int(np.argmax(self._need > 0)))
            self._at = champions[0] + 1
        row = self._next(champions[-1], self._at)
        while row is not None:
            champions.append(row)
            row = self._next(row, row + 1)
        return champions[-1]

    def _next(self, champion: int, start: int) -> int | None:
        """The first job from `start` on that beats the champion."""
        n = len(self._size)
        for begin, end in ((start, start + NEAR), (start + NEAR, n)):
            if begin >= n:
                return None
            beats = self._beating(champion, slice(begin, end))
            first = int(beats.argmax())
            if beats[first]:
                return begin + first
        return None

    def _beating(self, champion: int, part: slice) -> Mask:
        """Which of the later jobs in the scan beat the champion.

        A later job is the longer one unless it is strictly shorter. As the longer job, its value must exceed the
        champion's. This also holds as the shorter job, hence `or`. As the shorter job it wins if the champion's value
        does not exceed its own.
        """
        if self._size[champion] == 0:
            less: Mask = self._fresh[part] < self.jobs.remaining[champion]
            less &= self._of_shorter[part] >= 1.0
            return less
        shorter: Mask = self._length[part] < self._length[champion]
        shorter &= self._of_shorter[part] >= self._of_longer[champion]
        shorter |= self._of_longer[part] > self._of_shorter[champion]
        return shorter

    def _grow(self, row: int) -> None:
        """Give the winner one more step; the scan then judges it again."""
        jobs = self.jobs
        size = self._size[row] = self._size[row] + 1 if self._size[row] else int(jobs.min[row])
        self._champions.pop()
        self._at = row
        if size >= jobs.max[row]:
            self._out(row)
            self._open -= 1
            return
        at = int(jobs.offset[row]) + size
        now, then = float(jobs.curves[at]), float(jobs.curves[at + 1])
        length = float(jobs.remaining[row]) / now
        self._length[row] = length
        self._of_longer[row] = (then - now) / then
        self._of_shorter[row] = (then - now) / now
        self._fresh[row] = -np.inf if length < np.inf else np.inf
        self._need[row] = jobs.gpus[row]

    def _drop(self, rows: Mask) -> None:
        """Take jobs out. Champions among them, and the later champions, are removed."""
        self._out(rows)
        self._open -= int(np.count_nonzero(rows))
        for place, champion in enumerate(self._champions):
            if rows[champion]:
                self._at = champion
                del self._champions[place:]
                return

    def _out(self, rows: int | Mask) -> None:
        self._length[rows] = self._fresh[rows] = np.inf
        self._of_longer[rows] = self._of_shorter[rows] = -1.0
        self._need[rows] = 0
