"""Making room: evict as little as possible so that the whole missing minimum of a job fits, or evict nothing.

Preempt (inside a queue) and reclaim (between queues) share it. The steps:

    1 proof      does the job fit with every permitted victim gone? If not, nothing is searched
    2 search     place what fits, open the cheapest node for the next task, and repeat until all tasks are placed
    3 give back  in reverse order, spare every unit without which the job still fits
    4 nominate   nominate the freed room for the job

All steps are in one statement, so a failed search changes nothing.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import islice

import numpy as np

from maar.model.fitting import Mode, count_columns
from maar.model.jobs import Job
from maar.model.minimum import Gap, Lack, spread
from maar.model.plan import Cause
from maar.model.reasons import UNREAD, Reason
from maar.model.resources import Ints, Mask
from maar.model.tasks import Status
from maar.model.words import count as counted
from maar.model.words import number
from maar.session.eviction.cost import Cost, Rank
from maar.session.eviction.openings import Openings
from maar.session.eviction.units import Unit
from maar.session.eviction.victims import Candidates, Votes
from maar.session.gangs import missing
from maar.session.hooks import Claim
from maar.session.placement import (
    Group,
    Terms,
    both,
    domains_of,
    domains_of_part,
    groups_of,
    place_exactly,
    place_tasks,
)
from maar.session.session import Session
from maar.session.subgroups import Assembly, Part, bundles

MOST_DOMAINS = 8
"""How many network domains one search tries; the default of Volcano's `maxDomains`."""

MOST_TRIES = 64
"""How many domains of subgroups one attempt tries, over all subgroups of the job; tuned by hand."""

MOST_WORK = 5_000
"""How often one search is done again to leave a queue less far below its share, times the number of possible victims.
Tuned by hand: with up to ten victims nearly all choices are compared, with thousands a few."""

FREE = Cost(evicts=False)
"""Stands for the cost of an attempt that failed."""

Why = Callable[[Unit], str]
"""The reason text for the eviction of a unit."""


class RoomSearch:
    """The attempt of one job to make room."""

    def __init__(self, session: Session, claim: Claim, candidates: Candidates, why: Why) -> None:
        self._session = session
        self._claim = claim
        self._job: Job = claim.job
        self._candidates = candidates
        self._why = why
        self._gone: list[Unit] = []

    def run(self, groups: list[tuple[Group, int]]) -> bool:
        """Nominate the given number of tasks of each group, with evictions as needed. On False nothing changed."""
        session = self._session
        with session.statement() as statement:
            session.state.soften()
            usable, domains = session.open_to(self._job), domains_of(session, self._job)
            places = self._possible(groups, usable, domains)[:MOST_DOMAINS]
            places = self._cheapest(places, lambda within: self._cost(self._try(groups, within, keep=False)))
            if not places or self._try(groups, places[0], keep=True) is None:
                return False
            statement.commit()
            return True

    def _possible(
        self, groups: list[tuple[Group, int]], usable: Mask | None, domains: Iterable[Mask | None]
    ) -> list[Mask | None]:
        """The usable nodes of each domain, without the domains that provably have no room."""
        places = (both(usable, domain) for domain in domains)
        return [within for within in places if shortfall(self._candidates, groups, within) is None]

    def _cheapest(self, places: list[Mask | None], attempt: Callable[[Mask | None], Cost | None]) -> list[Mask | None]:
        """The place with the least cost; an attempt says what it costs, or `None` if it fails."""
        costs = [attempt(within) for within in places] if len(places) > 1 else []
        ranks = [Rank(cost, (), i) for i, cost in enumerate(costs) if cost is not None]
        return places if len(places) < 2 else [places[min(ranks).number]] if ranks else []

    def _cost(self, gone: list[Unit] | None) -> Cost | None:
        return None if gone is None else self._candidates.cost(gone)

    def _try(self, groups: list[tuple[Group, int]], within: Mask | None, keep: bool) -> list[Unit] | None:
        """Make room on some nodes: what leaves, or `None` if it is impossible."""
        with self._session.statement() as statement:
            gone = self._attempt(groups, within, keep=True)
            found = list(self._gone)
            if gone is not None and not self._candidates.shortfalls.of(gone):
                if keep:
                    statement.commit()
                return gone
        if gone is None and not self._candidates.is_outvoted:
            return None
        without = self._better(groups, within, gone, found)
        if without is None:
            return None
        return self._attempt(groups, within, keep, without) if keep or without else gone

    def _better(
        self, groups: list[tuple[Group, int]], within: Mask | None, gone: list[Unit] | None, found: list[Unit]
    ) -> frozenset[Unit] | None:
        """The units to spare so that the claim costs least, if an attempt failed or leaves a queue below its share.

        `None` if no attempt succeeds. Any other choice spares one of the units that an attempt found before it ended,
        or before it could not go on because a queue had no more than its share. So it is tried again without each of
        them, the cheapest choice first, within a limit.
        """
        shortfalls, lacks = self._candidates.shortfalls, self._lacks(groups, within)
        best = None if gone is None else self._candidates.cost(gone)
        least = None if gone is None else frozenset[Unit]()
        if best is None and not shortfalls.can_free(lacks):
            return None
        enough, tries = shortfalls.least(lacks), MOST_WORK // len(self._candidates.tasks)
        known, waiting = {frozenset[Unit]()}, [(best is None, best or FREE, 0, frozenset[Unit](), found)]
        while waiting and (best is None or best.shortfall > enough):
            *_, spared, found = heapq.heappop(waiting)
            for without in (spared | {unit} for unit in found):
                if len(known) > tries:
                    return least
                if without in known:
                    continue
                known.add(without)
                other = self._attempt(groups, within, keep=False, without=without)
                cost = None if other is None else self._candidates.cost(other)
                heapq.heappush(waiting, (cost is None, cost or FREE, len(known), without, list(self._gone)))
                if cost is not None and (best is None or cost < best):
                    best, least = cost, without
        return least

    def _lacks(self, groups: list[tuple[Group, int]], within: Mask | None) -> list[int]:
        """How much of each resource others must free, at least."""
        (group, wanted), axes = groups[0], self._session.snapshot.axes
        view = self._session.view(group.shape, later=True)
        there = view.open if within is None else view.open & within
        lacking = wanted - int(self._session.capacity.fits(group.shape, Mode.LATER)[there].sum())
        lacks = [0] * len(axes)
        for dim in np.flatnonzero(view.request).tolist() if lacking > 0 else ():
            request = int(view.request[dim])
            # A node may lack less than a task requests: the rest of what is free there.
            rest = int((np.maximum(view.free(there.nonzero()[0], dim), 0) % request).max(initial=0))
            lacks[dim] = lacking * (request - rest)
        return lacks

    def _attempt(
        self, groups: list[tuple[Group, int]], within: Mask | None, keep: bool, without: frozenset[Unit] = frozenset()
    ) -> list[Unit] | None:
        session, terms = self._session, Terms(later=True, within=within, anywhere=not keep and self._is_counted(groups))
        self._gone = []
        self._candidates.begin(self._claim, without)
        if len(groups) > 1:
            # Openings for a later group were made while earlier groups of another search were nominated.
            self._candidates.openings.clear()
        with session.statement() as statement:
            parts = list(bundles(groups))
            tries = min(max(MOST_TRIES // len(parts), 1), MOST_DOMAINS)
            made = all(self._make_part(part, terms, tries) for part in parts)
            if not made or not session.hooks.is_nominated(self._job):
                return None
            self._give_back(groups, terms)
            if keep:
                statement.commit()
            return self._gone

    def _is_counted(self, groups: list[tuple[Group, int]]) -> bool:
        """Whether an attempt depends only on how many tasks fit, not on where they are placed."""
        if len(groups) > 1 or self._job.is_elastic or self._job.closeness is not None or self._job.subgroups:
            return False
        hooks, capacity = self._session.hooks, self._session.capacity
        return not hooks.shared_rooms and not capacity.limits(groups[0][0].shape, Mode.LATER)

    def _make_part(self, part: Part, terms: Terms, tries: int) -> bool:
        """Nominate a part, in the domain of its subgroup where that costs least."""
        domains = list(domains_of_part(self._session, self._job, part, terms.within))
        if domains and domains[0] is None:
            return all(self._make(group, count, terms) for group, count in part.needs)
        needs, before = list(part.needs), list(self._gone)

        def make(within: Mask | None) -> bool:
            self._candidates.openings.clear()
            return all(self._make(group, count, terms._replace(within=within)) for group, count in needs)

        def attempt(within: Mask | None) -> Cost | None:
            with self._session.statement():  # not committed
                cost = self._cost(self._gone if make(within) else None)
            self._gone = list(before)
            return cost

        places = self._cheapest(self._possible(needs, terms.within, domains)[:tries], attempt)
        return bool(places) and make(places[0])

    def _make(self, group: Group, wanted: int, terms: Terms) -> bool:
        """Nominate `wanted` tasks of a group, and open nodes as needed."""
        session, placed = self._session, 0
        while True:
            left = group._replace(tasks=group.tasks[placed:])
            placed += place_tasks(session, self._job, left, wanted - placed, terms)
            if placed == wanted:
                return True
            if session.hooks.allowed(self._job, group.shape, 1) == 0 and self._has_room(group, terms):
                if not self._free_quota(group, wanted - placed):
                    return False
                continue
            openings = self._openings(group, terms)
            units = openings.units(wanted - placed)
            if not units:
                return False
            for unit in units:
                if not self._evict(unit, openings):
                    break

    def _openings(self, group: Group, terms: Terms) -> Openings:
        """The cheapest openings for this shape, cached until a vote refuses a unit."""
        asked = (group.shape, b"" if terms.within is None else terms.within.tobytes())
        known = self._candidates.openings.get(asked)
        if known is None:
            view = self._session.view(group.shape, later=True)
            rows = self._promising(group, terms)
            known = Openings(self._session, self._candidates, view, rows, is_first=not self._gone)
            limits = self._session.capacity.limits(group.shape, Mode.LATER)
            if all(limit.local for _, limit in limits) and not self._session.hooks.shared_rooms:
                self._candidates.openings[asked] = known
        return known

    def _has_room(self, group: Group, terms: Terms) -> bool:
        """Whether nodes have room for one more task of the group, so that only the queue refuses it."""
        return bool(self._session.capacity.room(self._job, group.shape, Mode.LATER, terms.within).any())

    def _promising(self, group: Group, terms: Terms) -> Ints:
        """The nodes that would take one more task with all candidates gone."""
        gone = self._candidates.left()
        return np.flatnonzero(self._session.capacity.after(self._job, group.shape, gone, terms.within))

    def _free_quota(self, group: Group, wanted: int) -> bool:
        """Evict the cheapest units because nodes have room and only the queue's own limit stops the job.

        False if that cannot help: `wanted` tasks are left.
        """
        candidates, hooks = self._candidates, self._session.hooks
        if self._claim.across_queues:
            return any(self._evict(unit) for unit in candidates.units_of_kin())
        # Nodes keep room, and the other units their order, whatever leaves: then one pass is enough.
        limits = self._session.capacity.limits(group.shape, Mode.LATER)
        is_steady = not (candidates.gangs.others or limits or hooks.shared_rooms)
        if is_steady and hooks.agree_alone(across_queues=False):
            return self._free_quota_at_once(group, wanted)
        evicted = (unit for unit in candidates.in_turn() if self._evict(unit))
        return any(not is_steady or hooks.allowed(self._job, group.shape, 1) for _ in evicted)

    def _free_quota_at_once(self, group: Group, wanted: int) -> bool:
        """The same where all units may leave, in an order that does not change: as many as let one more task in."""
        if self._allowed_without(self._candidates.left().tolist(), group, wanted) < wanted:
            return False
        turn, units, too_few = self._candidates.in_turn(), list[Unit](), 0

        def suffice(count: int) -> bool:
            return self._allowed_without([t for unit in units[:count] for t in unit.tasks], group, 1) > 0

        while not units or not suffice(len(units)):
            too_few = len(units)
            units.extend(islice(turn, max(too_few, 1)))
            if len(units) == too_few:
                return False
        fewest = too_few + 1 + bisect_left(range(too_few + 1, len(units)), True, key=suffice)
        for unit in units[:fewest]:
            self._send(unit)
        return True

    def _allowed_without(self, tasks: list[int], group: Group, wanted: int) -> int:
        """How many tasks the queue allows without others."""
        session = self._session
        with session.statement():  # not committed
            session.state.evict(*tasks)
            return session.hooks.allowed(self._job, group.shape, wanted)

    def _evict(self, unit: Unit, openings: Openings | None = None) -> bool:
        """Evict a unit, if all plugins agree to exactly this unit now. Gangs like it are refused with it."""
        session = self._session
        here = unit._replace(tasks=tuple(t for t in unit.tasks if session.state.status[t] == int(Status.BOUND)))
        if not here.tasks:
            return False
        if self._candidates.agreed(here):
            self._send(here)
            return True
        alike = openings.alike(here.job) if openings and here.whole and self._claim.across_queues else []
        smallest = self._candidates.whole(alike[0]) if alike else None
        if smallest is not None and self._is_refused_by_kind(smallest):
            self._candidates.refuse(here, alike)
            return False
        if self._goes_before(here):
            return True
        self._candidates.refuse(here)
        return False

    def _is_refused_by_kind(self, gang: Unit) -> bool:
        """Whether those voters refuse a gang that then refuse all gangs with as many or more of the same pods."""
        votes, before = self._session.hooks.victims_by_kind, list(self._gone)
        with self._session.statement():  # not committed
            refused = not self._candidates.agreed(gang, votes) and not self._goes_before(gang, votes)
        self._gone = before
        return refused

    def _send(self, unit: Unit) -> None:
        cause = Cause.RECLAIMED if self._claim.across_queues else Cause.PREEMPTED
        self._session.evict(unit.tasks, self._job, self._why(unit), cause)
        self._gone.append(unit)

    def _goes_before(self, unit: Unit, votes: Votes | None = None) -> bool:
        """Evict a unit before the largest one that left, if its queue can lose both only in this order."""
        shortfalls = self._candidates.shortfalls
        largest = max(self._gone, key=lambda gone: (shortfalls.size(gone, unit), gone.tasks), default=None)
        if largest is None or largest.job == unit.job or not shortfalls.size(largest, unit):
            return False
        before = list(self._gone)
        with self._session.statement() as statement:
            self._session.spare(largest.tasks)
            self._gone.remove(largest)
            if self._candidates.agreed(unit, votes):
                self._send(unit)
                if self._candidates.agreed(largest, votes):
                    self._send(largest)
                    statement.commit()
                    return True
        self._gone = before
        return False

    def _give_back(self, groups: list[tuple[Group, int]], terms: Terms) -> None:
        """Spare, last first, every unit without which the job still fits; not surplus of a gang that leaves whole."""
        gone = self._gone[::-1]
        may_stay = self._may_stay(groups, terms, gone)
        for place, unit in enumerate(gone):
            if not may_stay.item(place):
                continue
            if not unit.whole and any(_goes_with(unit, other, self._session) for other in self._gone):
                continue
            with self._session.statement() as statement:
                self._session.spare(unit.tasks)
                if self._fits_again(groups, terms):
                    self._gone.remove(unit)
                    statement.commit()
                    may_stay = self._may_stay(groups, terms, gone)

    def _may_stay(self, groups: list[tuple[Group, int]], terms: Terms, units: list[Unit]) -> Mask:
        """Which units might stay, by the resources of nodes alone."""
        nominated = self._nominated(groups)
        rooms = (BestRoom(self._session, group.shape, nominated, terms.within).without(units) for group, _ in groups)
        enough = [room >= count for room, (_, count) in zip(rooms, groups, strict=True)]
        return np.asarray(np.logical_and.reduce(enough))

    def _nominated(self, groups: list[tuple[Group, int]]) -> Ints:
        tasks = np.concatenate([group.tasks for group, _ in groups])
        return np.asarray(tasks[self._session.state.status[tasks] == int(Status.NOMINATED)])

    def _fits_again(self, groups: list[tuple[Group, int]], terms: Terms) -> bool:
        self._session.state.withdraw(*self._nominated(groups).tolist())
        return place_exactly(self._session, self._job, groups, terms)


class BestRoom:
    """How many tasks of a shape fit at best if nominations are withdrawn and a unit less leaves: by resources."""

    def __init__(self, session: Session, shape: int, nominated: Ints, within: Mask | None) -> None:
        self._session = session
        self._view = session.view(shape, later=True)
        self._given = session.capacity.of(nominated)
        fits = session.capacity.fits(shape, Mode.LATER, nominated)
        self._fits: Ints = fits if within is None else fits * within
        self._total = int(self._fits.sum())

    def without(self, units: list[Unit]) -> Ints:
        """How many fit if one of the units stays."""
        snapshot, nodes = self._session.snapshot, len(self._fits)
        tasks = np.array([task for unit in units for task in unit.tasks], dtype=np.int64)
        of_unit = np.repeat(np.arange(len(units)), [len(unit.tasks) for unit in units])
        places, of_task = np.unique(of_unit * nodes + self._session.state.node[tasks], return_inverse=True)
        unit, rows = np.divmod(places, max(nodes, 1))
        room = self._given[rows]
        np.subtract.at(room, of_task.reshape(-1), snapshot.shapes.requests[snapshot.tasks.shape[tasks]])
        columns = ((self._view.free(rows, d) + room[:, d], self._view.request.item(d)) for d in self._view.dims)
        less = np.maximum(self._fits[rows] - count_columns(len(rows), columns), 0)
        return np.asarray(self._total - np.bincount(unit, less, len(units)).astype(np.int64))


def _goes_with(unit: Unit, other: Unit, session: Session) -> bool:
    """Whether a unit must leave with another of its job: its whole gang or subgroup, or workers with lower indices."""
    if other is unit or other.job != unit.job:
        return False
    table = session.snapshot.tasks.tasks
    if other.subgroup and table[other.tasks[0]].subgroup == table[unit.tasks[0]].subgroup:
        return True
    return other.whole or (other.shrinks and table[other.tasks[0]].index < table[unit.tasks[0]].index)


def needs_of(session: Session, job: Job, claims: bool = False) -> list[tuple[Group, int]]:
    """The missing minimum of a job: how many tasks of each group, role minimums first. Without a minimum, one task.

    With `claims` only of tasks for which others may be evicted; empty if they do not complete the gang.
    """
    groups, table = groups_of(session, job), session.snapshot.tasks
    if claims and not table.all_preempt:
        groups = [group._replace(tasks=group.tasks[table.preempts[group.tasks]]) for group in groups]
    lack = missing(session, job)
    if job.subgroups:
        return _needs_of_parts(session, job, [group for group in groups if len(group.tasks)], lack)
    gap = Gap(max(lack.total, 1), lack.roles)
    counts = spread(gap, [group.role for group in groups], [len(group.tasks) for group in groups])
    complete = gap.is_filled if claims else gap.pods <= 0
    return [(group, count) for group, count in zip(groups, counts, strict=True) if count] if complete else []


def _needs_of_parts(session: Session, job: Job, groups: list[Group], lack: Lack[int]) -> list[tuple[Group, int]]:
    """The same for a job with subgroups: tasks of one subgroup are next to each other."""
    needs: list[tuple[Group, int]] = []

    def put(part: Part) -> int:
        needs.extend(part.needs)
        return part.size

    assembly = Assembly(session, job, groups, put)
    if lack.total:
        return needs if assembly.complete(lack) else []
    part = assembly.first(lambda _: True)
    return [] if part is None else list(part.needs)


def shortfall(candidates: Candidates, groups: list[tuple[Group, int]], within: Mask | None) -> tuple[int, int] | None:
    """The proof that there is no room: how many tasks fit at best, and how many are wanted; `None` without a proof."""
    for group, count in groups:
        fits = candidates.room(group.shape)
        room = int(fits.sum() if within is None else fits[within].sum())
        if room < count:
            return room, count
    return None


def refusal(
    session: Session, action: str, claim: Claim, candidates: Candidates, needs: list[tuple[Group, int]]
) -> Reason:
    """Why a search found no room."""
    if not session.snapshot.is_read:
        return UNREAD
    verb = "reclaimed" if claim.across_queues else "preempted"
    lasting = f"evicting all pods that may be {verb} does not make enough room"
    if len(candidates.left()) == 0:
        return Reason(action, "NoVictims", f"no running pod may be {verb} for it")
    short = shortfall(candidates, needs, session.open_to(claim.job))
    kept = candidates.within_share() if claim.across_queues and short is None else None
    if kept is not None:
        what = f"the minimum of gang `{kept.key}` is within what its queue `{kept.queue}` deserves or is guaranteed"
        lasting = "the gangs in its way are within what their queues deserve or are guaranteed"
        never = "gangs are never reclaimed in part"
        return Reason(action, "NotEnoughVictims", f"{what}, and {never}", lasting=f"{lasting}, and {never}")
    if short is None:
        what = f"evicting all pods that may be {verb} does not make room for all its missing pods together"
        return Reason(action, "NotEnoughVictims", what, lasting=lasting)
    room, wanted = short
    pods = f"{number(room)} of its {counted(wanted, 'missing pod')}"
    what = f"if all pods that may be {verb} were gone, only {pods} would fit"
    return Reason(action, "NotEnoughVictims", what, needs=wanted, has=room, lasting=lasting)
