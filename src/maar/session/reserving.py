"""Room for pods of any job that do not exist yet, with an end: set by who proves it, restored in every later session.

A gang that moves gets the room that was proved to take it, so that no other job takes it before its pods are created
again. Pods that exist by now are nominated for the room, the rest stays reserved. The limits of the queue apply in
every cycle. The room is released at its end, and when the job is gone or its owner holds it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from maar.model.facts import About
from maar.model.fitting import Mode
from maar.model.jobs import Job
from maar.model.plan import Reserve
from maar.model.reserved import NAME, OWNER, Reserved, ReservedPlace, longer
from maar.model.resources import Ints
from maar.model.tasks import Status
from maar.session.memory import Remember, Remembered
from maar.session.session import Session
from maar.session.state import ReservedRoom

RESERVED = Remember(NAME, About.JOB, Reserved, longer)


def reserve(session: Session, job: Job, room: Sequence[ReservedRoom], until: float) -> None:
    """Reserve room for pods of a job. Not for an elastic job, nor on nodes of other shards: they decide about these."""
    scope = session.snapshot.scope
    foreign = scope is not None and any(scope.foreign[part.rows].any() for part in room)
    if not room or job.elastic is not None or foreign or until <= session.now:
        return
    for part in room:
        session.state.reserve(job.index, part.shape, part.rows, part.counts)
    _memory(session).set(Reserved(until, _places(session, job)), job.key)
    session.wake(until)


def take_up_reserved(session: Session) -> None:
    """Restore the reserved room that the snapshot reports."""
    memory = session.memory.declare(OWNER, RESERVED)
    for key, reserved in memory.items():
        job = session.job(session.snapshot.jobs.number[key])
        if reserved.until <= session.now or job.elastic is not None or job.broken or session.is_held(job):
            memory.forget(key)
            continue
        session.wake(reserved.until)
        waiting, shapes = session.hooks.sort_tasks(session.tasks_of(job, Status.PENDING)), session.snapshot.shapes
        for place in reserved.places:
            shape = shapes.number[place.shape]
            asked = shapes.requests[session.snapshot.tasks.shape[waiting]]
            alike = (asked == shapes.requests[shape]).all(axis=1)
            still, _ = take_up(session, job, place.node, shape, place.count, waiting[alike])
            waiting = waiting[~alike | np.isin(waiting, still)]


def reserved_room(session: Session) -> tuple[Reserve, ...]:
    """The room that is still reserved at the end of a session. What pods have got by now is no longer."""
    memory, found = _memory(session), list[Reserve]()
    for key, before in memory.items():
        places = _places(session, session.job(session.snapshot.jobs.number[key]))
        if places:
            memory.set(Reserved(before.until, places), key)
        else:
            memory.forget(key)
        nodes = Counter[str]()
        for place in places:
            nodes[place.node] += place.count
        found += [Reserve(key, node, count) for node, count in sorted(nodes.items())]
    return tuple(found)


def _memory(session: Session) -> Remembered[Reserved]:
    return session.memory.of(OWNER, RESERVED)


def take_up(
    session: Session,
    job: Job,
    node: str,
    shape: int,
    count: int,
    waiting: Ints,
    beside: bool = False,
    keeps: Callable[[], bool] = lambda: True,
) -> tuple[Ints, int]:
    """Nominate room that was reserved on a node for pods that exist, and reserve the rest if the job `keeps` it.

    Returns the pods that still wait, and for how many pods there was room: now or when others have left, within the
    limits of the queue.
    """
    row, ground = session.snapshot.nodes.row.get(node), session.ground_of(job)
    # A node may have changed its group, or the queue its groups, since the room was reserved.
    if row is None or (ground is not None and not ground[row]):
        return waiting, 0
    here, of, left = np.array([row]), session.snapshot.tasks.shape, count
    for each in dict.fromkeys(of[waiting].tolist()):
        alike = waiting[of[waiting] == each]
        alike = alike[: _room(session, job, each, row, min(len(alike), left))]
        if len(alike):
            session.state.nominate(job.index, each, alike, here, np.array([len(alike)]))
            waiting, left = waiting[~np.isin(waiting, alike)], left - len(alike)
    rest = _room(session, job, shape, row, left)
    if rest and keeps():
        session.state.reserve(job.index, shape, here, np.array([rest]), beside)
    return waiting, count - left + rest


def _room(session: Session, job: Job, shape: int, row: int, wanted: int) -> int:
    if not wanted:
        return 0
    here = np.arange(len(session.snapshot.nodes)) == row
    room = min(wanted, int(session.capacity.room(job, shape, Mode.LATER, within=here)[row]))
    return session.hooks.allowed(job, shape, room) if room > 0 else 0


def _places(session: Session, job: Job) -> tuple[ReservedPlace, ...]:
    """All room that is reserved for a job now, by node and request."""
    snapshot, sums = session.snapshot, Counter[tuple[str, tuple[tuple[str, int], ...]]]()
    for part in session.state.reserved.get(job.index, ()):
        requests = snapshot.shapes.shapes[part.shape].requests
        for row, count in zip(part.rows.tolist(), part.counts.tolist(), strict=True):
            sums[snapshot.nodes.names[row], requests] += count
    return tuple(ReservedPlace(node, count, requests) for (node, requests), count in sorted(sums.items()) if count > 0)
