"""The desk of the model `default`: the jobs that the policy is asked about, as columns without gaps.

The columns are rows of two arrays, one of integers and one of floats, so that adding or removing a job is one step for
all columns. Two more arrays keep the other jobs by number. Desk rows are in the order in which jobs were added, because
algorithms sort sorted input fast.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maar.elastic import jobs
from maar.elastic.jobs import Jobs
from maar.model.resources import Floats, Ints
from maar.sim.models.model import Names

ASKED_WHOLE = jobs.WHOLE
ASKED = tuple(name for name in jobs.COLUMNS if name not in jobs.WHOLE)
"""The columns that algorithms read."""
WHOLE = (*ASKED_WHOLE, "number", "lane")
OTHER = (*ASKED, "total", "idle", "work", "moves", "rate", "end", "begun", "had", "counted", "forgiven", "takes")

SPARE = 64
"""Minimum of spare rows when the desk grows. Tuned by hand."""


class Desk:
    """The jobs on the desk, and the jobs that are kept off it."""

    jobs: Jobs
    """The rows as input of an algorithm."""
    number: Ints
    """The job number of each row."""
    size: Ints
    """Current workers."""
    lane: Ints
    """See `maar.sim.models.line`."""
    first_start: Floats
    waited: Floats
    ran: Floats
    remaining: Floats
    attained: Floats
    done: Floats
    delayed: Floats
    total: Floats
    """All its work, in seconds on one worker."""
    idle: Floats
    """Seconds without workers before `begun`."""
    work: Floats
    """Work left at `moves`, in seconds on one worker."""
    moves: Floats
    """Start of progress at the current size; in the future during a restart."""
    rate: Floats
    """Progress per second, in seconds on one worker: 0 while the job waits."""
    end: Floats
    begun: Floats
    """Start of the current period of running or waiting."""
    had: Floats
    """GPU seconds used until `counted`."""
    counted: Floats
    forgiven: Floats
    """GPU seconds used before the last promotion."""
    takes: Floats
    """Current GPUs."""

    def __init__(self, table: Jobs) -> None:
        """Keep all jobs of a run by number, with an empty desk."""
        n = len(table)
        self._names, self._curves = table.names, table.curves
        self._kept_whole: Ints = np.zeros((len(WHOLE), n), dtype=np.int64)
        self._kept: Floats = np.zeros((len(OTHER), n))
        for row, name in enumerate(ASKED_WHOLE):
            self._kept_whole[row] = getattr(table, name)
        for row, name in enumerate(ASKED):
            self._kept[row] = getattr(table, name)
        self._kept_whole[WHOLE.index("number")] = np.arange(n)
        self._kept_whole[WHOLE.index("lane")] = -1
        self._kept[OTHER.index("work")] = self._kept[OTHER.index("total")] = table.remaining
        self._kept[OTHER.index("end")] = np.inf
        self._whole: Ints = np.zeros((len(WHOLE), 0), dtype=np.int64)
        self._other: Floats = np.zeros((len(OTHER), 0))
        self.kept = {name: self._kept[row] for row, name in enumerate(OTHER)}
        """Columns of all jobs by number; valid only for jobs that are not on the desk."""
        self._show(0)

    def __len__(self) -> int:
        return len(self.number)

    def _show(self, count: int) -> None:
        """Make the first `count` rows the desk."""
        columns: dict[str, Any] = dict(zip(WHOLE, self._whole[:, :count], strict=True))
        columns.update(zip(OTHER, self._other[:, :count], strict=True))
        self.__dict__.update(columns)
        asked = {name: columns[name] for name in (*ASKED_WHOLE, *ASKED)}
        self.jobs = Jobs(names=Names(self._names, self.number), curves=self._curves, **asked)

    def put(self, numbers: Ints | slice) -> None:
        """Add jobs to the desk, in new rows at the end."""
        more, other = self._kept_whole[:, numbers], self._kept[:, numbers]
        before, after = len(self), len(self) + more.shape[1]
        if after > self._whole.shape[1]:
            spare = ((0, 0), (0, max(SPARE, after) + after - self._whole.shape[1]))
            self._whole, self._other = np.pad(self._whole, spare), np.pad(self._other, spare)
        self._whole[:, before:after] = more
        self._other[:, before:after] = other
        self._show(after)

    def keep(self, rows: Ints) -> None:
        """Take jobs off the desk and keep their columns."""
        self._kept[:, self.number[rows]] = self._other[:, rows]
        self.remove(rows)

    def remove(self, rows: Ints) -> None:
        stays = np.ones(len(self), dtype=np.bool_)
        stays[rows] = False
        left = stays.nonzero()[0]
        self._whole[:, : len(left)] = self._whole[:, left]
        self._other[:, : len(left)] = self._other[:, left]
        self._show(len(left))

    def part(self, rows: Ints) -> list[list[float]]:
        """The columns `OTHER` of some rows, row by row."""
        part: list[list[float]] = self._other.take(rows, axis=1).T.tolist()
        return part

    def write(self, rows: Ints, part: list[tuple[float, ...]]) -> None:
        """Replace the columns `OTHER` of some rows."""
        self._other[:, rows] = np.array(part).T
