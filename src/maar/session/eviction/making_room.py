"""Making room: evict as little as possible so that the whole missing minimum of a job fits, or evict nothing.

Preempt (inside a queue) and reclaim (between queues) share it. The steps:

    1 proof      does the job fit with every permitted victim gone? If not, nothing is searched
    2 search     place what fits, open the cheapest node for the next task, and repeat until all tasks are placed
    3 give back  in reverse order, spare every unit without which the job still fits
    4 nominate   promise the freed room to the job

All steps are in one statement, so a failed search changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from maar.model.jobs import Job
from maar.model.plan import Cause
from maar.model.reasons import Reason
from maar.model.resources import Ints, Mask
from maar.model.tasks import Status
from maar.model.words import count as counted
from maar.model.words import number
from maar.session.eviction.cost import Rank
from maar.session.eviction.neighbours import Neighbours
from maar.session.eviction.openings import Openings
from maar.session.eviction.victims import Candidates, Unit
from maar.session.hooks import Claim, Limit
from maar.session.placement import (
    Group,
    Terms,
    both,
    capped,
    domains_of,
    domains_of_part,
    groups_of,
    lack_of,
    lay,
    missing,
    place,
)
from maar.session.session import Session
from maar.session.subgroups import Assembly, Part, bundles

MOST_DOMAINS = 8
"""How many network domains one search tries; the default of Volcano's `maxDomains`."""

MOST_TRIES = 64
"""How many domains of subgroups one attempt tries, over all subgroups of the job; tuned by hand."""

Why = Callable[[Unit], str]
"""The reason text for the eviction of a unit."""


class Search:
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
            usable = session.open_to(self._job)
            places = [
                within
                for domain in domains_of(session, self._job)
                if shortfall(session, self._candidates, groups, within := both(usable, domain)) is None
            ][:MOST_DOMAINS]
            if len(places) > 1:
                made = [self._try(groups, within, keep=False) for within in places]
                ranks = [Rank(self._candidates.cost(gone), (), i) for i, gone in enumerate(made) if gone is not None]
                places = [places[min(ranks).number]] if ranks else []
            if not places or self._try(groups, places[0], keep=True) is None:
                return False
            statement.commit()
            return True

    def _try(self, groups: list[tuple[Group, int]], within: Mask | None, keep: bool) -> list[Unit] | None:
        """Make room on some nodes: what leaves, or `None` if it is impossible."""
        session, terms = self._session, Terms(later=True, within=within)
        self._gone = []
        self._candidates.begin(self._claim)
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

    def _make_part(self, part: Part, terms: Terms, tries: int) -> bool:
        """Nominate a part, in the domain of its subgroup where that costs least."""
        domains = list(domains_of_part(self._session, self._job, part, terms.within))
        if domains and domains[0] is None:
            return all(self._make(group, count, terms) for group, count in part.needs)
        needs, before = list(part.needs), list(self._gone)
        places = [
            terms._replace(within=within)
            for domain in domains
            if shortfall(self._session, self._candidates, needs, within := both(terms.within, domain)) is None
        ][:tries]
        ranks: list[Rank] = []
        for i, inside in enumerate(places if len(places) > 1 else ()):
            with self._session.statement():  # not committed
                if self._make_inside(needs, inside):
                    ranks.append(Rank(self._candidates.cost(self._gone), (), i))
            self._gone = list(before)
        if len(places) > 1:
            places = [places[min(ranks).number]] if ranks else []
        return bool(places) and self._make_inside(needs, places[0])

    def _make_inside(self, needs: list[tuple[Group, int]], terms: Terms) -> bool:
        self._candidates.openings.clear()
        return all(self._make(group, count, terms) for group, count in needs)

    def _make(self, group: Group, wanted: int, terms: Terms) -> bool:
        """Nominate `wanted` tasks of a group, and open nodes as needed."""
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
        """The cheapest openings for this shape, cached until a vote refuses a unit."""
        asked = (group.shape, b"" if terms.within is None else terms.within.tobytes())
        known = self._candidates.openings.get(asked)
        if known is None:
            limits = [limit for _, limit in self._session.limits(group.shape, True)]
            blocked = any(limit.obstacles for limit in limits)
            neighbours = Neighbours(self._session, self._candidates, limits) if blocked else None
            rows = self._promising(group, terms, [neighbours] if neighbours else limits)
            view = self._session.view(group.shape, later=True)
            known = Openings(self._session, self._candidates, view, rows, neighbours)
            if not limits and not self._session.hooks.shared_rooms:
                self._candidates.openings[asked] = known
        return known

    def _has_room(self, group: Group, terms: Terms) -> bool:
        """Whether nodes have room for one more task of the group, so that only the queue refuses it."""
        fits = self._session.view(group.shape, later=True).fits
        fits = capped(fits, self._session.shared_rooms(self._job, group.shape))
        return bool(_usable(fits, [limit for _, limit in self._session.limits(group.shape, True)], terms).any())

    def _promising(self, group: Group, terms: Terms, limits: Sequence[Limit | Neighbours]) -> Ints:
        """The nodes that would take one more task with all candidates gone."""
        fits = room_at_best(self._session, self._candidates, group.shape)
        fits = capped(fits, self._session.shared_rooms(self._job, group.shape))
        return np.flatnonzero(_usable(fits, limits, terms))

    def _free_quota(self) -> bool:
        """Evict the cheapest unit because nodes have room and only the queue's own limit stops the job."""
        units = self._candidates.units()
        if self._claim.across_queues:
            # Evictions in another queue free no quota of this queue, except under a common parent.
            units = [unit for unit in units if self._is_kin(unit.job)]
        return any(self._evict(unit) for unit in units)

    def _is_kin(self, job: int) -> bool:
        """Whether the queue of a job shares a parent with the claimant's queue, below the root."""
        queues, queue_of_job = self._session.snapshot.queues, self._session.snapshot.jobs.queue
        mine, theirs = queues.path[int(queue_of_job[self._job.index])], queues.path[int(queue_of_job[job])]
        return bool(set(mine[1:-1]) & set(theirs[1:-1]))

    def _evict(self, unit: Unit) -> bool:
        """Evict a unit, if all plugins agree to exactly this unit now."""
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
        """Spare, last first, every unit without which the job still fits; not surplus of a gang that leaves whole."""
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
        return lay(self._session, self._job, groups, terms)


def _usable(fits: Ints, limits: Iterable[Limit | Neighbours], terms: Terms) -> Ints:
    """How many tasks the nodes take of those that fit, under limits by placed pods."""
    for limit in limits:
        fits = np.minimum(fits, limit.room)
    return fits if terms.within is None else fits * terms.within


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
    lacking, roles = missing(session, job)
    lacking = max(lacking, 1)
    needs: list[tuple[Group, int]] = []
    groups, table = groups_of(session, job), session.snapshot.tasks
    if claims and not table.all_preempt:
        groups = [group._replace(tasks=group.tasks[table.preempts[group.tasks]]) for group in groups]
    if job.subgroups:
        return _needs_of_parts(session, job, [group for group in groups if len(group.tasks)])
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
    complete = lacking <= 0 and not (claims and any(left > 0 for left in roles.values()))
    return needs if complete else []


def _needs_of_parts(session: Session, job: Job, groups: list[Group]) -> list[tuple[Group, int]]:
    """The same for a job with subgroups: tasks of one subgroup are next to each other."""
    needs: list[tuple[Group, int]] = []

    def put(part: Part) -> int:
        needs.extend(part.needs)
        return part.size

    assembly = Assembly(session, job, groups, put)
    if missing(session, job)[0]:
        return needs if assembly.complete(lack_of(session, job)) else []
    part = assembly.first(lambda _: True)
    return [] if part is None else list(part.needs)


def room_at_best(session: Session, candidates: Candidates, shape: int) -> Ints:
    """How many tasks of a shape each node would take with every candidate gone."""
    view = session.view(shape, later=True)
    extra = candidates.room()
    dims = np.flatnonzero(view.request).tolist()
    every = slice(None)
    fits = np.min([(view.free(every, d) + extra[:, d]) // view.request[d] for d in dims], axis=0)
    return np.asarray(np.maximum(fits, 0) * view.open)


def shortfall(
    session: Session, candidates: Candidates, groups: list[tuple[Group, int]], within: Mask | None
) -> tuple[int, int] | None:
    """The proof that there is no room: how many tasks fit at best, and how many are wanted; `None` without a proof."""
    for group, count in groups:
        fits = room_at_best(session, candidates, group.shape)
        room = int(fits.sum() if within is None else fits[within].sum())
        if room < count:
            return room, count
    return None


def make_room(
    session: Session, action: str, claim: Claim, candidates: Candidates, needs: list[tuple[Group, int]], why: Why
) -> bool:
    """Make room for the missing minimum of a job, or note why this is impossible."""
    if len(candidates.tasks) and Search(session, claim, candidates, why).run(needs):
        session.clear_notes(claim.job)
        return True
    session.note(claim.job, _refusal(session, action, claim, candidates, needs))
    return False


def _refusal(
    session: Session, action: str, claim: Claim, candidates: Candidates, needs: list[tuple[Group, int]]
) -> Reason:
    verb = "reclaimed" if claim.across_queues else "preempted"
    since = session.waiting_since(claim.job)
    lasting = f"evicting all pods that may be {verb} does not make enough room"
    if len(candidates.left()) == 0:
        return Reason(action, "NoVictims", f"no running pod may be {verb} for it", since=since)
    short = shortfall(session, candidates, needs, session.open_to(claim.job))
    too_large = candidates.too_large() if claim.across_queues and short is None else None
    if too_large is not None:
        what = f"gang `{too_large.key}` is larger than what its queue `{too_large.queue}` has above its share"
        lasting = "the gangs in its way are larger than what their queues have above their shares"
        never = "gangs are never reclaimed in part"
        return Reason(
            action, "NotEnoughVictims", f"{what}, and {never}", since=since, lasting=f"{lasting}, and {never}"
        )
    if short is None:
        what = f"evicting all pods that may be {verb} does not make room for all its missing pods together"
        return Reason(action, "NotEnoughVictims", what, since=since, lasting=lasting)
    room, wanted = short
    pods = f"{number(room)} of its {counted(wanted, 'missing pod')}"
    what = f"if all pods that may be {verb} were gone, only {pods} would fit"
    return Reason(action, "NotEnoughVictims", what, needs=wanted, has=room, since=since, lasting=lasting)
