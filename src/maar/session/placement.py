"""Placing a gang: its whole missing minimum, or nothing.

Tasks of one job with the same role and shape are a *group*. A group is placed by counting: how many tasks fit on each
node, best nodes first. Role minimums come first, then the minimum of the job, which any group may fill. If the network
matters, whole domains are tried in turn. A job with subgroups is placed part by part (`subgroups`). The caller decides
what a placement becomes: `allocate` binds, `preempt` and `reclaim` nominate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from maar.elastic.placement import best_fit
from maar.model.fitting import Mode
from maar.model.jobs import Job
from maar.model.minimum import Gap, spread
from maar.model.resources import Floats, Ints, Mask
from maar.model.tasks import Status
from maar.session.gangs import missing
from maar.session.no_room import one_shape
from maar.session.session import Session
from maar.session.subgroups import Assembly, Part, bundles, subgroups_of

PREFERRED = 1e9
"""Added to the score of nodes that the job is nominated for: larger than all other scores together."""


MOST_SEEDS = 32
"""How many domains are tried for the first pod of a gang, those with most room first. Tuned by hand: if the largest
does not take the gang, the next rarely do, and a label with one domain per node would try them all."""


class Group(NamedTuple):
    """Pending tasks of one role and shape, in the order of placement."""

    role: int
    shape: int
    tasks: Ints
    subgroup: int = -1
    """Its number among the subgroups of the job; -1 if the tasks are in none."""


class Terms(NamedTuple):
    """How to place: in current room or room to come (`later`), on which nodes, and which nodes are preferred."""

    later: bool = False
    within: Mask | None = None
    prefer: Ints | None = None
    first: Ints | None = None
    """Tasks that go before the others, because room was made for them."""
    reserve: bool = False
    """Reserve room for pods that do not exist yet, instead of placing tasks."""
    beside: bool = False
    """The reserved room is for a pod beside the workers of an elastic job."""
    anywhere: bool = False
    """It does not matter on which of the nodes: only whether the tasks fit is asked."""
    room: Callable[[int], Ints] | None = None
    """How many more tasks of a shape each node may get now, besides all other limits."""

    @property
    def mode(self) -> Mode:
        return Mode.LATER if self.later else Mode.NOW

    def inside(self, nodes: Mask | None) -> Terms:
        """The same terms, only on these nodes; `None` means all."""
        return self if nodes is None else self._replace(within=both(self.within, nodes))


def groups_of(session: Session, job: Job, first: Ints | None = None, *, bundled: bool = False) -> list[Group]:
    """The pending tasks of a job by role and shape; best-effort groups last. Groups of the tasks `first` go first.

    With `bundled`, as they are placed: if a plugin bundles tasks, each bundle has its own groups.
    """
    tasks = session.tasks_of(job, Status.PENDING)
    if first is None or len(first) == 0:
        return grouped(session, job, tasks, bundled=bundled)
    chosen = np.isin(tasks, first)
    parts = (tasks[chosen], tasks[~chosen])
    return [group for part in parts for group in grouped(session, job, part, bundled=bundled)]


def grouped(session: Session, job: Job, tasks: Ints, *, bundled: bool = False) -> list[Group]:
    """Tasks of one job by role and shape; best-effort groups last."""
    snapshot = session.snapshot
    tasks = session.hooks.sort_tasks(tasks)
    if len(tasks) == 0:
        return []
    bundles = session.hooks.bundled(job, tasks) if bundled and session.hooks.bundles else None
    if bundles is None and not job.subgroups and len(snapshot.jobs.role_names[job.index]) == 1:
        shape = one_shape(session, job)
        if shape >= 0:  # asked many times for thousands of jobs
            return [Group(snapshot.jobs.task_role.item(tasks.item(0)), shape, tasks)]
    shapes, roles = snapshot.tasks.shape.take(tasks), snapshot.jobs.task_role.take(tasks)
    if bundles is None and not job.subgroups:
        role, shape = roles.item(0), shapes.item(0)
        if not np.count_nonzero(shapes != shape) and not np.count_nonzero(roles != role):
            return [Group(role, shape, tasks)]
    none = [-1] * len(tasks)
    of_task = none if bundles is None else bundles.tolist()
    parts = subgroups_of(session, job).of(tasks).tolist() if job.subgroups else none
    groups: dict[tuple[int, int, int, int], list[int]] = {}
    for task, *key in zip(tasks.tolist(), of_task, roles.tolist(), shapes.tolist(), parts, strict=True):
        groups.setdefault((key[0], key[1], key[2], key[3]), []).append(task)
    found = [Group(role, shape, np.array(members), part) for (_, role, shape, part), members in groups.items()]
    return sorted(found, key=lambda g: bool(snapshot.shapes.best_effort[g.shape]))


def domains_of(session: Session, job: Job) -> Iterator[Mask | None]:
    """The domains in which a gang may start, the closest first; `None` means anywhere."""
    for entry in session.hooks.domains:
        tiers = entry.call(job)
        if tiers is not None:
            for tier in tiers:
                yield from _own_first(session, tier)
            return
    yield None


def _own_first(session: Session, domains: Sequence[Mask]) -> Sequence[Mask]:
    """The same domains; for one of several shards, those without nodes of other shards first."""
    scope = session.snapshot.scope
    return domains if scope is None else sorted(domains, key=lambda domain: bool((domain & scope.foreign).any()))


def domains_of_part(session: Session, job: Job, part: Part, within: Mask | None) -> Iterator[Mask | None]:
    """The domains inside `within` in which the subgroup of a part may be; `None` means anywhere."""
    for entry in session.hooks.subgroup_domains if part.subgroup >= 0 else ():
        tiers = entry.call(job, part, within)
        if tiers is not None:
            for tier in tiers:
                yield from tier
            return
    yield None


def both(one: Mask | None, other: Mask | None) -> Mask | None:
    """The nodes in both masks; `None` means all nodes."""
    if one is None or other is None:
        return one if other is None else other
    return one & other


def place_minimum(session: Session, job: Job, terms: Terms) -> bool:
    """Place the whole missing minimum of a gang in one domain (without a minimum: one task), or change nothing."""
    for domain in domains_of(session, job):
        with session.statement() as statement:
            if _place_lacking(session, job, terms.inside(domain)):
                statement.commit()
                return True
    return False


def _place_lacking(session: Session, job: Job, terms: Terms) -> bool:
    if job.subgroups:
        return _place_lacking_parts(session, job, terms)
    lack = missing(session, job)
    groups = groups_of(session, job, terms.first, bundled=True)
    if not lack.total:
        return any(place_tasks(session, job, group, 1, terms) for group in groups)

    def take(i: int, wanted: int) -> int:
        placed = place_tasks(session, job, groups[i], wanted, terms)
        if placed < len(groups[i].tasks):
            groups[i] = groups[i]._replace(tasks=groups[i].tasks[placed:])
        return placed

    gap = Gap(lack.pods, lack.roles)
    spread(gap, [group.role for group in groups], [len(group.tasks) for group in groups], take)
    return gap.is_filled


def _place_lacking_parts(session: Session, job: Job, terms: Terms) -> bool:
    lack = missing(session, job)
    if not lack.total:
        return place_more_parts(session, job, terms, 1, 1, lambda _: True) > 0
    assembly = Assembly(session, job, groups_of(session, job), lambda part: place_part(session, job, part, terms))
    return assembly.complete(lack)


def place_more_parts(
    session: Session, job: Job, terms: Terms, steps: int, at_least: int, chosen: Callable[[Part], bool]
) -> int:
    """Place more of a job with subgroups that has its minimum; returns how many tasks were placed."""
    assembly = Assembly(session, job, groups_of(session, job), lambda part: place_part(session, job, part, terms))
    return assembly.grow(steps, at_least, chosen)


def place_part(session: Session, job: Job, part: Part, terms: Terms) -> int:
    """Place a part in a domain of its subgroup: all of it or, if it is not whole, as much as fits there."""
    for domain in domains_of_part(session, job, part, terms.within):
        inside = terms.inside(domain)
        with session.statement() as statement:
            placed = 0
            for group, count in part.needs:
                done = place_tasks(session, job, group, count, inside)
                placed += done
                if done < count and part.whole:
                    break
            else:
                if placed:
                    statement.commit()
                    return placed
    return 0


def place_exactly(session: Session, job: Job, needs: list[tuple[Group, int]], terms: Terms) -> bool:
    """Place exactly these tasks, each subgroup in one of its domains; on False some may be placed."""
    if any(session.hooks.allowed(job, group.shape, count) < count for group, count in needs):
        return False
    return all(place_part(session, job, part, terms) == part.size for part in bundles(needs))


def place_tasks(session: Session, job: Job, group: Group, wanted: int, terms: Terms) -> int:
    """Place up to `wanted` tasks of a group, within queue and node limits; returns how many were placed."""
    wanted = session.hooks.allowed(job, group.shape, wanted)
    if wanted <= 0:
        return 0
    limits = session.capacity.limits(group.shape, terms.mode)
    if not limits:
        return _place_on_best_nodes(session, job, group, wanted, terms)
    seeds = next((limit.seeds for _, limit in limits if limit.seeds is not None), None)
    if seeds is not None and (domains := most_room_first(seeds, _room(session, job, group, terms))):
        return _place_seeded(session, job, group, wanted, terms, domains)
    return _place_limited(session, job, group, wanted, terms)


def most_room_first(codes: Ints, slots: Ints) -> tuple[Mask, ...]:
    """A mask for each domain with room, most room first; ties by the name of the first node."""
    usable = (codes >= 0) & (slots > 0)
    values, first, place = np.unique(codes[usable], return_index=True, return_inverse=True)
    room = np.bincount(place, weights=slots[usable], minlength=len(values))
    order = np.lexsort((first, -room))[:MOST_SEEDS]
    return tuple(codes == value for value in values[order].tolist())


def _place_seeded(
    session: Session, job: Job, group: Group, wanted: int, terms: Terms, domains: tuple[Mask, ...]
) -> int:
    """The first pod decides the domain of all: use the first domain that takes all, or that takes most."""
    best, best_count = None, 0
    for seed in domains:
        inside = terms.inside(seed)
        with session.statement() as statement:
            count = _place_limited(session, job, group, wanted, inside)
            if count == wanted:
                statement.commit()
                return count
        if count > best_count:
            best, best_count = inside, count
    return _place_limited(session, job, group, wanted, best) if best is not None else 0


def _place_limited(session: Session, job: Job, group: Group, wanted: int, terms: Terms) -> int:
    """Place tasks on nodes whose room is limited by placed pods, including the pods placed here."""
    placed = 0
    while placed < wanted:
        coupled = any(limit.coupled for _, limit in session.capacity.limits(group.shape, terms.mode))
        step = 1 if coupled else wanted - placed
        left = group._replace(tasks=group.tasks[placed:])
        count = _place_on_best_nodes(session, job, left, step, terms)
        placed += count
        if count == 0 or step > 1:
            break
    return placed


def _place_on_best_nodes(session: Session, job: Job, group: Group, wanted: int, terms: Terms) -> int:
    if terms.anywhere:
        rows, counts = _first_nodes(_room(session, job, group, terms), wanted)
    else:
        view, hooks = session.view(group.shape, terms.later), session.hooks
        score = view.score
        extras = (
            *(entry.call(group.shape) for entry in hooks.cluster_scores),
            *(entry.call(job) for entry in hooks.job_scores),
            *(entry.call(job, group.tasks) for entry in hooks.bundle_scores),
        )
        for extra in extras:
            score = score if extra is None else score + extra
        if terms.prefer is not None and len(terms.prefer):
            score = score.copy()
            score[terms.prefer] += PREFERRED
        fits = _room(session, job, group, terms, score)
        if not job.is_elastic:
            rows, counts = view.best(fits, score, wanted)
        else:
            rows, counts = best_fit(fits, wanted, _own(session, job, terms), score)
    placed = int(counts.sum())
    if placed and terms.reserve:
        session.state.reserve(job.index, group.shape, rows, counts, terms.beside)
    elif placed:
        tasks = group.tasks[:placed]
        act = session.state.nominate if terms.later else session.state.bind
        act(job.index, group.shape, tasks, rows, counts)
    return placed


def _first_nodes(fits: Ints, wanted: int) -> tuple[Ints, Ints]:
    """Nodes with room, by number, until they take all wanted tasks: rows and how many tasks on each."""
    rows = fits.nonzero()[0]
    counts = np.diff(np.minimum(np.cumsum(fits[rows]), wanted), prepend=0)
    used = int(np.count_nonzero(counts))
    return rows[:used], counts[:used]


def _room(session: Session, job: Job, group: Group, terms: Terms, score: Floats | None = None) -> Ints:
    """How many more tasks of a group each node takes."""
    most = None if terms.room is None else terms.room(group.shape)
    return session.capacity.room(job, group.shape, terms.mode, terms.within, most, score)


def _own(session: Session, job: Job, terms: Terms) -> Ints:
    """How many pods of an elastic job each node has, or are nominated for it."""
    own = session.on_nodes(session.tasks_of(job, Status.BOUND, Status.NOMINATED))
    if terms.prefer is not None:
        np.add.at(own, terms.prefer, 1)
    return own
