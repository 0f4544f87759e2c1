"""The desk of the model `default`: a row for each job at hand, in columns, without gaps.

Columns lie one after the other in two tables, of whole and of other numbers, so that a job comes and goes in one step
for all of them. Jobs that are not at hand are kept by number in two more. Rows stand in the order in which jobs came
to the desk: algorithms sort what is sorted already fast.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maar.elastic.jobs import Jobs
from maar.model.resources import Floats, Ints
from maar.sim.models.model import Names

ASKED_WHOLE = ("min", "max", "requested", "gpus", "priority", "rank", "offset", "reach")
ASKED = ("submit", "remaining", "attained", "first_start", "waited", "ran")
"""What algorithms see."""
WHOLE = (*ASKED_WHOLE, "number", "size", "lane")
OTHER = (*ASKED, "work", "moves", "rate", "end", "begun", "had", "counted", "forgiven", "takes")

SPARE = 64
"""Rows for jobs to come, at least, when the desk grows. By taste."""


class Desk:
    """Jobs at hand, and those that are kept."""

    jobs: Jobs
    """What algorithms are asked about."""
    number: Ints
    """Which job of the run it is."""
    size: Ints
    """Workers that it has."""
    lane: Ints
    """See `maar.sim.models.line`."""
    first_start: Floats
    waited: Floats
    ran: Floats
    remaining: Floats
    attained: Floats
    work: Floats
    """Seconds on one worker that are left at `moves`."""
    moves: Floats
    """Since when, or from when on, it makes progress."""
    rate: Floats
    """Seconds of one worker that it does in a second: 0 while it waits."""
    end: Floats
    begun: Floats
    """Since when it runs, or waits."""
    had: Floats
    """GPU seconds that it had at `counted`."""
    counted: Floats
    forgiven: Floats
    """GPU seconds before its last promotion."""
    takes: Floats
    """GPUs that it has."""

    def __init__(self, table: Jobs) -> None:
        """All jobs of a run, by number; none is at hand yet."""
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
        self._kept[OTHER.index("work")] = table.remaining
        self._kept[OTHER.index("end")] = np.inf
        self._whole: Ints = np.zeros((len(WHOLE), 0), dtype=np.int64)
        self._other: Floats = np.zeros((len(OTHER), 0))
        self.kept = {name: self._kept[row] for row, name in enumerate(OTHER)}
        """Columns of all jobs, by number: true for those that are not at hand."""
        self._show(0)

    def __len__(self) -> int:
        return len(self.number)

    def _show(self, count: int) -> None:
        """The first rows are the desk."""
        columns: dict[str, Any] = dict(zip(WHOLE, self._whole[:, :count], strict=True))
        columns.update(zip(OTHER, self._other[:, :count], strict=True))
        self.__dict__.update(columns)
        asked = {name: columns[name] for name in (*ASKED_WHOLE, *ASKED)}
        self.jobs = Jobs(names=Names(self._names, self.number), curves=self._curves, **asked)

    def put(self, numbers: Ints | slice) -> None:
        """These jobs are at hand, in new rows at the end."""
        more, other = self._kept_whole[:, numbers], self._kept[:, numbers]
        before, after = len(self), len(self) + more.shape[1]
        if after > self._whole.shape[1]:
            spare = ((0, 0), (0, max(SPARE, after) + after - self._whole.shape[1]))
            self._whole, self._other = np.pad(self._whole, spare), np.pad(self._other, spare)
        self._whole[:, before:after] = more
        self._other[:, before:after] = other
        self._show(after)

    def keep(self, rows: Ints) -> None:
        """Their jobs are no longer at hand, and kept as they are."""
        self._kept[:, self.number[rows]] = self._other[:, rows]
        self.remove(rows)

    def remove(self, rows: Ints) -> None:
        """Their jobs are gone."""
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
        """Change them."""
        self._other[:, rows] = np.array(part).T
