"""The order of service: namespaces, queues, jobs; and the next turn after something was given."""

from __future__ import annotations

from collections.abc import Callable

from maar.model.queues import Queue
from maar.model.reasons import Reason
from maar.session.register import Register
from maar.session.session import Session
from maar.session.turns import Turns
from maar.testing.builders import cluster, gang

Opened = Callable[..., Session]


def order(turns: Turns) -> list[str]:
    found = []
    while (job := turns.next()) is not None:
        found.append(job.key)
    return found


def by_priority(session: Session, on: Register) -> None:
    on.job_order(lambda job: -job.priority)


def test_jobs_of_one_queue_in_their_order(opened: Opened) -> None:
    session = opened(
        cluster(gang("a"), gang("b", priority=5), gang("c", created=-1.0), gang("d", priority=5, created=1.0)),
        [by_priority],
    )
    assert ["ns/b", "ns/d", "ns/c", "ns/a"] == order(Turns(session, session.active()))


def test_queues_come_before_jobs(opened: Opened) -> None:
    session = opened(
        cluster(
            Queue("q1"), Queue("q2"), gang("a", queue="q1"), gang("b", queue="q2", priority=9), gang("c", queue="q2")
        ),
        [by_priority, lambda session, on: on.queue_order(lambda queue: {"q1": 0, "q2": 1}[queue.name])],
    )
    assert ["ns/a", "ns/b", "ns/c"] == order(Turns(session, session.active()))


def test_a_queue_that_was_given_something_goes_behind(opened: Opened) -> None:
    given = {"q1": 0, "q2": 0}
    session = opened(
        cluster(Queue("q1"), Queue("q2"), [gang(f"{q}-{i}", queue=q) for q in given for i in range(3)]),
        [lambda session, on: on.queue_order(lambda queue: given[queue.name])],
    )
    turns, found = Turns(session, session.active()), []
    while (job := turns.next()) is not None:
        found.append(job.key)
        given[job.queue] += 2 if job.queue == "q1" else 1
    assert ["ns/q1-0", "ns/q2-0", "ns/q2-1", "ns/q1-1", "ns/q2-2", "ns/q1-2"] == found


def test_namespaces_come_before_queues_where_they_are_ordered(opened: Opened) -> None:
    jobs = [gang("x/a", queue="q1"), gang("y/b", queue="q2"), gang("x/c", queue="q2"), gang("y/d", queue="q1")]
    queues = [Queue("q1"), Queue("q2")]
    plain = opened(cluster(queues, jobs))
    assert ["x/a", "y/d", "x/c", "y/b"] == order(Turns(plain, plain.active()))
    ordered = opened(cluster(queues, jobs), [lambda s, on: on.namespace_order({"x": 1, "y": 0}.__getitem__)])
    assert ["y/d", "y/b", "x/a", "x/c"] == order(Turns(ordered, ordered.active()))


def test_overused_queues_are_passed_over_and_remembered(opened: Opened) -> None:
    used = Reason("fair", "Overused", "has enough")
    session = opened(
        cluster(Queue("q1"), Queue("q2"), gang("a", queue="q1"), gang("b", queue="q2")),
        [lambda s, on: on.overused(lambda queue: queue.name == "q1", lambda queue: used)],
    )
    assert ["ns/a", "ns/b"] == order(Turns(session, session.active(), skip_overused=False))
    assert {} == session.overused
    assert ["ns/b"] == order(Turns(session, session.active()))
    assert {"q1": used} == session.overused


def test_a_job_may_wait_for_another_turn(opened: Opened) -> None:
    session = opened(cluster(gang("a"), gang("b", queue="other"), Queue("other")))
    turns = Turns(session, session.active())
    first = turns.next()
    assert first is not None
    turns.again(first)
    assert ["ns/a", "ns/b"] == order(turns)
    turns.again(first)
    assert ["ns/a"] == order(turns)
    assert turns.next() is None
