"""Limits on what groups of jobs may have of a pool together, and sizes within all limits.

`resizing` uses it to run the algorithm. Without limits the algorithm runs once, for all jobs. If a queue exceeds its
limit, the algorithm runs for its jobs alone with that limit, and for the other jobs with the rest. Parent queues work
the same way, with the limits of their children inside. What a queue deserves limits plans only, since other queues may
never use the rest; a queue above its capability is not protected by any brake. A closed queue keeps what it has.

Jobs that can use only some nodes, or only the accelerators of nodes where other jobs count slots, are limited in the
same way by the capacity of these nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from maar.model.jobs import Job
from maar.model.resources import UNLIMITED, Ints, Mask
from maar.session.resizing.elastic_columns import gpus_of
from maar.session.resizing.workers import worker_shape
from maar.session.session import Session

Amounts = npt.NDArray[np.object_]
"""Amounts of every resource, as Python integers."""

Ask = Callable[[Ints, int], Ints]
"""Takes rows of jobs and the GPUs available to them; returns their sizes."""


class Cap(NamedTuple):
    """GPUs that some jobs may have together: the jobs of a queue, of a queue subtree, or that need the same nodes."""

    rows: frozenset[int]
    gpus: int
    rooms: tuple[Amounts, ...] = ()
    """What capabilities leave for these jobs, for every resource."""


class Ground(NamedTuple):
    """Where workers of one shape can run in an empty pool, and how many its nodes take now."""

    accelerated: bool
    nodes: Mask
    gpus: Ints
    """For each node: GPUs, or slots."""


GROUNDS = 64
"""The largest number of distinct grounds; with more, only placement shows which jobs fit. Tuned by hand."""


def caps_of_grounds(of_jobs: list[int], grounds: dict[int, Ground], gpus: int) -> list[Cap]:
    """Caps of jobs that share a ground smaller than the pool; `of_jobs` has the number of each job's ground."""
    kinds = {number: (ground.accelerated, ground.nodes.tobytes()) for number, ground in grounds.items()}
    most: dict[tuple[bool, bytes], Ints] = {}
    for number, ground in grounds.items():
        kind = kinds[number]
        most[kind] = np.maximum(most[kind], ground.gpus) if kind in most else ground.gpus
    if not 1 < len(most) <= GROUNDS:
        return []
    found = {}
    for accelerated, nodes in most:
        outside = ~np.frombuffer(nodes, dtype=np.bool_)
        inside = {k for k in most if k[0] == accelerated and not (np.frombuffer(k[1], dtype=np.bool_) & outside).any()}
        room = int(np.maximum.reduce([most[kind] for kind in inside]).sum())
        if room < gpus:
            found[frozenset(row for row, number in enumerate(of_jobs) if kinds[number] in inside)] = room
    return [Cap(rows, room) for rows, room in sorted(found.items(), key=lambda f: sorted(f[0]))]


def caps_of_queues(session: Session, jobs: list[Job], used: dict[int, Ints], gpus: int) -> list[Cap]:
    """Caps of queues, computed as if their elastic jobs had nothing, where a cap is less than the whole pool.

    `used` is what these jobs have, by queue. Jobs with accelerators and jobs counted in slots have separate caps: a
    queue that may have no more GPUs may still have slots.
    """
    found: list[Cap] = []
    with session.statement():  # not committed
        for queue, had in used.items():
            session.state.charge_queue(queue, -had)
        for kind in (True, False):
            rows: dict[int, list[int]] = {}
            for row, job in enumerate(jobs):
                if bool(session.snapshot.shapes.gpus[worker_shape(session, job)]) == kind:
                    rows.setdefault(int(session.snapshot.jobs.queue[job.index]), []).append(row)
            found.extend(_caps_of_kind(session, jobs, rows, gpus))
    return found


def _caps_of_kind(session: Session, jobs: list[Job], rows: dict[int, list[int]], gpus: int) -> Iterator[Cap]:
    """The caps of some jobs, whose rows are given by queue: for each queue and each of its ancestors."""
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
    """The GPUs that a queue may have with workers of the shape that gives it most; they are charged to the queue.

    `asking` has a job for each shape.
    """
    if any(is_closed(session, job) for job in asking.values()):
        return gpus
    allowed = [(session.hooks.allowed(job, shape, gpus), shape, job) for shape, job in asking.items()]
    most, count, shape = max((count * gpus_of(session, job), count, shape) for count, shape, job in allowed)
    session.state.charge_queue(queue, count * session.snapshot.shapes.requests[shape].astype(object))
    return most


def _room(session: Session, queue: int) -> Amounts:
    capability = session.snapshot.queues.queues[queue].capability or {}
    limit = np.array(session.snapshot.axes.row(capability, missing=UNLIMITED), dtype=object)
    room: Amounts = limit - session.state.queue_allocated[queue]
    return room


def is_closed(session: Session, job: Job) -> bool:
    """Whether a job's queue takes nothing new, because it or a queue above it is closed."""
    queues, queue = session.snapshot.queues, int(session.snapshot.jobs.queue[job.index])
    if not queues.queues[queue].open:
        return True
    above_closed = any(not queues.queues[above].open for above in queues.path[queue])
    return above_closed and not session.hooks.allowed(job, worker_shape(session, job), 1)


class Shares:
    """The caps of the jobs of one pool."""

    def __init__(self, caps: list[Cap], widths: Ints, requests: Ints) -> None:
        """`widths` and `requests`: the GPUs and all requested resources of one worker of each job."""
        self._members = [(cap, _mask(cap, len(widths))) for cap in caps]
        self._widths = widths
        self._requests = requests

    def beyond(self, sizes: Ints) -> Mask:
        """Jobs of queues that exceed their capability, or the capability of a queue above them."""
        found = np.zeros(len(sizes), dtype=np.bool_)
        for cap, members in self._members:
            if cap.rooms:
                # Python integers, which do not overflow.
                have = (sizes[members, None].astype(object) * self._requests[members]).sum(axis=0)
                if any((have > room).any() for room in cap.rooms):
                    found |= members
        return found

    def fill(self, sizes: Ints, ask: Ask, rows: Mask, gpus: int) -> None:
        """Write the sizes of the jobs in `rows`; the other sizes are fixed and count against the limits."""
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
                    continue  # a smaller group with some of these jobs was done first: check again
                inside = members & rows
                gpus += self._used(sizes, inside & ~open_)  # earlier results of these jobs are replaced
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
        """What a cap leaves to those of its jobs that are in `members`, with the other sizes fixed."""
        cap, mask = of
        inside, left = mask & members, cap.gpus - self._used(sizes, mask & ~members)
        return Cap(frozenset(np.flatnonzero(inside).tolist()), left), inside

    def _used(self, sizes: Ints, rows: Mask) -> int:
        return int((sizes * self._widths)[rows].sum())


def _mask(cap: Cap, jobs: int) -> Mask:
    members = np.zeros(jobs, dtype=np.bool_)
    members[list(cap.rows)] = True
    return members
