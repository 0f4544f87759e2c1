"""What plugins that speak for queues have in common: what is asked, what is had, and how a refusal is said.

Reads the session's columns and keeps nothing. Amounts are rows of Python integers, as in `plugins.shares`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from maar.model.jobs import Job
from maar.model.queues import Queue
from maar.model.reasons import Reason
from maar.model.resources import CPU, EPHEMERAL, MEMORY, PODS, UNLIMITED, Axes, Ints, Mask, in_words, total
from maar.plugins.support.shares import Row, less
from maar.session.hooks import Claim
from maar.session.journal import Array
from maar.session.session import Session


def compared(axes: Axes) -> list[int]:
    """The dimensions in which shares are compared: all but pod slots, devices first, since people wait for those."""
    last = {CPU: 1, MEMORY: 2, EPHEMERAL: 3}
    dims = [d for d, name in enumerate(axes.names) if name != PODS]
    return sorted(dims, key=lambda d: (last.get(axes.names[d], 0), axes.names[d]))


def limit_row(axes: Axes, queue: Queue) -> Row:
    """A queue's capability; what it does not name is unlimited."""
    return axes.row(queue.capability or {}, missing=UNLIMITED)


def minimum_row(session: Session, job: Job) -> Row:
    """What a group says it needs at least."""
    return session.snapshot.axes.row(job.min_resources or {})


def wanted_row(session: Session, job: Job, shape: int) -> Row:
    """What one task of a shape asks for; for a group without pods (shape -1) what the whole group says it needs."""
    if shape < 0:
        return minimum_row(session, job)
    row: Row = session.snapshot.shapes.requests[shape].tolist()
    return row


def has_all(session: Session, queue: int) -> Row:
    """What a queue's jobs have, with those of all queues below it."""
    row: Row = session.state.queue_allocated[queue].tolist()
    return row


def has_own(session: Session, queue: int) -> Row:
    """What a queue's own jobs have."""
    return own_of(session, session.state.queue_allocated, queue)


def own_of(session: Session, column: Array, queue: int) -> Row:
    """A queue's own part of a column that counts the queues below it too."""
    row: Row = column[queue].tolist()
    for child in session.snapshot.queues.children[queue]:
        row = less(row, column[child].tolist())
    return row


class InUse:
    """What is used or promised on all nodes, whoever has it: counted once, then kept up with the queues' sums."""

    def __init__(self, session: Session) -> None:
        state = session.state
        self._session = session
        self._root = session.snapshot.queues.root
        self._others = less(
            total(state.used - state.releasing + state.nominated), state.queue_allocated[self._root].tolist()
        )

    def row(self) -> Row:
        """Now."""
        queues = self._session.state.queue_allocated[self._root].tolist()
        return [a + b for a, b in zip(self._others, queues, strict=True)]


def vote_by_kind(claim: Claim, tasks: Ints, kinds: Ints, judge: Callable[[int, bool], bool]) -> Mask:
    """Ask `judge(task, going)` about each task: in order as all going, or, each for itself, once for each kind.

    `going` says that a task found guilty is to be counted as gone when the next one is judged.
    """
    if claim.together:
        return np.array([judge(task, True) for task in tasks.tolist()], dtype=np.bool_)
    first, of_kind = np.unique(kinds, return_index=True, return_inverse=True)[1:]
    return np.array([judge(int(tasks[at]), False) for at in first.tolist()], dtype=np.bool_)[of_kind]


def closed(plugin: str, queue: Queue) -> Reason:
    """That a queue takes nothing new."""
    return Reason(plugin, "QueueClosed", f"queue `{queue.name}` is closed", queue=queue.name)


def over_limit(
    plugin: str,
    code: str,
    queue: Queue,
    axes: Axes,
    which: str,
    limit: Sequence[int],
    has: Sequence[int],
    asks: Sequence[int],
    promised: Sequence[int] | None = None,
) -> Reason | None:
    """The resource in which a queue would have more than a limit (`which` names it), or nothing.

    queue `research` may have 8 nvidia.com/gpu (deserved), has 8, asks for 4
    """
    for d in [*compared(axes), axes.pods]:
        waiting = promised[d] if promised is not None else 0
        if asks[d] > 0 and has[d] + waiting + asks[d] > limit[d]:
            name = axes.names[d]
            may, have, ask = (in_words(name, max(x, 0)) for x in (limit[d], has[d], asks[d]))
            also = f" and {in_words(name, waiting)} promised to admitted groups" if waiting > 0 else ""
            return Reason(
                plugin,
                code,
                f"queue `{queue.name}` may have {may} {name} ({which}), has {have}{also}, asks for {ask}",
                resource=name,
                needs=asks[d],
                has=max(limit[d] - has[d] - waiting, 0),
                limit=limit[d],
                queue=queue.name,
            )
    return None
