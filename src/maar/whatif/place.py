"""A job's place: which waiting jobs of its queue go first, which queues go first, and which plugin put them there.

The order is that of the beginning of a cycle. It changes during the cycle, because a queue that gets something then
goes behind others. A job that comes later may still start first, if this one does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from maar.config.config import Config
from maar.decide import opened
from maar.model.jobs import Job
from maar.model.queues import Queue
from maar.model.snapshot import Snapshot
from maar.session.hooks import Entry, QueueKey
from maar.session.nominations import is_begun
from maar.session.session import Session

BEGUN = "allocate"
CREATED = "created"
NAME = "name"

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
    session = opened(snapshot, config, now)
    return session, [job for job in session.active(resting=True) if session.waits(job) or session.is_pending(job)]


def _order(session: Session) -> list[Entry[Callable[[Any], Any]]]:
    """What orders the jobs of a queue, before their names."""
    words = "runs only in part, and is completed first"
    begun = Entry[Callable[[Any], Any]](-1, BEGUN, lambda job: not is_begun(session, job), words)
    return [begun, *session.hooks.job_order, *session.hooks.job_ties, _OLDER]


class Turn(NamedTuple):
    """A queue, and the job that it would place next."""

    queue: Queue
    job: Job


def _order_of_queues(session: Session) -> list[Entry[Callable[[Turn], Any]]]:
    def entry(of: Entry[QueueKey]) -> Entry[Callable[[Turn], Any]]:
        return Entry(of.tier, of.plugin, lambda turn: of.call(turn.queue, turn.job), of.words)

    older = Entry[Callable[[Turn], Any]](-1, CREATED, lambda turn: turn.queue.created, "older")
    return [*map(entry, session.hooks.queue_order), older]


_OLDER = Entry[Callable[[Any], Any]](-1, CREATED, lambda item: item.created, "older")


def _place(session: Session, jobs: Sequence[Job], mine: Job) -> Place:
    hooks, queues = session.hooks, session.snapshot.queues
    beside = [job for job in jobs if job.queue == mine.queue]
    own = queues.queues[queues.number[mine.queue]]
    ahead = _ahead(_order(session), beside, mine, lambda job: job.key)
    turns = {own.name: Turn(own, mine)}
    for job in sorted(jobs, key=hooks.job_key):
        turns.setdefault(job.queue, Turn(queues.queues[queues.number[job.queue]], job))
    namespaces = sorted({job.namespace for job in jobs}) if hooks.namespace_order else [mine.namespace]
    return Place(
        mine.key,
        mine.queue,
        number=len(ahead) + 1,
        waiting=len(beside),
        ahead=ahead,
        queues_ahead=_ahead(_order_of_queues(session), turns.values(), turns[own.name], lambda turn: turn.queue.name),
        namespaces_ahead=_ahead(hooks.namespace_order, namespaces, mine.namespace, lambda name: name),
    )


def _ahead(
    order: Sequence[Entry[Callable[[T], Any]]], items: Iterable[T], mine: T, name: Callable[[T], str]
) -> tuple[Ahead, ...]:
    """The items that go before one of them, in their order, each with the first entry that distinguishes the two."""
    order = [*order, Entry(-1, NAME, name, "first by name")]
    keys = tuple(entry.call(mine) for entry in order)
    found = []
    for item in items:
        theirs = tuple(entry.call(item) for entry in order)
        if theirs < keys:
            by = next(entry for entry, a, b in zip(order, theirs, keys, strict=True) if a != b)
            found.append((theirs, Ahead(name(item), by.plugin, by.words)))
    return tuple(ahead for _, ahead in sorted(found, key=lambda pair: pair[0]))
