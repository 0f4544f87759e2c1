"""Openings: the cheapest way to make room for one more task of a shape on each node.

On every node where evictions help, units are taken in order of cost until one more task fits and no neighbour is in its
way; units that are not needed are then given back. The cheapest opening of all nodes is the next step of a greedy
search. A gang that is already broken costs nothing more, and a gang that frees room for several tasks costs less per
task. Only changed nodes are computed again.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from maar.model.resources import Ints
from maar.session.eviction.cost import Rank
from maar.session.eviction.neighbours import Neighbours
from maar.session.eviction.victims import Candidates, Places, Unit
from maar.session.session import Session
from maar.session.view import View

Gift = tuple[int, ...]
"""What a unit frees on one node: of each resource that is short there, then the neighbours in the way, if any."""

IN_THE_WAY = -1
"""Stands beside the numbers of resources for the neighbours in the way."""


class Opening(NamedTuple):
    """Units whose eviction lets a node take one more task, with their cost."""

    row: int
    units: tuple[Unit, ...]
    alone: Rank
    """The sort key, computed as if the units made room for one task."""
    brings: int
    """How many more tasks then fit on all nodes."""

    def rank(self, wanted: int) -> Rank:
        """The sort key while `wanted` tasks lack room: room for more tasks than that does not count."""
        room, cost = min(self.brings, wanted), self.alone.cost
        return self.alone._replace(cost=cost.shared(room)) if cost.gangs and room > 1 else self.alone


class Openings:
    """The cheapest opening of each node for one shape."""

    def __init__(
        self, session: Session, candidates: Candidates, view: View, rows: Ints, neighbours: Neighbours | None = None
    ) -> None:
        self._session = session
        self._candidates = candidates
        self._view = view
        self._neighbours = neighbours
        self._there: frozenset[int] = frozenset()
        """The neighbours in the way on the node that is looked at."""
        self._dims: list[int] = np.flatnonzero(view.request).tolist()
        self._wants: list[int] = view.request.tolist()
        self._free: dict[int, list[int]] = {d: view.free(slice(None), d).tolist() for d in self._dims}
        """The free amount of each requested resource on each node, as plain integers."""
        self._requests: list[list[int]] = session.snapshot.shapes.requests.tolist()
        self._shape_of: Ints = session.snapshot.tasks.shape
        self._cursor = session.state.cursor
        self._by_row: dict[int, Opening] = {}
        self._places = candidates.places()
        self._by_order: dict[int, dict[tuple[int, ...], Opening]] = {}
        """For nodes where several queues may lose tasks: the opening by the order of these queues."""
        self._rows = set(rows.tolist())
        self._look(self._rows)

    def cheapest(self, wanted: int) -> Opening | None:
        """The best next step while `wanted` tasks lack room."""
        changed, self._cursor = self._session.state.touched_since(self._cursor)
        if changed is not None:
            for dim, free in self._free.items():
                for row, has in zip(changed.tolist(), self._view.free(changed, dim).tolist(), strict=True):
                    free[row] = has
        self._reorder()
        if changed is not None:
            self._look(self._rows & set(changed.tolist()))
        while self._by_row:
            best = min(self._by_row.values(), key=lambda o: o.rank(wanted))
            # An eviction elsewhere may have used the last surplus of a job that also runs here.
            self._look({best.row})
            if self._by_row.get(best.row) == best:
                return best
        return None

    def _reorder(self) -> None:
        """Compare openings by the order in which queues lose tasks now."""
        places = self._candidates.places()
        if places == self._places:
            return
        mixed = self._candidates.mixed_rows()
        for row in mixed.keys() & self._by_row.keys():
            known = self._by_order.setdefault(row, {})
            known[_order(mixed[row], self._places)] = self._by_row[row]
            opening = known.get(_order(mixed[row], places)) or self._open(row)
            if opening is not None:
                self._by_row[row] = opening
        self._places = places
        for row, opening in self._by_row.items():
            queue = self._candidates.place(opening.units, places)
            if queue != opening.alone.cost.queue:
                cost = opening.alone.cost._replace(queue=queue)
                self._by_row[row] = opening._replace(alone=opening.alone._replace(cost=cost))

    def _look(self, rows: set[int]) -> None:
        for row in sorted(rows):
            self._by_order.pop(row, None)
            opening = self._open(row)
            if opening is None:
                self._by_row.pop(row, None)
            else:
                self._by_row[row] = opening

    def _open(self, row: int) -> Opening | None:
        lack = self._deficit(row)
        if self._neighbours is not None:
            self._there = self._neighbours.here(row)
            if self._there:
                lack[IN_THE_WAY] = len(self._there)
        if not lack:
            return None
        tasks = self._candidates.here(row)
        singles, needs = self._singles(tasks, lack), tuple(lack.values())
        units = cover(needs, singles)
        if units is None:
            units = cover(needs, [*singles, *self._wholes(tasks, lack)])
        return None if units is None else self._opening(row, units)

    def _deficit(self, row: int) -> dict[int, int]:
        """What the node lacks for one more task, by resource; empty if nothing."""
        lack = {dim: self._wants[dim] - self._free[dim][row] for dim in self._dims}
        return {dim: amount for dim, amount in lack.items() if amount > 0}

    def _gift(self, tasks: list[int], lack: dict[int, int]) -> Gift:
        requests = [self._requests[self._shape_of[t]] for t in tasks]
        if IN_THE_WAY in lack:
            amounts = (sum(request[dim] for request in requests) for dim in lack if dim != IN_THE_WAY)
            return (*amounts, len(self._there.intersection(tasks)))
        return tuple(sum(request[dim] for request in requests) for dim in lack)

    def _singles(self, tasks: list[int], lack: dict[int, int]) -> list[tuple[Unit, Gift]]:
        """Surplus tasks here, cheapest first, at most the surplus of each job and role."""
        here = set(tasks)
        units = self._candidates.singles(tasks)
        return [(unit, self._gift([t for t in unit.tasks if t in here], lack)) for unit in units]

    def _wholes(self, tasks: list[int], lack: dict[int, int]) -> list[tuple[Unit, Gift]]:
        """Whole gangs with a member here: low priority first, then those that free most of what is short."""
        here: dict[int, list[int]] = {}
        for task in tasks:
            here.setdefault(int(self._session.snapshot.tasks.job[task]), []).append(task)
        found = []
        for job, members in here.items():
            unit = self._candidates.whole(job)
            if unit is not None:
                found.append((unit, self._gift(members, lack)))

        def rank(of: tuple[Unit, Gift]) -> Rank:
            unit, gift = of
            helps = sum((Fraction(min(g, n), n) for g, n in zip(gift, lack.values(), strict=True)), Fraction())
            return Rank(self._candidates.cost([unit], helps), ((self._session.job(unit.job).key, 0),), unit.job)

        return sorted(found, key=rank) if len(found) > 1 else found

    def _opening(self, row: int, units: tuple[Unit, ...]) -> Opening:
        tasks = [t for u in units for t in u.tasks]
        cost = self._candidates.cost(units)
        brings = self._brings(tasks) if cost.breaks or len(tasks) > len(units) else 1
        return Opening(row, units, Rank(cost, self._candidates.key(tasks), row), brings)

    def _brings(self, tasks: list[int]) -> int:
        """How many more tasks of the shape fit on all nodes without these tasks."""
        freed: dict[int, list[int]] = {}
        for task, row in zip(tasks, self._session.state.node[tasks].tolist(), strict=True):
            request = self._requests[self._shape_of[task]]
            here = freed.setdefault(row, [0] * len(request))
            for dim in self._dims:
                here[dim] += request[dim]
        more = 0
        for row, gift in freed.items():
            if self._view.open[row]:
                fits = min((self._free[d][row] + gift[d]) // self._wants[d] for d in self._dims)
                if self._neighbours is None:
                    more += max(fits, 0) - int(self._view.fits[row])
                else:
                    before, after = self._neighbours.room_around(row, tasks)
                    more += max(min(fits, after), 0) - min(int(self._view.fits[row]), before)
        return more


def _order(queues: tuple[int, ...], places: Places) -> tuple[int, ...]:
    """The order of some queues among themselves."""
    of = [places[queue] for queue in queues]
    ranked = sorted(set(of))
    return tuple(ranked.index(place) for place in of)


def cover(lack: Gift, units: list[tuple[Unit, Gift]]) -> tuple[Unit, ...] | None:
    """Units in order until they cover the lack, without unneeded ones (last first); `None` if they cannot."""
    taken: list[tuple[Unit, Gift]] = []
    for unit, gift in units:
        if _covers(lack, taken):
            break
        if unit.whole or unit.shrinks:
            taken = [(u, g) for u, g in taken if u.job != unit.job]  # the new unit includes them
        elif unit.subgroup:
            taken = [(u, g) for u, g in taken if not set(u.tasks) <= set(unit.tasks)]
        taken.append((unit, gift))
    if not _covers(lack, taken):
        return None
    for last in reversed(list(taken)):
        without = [t for t in taken if t is not last]
        if _covers(lack, without):
            taken = without
    return tuple(unit for unit, _ in taken)


def _covers(lack: Gift, taken: list[tuple[Unit, Gift]]) -> bool:
    return all(sum(gift[i] for _, gift in taken) >= n for i, n in enumerate(lack))
