"""A job's place: which waiting jobs of its queue go first, which queues go first, and which plugin put them there.

The order is that of the beginning of a cycle. It changes during the cycle, because a queue that gets something then
goes behind others. A job that comes later may still start first, if this one does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from maar.config.config import Config
from maar.model.jobs import Job
from maar.model.snapshot import Snapshot
from maar.session.hooks import Entry
from maar.session.lingering import count_lingering
from maar.session.nominations import is_begun
from maar.session.resizing.holds import take_up_holds
from maar.session.session import Session

BEGUN = "allocate"
CREATED = "created"
NAME = "name"

WORDS = {
    "priority": "higher priority",
    "gang": "does not have its minimum yet",
    "drf": "smaller share of the cluster",
    "sla": "its waiting time ends first",
    "tdm": "its owner does not call it preemptable",
    BEGUN: "runs only in part, and is completed first",
    CREATED: "older",
    NAME: "first by name",
}
"""What it means that a plugin puts a job first; also for the two rules that end every order."""
QUEUE_WORDS = {
    "proportion": "uses less of its share",
    "capacity": "higher priority, or uses less of its share",
    "drf": "uses less of its share in the tree",
    CREATED: "older",
    NAME: "first by name",
}
NAMESPACE_WORDS = {"drf": "smaller share of the cluster", NAME: "first by name"}

T = TypeVar("T")


class Ahead(msgspec.Struct, frozen=True):
    """One that goes first, and what put it there."""

    name: str
    by: str
    """The first plugin that distinguishes the two; `created` or `name` if none does."""
    words: str


class Place(msgspec.Struct, frozen=True):
    """A waiting job's place in the order of one cycle."""

    job: str
    queue: str
    number: int
    """1: the first of its queue."""
    waiting: int
    """Waiting jobs of the queue, with this one."""
    ahead: tuple[Ahead, ...] = ()
    """Jobs of the queue, the first one first."""
    queues_ahead: tuple[Ahead, ...] = ()
    """Queues with waiting jobs."""
    namespaces_ahead: tuple[Ahead, ...] = ()
    """Namespaces with waiting jobs, if a plugin orders them; they come before queues."""


def place_of(snapshot: Snapshot, config: Config, now: float, key: str) -> Place | None:
    """The place of a job; `None` if it is not in the order: it does not wait, or is not valid."""
    session, jobs = _opened(snapshot, config, now)
    mine = next((job for job in jobs if job.key == key), None)
    found = None if mine is None else _place(session, jobs, mine)
    session.close()
    return found


def places(snapshot: Snapshot, config: Config, now: float) -> dict[str, int]:
    """The places of all waiting jobs in their queues, from 1."""
    session, jobs = _opened(snapshot, config, now)
    order = _order(session)
    queues: dict[str, list[Job]] = {}
    for job in sorted(jobs, key=lambda job: (*(entry.call(job) for entry in order), job.key)):
        queues.setdefault(job.queue, []).append(job)
    session.close()
    return {job.key: number for waiting in queues.values() for number, job in enumerate(waiting, 1)}


def _opened(snapshot: Snapshot, config: Config, now: float) -> tuple[Session, list[Job]]:
    """A session at the beginning of a cycle, and its waiting jobs."""
    session = Session(snapshot, config, now)
    session.open()
    count_lingering(session)
    take_up_holds(session)
    return session, [job for job in session.active(resting=True) if session.waits(job) or session.is_pending(job)]


def _order(session: Session) -> list[Entry[Callable[[Any], Any]]]:
    """What orders the jobs of a queue, before their names."""
    begun = Entry[Callable[[Any], Any]](-1, BEGUN, lambda job: not is_begun(session, job))
    created = Entry[Callable[[Any], Any]](-1, CREATED, lambda item: item.created)
    return [begun, *session.hooks.job_order, created]


def _place(session: Session, jobs: Sequence[Job], mine: Job) -> Place:
    hooks, queues = session.hooks, session.snapshot.queues
    beside = [job for job in jobs if job.queue == mine.queue]
    created = Entry[Callable[[Any], Any]](-1, CREATED, lambda item: item.created)
    own = queues.queues[queues.number[mine.queue]]
    others = [queues.queues[number] for number in sorted({queues.number[job.queue] for job in jobs})]
    ahead = _ahead(_order(session), beside, mine, lambda job: job.key, WORDS)
    namespaces = sorted({job.namespace for job in jobs}) if hooks.namespace_order else [mine.namespace]
    return Place(
        mine.key,
        mine.queue,
        number=len(ahead) + 1,
        waiting=len(beside),
        ahead=ahead,
        queues_ahead=_ahead([*hooks.queue_order, created], others, own, lambda queue: queue.name, QUEUE_WORDS),
        namespaces_ahead=_ahead(hooks.namespace_order, namespaces, mine.namespace, lambda name: name, NAMESPACE_WORDS),
    )


def _ahead(
    order: Sequence[Entry[Callable[[T], Any]]],
    items: Iterable[T],
    mine: T,
    name: Callable[[T], str],
    words: dict[str, str],
) -> tuple[Ahead, ...]:
    """The items that go before one of them, in their order, each with the first entry that distinguishes the two."""
    keys = [entry.call(mine) for entry in order]
    found = []
    for item in items:
        if name(item) == name(mine):
            continue
        theirs = [entry.call(item) for entry in order]
        if (*theirs, name(item)) < (*keys, name(mine)):
            differ = (entry.plugin for entry, a, b in zip(order, theirs, keys, strict=True) if a != b)
            by = next(differ, NAME)
            found.append(((*theirs, name(item)), Ahead(name(item), by, words.get(by, f"by plugin `{by}`"))))
    return tuple(ahead for _, ahead in sorted(found, key=lambda pair: pair[0]))
