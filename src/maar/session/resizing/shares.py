"""What some jobs may have of a pool together: limits of queues and of all above them, and sizes within all of these.

Used by `resizing`, which asks the algorithm. Without limits it is asked once, for all jobs. Where a queue would get
more than its limit, its jobs are asked about by themselves with that limit, and the others about what is left; and so
for a queue above others, with theirs inside of it. What a queue deserves is a limit for plans only, since others may
never come for the rest; above its capability no brake keeps it. A closed queue keeps what it has, and gets no more.

Jobs that can use only some of the nodes, or only the accelerators of nodes where others count slots, are limited in the
same way by what these have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from maar.model.jobs import Job
from maar.model.resources import UNLIMITED, Ints, Mask
from maar.session.resizing.standing import gpus_of
from maar.session.resizing.workers import worker_shape
from maar.session.session import Session

Amounts = npt.NDArray[np.object_]
"""Of every resource, in Python's integers."""

Ask = Callable[[Ints, int], Ints]
"""Rows of jobs, and the GPUs that there are for them: their sizes."""


class Cap(NamedTuple):
    """GPUs that some jobs may have together: those of a queue, or of all below another, or that need the same nodes."""

    rows: frozenset[int]
    gpus: int
    rooms: tuple[Amounts, ...] = ()
    """What capabilities leave for them, in every resource."""


class Ground(NamedTuple):
    """Where workers of one shape could run, were the pool empty, and what its nodes can take of them now."""

    accelerated: bool
    nodes: Mask
    gpus: Ints
    """By node: GPUs, or slots."""


GROUNDS = 64
"""So many kinds of ground are told apart, by taste; where there are more, only placing workers tells who fits."""


def caps_of_grounds(shapes: list[int], grounds: dict[int, Ground], gpus: int) -> list[Cap]:
    """What jobs that share a ground may have, where that is less than all; `shapes` has the shape of each job."""
    kinds = {shape: (ground.accelerated, ground.nodes.tobytes()) for shape, ground in grounds.items()}
    most: dict[tuple[bool, bytes], Ints] = {}
    for shape, ground in grounds.items():
        kind = kinds[shape]
        most[kind] = np.maximum(most[kind], ground.gpus) if kind in most else ground.gpus
    if not 1 < len(most) <= GROUNDS:
        return []
    found = {}
    for accelerated, nodes in most:
        outside = ~np.frombuffer(nodes, dtype=np.bool_)
        inside = {k for k in most if k[0] == accelerated and not (np.frombuffer(k[1], dtype=np.bool_) & outside).any()}
        room = int(np.maximum.reduce([most[kind] for kind in inside]).sum())
        if room < gpus:
            found[frozenset(row for row, shape in enumerate(shapes) if kinds[shape] in inside)] = room
    return [Cap(rows, room) for rows, room in sorted(found.items(), key=lambda f: sorted(f[0]))]


def caps_of_queues(session: Session, jobs: list[Job], used: dict[int, Ints], gpus: int) -> list[Cap]:
    """What queues may have if their elastic jobs had nothing yet, where that is less than all.

    `used` is what these jobs have, by queue. Jobs with accelerators and those of which slots are counted have limits of
    their own: a queue that may have no more GPUs may have slots.
    """
    state, path = session.state, session.snapshot.queues.path
    found: list[Cap] = []
    with session.statement():  # not committed
        for queue, had in used.items():
            for above in path[queue]:
                state.add(state.queue_allocated, above, -had.astype(object))
        for kind in (True, False):
            rows: dict[int, list[int]] = {}
            for row, job in enumerate(jobs):
                if bool(session.snapshot.shapes.gpus[worker_shape(session, job)]) == kind:
                    rows.setdefault(int(session.snapshot.jobs.queue[job.index]), []).append(row)
            found.extend(_caps_of_kind(session, jobs, rows, gpus))
    return found


def _caps_of_kind(session: Session, jobs: list[Job], rows: dict[int, list[int]], gpus: int) -> Iterator[Cap]:
    """The caps of some jobs, whose rows are given by queue: for each queue, and for all below each above them."""
    queues = session.snapshot.queues
    groups: dict[frozenset[int], set[int]] = {}
    for above in {above for queue in rows for above in queues.path[queue]}:
        groups.setdefault(frozenset(q for q in rows if above in queues.path[q]), set()).add(above)
    asking = {queue: {worker_shape(session, jobs[row]): jobs[row] for row in rows[queue]} for queue in rows}
    for group, tops in sorted(groups.items(), key=lambda g: sorted(g[0])):
        with session.statement():  # not committed
            most = sum(_book(session, queue, asking[queue], gpus) for queue in sorted(group))
        if most < gpus:
            rooms = tuple(_room(session, top) for top in sorted(tops) if queues.queues[top].capability)
            yield Cap(frozenset(row for queue in group for row in rows[queue]), most, rooms)


def _book(session: Session, queue: int, asking: dict[int, Job], gpus: int) -> int:
    """The GPUs that one queue may have, by workers of the shape that gives it most; they are its own from now on.

    `asking` has a job for each shape.
    """
    snapshot = session.snapshot
    if any(is_closed(session, job) for job in asking.values()):
        return gpus
    allowed = [(session.hooks.allowed(job, shape, gpus), shape, job) for shape, job in asking.items()]
    most, count, shape = max((count * gpus_of(session, job), count, shape) for count, shape, job in allowed)
    for above in snapshot.queues.path[queue]:
        session.state.add(session.state.queue_allocated, above, count * snapshot.shapes.requests[shape].astype(object))
    return most


def _room(session: Session, queue: int) -> Amounts:
    said = session.snapshot.queues.queues[queue].capability or {}
    limit = np.array(session.snapshot.axes.row(said, missing=UNLIMITED), dtype=object)
    room: Amounts = limit - session.state.queue_allocated[queue]
    return room


def is_closed(session: Session, job: Job) -> bool:
    """Whether a job's queue takes nothing new, by itself or because one above it does not."""
    queues, queue = session.snapshot.queues, int(session.snapshot.jobs.queue[job.index])
    if not queues.queues[queue].open:
        return True
    above_closed = any(not queues.queues[above].open for above in queues.path[queue])
    return above_closed and not session.hooks.allowed(job, worker_shape(session, job), 1)


class Shares:
    """The caps of one pool's jobs."""

    def __init__(self, caps: list[Cap], widths: Ints, requests: Ints) -> None:
        """The GPUs of one worker of each job, and all that such a worker asks for."""
        self._members = [(cap, _mask(cap, len(widths))) for cap in caps]
        self._widths = widths
        self._requests = requests

    def beyond(self, sizes: Ints) -> Mask:
        """Jobs of queues that have more than their capability, or that of one above them."""
        found = np.zeros(len(sizes), dtype=np.bool_)
        for cap, members in self._members:
            if cap.rooms:
                # In Python's integers, which do not overflow.
                have = (sizes[members, None].astype(object) * self._requests[members]).sum(axis=0)
                if any((have > room).any() for room in cap.rooms):
                    found |= members
        return found

    def fill(self, sizes: Ints, ask: Ask, rows: Mask, gpus: int) -> None:
        """Write the sizes of some jobs; those of the others stand, and count."""
        self._fill(sizes, ask, rows, gpus, sorted(self._members, key=lambda of: len(of[0].rows)))

    def _fill(self, sizes: Ints, ask: Ask, rows: Mask, gpus: int, caps: list[tuple[Cap, Mask]]) -> None:
        open_, done = rows.copy(), list[tuple[Cap, Mask]]()
        while True:
            asked = np.flatnonzero(open_)
            sizes[asked] = ask(asked, max(gpus, 0))
            over = [of for of in caps if self._used(sizes, of[1]) > of[0].gpus]
            if not over:
                return
            for i, (cap, members) in enumerate(over):
                if any(other.rows & cap.rows for other, _ in over[:i]):
                    continue  # a smaller group of some of these jobs went first: look again
                inside = members & rows
                gpus += self._used(sizes, inside & ~open_)  # what was given to them before is given out anew
                kept = self._used(sizes, members & ~rows)
                within = [of for of in caps if of[0].rows < cap.rows]
                within += [self._left(sizes, of, members) for of in done if of[0].rows & cap.rows]
                within.sort(key=lambda of: len(of[0].rows))
                self._fill(sizes, ask, inside, min(cap.gpus - kept, gpus), within)
                gpus -= self._used(sizes, inside)
                open_ &= ~members
                done += [of for of in caps if of[0].rows <= cap.rows]
                caps = [of for of in caps if not of[0].rows <= cap.rows]

    def _left(self, sizes: Ints, of: tuple[Cap, Mask], members: Mask) -> tuple[Cap, Mask]:
        """What a cap leaves to those of its jobs that are among some, as the others stand."""
        cap, mask = of
        inside, left = mask & members, cap.gpus - self._used(sizes, mask & ~members)
        return Cap(frozenset(np.flatnonzero(inside).tolist()), left), inside

    def _used(self, sizes: Ints, rows: Mask) -> int:
        return int((sizes * self._widths)[rows].sum())


def _mask(cap: Cap, jobs: int) -> Mask:
    members = np.zeros(jobs, dtype=np.bool_)
    members[list(cap.rows)] = True
    return members
