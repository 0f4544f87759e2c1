"""topology: a gang runs within one network domain, such as a rack or a block.

A gang may declare how close its pods must be: within one value of a node label, or within one HyperNode up to a tier.
This plugin gives the order in which domains are tried. The closest tier comes first. Within a tier, domains are chosen
from the top level down: those in the largest domain with the fewest free slots, then in the next smaller one, and at
last the domain itself with the fewest sufficient slots, so that large domains stay whole on every level; then domains
that lack least, for gangs that may evict others. If closeness is only preferred (soft), the last choice is any node.
Above the highest tier of HyperNodes the whole cluster counts as one more tier. Running pods keep a hard gang in its
domain, including its later pods. The same holds for each subgroup of a gang, inside the domain of the gang.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from maar.model.codes import INVALID, NODES, Code
from maar.model.fitting import Mode
from maar.model.jobs import Closeness, Job
from maar.model.reasons import Reason, Refusal
from maar.model.resources import Ints, Mask
from maar.model.tasks import Status
from maar.plugins.support.tiers import Tier, by_hypernodes, by_label, whole_cluster
from maar.session.gangs import missing
from maar.session.placement import Group, groups_of
from maar.session.register import Register
from maar.session.session import Session
from maar.session.subgroups import Part, subgroups_of

NAME = "topology"

NO_DOMAIN = Code("NoDomain", INVALID)
APART = Code("NotWithinOneDomain", INVALID)
ELSEWHERE = Code("OtherDomain", NODES)
NO_NODE = Code("NoNodeInDomain", NODES)
CODES = (NO_DOMAIN, APART, ELSEWHERE, NO_NODE)


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The argument of Volcano's network-topology-aware that has an effect here; the others tune scores."""

    most_crowded: int = msgspec.field(name="hypernode.gradient.evict.max-hypernodes", default=8)
    """How many domains of a tier without enough free room are tried, in case evictions can make room there."""


class Topology:
    def __init__(self, arguments: Arguments) -> None:
        self._most_crowded = max(arguments.most_crowded, 1)
        self._tiers: dict[tuple[str, int | None, str, bool], list[Tier]] = {}
        self._hypernodes: list[Tier] | None = None

    def open(self, session: Session, on: Register) -> None:
        """Register the hooks; domains are computed only when a gang needs them."""
        self._session = session
        on.domains(self._domains)
        on.subgroup_domains(self._domains_of_part)
        if on.flags.get("hyperNodeGradient", True):
            on.job_valid(self._valid)
            on.job_nodes(self._elsewhere)

    def _domains(self, job: Job) -> list[list[Mask]] | None:
        if job.closeness is None:
            return None
        lack = missing(self._session, job)
        need = Need(self._session, lack.total, lack.roles, merged(groups_of(self._session, job)), self._empty)
        here = self._session.on_nodes(self._session.tasks_of(job, Status.BOUND, Status.NOMINATED))
        return self._choices(job.closeness, need, here)

    def _domains_of_part(self, job: Job, part: Part, within: Mask | None) -> list[list[Mask]] | None:
        book = subgroups_of(self._session, job)
        closeness = book.closeness(part.subgroup)
        if closeness is None:
            return None
        groups = [group._replace(tasks=group.tasks[:count]) for group, count in part.needs]
        need = Need(self._session, part.size if part.whole else 1, {}, groups, self._empty, within)
        here = self._session.on_nodes(book.tasks(part.subgroup, Status.BOUND, Status.NOMINATED))
        return self._choices(closeness, need, here)

    def _choices(self, closeness: Closeness, need: Need, here: Ints) -> list[list[Mask]]:
        """The domains to try, the closest first."""
        found = [
            [tier.mask(i) for i in choose(tier, need, here, closeness.hard, self._most_crowded, self._above(tier))]
            for tier in self._tiers_of(closeness)
        ]
        found = [masks for masks in found if masks]
        if not closeness.hard:
            return [*found, [np.ones(len(self._session.snapshot.nodes), dtype=np.bool_)]]
        return found or self._roomiest(closeness, need, here)

    def _above(self, tier: Tier) -> list[Tier]:
        """The tiers of HyperNodes above one of them, the highest first."""
        known = self._hypernodes or []
        return [other for other in reversed(known) if other.number > tier.number] if tier in known else []

    def _roomiest(self, closeness: Closeness, need: Need, here: Ints) -> list[list[Mask]]:
        """The domain with most room, if none can ever hold the gang: the reason then tells how much is missing."""
        total, best, chosen = int(here.sum()), -1, []
        for tier in self._tiers_of(closeness):
            slots = np.where(tier.sums(here) == total, need.slots(tier), -1)
            if int(slots.max()) > best:
                best, chosen = int(slots.max()), [[tier.mask(int(slots.argmax()))]]
        return chosen

    def _valid(self, job: Job) -> Reason | None:
        """The reason if a hard gang has no domain, or its running pods are not within one."""
        for policy in job.subgroups:
            close = policy.closeness
            if close is not None and close.hard and not self._tiers_of(close):
                what = f"subgroups of `{policy.name}`: {no_domain(close)}"
                return Reason(NAME, NO_DOMAIN.name, what)
        closeness = job.closeness
        if closeness is None or not closeness.hard:
            return None
        tiers = self._tiers_of(closeness)
        if not tiers:
            # Without a node that could hold its pods, nodes are missing: they may be created, with their labels.
            holds = all(self._empty(group.shape).any() for group in groups_of(self._session, job))
            code = NO_DOMAIN if holds else NO_NODE
            return Reason(NAME, code.name, no_domain(closeness))
        here = self._session.on_nodes(self._session.tasks_of(job, Status.BOUND))
        if any((tier.sums(here) == here.sum()).any() for tier in tiers):
            return None
        what = f"its running pods are not within one {closeness.words}, so no further pod can join them"
        return Reason(NAME, APART.name, what)

    def _elsewhere(self, job: Job) -> Refusal | None:
        """The nodes outside the domain in which a hard gang already runs."""
        closeness = job.closeness
        if closeness is None or not closeness.hard:
            return None
        here = self._session.on_nodes(self._session.tasks_of(job, Status.BOUND))
        if not here.any():
            return None
        inside = np.zeros(len(here), dtype=np.bool_)
        for tier in self._tiers_of(closeness):
            for i in np.flatnonzero(tier.sums(here) == here.sum()).tolist():
                inside |= tier.mask(i)
        return Refusal(NAME, ELSEWHERE, f"outside the {closeness.words} of its running pods", ~inside)

    def _empty(self, shape: int) -> Ints:
        """How many tasks of a shape each node would take if it were empty."""
        return self._session.capacity.fits(shape, Mode.EMPTY)

    def _tiers_of(self, closeness: Closeness) -> list[Tier]:
        """The tiers of domains that a gang may use, closest first; tiers without domains are left out."""
        asked = (closeness.key, closeness.tier, closeness.tier_name, closeness.hard)
        tiers = self._tiers.get(asked)
        if tiers is None:
            nodes = self._session.snapshot.nodes
            if closeness.key:
                tiers = by_label(nodes, closeness.key)
            else:
                if self._hypernodes is None:
                    self._hypernodes = by_hypernodes(nodes, self._session.snapshot.hypernodes)
                tiers = self._hypernodes
                if closeness.hard:
                    highest = self._highest(closeness)
                    tiers = [tier for tier in tiers if highest is None or tier.number <= highest]
                    known = [h.tier for h in self._session.snapshot.hypernodes]
                    top = 1 + max(known, default=0)
                    above = highest >= top if highest is not None else not known
                    if above and len(nodes):
                        tiers.append(whole_cluster(top, len(nodes)))
            self._tiers[asked] = tiers
        return tiers

    def _highest(self, closeness: Closeness) -> int | None:
        """The highest allowed tier; an unknown tier name allows none."""
        if closeness.tier is not None or not closeness.tier_name:
            return closeness.tier
        named = [h.tier for h in self._session.snapshot.hypernodes if h.tier_name == closeness.tier_name]
        return max(named, default=-1)


class Need:
    """What a gang or a subgroup lacks, compared with the free slots of domains; only nodes `within` count."""

    def __init__(
        self,
        session: Session,
        lacking: int,
        roles: Mapping[int, int],
        groups: list[Group],
        empty: Callable[[int], Ints],
        within: Mask | None = None,
    ) -> None:
        self._lacking = max(lacking, 1)
        self._roles = roles
        self._groups = groups
        # Releasing room counts: the caller decides whether the gang is bound now or nominated.
        self._free = [session.capacity.fits(g.shape, Mode.LATER) for g in groups]
        self._empty = [empty(g.shape) for g in groups]
        if within is not None:
            self._free = [free * within for free in self._free]
            self._empty = [free * within for free in self._empty]

    def slots(self, tier: Tier) -> Ints:
        """How many tasks of its shapes each domain has room for, not limited by the size of the gang."""
        return self._sum([tier.sums(free) for free in self._free], tier)

    def is_met(self, tier: Tier, *, empty: bool = False) -> Mask:
        """The domains with (or, if `empty`, possibly with) enough slots for what the gang lacks, also for each role."""
        useful = self._useful(tier, self._empty if empty else self._free)
        met = self._sum(useful, tier) >= self._lacking
        for role, lacking in self._roles.items():
            of_role = [n for n, group in zip(useful, self._groups, strict=True) if group.role == role]
            met &= self._sum(of_role, tier) >= lacking
        return met

    def _useful(self, tier: Tier, fits: list[Ints]) -> list[Ints]:
        return [np.minimum(tier.sums(f), len(g.tasks)) for f, g in zip(fits, self._groups, strict=True)]

    def _sum(self, parts: list[Ints], tier: Tier) -> Ints:
        return sum(parts, np.zeros(len(tier.names), dtype=np.int64))


def merged(groups: list[Group]) -> list[Group]:
    """The groups of a gang whatever their subgroups: tasks of one role and shape share the same slots."""
    found: dict[tuple[int, int], list[Ints]] = {}
    for group in groups:
        found.setdefault((group.role, group.shape), []).append(group.tasks)
    if len(found) == len(groups):
        return groups
    return [Group(role, shape, np.concatenate(tasks)) for (role, shape), tasks in found.items()]


def choose(tier: Tier, need: Need, here: Ints, hard: bool, most_crowded: int, above: Sequence[Tier]) -> list[int]:
    """The domains of a tier to try, in order, by number (the order of names).

    First domains with room for the gang: those where most of it runs, then the tightest, from the top level (`above`)
    down. Then a few domains without room, those with most room first. A hard gang only gets domains that hold all its
    running pods.
    """
    running = tier.sums(here)
    possible = need.is_met(tier, empty=True)
    if hard:
        possible &= running == here.sum()
    slots, enough = need.slots(tier), need.is_met(tier)
    levels = [np.where(enough, tier.of_parents(upper, need.slots(upper), slots), 0) for upper in reversed(above)]
    order = np.lexsort((np.where(enough, slots, -slots), *levels, -running, ~enough))
    order = order[possible[order]]
    return [*order[enough[order]].tolist(), *order[~enough[order]][:most_crowded].tolist()]


def no_domain(closeness: Closeness) -> str:
    if closeness.key:
        return f"must run within one `{closeness.key}`, but no node has that label"
    return f"must run within one {closeness.words}, but no such HyperNode has nodes"
