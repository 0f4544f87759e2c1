"""The workers of an elastic job in a session: which pods they are, their room, and how their number changes.

`resize` uses these verbs. A shrink removes the highest indices, as every operator does. Growth nominates room for
waiting workers and reserves room for workers that do not exist yet.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from maar.model.elastic import Elastic
from maar.model.jobs import Job
from maar.model.reasons import Reason
from maar.model.resources import Ints, Mask
from maar.model.shapes import Shape
from maar.model.snapshot import Snapshot
from maar.model.tasks import NO_TASKS, Status
from maar.session.placement import Group, Terms, both, domains_of, place_tasks
from maar.session.session import Session
from maar.session.state import ReservedRoom

NO_ROLE = -1

NO_INDEX = 10_000
"""No job has this many workers; a higher number at the end of a pod name is accidental."""

LEAVES = 600.0
"""Seconds after a stop in which a new start waits for terminating pods. Tuned by hand: pods left after this time are
stuck on a lost node."""

LINGERS = 60.0
"""Seconds after a stop in which finished pods may still be deleted. Tuned by hand, twice the default grace period of
Kubernetes: kubelets report the end of a pod before it is gone, while some kinds keep finished pods forever."""


def elastic_of(job: Job) -> Elastic:
    assert job.elastic is not None, job.key
    return job.elastic


def last_change(session: Session, job: Job) -> float | None:
    """When its size last changed; `None` for a time in the future, which was written by hand."""
    last = elastic_of(job).past.last_resize
    return None if last is None or last > session.now else last


def worker_shape(session: Session, job: Job) -> int:
    """The number of the worker's shape."""
    return session.snapshot.shapes.number[elastic_of(job).shape]


def workers_of(session: Session, job: Job, *statuses: Status) -> Ints:
    """Its workers in the given statuses, by number, without its other pods (a master, a launcher)."""
    return _workers(session.snapshot, job, session.tasks_of(job, *statuses))


def running_before(session: Session, job: Job) -> Ints:
    """Its workers that had a node when the session opened."""
    members = session.snapshot.jobs.members[job.index]
    return _workers(session.snapshot, job, members[session.snapshot.tasks.status[members] == int(Status.BOUND)])


def _workers(snapshot: Snapshot, job: Job, tasks: Ints) -> Ints:
    role = elastic_of(job).role
    if not role or len(tasks) == 0:
        return tasks
    names = snapshot.jobs.role_names[job.index]
    if role not in names:
        return NO_TASKS
    return np.asarray(tasks[snapshot.jobs.own_role[tasks] == names.index(role)])


def have(session: Session, job: Job) -> int:
    """How many workers have a node or are nominated for one."""
    return len(workers_of(session, job, Status.BOUND, Status.NOMINATED, Status.SUCCEEDED))


def reserved(session: Session, job: Job) -> int:
    """How many future workers have reserved room."""
    return sum(int(kept.counts.sum()) for kept in reserved_for(session, job))


def reserved_for(session: Session, job: Job) -> list[ReservedRoom]:
    """The room reserved for future workers, without room for pods beside them."""
    shape = worker_shape(session, job)
    return [h for h in session.state.reserved.get(job.index, ()) if h.shape == shape and not h.beside]


def coming(session: Session, job: Job) -> Ints:
    """The pods of a suspended job of fixed size that have room, which is reserved until they exist."""
    if job.is_elastic or not job.is_suspended:
        return NO_TASKS
    tasks = session.tasks_of(job, Status.BOUND, Status.NOMINATED)
    return np.asarray(tasks[session.snapshot.tasks.unborn[tasks]])


def beside_of(session: Session, job: Job, number: int, tasks: Ints) -> Ints:
    """Those of a job's tasks that are pods beside its workers, of one of their shapes (`Reserve.beside`)."""
    shapes, workers = session.snapshot.shapes, _workers(session.snapshot, job, tasks)
    asks = shapes.requests[shapes.number[elastic_of(job).shapes_beside[number - 1]]]
    others = tasks[~np.isin(tasks, workers)]
    alike = (shapes.requests[session.snapshot.tasks.shape[others]] == asks).all(axis=1)
    return np.asarray(others[alike])


def starts(session: Session, job: Job) -> bool:
    """Whether a suspended job of fixed size starts now: its gang has room, and none of its old pods is left."""
    if job.is_elastic or not job.is_suspended:
        return False
    tasks = session.tasks_of(job, Status.BOUND)
    return bool(session.snapshot.tasks.unborn[tasks].any()) and not are_leaving(session, job)


def is_ending(session: Session, job: Job) -> bool:
    """Whether its work is done but its operator has not reported it: if stopped now, the job would run again.

    Done means that all its pods succeeded, or that a pod beside its workers (a master, a launcher) did.
    """
    done = len(session.tasks_of(job, Status.SUCCEEDED))
    if not done or elastic_of(job).suspended:
        return False
    return done == len(session.snapshot.jobs.members[job.index]) or done > len(
        workers_of(session, job, Status.SUCCEEDED)
    )


def are_leaving(session: Session, job: Job) -> int:
    """How many pods of a stopped job still exist.

    If the job started beside them, its operator would mistake their end for the end of the job: an MPIJob fails with
    its old launcher, a PyTorchJob that may not restart fails with any old worker.
    """
    elastic = elastic_of(job)
    if not elastic.suspended:
        return 0
    stopped = last_change(session, job)
    if stopped is None:
        return len(session.tasks_of(job, Status.RELEASING))
    for statuses, long in (((Status.RELEASING,), LEAVES), ((Status.SUCCEEDED, Status.FAILED), LINGERS)):
        there = len(session.tasks_of(job, *statuses))
        if there and session.now < stopped + long:
            session.wake(stopped + long)
            return there
    return 0


def old_pods(session: Session, job: Job) -> Reason | None:
    """The reason of a stopped job whose room is reserved until its old pods are gone; `None` if they are."""
    leaving = are_leaving(session, job)
    if not leaving:
        return None
    lasting = "its old pods are still terminating: it starts when they are gone"
    what = f"{leaving} of {lasting}"
    return Reason("resize", "Nominated", what, queue=job.queue, lasting=lasting)


def above(session: Session, job: Job, size: int) -> Ints:
    """The workers that leave when the job shrinks to a size: the highest indices.

    Pods of a batch Job that is not Indexed have no index; its controller deletes the newest first.
    """
    return beyond(session.snapshot, job, session.tasks_of(job, Status.BOUND, Status.NOMINATED), size)


def beyond(snapshot: Snapshot, job: Job, there: Ints, size: int) -> Ints:
    """The workers among these tasks of a job that leave when it shrinks to a size."""
    tasks = _workers(snapshot, job, there)
    table = snapshot.tasks.tasks
    indices = [table[t].index for t in tasks.tolist()]
    if len(set(indices)) < len(indices) or max(indices, default=0) >= NO_INDEX:
        return tasks[size:]
    return np.array([t for t, index in zip(tasks.tolist(), indices, strict=True) if index >= size], dtype=np.int64)


def is_settled(session: Session, job: Job) -> bool:
    """Whether the job has exactly the workers of its current size, so that setting this size changes nothing."""
    now = elastic_of(job).now
    return bool(now) and now == have(session, job) and not len(above(session, job, now)) and not reserved(session, job)


def send_away(session: Session, tasks: Ints) -> None:
    """Remove pods without an eviction: their operator deletes them."""
    for task in tasks.tolist():
        if session.state.status[task] == Status.NOMINATED:
            session.state.withdraw(task)
        else:
            session.state.evict(task)


def set_size(session: Session, job: Job, size: int, nodes: Mask) -> int:
    """Give a job `size` workers on these nodes, in free or releasing room; returns how many it can have."""
    elastic = elastic_of(job)
    if size == 0:
        session.state.let_go(job.index)
        send_away(session, session.tasks_of(job, Status.BOUND, Status.NOMINATED))
        return 0
    send_away(session, above(session, job, size))
    missing = size - have(session, job) - reserved(session, job)
    if missing == 0:
        return size
    with session.statement() as statement:
        kept = [h.rows for h in session.state.reserved.get(job.index, ()) if (h.counts > 0).all()]
        prefer = np.concatenate(kept) if kept else None
        session.state.let_go(job.index)
        terms = Terms(later=True, within=both(nodes, session.open_to(job)), prefer=prefer)
        starts = not len(session.tasks_of(job, Status.BOUND))
        if not starts or all(
            _keep(session, job, shape, count, terms) for shape, count in Counter(elastic.beside).items()
        ):
            _grow(session, job, size, terms)
        reached = have(session, job) + reserved(session, job)
        if reached >= elastic.min:
            statement.commit()
            return reached
    return min(have(session, job) + reserved(session, job), size)


def _keep(session: Session, job: Job, shape: Shape, count: int, terms: Terms) -> bool:
    """Keep room for equal pods beside the workers: for all at once, since a job may ask for thousands."""
    group = Group(NO_ROLE, session.snapshot.shapes.number[shape], NO_TASKS)
    return place_tasks(session, job, group, count, terms._replace(reserve=True, beside=True)) == count


def _grow(session: Session, job: Job, size: int, terms: Terms) -> None:
    """Nominate room for waiting workers and reserve room for the rest, in one domain if the network matters."""
    waiting = workers_of(session, job, Status.PENDING)
    table = session.snapshot.tasks.tasks
    waiting = np.array([t for t in waiting.tolist() if not size <= table[t].index < NO_INDEX], dtype=np.int64)
    wanted = size - have(session, job)
    best: tuple[int, Terms] = (0, terms)
    for domain in domains_of(session, job):
        inside = terms._replace(within=both(terms.within, domain))
        with session.statement() as statement:
            placed = _fill(session, job, waiting, wanted, inside)
            if placed == wanted:
                statement.commit()
                return
        if placed > best[0]:
            best = placed, inside
    if best[0]:
        _fill(session, job, waiting, best[0], best[1])


def _fill(session: Session, job: Job, waiting: Ints, wanted: int, terms: Terms) -> int:
    placed = 0
    shapes = session.snapshot.tasks.shape[waiting]
    for kind in np.unique(shapes).tolist():
        tasks = waiting[shapes == kind][: wanted - placed]
        if len(tasks):
            role = int(session.snapshot.jobs.task_role[tasks[0]])
            placed += place_tasks(session, job, Group(role, kind, tasks), len(tasks), terms)
    coming = wanted - max(placed, min(len(waiting), wanted))
    if coming > 0:
        group = Group(NO_ROLE, worker_shape(session, job), NO_TASKS)
        placed += place_tasks(session, job, group, coming, terms._replace(reserve=True))
    return placed
