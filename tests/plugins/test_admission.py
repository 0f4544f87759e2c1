"""Admission accounts: promised and surplus amounts, also after trial evictions are undone."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from maar.config.config import Config
from maar.model.jobs import Phase
from maar.model.queues import Queue
from maar.model.snapshot import Snapshot
from maar.model.tasks import Status
from maar.plugins.support.admission import Admission
from maar.session.register import Register
from maar.session.session import Session
from maar.testing.builders import GPU, cluster, gang, node

WORLD = cluster(
    node("n1", gpu=8),
    node("n2", gpu=8),
    Queue("org"),
    Queue("a", parent="org"),
    Queue("b", parent="org"),
    gang("asks", 0, minimum=1, phase=Phase.PENDING, queue="a", min_resources={GPU: 5}),
    gang("rich", 6, minimum=2, gpu=1, on=["n1"] * 6, queue="a", phase=Phase.RUNNING, min_resources={GPU: 2}),
    gang("waits", 3, gpu=1, queue="b", min_resources={GPU: 3}),
    gang("silent", 2, gpu=1, on=["n2"] * 2, queue="b", phase=Phase.RUNNING),
)


def opened() -> tuple[Session, Admission]:
    session = Session(Snapshot(WORLD), Config((), ()), 0.0)
    return session, Admission(session, Register(session.hooks, "test", 0, {}))


def gpus(session: Session, books: Admission, queue: str) -> tuple[int, int]:
    """The promised and surplus GPUs of a queue and the queues below it."""
    q, d = session.snapshot.queues.number[queue], session.snapshot.axes.index[GPU]
    return books.lacked(q)[d], books.surplus(q)[d]


def test_books_are_kept_for_a_queue_and_all_above_it() -> None:
    session, books = opened()
    assert (0, 4) == gpus(session, books, "a")
    assert (3, 0) == gpus(session, books, "b")
    assert (3, 4) == gpus(session, books, "org") == gpus(session, books, "root")
    org = session.snapshot.queues.number["org"]
    assert not any(books.lacked(org, own=True))


def test_a_group_that_is_admitted_is_promised_what_it_needs() -> None:
    session, books = opened()
    session.admit(session.job(session.snapshot.jobs.number["ns/asks"]))
    assert (5, 4) == gpus(session, books, "a")
    assert (8, 4) == gpus(session, books, "root")


def test_a_job_that_gets_what_it_was_promised_is_promised_it_no_more() -> None:
    session, books = opened()
    row = session.snapshot.jobs.number["ns/waits"]
    tasks = session.tasks_of(session.job(row), Status.PENDING)[:2]
    session.state.bind(row, int(session.snapshot.tasks.shape[tasks[0]]), tasks, np.array([1]), np.array([2]))
    assert (1, 0) == gpus(session, books, "b")


def test_surplus_that_is_evicted_is_surplus_no_more() -> None:
    session, books = opened()
    for task in session.snapshot.jobs.members[session.snapshot.jobs.number["ns/rich"]].tolist()[:5]:
        session.state.evict(task)
    assert (0, 0) == gpus(session, books, "a")


@given(st.lists(st.integers(0, 7), max_size=12, unique=True))
def test_safety_what_is_undone_leaves_the_books_as_they_were(victims: list[int]) -> None:
    session, books = opened()
    running = np.flatnonzero(session.state.status == Status.BOUND)
    before = {q: gpus(session, books, q) for q in ("a", "b", "org", "root")}
    with session.statement():
        for victim in victims:
            session.state.evict(int(running[victim]))
    assert before == {q: gpus(session, books, q) for q in before}


def test_nothing_is_counted_while_no_group_waits() -> None:
    quiet = cluster(node("n1", gpu=8), gang("r", 2, minimum=1, gpu=1, on=["n1", "n1"], min_resources={GPU: 1}))
    session = Session(Snapshot(quiet), Config((), ()), 0.0)
    books = Admission(session, Register(session.hooks, "test", 0, {}))
    session.state.evict(0)
    assert [] == session.hooks.job_enqueued
    assert not any(books.surplus(session.snapshot.queues.root))
