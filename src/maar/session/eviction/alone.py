"""Openings on nodes where the only victim is one gang that leaves whole: compared as columns, all at once.

Such a node is opened by its gang or by nothing. So what an opening costs and brings is known for all of these nodes
from columns: the gang table has the costs, and only what the gang frees on changed nodes is counted again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from maar.model.fitting import count_columns
from maar.model.resources import Ints, Mask
from maar.session.view import NodesView

if TYPE_CHECKING:
    from maar.session.eviction.victims import Candidates


class Alone:
    """The spots of a gang table, for one shape."""

    def __init__(self, candidates: Candidates, view: NodesView, rows: Ints, free: Mapping[int, Ints]) -> None:
        """`rows` are the nodes to look at; `free` are their free amounts by resource, which the caller keeps."""
        self._candidates = candidates
        self._gangs = gangs = candidates.gangs
        self._view = view
        self._free = free
        self._wants: list[tuple[int, int]] = [(dim, view.request.item(dim)) for dim in free]
        self._looks: Mask = np.zeros(len(gangs.row), dtype=np.bool_)
        spots = gangs.spot[rows]
        self._looks[spots[spots >= 0]] = True
        self._helps: Mask = self._looks.copy()
        """Whether the node of a spot has no room for a task, and has some without the gang."""
        self._then: Ints = np.zeros(len(gangs.row), dtype=np.int64)
        """How many tasks fit on the node of a spot without the gang."""
        if self._looks.any():
            self._count(np.arange(len(gangs.row)))

    def covers(self, rows: Ints) -> Mask:
        """Which of these nodes are compared here."""
        spots = self._gangs.spot[rows]
        return (spots >= 0) & self._looks[spots] if len(self._looks) else np.zeros(len(rows), dtype=np.bool_)

    def update(self, rows: Ints) -> None:
        """Count again where free amounts have changed."""
        spots = self._gangs.spot[rows]
        spots = spots[spots >= 0]
        if len(spots) and self._looks.any():
            self._count(spots)

    def alike(self, job: int) -> list[int]:
        """The gangs with an opening that have the same pods in the same queue, itself included; fewest pods first."""
        return self._gangs.alike(job, self._gangs.gang[self._open_spots()])

    def _open_spots(self) -> Ints:
        """The spots with an opening now: those where it helps that the gang leaves, and the gang may leave."""
        return (self._helps & self._candidates.gangs_there()[self._gangs.gang]).nonzero()[0]

    def _count(self, spots: Ints) -> None:
        gangs, rows = self._gangs, self._gangs.row[spots]
        now = [(self._free[dim][rows], wants) for dim, wants in self._wants]
        then = [
            (free + gangs.gift[spots, dim], wants) for (free, wants), (dim, _) in zip(now, self._wants, strict=True)
        ]
        fits = count_columns(len(rows), iter(then))
        self._then[spots] = fits * self._view.open[rows]
        self._helps[spots] = self._looks[spots] & (fits > 0) & (count_columns(len(rows), iter(now)) == 0)

    def cheapest(self, wanted: int) -> tuple[int, int] | None:
        """The node and the gang of the cheapest opening while `wanted` tasks lack room."""
        gangs, candidates = self._gangs, self._candidates
        spots = self._open_spots()
        if not len(spots):
            return None
        # The fields of `Cost`, one after the other: only spots that are cheapest by the fields before are compared.
        for field in (candidates.gang_places, gangs.priority.__getitem__, candidates.gang_shortfalls):
            spots = _least(spots, field(gangs.gang[spots]))
        spots = _least(spots, -self._room(wanted)[gangs.gang[spots]])
        spot = _least(spots, gangs.rank[gangs.gang[spots]]).item(0)
        return gangs.row.item(spot), gangs.job.item(gangs.gang.item(spot))

    def _room(self, wanted: int) -> Ints:
        """For how many of the wanted tasks each gang makes room on all nodes, at least one."""
        gangs = self._gangs
        room = np.ones(len(gangs.job), dtype=np.int64)
        more = np.add.reduceat(self._then - self._view.fits[gangs.row], gangs.first)
        room[gangs.gang[gangs.first]] = np.clip(more, 1, max(wanted, 1))
        return room


def _least(spots: Ints, costs: Ints | None) -> Ints:
    """The spots with the least cost; `None`: all cost the same."""
    return spots if costs is None or len(spots) == 1 else spots[costs == costs.min()]
