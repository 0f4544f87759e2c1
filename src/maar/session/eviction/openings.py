"""Openings: the cheapest way to make room for one more task of a shape on each node.

On every node where evictions help, units are taken in order of cost until one more task fits: resources are summed, and
counters (volumes, ports, affinity, spread) are asked for the room without these units. Only units with a task on the
node are evicted for it, as in Kubernetes: a pod elsewhere in the domain of an anti-affinity or a spread is not. Units
that are not needed are then given back. The cheapest opening of all nodes is the next step of a greedy search. A gang
that is already broken costs nothing more, and a gang that frees room for several tasks costs less per task. Only
changed nodes are computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from maar.model.fitting import EVERY, MANY, Mode, how_many, lack_of
from maar.model.resources import Ints
from maar.session.eviction.alone import Alone
from maar.session.eviction.cost import Rank
from maar.session.eviction.shortfall import Amounts
from maar.session.eviction.units import Unit
from maar.session.eviction.victims import Candidates, Places
from maar.session.session import Session
from maar.session.view import NodesView

OWNER = "openings"
Gift = tuple[int, ...]
"""What a unit frees on one node of each resource that is short there."""

Opens = Callable[[Iterable[Unit]], bool]
"""Whether counters let a node take one more task without some units."""


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
        self, session: Session, candidates: Candidates, view: NodesView, rows: Ints, *, is_first: bool = False
    ) -> None:
        self.is_first = is_first
        """Whether nothing had left when the search began to look at these nodes: other searches look at the same."""
        self._session = session
        self._candidates = candidates
        self._view = view
        self._limited = bool(session.capacity.limits(view.shape, Mode.LATER))
        """Whether counters limit the shape at all."""
        self._beside: dict[frozenset[int], Ints | None] = {}
        """How many tasks nodes take by the counters without some tasks; `None`: any number."""
        self._dims: list[int] = np.flatnonzero(view.request).tolist()
        self._wants: list[int] = view.request.tolist()
        self._free: dict[int, Ints] = {d: np.array(view.free(EVERY, d)) for d in self._dims}
        """The free amount of each requested resource on each node."""
        self._requests: list[list[int]] = session.memo.fixed(OWNER, "requests", session.snapshot.shapes.requests.tolist)
        self._shape_of: Ints = session.snapshot.tasks.shape
        self._cursor = session.state.cursor
        self._by_row: dict[int, Opening] = {}
        self._places = candidates.places()
        self._above: Amounts = candidates.shortfalls.above()
        self._under: dict[int, Amounts] = {}
        """What queues had above their shares when the opening of a node was computed, if tasks had left by then."""
        self._by_order: dict[int, dict[tuple[int, ...], Opening]] = {}
        """For nodes where several queues may lose tasks: the opening by the order of these queues."""
        self._alone = Alone(candidates, view, rows if not self._limited else rows[:0], self._free)
        self._rows = set(rows[~self._alone.covers(rows)].tolist())
        """The nodes that are looked at one by one."""
        self._look(self._rows)

    def units(self, wanted: int) -> tuple[Unit, ...]:
        """What leaves in the best next step while `wanted` tasks lack room; empty if no step helps."""
        if self._rows:
            best = self.cheapest(wanted)
            return () if best is None else best.units
        self._follow()
        spot = self._alone.cheapest(wanted)
        unit = None if spot is None else self._candidates.whole(spot[1])
        return () if unit is None else (unit,)

    def cheapest(self, wanted: int) -> Opening | None:
        """The best next step while `wanted` tasks lack room."""
        self._follow()
        alone = self._cheapest_alone(wanted)
        while self._by_row:
            best = min(self._by_row.values(), key=lambda o: o.rank(wanted))
            if alone is not None and alone.rank(wanted) < best.rank(wanted):
                break
            # An eviction elsewhere may have used the last surplus of a job that also runs here.
            self._look({best.row})
            if self._by_row.get(best.row) == best:
                return best
        return alone

    def _follow(self) -> None:
        """Compare again what has changed since the last step."""
        changed, self._cursor = self._session.state.touched_since(self._cursor)
        if changed is not None:
            self._beside.clear()
            for dim, free in self._free.items():
                free[changed] = self._view.free(changed, dim)
            self._alone.update(changed)
        self._reorder()
        self._measure()
        if changed is not None:
            self._look(self._rows.intersection(changed.tolist()))

    def _cheapest_alone(self, wanted: int) -> Opening | None:
        """The best opening of a node where the only victim is a gang that leaves whole."""
        best = self._alone.cheapest(wanted)
        unit = None if best is None else self._candidates.whole(best[1])
        return None if best is None or unit is None else self._opening(best[0], (unit,))

    def alike(self, gang: int) -> list[int]:
        """The gangs with an opening that have the same pods in the same queue, itself included; fewest pods first."""
        return self._alone.alike(gang) if gang in self._candidates.gangs else []

    @property
    def follow_refusals(self) -> bool:
        """Whether gangs may be refused and allowed again, and these openings still hold."""
        return not self._rows

    def _reorder(self) -> None:
        """Compare openings by the order in which queues lose tasks now."""
        places = self._candidates.places()
        if places == self._places or not self._by_row:
            self._places = places
            return
        mixed = self._candidates.mixed_rows()
        for row in mixed.keys() & self._by_row.keys():
            known = self._by_order.setdefault(row, {})
            known[_order(mixed[row], self._places)] = self._by_row[row]
            opening = known.get(_order(mixed[row], places))
            if opening is None or self._candidates.shortfalls.of(opening.units) != opening.alone.cost.shortfall:
                opening = self._open(row)
            if opening is not None:
                self._by_row[row] = opening
        self._places = places
        for row, opening in self._by_row.items():
            queue = self._candidates.place(opening.units, places)
            if queue != opening.alone.cost.queue:
                cost = opening.alone.cost._replace(queue=queue)
                self._by_row[row] = opening._replace(alone=opening.alone._replace(cost=cost))

    def _measure(self) -> None:
        """Compare openings by the shortfalls that they leave now."""
        if not self._rows:
            return
        shortfalls, above = self._candidates.shortfalls, self._candidates.shortfalls.above()
        if above == self._above:
            return
        self._above = above
        stale = {row for row, before in self._under.items() if before != above and row in self._by_row}
        stale |= {row for row, o in self._by_row.items() if shortfalls.of(o.units) != o.alone.cost.shortfall}
        self._look(stale)

    def _look(self, rows: set[int]) -> None:
        has_begun = bool(self._candidates.shortfalls.freed())
        for row in sorted(rows):
            self._by_order.pop(row, None)
            self._under.pop(row, None)
            if has_begun:
                self._under[row] = self._above
            opening = self._open(row)
            if opening is None:
                self._by_row.pop(row, None)
            else:
                self._by_row[row] = opening

    def _open(self, row: int) -> Opening | None:
        lack, opens = self._deficit(row), self._opens(row)
        if not lack and opens is None:
            return None
        tasks = self._candidates.here(row)
        singles, needs = self._singles(tasks, lack), tuple(lack.values())
        units = cover(needs, singles, opens)
        if units is None:
            units = cover(needs, [*singles, *self._wholes(tasks, lack, opens, singles)], opens)
        return None if units is None else self._opening(row, units)

    def _opens(self, row: int) -> Opens | None:
        """The question to counters that refuse the node now; `None` if none does."""
        if not self._limited or self._room_beside(row) > 0:
            return None
        return lambda units: self._room_beside(row, frozenset(t for unit in units for t in unit.tasks)) > 0

    def _room_beside(self, row: int, gone: frozenset[int] = frozenset()) -> int:
        """How many tasks a node takes by the counters, without some tasks."""
        if gone not in self._beside:
            tasks = np.array(sorted(gone), dtype=np.int64)
            self._beside[gone] = self._session.capacity.beside(self._view.shape, Mode.LATER, tasks)
        room = self._beside[gone]
        return MANY if room is None else room.item(row)

    def _deficit(self, row: int) -> dict[int, int]:
        """What the node lacks for one more task, by resource; empty if nothing."""
        return lack_of((dim, self._free[dim].item(row), self._wants[dim]) for dim in self._dims)

    def _gift(self, tasks: list[int], lack: dict[int, int]) -> Gift:
        requests = [self._requests[self._shape_of[t]] for t in tasks]
        return tuple(sum(request[dim] for request in requests) for dim in lack)

    def _singles(self, tasks: list[int], lack: dict[int, int]) -> list[tuple[Unit, Gift]]:
        """Surplus tasks here, cheapest first, at most the surplus of each job and role."""
        here = set(tasks)
        units = self._candidates.singles(tasks)
        return [(unit, self._gift([t for t in unit.tasks if t in here], lack)) for unit in units]

    def _wholes(
        self, tasks: list[int], lack: dict[int, int], opens: Opens | None, singles: list[tuple[Unit, Gift]]
    ) -> list[tuple[Unit, Gift]]:
        """Whole gangs with a member here: low priority first, then those that free most of what the surplus leaves."""
        spare = {t for unit, _ in singles for t in unit.tasks}
        still = {dim: n - sum(gift[i] for _, gift in singles) for i, (dim, n) in enumerate(lack.items())}
        still = {dim: n for dim, n in still.items() if n > 0}
        here: dict[int, list[int]] = {}
        for task in tasks:
            here.setdefault(int(self._session.snapshot.tasks.job[task]), []).append(task)
        found, ranks = [], {}
        for job, members in here.items():
            unit = self._candidates.whole(job)
            if unit is not None:
                found.append((unit, self._gift(members, lack)))
                gift = self._gift([t for t in members if t not in spare], still)
                helps = sum((Fraction(min(g, n), n) for g, n in zip(gift, still.values(), strict=True)), Fraction())
                helps += opens is not None and opens((unit,))
                ranks[job] = Rank(self._candidates.cost([unit], helps), ((self._session.job(job).key, 0),), job)
        return sorted(found, key=lambda of: ranks[of[0].job])

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
        more, wants = 0, [self._wants[d] for d in self._dims]
        for row, gift in freed.items():
            if self._view.open[row]:
                fits = how_many([self._free[d].item(row) + gift[d] for d in self._dims], wants)
                before = int(self._view.fits[row])
                if self._limited:
                    fits = min(fits, self._room_beside(row, frozenset(tasks)))
                    before = min(before, self._room_beside(row))
                more += fits - before
        return more


def _order(queues: tuple[int, ...], places: Places) -> tuple[int, ...]:
    """The order of some queues among themselves."""
    of = [places[queue] for queue in queues]
    ranked = sorted(set(of))
    return tuple(ranked.index(place) for place in of)


def cover(lack: Gift, units: list[tuple[Unit, Gift]], opens: Opens | None = None) -> tuple[Unit, ...] | None:
    """Units in order until they cover the lack, without unneeded ones (last first); `None` if they cannot."""
    taken: list[tuple[Unit, Gift]] = []
    for unit, gift in units:
        if _covers(lack, taken, opens):
            break
        if unit.whole or unit.shrinks:
            taken = [(u, g) for u, g in taken if u.job != unit.job]  # the new unit includes them
        elif unit.subgroup:
            taken = [(u, g) for u, g in taken if not set(u.tasks) <= set(unit.tasks)]
        taken.append((unit, gift))
    if not _covers(lack, taken, opens):
        return None
    for last in reversed(list(taken)):
        without = [t for t in taken if t is not last]
        if _covers(lack, without, opens):
            taken = without
    return tuple(unit for unit, _ in taken)


def _covers(lack: Gift, taken: list[tuple[Unit, Gift]], opens: Opens | None) -> bool:
    if not all(sum(gift[i] for _, gift in taken) >= n for i, n in enumerate(lack)):
        return False
    return opens is None or opens(unit for unit, _ in taken)
