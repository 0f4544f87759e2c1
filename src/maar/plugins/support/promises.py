"""Promises of jobs to end in time, and what follows from them for the job that nodes are locked for.

The reservation plugin uses it. Owners state promises on their own objects, so only what a job did after its promise
shows whether it is worth anything.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from maar.model import fitting
from maar.model.fitting import Mode
from maar.model.jobs import Job
from maar.model.resources import Floats, Ints, Mask
from maar.model.tasks import NO_TASKS, Status, longest_promise
from maar.session.eviction.making_room import needs_of
from maar.session.placement import Group, domains_of_part
from maar.session.session import Session
from maar.session.subgroups import Part, bundles

Beside = Callable[[int], Ints | None]
STARTS = 60.0
"""Seconds that a pod may take to start after it was bound; tuned by hand. A pod that starts later on a locked node was
bound after the lock."""


def fits(session: Session, needs: list[tuple[Group, int]], free: Ints, beside: Beside, rows: Mask) -> bool:
    """Whether the given numbers of tasks fit together on the nodes `rows`, with `free` resources.

    `beside` says how many tasks of a shape nodes take by their counters. Tasks of one subgroup must fit in one of its
    domains.
    """
    requests = {group.shape: session.snapshot.shapes.requests[group.shape] for group, _ in needs}
    limits = {shape: room for shape in requests if (room := beside(shape)) is not None}
    if limits:
        # What counters leave to a shape is one more resource, of which each of its tasks takes 1.
        free = np.column_stack((free, *limits.values()))
        requests = {shape: np.append(row, [shape == s for s in limits]) for shape, row in requests.items()}
    free = np.where(rows[:, None], free, 0)
    for part in bundles(needs):
        job = session.job(int(session.snapshot.tasks.job[part.needs[0][0].tasks[0]]))
        for domain in domains_of_part(session, job, part, rows):
            then = _after(session, part, free, requests, rows if domain is None else rows & domain)
            if then is not None:
                free = then
                break
        else:
            return False
    return True


def _after(session: Session, part: Part, free: Ints, requests: dict[int, Ints], rows: Mask) -> Ints | None:
    """The free resources after a part is placed on the nodes `rows`; `None` if it does not fit."""
    left = free
    for group, count in part.needs:
        request = requests[group.shape]
        takes = fitting.count(left, request) * (session.view(group.shape).open & rows)
        if takes.sum() < count:
            return None
        order = np.argsort(-takes, kind="stable")
        reached = np.minimum(np.cumsum(takes[order]), count)
        used = int(np.searchsorted(reached, count)) + 1
        left = left.copy() if left is free else left
        fitting.charge(left, order[:used], np.diff(reached[:used], prepend=0), request)
    return left


def promised_runtime(session: Session, job: Job) -> float | None:
    """Seconds after its start by which a job promises to end, if the job or all of its tasks promise it."""
    return job.promise if job.promise is not None else longest_promise(session.snapshot.tasks_of(job.index))


def earliest_start(session: Session, target: str, without: Ints = NO_TASKS) -> float | None:
    """The time by which the target's minimum fits, if running jobs keep their promises; `None` if unknown.

    A running job past its promise may run for ever. The tasks `without` count as gone.
    """
    snapshot, state = session.snapshot, session.state
    number = snapshot.jobs.number.get(target)
    needs = [] if number is None else needs_of(session, session.job(number))
    if not needs:
        return None
    running = np.flatnonzero((state.status == Status.BOUND) & (state.node >= 0))
    ends = _ends(session)[running]
    ends[np.isin(running, without)] = -np.inf
    every = np.ones(len(snapshot.nodes), dtype=np.bool_)

    def fits_at(moment: float) -> bool:
        gone = running[ends <= moment]

        def beside(shape: int) -> Ints | None:
            return session.capacity.beside_at_best(shape, gone, proven=True)

        return fits(session, needs, session.capacity.free(Mode.UNNOMINATED, gone), beside, every)

    moments = [session.now, *sorted(set(ends[np.isfinite(ends) & (ends > session.now)].tolist()))]
    low, high = 0, len(moments)
    while low < high:
        middle = (low + high) // 2
        if fits_at(moments[middle]):
            high = middle
        else:
            low = middle + 1
    return moments[low] if low < len(moments) else None


def breakers(session: Session, target: str) -> frozenset[str]:
    """The queues of jobs that have broken their promise.

    Such a job still runs, or does not leave, after the time that it promised. Or it passed the locks and now promises
    to end later than the target could start without it: its owner can change the promise after the start.
    """
    table = session.snapshot.tasks
    there = np.flatnonzero((table.status == Status.BOUND) | (table.status == Status.RELEASING))
    late = there[promised_ends(session)[there] < session.now].tolist()
    passed = _passed_locks(session, target)
    # Without a promise, a job with an estimate passed by that: it is Maar's, and the job has broken nothing.
    estimated = np.array([job.estimate is not None for job in session.snapshot.jobs.jobs], dtype=np.bool_)
    passed = passed[np.isfinite(promised_ends(session)[passed]) | ~estimated[table.job[passed]]]
    starts = earliest_start(session, target, passed) if len(passed) else None
    if starts is not None:
        late += passed[_ends(session)[passed] > starts].tolist()
    return frozenset(session.job(int(table.job[t])).queue for t in late)


def _passed_locks(session: Session, target: str) -> Ints:
    """Running tasks that started on a node after it was locked, of other jobs against which locks hold."""
    table, nodes, jobs = session.snapshot.tasks, session.snapshot.nodes, session.snapshot.jobs
    number = jobs.number.get(target)
    if number is None:
        return NO_TASKS
    since = np.full(len(nodes) + 1, np.inf)  # the last one is for tasks without a node
    for lock in session.locks.values():
        since[nodes.row[lock.node]] = lock.since + STARTS
    held_off = (table.job != number) & (jobs.priority[table.job] <= jobs.priority[number])
    others = (table.status == Status.BOUND) & ~table.resident & held_off
    return np.flatnonzero(others & (table.started > since[table.node]))


def _ends(session: Session) -> Floats:
    """When each task ends if it keeps its promise; one that has broken it may never end."""
    ends = promised_ends(session)
    return np.where(ends < session.now, np.inf, ends)


def promised_ends(session: Session) -> Floats:
    """The promised end of each task; infinite without a promise."""
    return session.memo.fixed("promises", "ends", lambda: _made(session))


def _made(session: Session) -> Floats:
    table, snapshot = session.snapshot.tasks, session.snapshot
    of_jobs = np.array([np.inf if j.promise is None else j.promise for j in snapshot.jobs.jobs], dtype=np.float64)
    promises = np.where(np.isnan(table.promise), of_jobs[table.job], table.promise)
    # A task that was bound in this cycle, or that its kubelet has not started yet, starts now.
    there = (table.status == Status.BOUND) | (table.status == Status.RELEASING)
    return promises + np.where(there & ~table.unstarted, table.started, session.now)
