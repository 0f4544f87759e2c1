"""The workers of an elastic job in a session: who they are, what they have, and how they become more and fewer.

Verbs that `resize` tries out and makes. A shrink sends the highest indices away, as every operator does; growth
promises room to workers that wait and keeps room for those that do not exist yet.
"""

from __future__ import annotations

import numpy as np

from maar.model.elastic import Elastic
from maar.model.jobs import Job
from maar.model.resources import Ints, Mask
from maar.model.shapes import Shape
from maar.model.tasks import Status
from maar.session.placement import Group, Terms, both, domains_of, place
from maar.session.session import Session
from maar.session.state import Held

NOBODY: Ints = np.zeros(0, dtype=np.int64)
NO_ROLE = -1

NO_INDEX = 10_000
"""As many workers no job has; a higher number at the end of a pod's name is by accident there."""

LEAVES = 600.0
"""Seconds after a stop in which pods that are going are waited for. By taste: who then is still there hangs, on a node
that is gone."""

LINGERS = 60.0
"""Seconds after a stop in which pods that have finished may still be going. By taste, as long again as Kubernetes gives
them to end: kubelets say how a pod has ended before it is gone, while other kinds keep what has finished for ever."""


def elastic_of(job: Job) -> Elastic:
    """What an elastic job says."""
    assert job.elastic is not None, job.key
    return job.elastic


def last_change(session: Session, job: Job) -> float | None:
    """When its size last changed; a time to come, which somebody wrote by hand, is none."""
    last = elastic_of(job).past.last_resize
    return None if last is None or last > session.now else last


def worker_shape(session: Session, job: Job) -> int:
    """The number of the shape of a worker."""
    return session.snapshot.shapes.number[elastic_of(job).shape]


def workers_of(session: Session, job: Job, *statuses: Status) -> Ints:
    """Its workers in some statuses, by number; its other pods (a master, a launcher) are left out."""
    return _workers(session, job, session.tasks_of(job, *statuses))


def running_before(session: Session, job: Job) -> Ints:
    """Its workers that had a node when the session began."""
    members = session.snapshot.jobs.members[job.index]
    return _workers(session, job, members[session.snapshot.tasks.status[members] == int(Status.BOUND)])


def _workers(session: Session, job: Job, tasks: Ints) -> Ints:
    role = elastic_of(job).role
    if not role or len(tasks) == 0:
        return tasks
    names = session.snapshot.jobs.role_names[job.index]
    if role not in names:
        return NOBODY
    return np.asarray(tasks[session.snapshot.jobs.own_role[tasks] == names.index(role)])


def have(session: Session, job: Job) -> int:
    """Workers that have a node, or are promised one."""
    return len(workers_of(session, job, Status.BOUND, Status.NOMINATED, Status.SUCCEEDED))


def held(session: Session, job: Job) -> int:
    """Workers to come for whom room is kept."""
    return sum(int(kept.counts.sum()) for kept in held_for(session, job))


def held_for(session: Session, job: Job) -> list[Held]:
    """Room that is kept for workers to come, and not for who comes beside them."""
    shape = worker_shape(session, job)
    return [h for h in session.state.held.get(job.index, ()) if h.shape == shape and not h.beside]


def is_ending(session: Session, job: Job) -> bool:
    """Whether its work is done and its operator has yet to say so: to stop it now would make it run once more.

    Done is who has nothing but pods that succeeded, or one beside its workers (a master, a launcher) that did.
    """
    done = len(session.tasks_of(job, Status.SUCCEEDED))
    if not done or elastic_of(job).suspended:
        return False
    return done == len(session.snapshot.jobs.members[job.index]) or done > len(
        workers_of(session, job, Status.SUCCEEDED)
    )


def are_leaving(session: Session, job: Job) -> int:
    """Pods of a stopped job that have not gone yet.

    Their operator would take their end for that of the job, were it started beside them: an MPIJob fails with its old
    launcher, a PyTorchJob that may not restart with any old worker.
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


def above(session: Session, job: Job, size: int) -> Ints:
    """The workers that go when it shrinks to a size: the highest indices.

    Pods of a batch Job that is not Indexed have none; its controller sends the newest away first.
    """
    tasks = workers_of(session, job, Status.BOUND, Status.NOMINATED)
    table = session.snapshot.tasks.tasks
    indices = [table[t].index for t in tasks.tolist()]
    if len(set(indices)) < len(indices) or max(indices, default=0) >= NO_INDEX:
        return tasks[size:]
    return np.array([t for t, index in zip(tasks.tolist(), indices, strict=True) if index >= size], dtype=np.int64)


def send_away(session: Session, tasks: Ints) -> None:
    """Let pods go without an eviction: their operator deletes them."""
    for task in tasks.tolist():
        if session.state.status[task] == Status.NOMINATED:
            session.state.withdraw(task)
        else:
            session.state.evict(task)


def set_size(session: Session, job: Job, size: int, nodes: Mask) -> int:
    """Give a job so many workers, on those nodes, in room that is there or coming: how many it could have."""
    elastic = elastic_of(job)
    if size == 0:
        session.state.let_go(job.index)
        send_away(session, session.tasks_of(job, Status.BOUND, Status.NOMINATED))
        return 0
    send_away(session, above(session, job, size))
    missing = size - have(session, job) - held(session, job)
    if missing == 0:
        return size
    with session.statement() as statement:
        kept = [h.rows for h in session.state.held.get(job.index, ()) if (h.counts > 0).all()]
        prefer = np.concatenate(kept) if kept else None
        session.state.let_go(job.index)
        terms = Terms(later=True, within=both(nodes, session.open_to(job)), prefer=prefer)
        starts = not len(session.tasks_of(job, Status.BOUND))
        if not starts or all(_keep(session, job, shape, terms) for shape in elastic.beside):
            _grow(session, job, size, terms)
        reached = have(session, job) + held(session, job)
        if reached >= elastic.min:
            statement.commit()
            return reached
    return min(have(session, job) + held(session, job), size)


def _keep(session: Session, job: Job, shape: Shape, terms: Terms) -> bool:
    """Room for one of the pods beside the workers."""
    number = session.snapshot.shapes.number[shape]
    return place(session, job, Group(NO_ROLE, number, NOBODY), 1, terms._replace(hold=True, beside=True)) == 1


def _grow(session: Session, job: Job, size: int, terms: Terms) -> None:
    """Workers that wait are promised room; for the rest it is kept. In one domain, where the network matters."""
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
            placed += place(session, job, Group(role, kind, tasks), len(tasks), terms)
    coming = wanted - max(placed, min(len(waiting), wanted))
    if coming > 0:
        group = Group(NO_ROLE, worker_shape(session, job), NOBODY)
        placed += place(session, job, group, coming, terms._replace(hold=True))
    return placed
