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
from maar.model.jobs import Job
from maar.model.resources import Floats, Ints, Mask
from maar.model.tasks import Status
from maar.session.hooks import Limit, SharedRoom
from maar.session.session import Session
from maar.session.subgroups import PROMISED, Assembly, Lack, Part, bundles, pods_lacking, subgroups_of
from maar.session.view import best_first

PREFERRED = 1e9
"""Added to the score of nodes promised to the job: larger than all other scores together."""


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
    hold: bool = False
    """Keep room for pods that do not exist yet, instead of placing tasks."""
    beside: bool = False
    """The held room is for a pod beside the workers of an elastic job."""
    room: Callable[[int], Ints] | None = None
    """How many more tasks of a shape each node may get now, besides all other limits."""


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
    shapes, roles = snapshot.tasks.shape[tasks], snapshot.jobs.task_role[tasks]
    bundles = session.hooks.bundled(job, tasks) if bundled and session.hooks.bundles else None
    if bundles is None and not job.subgroups and (shapes == shapes[0]).all() and (roles == roles[0]).all():
        return [Group(int(roles[0]), int(shapes[0]), tasks)]
    none = [-1] * len(tasks)
    of_task = none if bundles is None else bundles.tolist()
    parts = subgroups_of(session, job).of(tasks).tolist() if job.subgroups else none
    groups: dict[tuple[int, int, int, int], list[int]] = {}
    for task, *key in zip(tasks.tolist(), of_task, roles.tolist(), shapes.tolist(), parts, strict=True):
        groups.setdefault((key[0], key[1], key[2], key[3]), []).append(task)
    found = [Group(role, shape, np.array(members), part) for (_, role, shape, part), members in groups.items()]
    return sorted(found, key=lambda g: bool(snapshot.shapes.best_effort[g.shape]))


def missing(session: Session, job: Job) -> tuple[int, dict[int, int]]:
    """How many tasks a job lacks of its minimum, and how many it lacks of each role minimum."""
    gang, state = session.hooks.gang, session.state
    if gang is None:
        return 0, {}
    have = int(state.job_ready[job.index] + state.job_nominated[job.index])
    roles = {
        role: lacking
        for role, minimum in gang.role_minimums(job).items()
        if (lacking := minimum - int(state.role_ready[role] + state.role_nominated[role])) > 0
    }
    lacking = max(gang.minimum(job) - have, sum(roles.values()), 0)
    return (max(lacking, pods_lacking(session, job)) if job.subgroups else lacking), roles


def lack_of(session: Session, job: Job) -> Lack:
    """What a job with subgroups lacks of its minimum."""
    gang, state, book = session.hooks.gang, session.state, subgroups_of(session, job)
    have = int(state.job_ready[job.index] + state.job_nominated[job.index])
    pods = 0 if gang is None else max(gang.minimum(job) - have, 0)
    policies = np.maximum(book.least - book.complete(PROMISED), 0).tolist()
    return Lack(pods, missing(session, job)[1], policies)


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


def start(session: Session, job: Job, terms: Terms) -> bool:
    """Place the whole missing minimum of a gang in one domain (without a minimum: one task), or change nothing."""
    for domain in domains_of(session, job):
        with session.statement() as statement:
            if _fill(session, job, terms._replace(within=both(terms.within, domain))):
                statement.commit()
                return True
    return False


def _fill(session: Session, job: Job, terms: Terms) -> bool:
    if job.subgroups:
        return _fill_parts(session, job, terms)
    lacking, roles = missing(session, job)
    groups = groups_of(session, job, terms.first, bundled=True)
    if lacking == 0:
        return any(place(session, job, group, 1, terms) for group in groups)
    left: list[Group] = []
    for group in groups:
        wanted = min(roles.get(group.role, 0), len(group.tasks))
        placed = place(session, job, group, wanted, terms) if wanted else 0
        if wanted:
            roles[group.role] -= placed
            lacking -= placed
        left.append(group._replace(tasks=group.tasks[placed:]))
    if any(n > 0 for n in roles.values()):
        return False
    for group in left:
        if lacking > 0 and len(group.tasks):
            lacking -= place(session, job, group, min(lacking, len(group.tasks)), terms)
    return lacking <= 0


def _fill_parts(session: Session, job: Job, terms: Terms) -> bool:
    if missing(session, job)[0] == 0:
        return grow(session, job, terms, 1, 1, lambda _: True) > 0
    assembly = Assembly(session, job, groups_of(session, job), lambda part: put(session, job, part, terms))
    return assembly.complete(lack_of(session, job))


def grow(session: Session, job: Job, terms: Terms, steps: int, at_least: int, chosen: Callable[[Part], bool]) -> int:
    """Place more of a job with subgroups that has its minimum; returns how many tasks were placed."""
    assembly = Assembly(session, job, groups_of(session, job), lambda part: put(session, job, part, terms))
    return assembly.grow(steps, at_least, chosen)


def put(session: Session, job: Job, part: Part, terms: Terms) -> int:
    """Place a part in a domain of its subgroup: all of it or, if it is not whole, as much as fits there."""
    for domain in domains_of_part(session, job, part, terms.within):
        inside = terms if domain is None else terms._replace(within=both(terms.within, domain))
        with session.statement() as statement:
            placed = 0
            for group, count in part.needs:
                done = place(session, job, group, count, inside)
                placed += done
                if done < count and part.whole:
                    break
            else:
                if placed:
                    statement.commit()
                    return placed
    return 0


def lay(session: Session, job: Job, needs: list[tuple[Group, int]], terms: Terms) -> bool:
    """Place exactly these tasks, each subgroup in one of its domains; on False some may be placed."""
    return all(put(session, job, part, terms) == part.size for part in bundles(needs))


def place(session: Session, job: Job, group: Group, wanted: int, terms: Terms) -> int:
    """Place up to `wanted` tasks of a group, within queue and node limits; returns how many were placed."""
    wanted = session.hooks.allowed(job, group.shape, wanted)
    if wanted <= 0:
        return 0
    limits = session.limits(group.shape, terms.later) if session.hooks.limits else []
    if not limits:
        return _put(session, job, group, wanted, terms, [])
    seeds = [limit.seeds for _, limit in limits if limit.seeds]
    if seeds:
        return _place_seeded(session, job, group, wanted, terms, seeds[0])
    return _place_limited(session, job, group, wanted, terms)


def _place_seeded(session: Session, job: Job, group: Group, wanted: int, terms: Terms, seeds: tuple[Mask, ...]) -> int:
    """The first pod decides the domain of all: use the first domain that takes all, or that takes most."""
    best, best_count = None, 0
    for seed in seeds:
        inside = terms._replace(within=both(terms.within, seed))
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
        limits = [limit for _, limit in session.limits(group.shape, terms.later)]
        step = 1 if any(limit.coupled for limit in limits) else wanted - placed
        left = group._replace(tasks=group.tasks[placed:])
        count = _put(session, job, left, step, terms, limits)
        placed += count
        if count == 0 or step > 1:
            break
    return placed


def _put(session: Session, job: Job, group: Group, wanted: int, terms: Terms, limits: list[Limit]) -> int:
    view = session.view(group.shape, terms.later)
    fits, score = view.fits, view.score
    if terms.within is not None:
        fits = fits * terms.within
    for limit in limits:
        fits = np.minimum(fits, limit.room)
    if terms.room is not None:
        fits = np.minimum(fits, terms.room(group.shape))
    for entry in session.hooks.cluster_scores:
        extra = entry.call(group.shape)
        if extra is not None:
            score = score + extra
    for of_job in session.hooks.job_scores:
        extra = of_job.call(job)
        if extra is not None:
            score = score + extra
    for of_bundle in session.hooks.bundle_scores:
        extra = of_bundle.call(job, group.tasks)
        if extra is not None:
            score = score + extra
    if terms.prefer is not None and len(terms.prefer):
        score = score.copy()
        score[terms.prefer] += PREFERRED
    if session.hooks.shared_rooms:
        fits = capped(fits, session.shared_rooms(job, group.shape), score)
    if not job.is_elastic:
        rows, counts = best_first(fits, score, wanted)
    else:
        rows, counts = best_fit(fits, wanted, _own(session, job, terms), score)
    placed = int(counts.sum())
    if placed and terms.hold:
        session.state.hold(job.index, group.shape, rows, counts, terms.beside)
    elif placed:
        tasks = group.tasks[:placed]
        act = session.state.nominate if terms.later else session.state.bind
        act(job.index, group.shape, tasks, rows, counts)
    return placed


def capped(fits: Ints, rooms: Sequence[SharedRoom], score: Floats | None = None) -> Ints:
    """How many tasks fit on each node if nodes share room: the best nodes get it first."""
    for room in rooms:
        rows = np.flatnonzero(room.nodes & (fits > 0))
        if int(fits[rows].sum()) <= room.count:
            continue
        if score is not None:
            rows = rows[np.argsort(-score[rows], kind="stable")]
        fits = fits.copy()
        before = np.cumsum(fits[rows]) - fits[rows]
        fits[rows] = np.clip(room.count - before, 0, fits[rows])
    return fits


def _own(session: Session, job: Job, terms: Terms) -> Ints:
    """How many pods of an elastic job each node has or is promised."""
    tasks = session.tasks_of(job, Status.BOUND, Status.NOMINATED)
    rows = session.state.node[tasks]
    own = np.bincount(rows[rows >= 0], minlength=len(session.snapshot.nodes)).astype(np.int64)
    if terms.prefer is not None:
        np.add.at(own, terms.prefer, 1)
    return own
