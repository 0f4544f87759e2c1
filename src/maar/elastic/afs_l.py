"""afs-l: GPUs one at a time, each to the job with which it shortens the average job most.

Source: Hwang et al., "Elastic Resource Sharing for Distributed Deep Learning", NSDI 2021, with each job's own size in
every term, which Voda mixed up.

The comparison of two jobs is not transitive, so the winner is defined by one scan in (submit, name) order in which the
winner stays. Scanning all jobs for every GPU is too slow. But a grant changes one job only, the winner: all that
happened in the scan before it stays true, and losers never matter. So the champions of the scan are kept as a stack,
and the scan goes on where its last one came in; the next to beat a champion is found by numpy among all that follow.
"""

from __future__ import annotations

import numpy as np

from maar.config.config import NoArguments
from maar.elastic.jobs import Ints, Jobs, Mask
from maar.elastic.order import in_order
from maar.elastic.speedup import Floats

NAME = "afs-l"

NEAR = 256
"""So many jobs are looked at first, by measurement: the next champion is often near."""


def plan(jobs: Jobs, gpus: int, arguments: NoArguments) -> Ints:
    """One more worker to the winner of a scan, or `min` if it has none, until nothing fits or all are at `max`.

    Between job a, with the shorter remaining / S(n), and job b: if both have none, the one with less remaining; else b
    wins if (S_b(n_b+1) - S_b(n_b)) / S_b(n_b+1) > (S_a(n_a+1) - S_a(n_a)) / S_a(n_a), and a if not. On ties the earlier
    one counts as shorter. A higher priority wins outright. A job at `max`, or whose next workers do not fit, is out.
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
        """(S(n+1) - S(n)) / S(n+1): what counts for the longer of two jobs."""
        self._of_shorter: Floats = np.full(n, np.inf)
        """(S(n+1) - S(n)) / S(n): what counts for the shorter."""
        self._fresh: Floats = jobs.remaining.copy()
        """To a job that has none: the remaining time of others that have none; below all, if it has a length."""
        self._need: Ints = jobs.min * jobs.gpus
        """GPUs of its next step; 0 if it is out."""
        self._open = n
        """How many are not out."""
        self._champions: list[int] = []
        """The winners of the scan so far, each having beaten the one before."""
        self._at = 0
        """Where the scan goes on."""

    def run(self, left: int) -> tuple[Ints, int]:
        """Give until nothing fits; the workers of each job and the GPUs left."""
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
        """Scan on to the end."""
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
        """The first that beats the champion, from there on."""
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
        """Which of those that come later in the scan than the champion beat it.

        One of them is the longer one unless it is truly shorter. As the longer it must bring more than the champion.
        What brings more as the longer does so as the shorter as well, hence `or`; and as the shorter it wins if the
        champion does not bring more than it.
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
        """One step more for the winner, which the scan then judges again."""
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
        """These are out. Champions among them, and those that beat them, are none any more."""
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
