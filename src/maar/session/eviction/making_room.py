"""Making room: evict as little as possible so that a job's whole missing minimum fits, or evict nothing.

Shared by preempt (inside a queue) and reclaim (between queues). The steps:

    1 proof      with every permitted victim gone, would it fit at all? If not, nothing is searched
    2 search     place what fits; open the cheapest node for the next task; again, until all is placed
    3 give back  in reverse, every unit without which the job still fits
    4 nominate   the freed room is promised to the job

All in one statement: a search that fails leaves no trace.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from maar.model.jobs import Job
from maar.model.plan import Cause
from maar.model.reasons import Reason
from maar.model.resources import Ints, Mask
from maar.model.tasks import Status
from maar.session.eviction.cost import Cost, Rank
from maar.session.eviction.openings import Openings
from maar.session.eviction.victims import Candidates, Unit
from maar.session.hooks import Claim
from maar.session.placement import Group, Terms, both, domains_of, groups_of, missing, place
from maar.session.session import Session

MOST_DOMAINS = 8
"""Domains of the network that one search tries, as Volcano's `maxDomains`."""

Why = Callable[[Unit], str]
"""The reason that a unit's tasks are evicted with."""


class Search:
    """One job's attempt to make room for itself."""

    def __init__(self, session: Session, claim: Claim, candidates: Candidates, why: Why) -> None:
        self._session = session
        self._claim = claim
        self._job: Job = claim.job
        self._candidates = candidates
        self._why = why
        self._gone: list[Unit] = []

    def run(self, groups: list[tuple[Group, int]]) -> bool:
        """Nominate so many tasks of each group, evicting what must go. False: nothing was done."""
        session = self._session
        with session.statement() as statement:
            session.state.soften()
            usable = session.open_to(self._job)
            places = [
                within
                for domain in domains_of(session, self._job)
                if shortfall(session, self._candidates, groups, within := both(usable, domain)) is None
            ][:MOST_DOMAINS]
            if len(places) > 1:
                costs = [self._try(groups, within, keep=False) for within in places]
                ranks = [Rank(cost, (), i) for i, cost in enumerate(costs) if cost is not None]
                places = [places[min(ranks).number]] if ranks else []
            if not places or self._try(groups, places[0], keep=True) is None:
                return False
            statement.commit()
            return True

    def _try(self, groups: list[tuple[Group, int]], within: Mask | None, keep: bool) -> Cost | None:
        """Make room on some nodes: what it costs, or nothing if it cannot be done."""
        session, terms = self._session, Terms(later=True, within=within)
        self._gone = []
        self._candidates.begin(self._claim)
        with session.statement() as statement:
            made = all(self._make(group, count, terms) for group, count in groups)
            if not made or not session.hooks.is_nominated(self._job):
                return None
            self._give_back(groups, terms)
            if keep:
                statement.commit()
            return self._candidates.cost(self._gone)

    def _make(self, group: Group, wanted: int, terms: Terms) -> bool:
        """Nominate `wanted` tasks of a group, opening nodes as needed."""
        session, placed = self._session, 0
        while True:
            left = group._replace(tasks=group.tasks[placed:])
            placed += place(session, self._job, left, wanted - placed, terms)
            if placed == wanted:
                return True
            if session.hooks.allowed(self._job, group.shape, 1) == 0 and self._has_room(group, terms):
                if not self._free_quota():
                    return False
                continue
            opening = self._openings(group, terms).cheapest(wanted - placed)
            if opening is None:
                return False
            for unit in opening.units:
                if not self._evict(unit):
                    break

    def _openings(self, group: Group, terms: Terms) -> Openings:
        """What nodes cost for this shape; remembered until a unit turns out not to be allowed to go."""
        asked = (group.shape, b"" if terms.within is None else terms.within.tobytes())
        known = self._candidates.openings.get(asked)
        if known is None:
            view = self._session.view(group.shape, later=True)
            known = Openings(self._session, self._candidates, view, self._promising(group, terms))
            if not self._session.limits(group.shape, True):
                self._candidates.openings[asked] = known
        return known

    def _has_room(self, group: Group, terms: Terms) -> bool:
        """Whether it is not for want of nodes that the group cannot have one more."""
        return bool(self._usable(self._session.view(group.shape, later=True).fits, group, terms).any())

    def _promising(self, group: Group, terms: Terms) -> Ints:
        """The nodes that would take one more with all candidates gone."""
        fits = room_at_best(self._session, self._candidates, group.shape)
        return np.flatnonzero(self._usable(fits, group, terms))

    def _usable(self, fits: Ints, group: Group, terms: Terms) -> Ints:
        for _, limit in self._session.limits(group.shape, True):
            fits = np.minimum(fits, limit.room)
        return fits if terms.within is None else fits * terms.within

    def _free_quota(self) -> bool:
        """Nodes have room, but the queue may have no more while its own jobs have it: its cheapest unit goes."""
        units = self._candidates.units()
        if self._claim.across_queues:
            # Taking from strangers frees no quota of ours; taking from queues under the same parent may.
            units = [unit for unit in units if self._is_kin(unit.job)]
        return any(self._evict(unit) for unit in units)

    def _is_kin(self, job: int) -> bool:
        """Whether its queue has a parent in common with the claimant's, below the root."""
        queues, of = self._session.snapshot.queues, self._session.snapshot.jobs.queue
        mine, theirs = queues.path[int(of[self._job.index])], queues.path[int(of[job])]
        return bool(set(mine[1:-1]) & set(theirs[1:-1]))

    def _evict(self, unit: Unit) -> bool:
        """Send a unit away, if all voters agree to exactly that now."""
        session = self._session
        here = unit._replace(tasks=tuple(t for t in unit.tasks if session.state.status[t] == int(Status.BOUND)))
        if not here.tasks or not self._candidates.agreed(here):
            return False
        cause = Cause.RECLAIMED if self._claim.across_queues else Cause.PREEMPTED
        for task in here.tasks:
            session.evict(task, self._job, self._why(here), cause)
        self._gone.append(here)
        return True

    def _give_back(self, groups: list[tuple[Group, int]], terms: Terms) -> None:
        """Spare, last first, every unit without which the job still fits; not the surplus of a gang that goes."""
        for unit in reversed(list(self._gone)):
            if not unit.whole and any(_goes_with(unit, other, self._session) for other in self._gone):
                continue
            with self._session.statement() as statement:
                for task in unit.tasks:
                    self._session.spare(task)
                if self._fits_again(groups, terms):
                    self._gone.remove(unit)
                    statement.commit()

    def _fits_again(self, groups: list[tuple[Group, int]], terms: Terms) -> bool:
        for group, _ in groups:
            for task in group.tasks.tolist():
                if self._session.state.status[task] == Status.NOMINATED:
                    self._session.state.withdraw(task)
        return all(place(self._session, self._job, group, count, terms) == count for group, count in groups)


def _goes_with(unit: Unit, other: Unit, session: Session) -> bool:
    """Whether a unit cannot stay while another of its job goes: its whole gang, or workers of lower indices."""
    if other is unit or other.job != unit.job:
        return False
    table = session.snapshot.tasks.tasks
    return other.whole or (other.shrinks and table[other.tasks[0]].index < table[unit.tasks[0]].index)


def needs_of(session: Session, job: Job) -> list[tuple[Group, int]]:
    """What a job lacks of its minimum: how many of each group, roles' minimums first. Without a minimum, one task."""
    lacking, roles = missing(session, job)
    lacking = max(lacking, 1)
    needs: list[tuple[Group, int]] = []
    groups = groups_of(session, job)
    counts = [0] * len(groups)
    for i, group in enumerate(groups):
        counts[i] = min(roles.get(group.role, 0), len(group.tasks))
        if group.role in roles:
            roles[group.role] -= counts[i]
    lacking -= sum(counts)
    for i, group in enumerate(groups):
        more = min(max(lacking, 0), len(group.tasks) - counts[i])
        lacking -= more
        if counts[i] + more:
            needs.append((group, counts[i] + more))
    return needs if lacking <= 0 else []


def room_at_best(session: Session, candidates: Candidates, shape: int) -> Ints:
    """How many of a shape each node would take with every candidate gone."""
    view = session.view(shape, later=True)
    extra = candidates.room()
    dims = np.flatnonzero(view.request).tolist()
    every = slice(None)
    fits = np.min([(view.free(every, d) + extra[:, d]) // view.request[d] for d in dims], axis=0)
    return np.asarray(np.maximum(fits, 0) * view.open)


def shortfall(
    session: Session, candidates: Candidates, groups: list[tuple[Group, int]], within: Mask | None
) -> tuple[int, int] | None:
    """The proof that it cannot be done: at best so many fit of so many wanted; `None` if there is no such proof."""
    for group, count in groups:
        fits = room_at_best(session, candidates, group.shape)
        room = int(fits.sum() if within is None else fits[within].sum())
        if room < count:
            return room, count
    return None


def make_room(
    session: Session, action: str, claim: Claim, candidates: Candidates, needs: list[tuple[Group, int]], why: Why
) -> bool:
    """Make room for what a job lacks of its minimum, or note why that cannot be done."""
    if len(candidates.tasks) and Search(session, claim, candidates, why).run(needs):
        session.clear_notes(claim.job)
        return True
    session.note(claim.job, _refusal(session, action, claim, candidates, needs))
    return False


def _refusal(
    session: Session, action: str, claim: Claim, candidates: Candidates, needs: list[tuple[Group, int]]
) -> Reason:
    """Why no room could be made."""
    verb = "reclaimed" if claim.across_queues else "preempted"
    since = session.waiting_since(claim.job)
    if len(candidates.left()) == 0:
        return Reason(action, "NoVictims", f"no running pod may be {verb} for it", since=since)
    short = shortfall(session, candidates, needs, session.open_to(claim.job))
    if short is None:
        what = f"what may be {verb} does not make room for all of it together"
        return Reason(action, "NotEnoughVictims", what, since=since)
    room, wanted = short
    what = f"with everything gone that may be {verb}, {room} of its {wanted} missing pods would fit"
    return Reason(action, "NotEnoughVictims", what, needs=wanted, has=room, since=since)
