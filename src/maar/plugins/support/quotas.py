"""Common code of plugins for queues: what is requested, what a queue has, and the text of a refusal.

Reads the columns of the session and stores nothing. Amounts are rows of Python integers, as in `support.shares`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

import numpy as np

from maar.model.codes import QUEUE_LIMIT, Code
from maar.model.jobs import Job
from maar.model.queues import Queue
from maar.model.reasons import Reason
from maar.model.resources import CPU, EPHEMERAL, MEMORY, PODS, UNLIMITED, Axes, Ints, Mask, in_words, total
from maar.plugins.support.shares import Row, less, plus, real_capability
from maar.session.eviction.making_room import needs_of
from maar.session.gangs import missing
from maar.session.hooks import Claim, Excess
from maar.session.journal import Array
from maar.session.no_room import one_shape
from maar.session.session import Session

OVER_CAPABILITY = Code("OverCapability", QUEUE_LIMIT)


def compared(axes: Axes) -> list[int]:
    """The dimensions in which shares are compared: all but pod slots, devices first (jobs mostly wait for them)."""
    return list(_compared(axes.names))


@lru_cache(maxsize=8)
def _compared(names: tuple[str, ...]) -> tuple[int, ...]:
    last = {CPU: 1, MEMORY: 2, EPHEMERAL: 3}
    dims = [d for d, name in enumerate(names) if name != PODS]
    return tuple(sorted(dims, key=lambda d: (last.get(names[d], 0), names[d])))


def limit_row(axes: Axes, queue: Queue) -> Row:
    """The capability of a queue; resources that it does not name are unlimited."""
    return axes.row(queue.capability or {}, missing=UNLIMITED)


def guarantees(session: Session) -> list[Row]:
    """What each queue is guaranteed."""
    return [session.snapshot.axes.row(queue.guarantee or {}) for queue in session.snapshot.queues.queues]


def flat_limits(session: Session, guarantee: list[Row]) -> list[Row]:
    """The limit of each queue if all share the whole cluster."""
    queues, promised = session.snapshot.queues, [0] * len(session.snapshot.axes)
    for q, row in enumerate(guarantee):
        promised = promised if q == queues.root else plus(promised, row)
    rows = zip(queues.queues, guarantee, strict=True)
    return [real_limit(session, queue, session.total, promised, own) for queue, own in rows]


def real_limit(session: Session, queue: Queue, available: Row, promised: Row, own: Row) -> Row:
    """The real capability of a queue. Pod slots count only if its own limit names them."""
    pods, limit = session.snapshot.axes.pods, limit_row(session.snapshot.axes, queue)
    real = real_capability(available, promised, own, limit)
    real[pods] = limit[pods]
    return real


def minimum_row(session: Session, job: Job) -> Row:
    """The declared minimum needs of a group."""
    return session.snapshot.axes.row(job.min_resources or {})


def wanted_row(session: Session, job: Job, shape: int) -> Row:
    """The request of one task of a shape; for a group without pods (shape -1) the declared needs of the group."""
    if shape < 0:
        return minimum_row(session, job)
    row: Row = session.snapshot.shapes.requests[shape].tolist()
    return row


def next_row(session: Session, job: Job) -> Row:
    """What a job asks for in its next turn: its missing minimum, or one task more."""
    shape = one_shape(session, job)
    if shape >= 0 and not job.role_min and not job.subgroups:
        return [amount * max(missing(session, job).total, 1) for amount in wanted_row(session, job, shape)]
    row = [0] * len(session.snapshot.axes)
    for group, count in needs_of(session, job):
        row = plus(row, wanted_row(session, job, group.shape), count)
    return row if any(row) else minimum_row(session, job)


def has_all(session: Session, queue: int) -> Row:
    """The resources of a queue's jobs, with all queues below it."""
    row: Row = session.state.queue_allocated[queue].tolist()
    return row


def has_job(session: Session, job: int) -> Row:
    """The resources of a job."""
    row: Row = session.state.job_allocated[job].tolist()
    return row


def has_own(session: Session, queue: int) -> Row:
    """The resources of a queue's own jobs."""
    return own_of(session, session.state.queue_allocated, queue)


def own_of(session: Session, column: Array, queue: int) -> Row:
    """The queue's own part of a column that also counts the queues below it."""
    row: Row = column[queue].tolist()
    for child in session.snapshot.queues.children[queue]:
        row = less(row, column[child].tolist())
    return row


def excess(queue: int, has: Row, deserved: Row, dims: Iterable[int]) -> list[Excess]:
    """The resources of which a queue has more than it deserves, if it deserves any."""
    return [Excess(queue, d, has[d] - deserved[d], deserved[d]) for d in dims if has[d] > deserved[d] > 0]


def may_wait_for(session: Session, job: Job, asks: Sequence[int], lacked: Sequence[int]) -> bool:
    """Whether an admitted group may wait for this much, beside what other groups of its queue lack.

    A phase proves no admission: anyone who may edit a PodGroup of Volcano can write it, and raise `minResources` later.
    So a group keeps room from others only within the limit of its queue, and only if it could fit the whole cluster.
    """
    number = int(session.snapshot.jobs.queue[job.index])
    limit = limit_row(session.snapshot.axes, session.snapshot.queues.queues[number])
    rows = zip(asks, lacked, limit, session.total, strict=True)
    return all(waiting + more <= most and more <= there for more, waiting, most, there in rows if more > 0)


class InUse:
    """What is used, nominated or reserved on all nodes: counted once, then updated from the sums of the queues."""

    def __init__(self, session: Session) -> None:
        state = session.state
        self._session = session
        self._root = session.snapshot.queues.root
        # Anyone may set `nodeName` on a pod that requests more than a node has: no node is more than full.
        in_use = np.minimum(session.capacity.taken(), session.snapshot.nodes.allocatable)
        self._others = less(total(in_use), state.queue_allocated[self._root].tolist())

    def row(self) -> Row:
        queues = self._session.state.queue_allocated[self._root].tolist()
        return [a + b for a, b in zip(self._others, queues, strict=True)]


def vote_by_kind(claim: Claim, tasks: Ints, kinds: Ints, judge: Callable[[int, bool], bool]) -> Mask:
    """Ask `judge(task, going)` about each task: all in order, or each alone and once per kind.

    With `going`, a task that may be evicted counts as gone for the next tasks.
    """
    if claim.together:
        return np.array([judge(task, True) for task in tasks.tolist()], dtype=np.bool_)
    first, of_kind = np.unique(kinds, return_index=True, return_inverse=True)[1:]
    return np.array([judge(int(tasks[at]), False) for at in first.tolist()], dtype=np.bool_)[of_kind]


def over_limit(
    plugin: str,
    code: Code,
    queue: Queue,
    axes: Axes,
    which: str,
    limit: Sequence[int],
    has: Sequence[int],
    asks: Sequence[int],
    lacked: Sequence[int] | None = None,
) -> Reason | None:
    """The resource in which a queue would exceed a limit named `which`, or `None`.

    queue `research` may have 8 nvidia.com/gpu (deserved), has 8, asks for 4 more
    """
    for d in [*compared(axes), axes.pods]:
        waiting = lacked[d] if lacked is not None else 0
        if asks[d] > 0 and has[d] + waiting + asks[d] > limit[d]:
            name = axes.names[d]
            may, have, ask = (in_words(name, max(x, 0)) for x in (limit[d], has[d], asks[d]))
            also = f" and {in_words(name, waiting)} promised to admitted groups" if waiting > 0 else ""
            return Reason(
                plugin,
                code.name,
                f"queue `{queue.name}` may have {may} {name} ({which}), has {have}{also}, asks for {ask} more",
                resource=name,
                needs=asks[d],
                has=max(limit[d] - has[d] - waiting, 0),
                limit=limit[d],
                queue=queue.name,
                lasting=f"queue `{queue.name}` has reached its limit ({which}): the job asks for {ask} {name} more",
            )
    return None
