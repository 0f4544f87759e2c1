"""Binds that have no room under the limit of their queue once a part of a plan is left out.

The brakes, and the shards for jobs that borrow, leave out evictions and smaller sizes that a decision counted on. Other
jobs of the plan may have got room in the same queue because of these: such a bind is left out too.
"""

from __future__ import annotations

import numpy as np

from maar.model.plan import Plan
from maar.model.resources import UNLIMITED, Ints
from maar.model.scope import place_of
from maar.model.snapshot import Snapshot
from maar.model.tasks import Status
from maar.session.journal import Array
from maar.session.resizing.workers import beyond
from maar.session.state import queue_sums


def uncovered(whole: Plan, part: Plan, snapshot: Snapshot) -> dict[str, str]:
    """The jobs whose binds would exceed a limit if only this part of a plan is carried out, each with the queue.

    A limit that even the whole plan exceeds is not enforced by the configuration, and is ignored.
    """
    if not (part.bind or part.resume) or not _frees(whole) - _frees(part):
        return {}
    queues = snapshot.queues
    limited = [q for q, queue in enumerate(queues.queues) if queue.capability]
    if not limited:
        return {}
    limits = {q: np.array(snapshot.axes.row(queues.queues[q].capability or {}, missing=UNLIMITED)) for q in limited}
    binds = _binds(part, snapshot)
    before, used = (_staying(plan, snapshot) for plan in (whole, part))
    after = before + queue_sums(snapshot, _sums(_binds(whole, snapshot), snapshot))
    kept = {q: most for q, most in limits.items() if (after[q] <= most).all()}
    found: dict[str, str] = {}
    jobs = snapshot.jobs
    for row in sorted(binds, key=lambda row: place_of(jobs.jobs[row])):
        path = queues.path[jobs.queue[row]] if jobs.queue[row] >= 0 else ()
        above = [q for q in path if q in kept and (used[q] + binds[row] > kept[q]).any()]
        if above:
            found[jobs.jobs[row].key] = queues.queues[above[0]].name
            continue
        for q in path:
            used[q] += binds[row]
    return found


def _frees(plan: Plan) -> set[str]:
    """The tasks that a plan evicts, and the jobs that it makes smaller."""
    smaller = {f"{r.job} to {r.after}" for r in plan.resize if r.after < r.before}
    return {e.task for e in plan.evict} | smaller | {f"{s.job} to 0" for s in plan.suspend}


def _binds(plan: Plan, snapshot: Snapshot) -> dict[int, Array]:
    """What a plan binds, by job; a suspended gang that is resumed gets room for its minimum at least."""
    tasks, found = snapshot.tasks, dict[int, Array]()
    for resume in plan.resume:
        row = snapshot.jobs.number[resume.job]
        unborn = snapshot.jobs.members[row]
        unborn = unborn[tasks.unborn[unborn]]
        if len(unborn):
            found[row] = snapshot.shapes.requests[tasks.shape[unborn]].astype(object).sum(axis=0)
    for bind in plan.bind:
        task = tasks.number[bind.task]
        row, requests = int(tasks.job[task]), snapshot.shapes.requests[tasks.shape[task]].astype(object)
        found[row] = found[row] + requests if row in found else requests
    return found


def _sums(binds: dict[int, Array], snapshot: Snapshot) -> Ints:
    found = np.zeros_like(snapshot.jobs.allocated)
    for row, amounts in binds.items():
        found[row] = amounts
    return found


def _staying(plan: Plan, snapshot: Snapshot) -> Array:
    """What the running tasks of each queue use that stay after a plan."""
    tasks, jobs = snapshot.tasks, snapshot.jobs
    stays = tasks.status == int(Status.BOUND)
    stays[[tasks.number[evict.task] for evict in plan.evict]] = False
    sizes = {r.job: r.after for r in plan.resize} | {s.job: 0 for s in plan.suspend}
    for row in jobs.elastic:
        job = jobs.jobs[row]
        assert job.elastic is not None
        there = jobs.members[row][stays[jobs.members[row]]]
        size = sizes.get(job.key, job.elastic.now)
        stays[there if not size else beyond(snapshot, job, there, size)] = False
    used = np.zeros_like(jobs.allocated)
    np.add.at(used, tasks.job[stays], snapshot.shapes.requests[tasks.shape[stays]])
    return queue_sums(snapshot, used)
