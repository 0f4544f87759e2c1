"""Placing a gang: its whole missing minimum, or nothing.

Tasks of one job with the same role and shape are a *group*. A group is placed by counting: how many tasks fit on each
node, best nodes first. Role minimums come first, then the minimum of the job, which any group may fill. If the network
matters, whole domains are tried in turn. The caller decides what a placement becomes: `allocate` binds, `preempt` and
`reclaim` nominate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from maar.elastic.placement import best_fit
from maar.model.jobs import Job
from maar.model.resources import Floats, Ints, Mask
from maar.model.tasks import Status
from maar.session.hooks import Limit, SharedRoom
from maar.session.session import Session
from maar.session.view import best_first

PREFERRED = 1e9
"""Added to the score of nodes promised to the job: larger than all other scores together."""


class Group(NamedTuple):
    """Pending tasks of one role and shape, in the order of placement."""

    role: int
    shape: int
    tasks: Ints


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


def groups_of(session: Session, job: Job, first: Ints | None = None) -> list[Group]:
    """The pending tasks of a job by role and shape; best-effort groups last. Groups of the tasks `first` go first."""
    tasks = session.tasks_of(job, Status.PENDING)
    if first is None or len(first) == 0:
        return grouped(session, tasks)
    chosen = np.isin(tasks, first)
    return [*grouped(session, tasks[chosen]), *grouped(session, tasks[~chosen])]


def grouped(session: Session, tasks: Ints) -> list[Group]:
    """Tasks of one job by role and shape; best-effort groups last."""
    snapshot = session.snapshot
    tasks = session.hooks.sort_tasks(tasks)
    if len(tasks) == 0:
        return []
    shapes, roles = snapshot.tasks.shape[tasks], snapshot.jobs.task_role[tasks]
    if (shapes == shapes[0]).all() and (roles == roles[0]).all():
        return [Group(int(roles[0]), int(shapes[0]), tasks)]
    groups: dict[tuple[int, int], list[int]] = {}
    for task, role, shape in zip(tasks.tolist(), roles.tolist(), shapes.tolist(), strict=True):
        groups.setdefault((role, shape), []).append(task)
    found = [Group(role, shape, np.array(members)) for (role, shape), members in groups.items()]
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
    return max(gang.minimum(job) - have, sum(roles.values()), 0), roles


def domains_of(session: Session, job: Job) -> Iterator[Mask | None]:
    """The domains in which a gang may start, the closest first; `None` means anywhere."""
    for entry in session.hooks.domains:
        tiers = entry.call(job)
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
    lacking, roles = missing(session, job)
    groups = groups_of(session, job, terms.first)
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
    for entry in session.hooks.cluster_scores:
        extra = entry.call(group.shape)
        if extra is not None:
            score = score + extra
    for of_job in session.hooks.job_scores:
        extra = of_job.call(job)
        if extra is not None:
            score = score + extra
    if terms.prefer is not None and len(terms.prefer):
        score = score.copy()
        score[terms.prefer] += PREFERRED
    if session.hooks.shared_rooms:
        fits = capped(fits, session.shared_rooms(job, group.shape), score)
    if job.elastic is None:
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
