"""Statements: kept if committed, otherwise undone completely."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.session_contents import contents

from maar.model.plan import Cause
from maar.model.queues import Queue
from maar.model.reasons import Reason
from maar.model.selectors import Port
from maar.model.tasks import Status
from maar.session.session import Decision, Session
from maar.session.state import MANY
from maar.testing.builders import cluster, gang, node

WHY = Reason("test", "Why", "it waits")


@pytest.fixture
def session(opened: Callable[..., Session]) -> Session:
    """Two nodes; `ns/a` runs on both, `ns/b` waits. A plugin counts tasks by job."""
    made = opened(
        cluster(
            node("n1", gpu=4),
            node("n2", gpu=4),
            gang("a", 2, gpu=1, on=["n1", "n2"], constraints={"ports": (Port(80),)}),
            gang("b", 2, gpu=2),
        )
    )
    counts = made.state.column(2)
    made.state.listen(lambda job, shape, rows, n, sign: made.state.add(counts, job, sign * n.sum()))
    vars(made)["counts"] = counts
    return made


def bind(session: Session, count: int = 1, first: int = 0, row: int = 0) -> None:
    job = session.snapshot.jobs.number["ns/b"]
    tasks = session.snapshot.jobs.members[job][first : first + count]
    shape = int(session.snapshot.tasks.shape[tasks[0]])
    session.state.bind(job, shape, tasks, np.array([row]), np.array([count]))


def nominate(session: Session, row: int = 1) -> int:
    job = session.snapshot.jobs.number["ns/b"]
    tasks = session.snapshot.jobs.members[job][:1]
    session.state.nominate(job, int(session.snapshot.tasks.shape[tasks[0]]), tasks, np.array([row]), np.array([1]))
    return int(tasks[0])


def number(session: Session, key: str) -> int:
    return session.snapshot.tasks.number[key]


def test_leaving_without_commit_undoes_everything(session: Session) -> None:
    before = contents(session)
    with session.statement():
        bind(session, 2)
        session.state.evict(number(session, "ns/a-1"))
        assert before != contents(session)
    assert before == contents(session)


@pytest.mark.parametrize(
    "verb",
    [
        lambda s: s.evict(0, s.job(1), "for b", Cause.PREEMPTED),
        lambda s: s.note(s.job(1), WHY),
        lambda s: s.clear_notes(s.job(0)),
        lambda s: s.admit(s.job(0)),
        lambda s: s.pass_over("default", WHY),
        lambda s: s.size(s.job(1), Decision(2, 2, "planned")),
        lambda s: s.set_target(s.job(1)),
        lambda s: s.lock("n2", s.job(0)),
        lambda s: s.unlock("n1"),
        lambda s: s.date_target(),
        lambda s: s.expire_target(),
        lambda s: s.clear_target(),
        lambda s: s.state.reserve(1, 1, np.array([0]), np.array([2])),
        lambda s: s.state.soften(),
    ],
)
def test_what_the_session_records_is_undone(session: Session, verb: Callable[[Session], None]) -> None:
    """The whole session. Evictions, notes and sizes once survived a rollback, and the plan used them."""
    session.note(session.job(0), WHY)
    session.set_target(session.job(0), since=-1.0)
    session.lock("n1", session.job(0))
    before = contents(session)
    with session.statement():
        verb(session)
        assert before != contents(session)
    assert before == contents(session)


def test_what_is_committed_stays(session: Session) -> None:
    with session.statement() as statement:
        bind(session, 2)
        statement.commit()
    gpu = session.snapshot.axes.index["nvidia.com/gpu"]
    assert [5, 1] == session.state.used[:, gpu].tolist()
    assert [0, 2] == vars(session)["counts"].tolist()
    assert [2, 2] == session.state.job_ready.tolist()


def test_an_exception_undoes_even_what_was_committed(session: Session) -> None:
    before = contents(session)

    def fail() -> None:
        with session.statement() as statement:
            bind(session)
            statement.commit()
            raise KeyError("a plugin's mistake")

    with pytest.raises(KeyError):
        fail()
    assert before == contents(session)
    assert 0 == session.depth


def test_a_checkpoint_is_a_point_to_go_back_to(session: Session) -> None:
    with session.statement() as statement:
        bind(session, 1)
        middle, mark = contents(session), statement.checkpoint()
        for row in (0, 1, 1):
            bind(session, 1, first=1, row=row)
            statement.rollback(mark)
            assert middle == contents(session)
        statement.commit()
    assert middle == contents(session)


def test_rolling_back_many_times_stays_cheap(session: Session) -> None:
    with session.statement() as statement:
        mark = statement.checkpoint()
        for _ in range(100):
            bind(session)
            statement.rollback(mark)
        rows, _ = session.state.touched_since(0)
        assert rows is not None
        assert [0] == rows.tolist()
        assert session.state.cursor <= 200


def test_rolling_back_to_the_beginning(session: Session) -> None:
    before = contents(session)
    with session.statement() as statement:
        bind(session)
        statement.rollback()
        assert before == contents(session)
        bind(session, row=1)
        after = contents(session)
        statement.commit()
    assert after == contents(session)


@pytest.mark.parametrize(("inner", "outer"), [(False, False), (False, True), (True, False), (True, True)])
def test_statements_nest(session: Session, inner: bool, outer: bool) -> None:
    """An inner commit hands its changes to the outer statement, which may still undo them."""
    before = contents(session)
    with session.statement() as outside:
        bind(session)
        first = contents(session)
        with session.statement() as inside:
            bind(session, first=1, row=1)
            both = contents(session)
            if inner:
                inside.commit()
        assert (both if inner else first) == contents(session)
        if outer:
            outside.commit()
    assert {False: before, True: both if inner else first}[outer] == contents(session)


def test_evict_and_spare(session: Session) -> None:
    session.state.soften()  # not undone by `spare`
    before, task = contents(session), number(session, "ns/a-0")
    session.evict(task, session.job(1), "for b", Cause.PREEMPTED)
    assert [task] == list(session.evictions)
    gpu = session.snapshot.axes.index["nvidia.com/gpu"]
    assert Status.RELEASING == session.state.status[task]
    assert [1, 1] == session.state.used[:, gpu].tolist()
    assert [1, 0] == session.state.releasing[:, gpu].tolist()
    assert [[1, 0]] == session.state.leaving.tolist()
    assert [-1, 0] == vars(session)["counts"].tolist()
    assert 1 == session.state.job_ready[0]
    root = session.snapshot.queues.root
    assert 1 == session.state.queue_allocated[root, gpu]
    session.spare(task)
    assert before == contents(session)


def test_nominate_and_withdraw(session: Session) -> None:
    session.state.soften()
    before = contents(session)
    task = nominate(session)
    gpu = session.snapshot.axes.index["nvidia.com/gpu"]
    assert Status.NOMINATED == session.state.status[task]
    assert 1 == session.state.node[task]
    assert [0, 2] == session.state.nominated[:, gpu].tolist()
    assert [1, 1] == session.state.used[:, gpu].tolist()
    assert [0, 1] == session.state.job_nominated.tolist()
    assert 2 == session.state.job_allocated[1, gpu]
    session.state.withdraw(task)
    assert before == contents(session)


def test_listeners_hear_on_which_nodes_tasks_come_and_go(session: Session) -> None:
    """A charge may depend on the node."""
    heard: list[tuple[int, list[int], list[int], int]] = []
    session.state.listen(lambda job, _, rows, counts, sign: heard.append((job, rows.tolist(), counts.tolist(), sign)))
    bind(session)
    session.state.evict(number(session, "ns/a-1"))
    session.state.withdraw(nominate_second(session))
    session.state.reserve(1, 1, np.array([0, 1]), np.array([1, 2]))
    session.state.let_go(1)
    session.state.charge(1, 1, 3)
    assert heard == [
        (1, [0], [1], 1),
        (0, [1], [1], -1),
        (1, [1], [1], 1),
        (1, [1], [1], -1),
        (1, [0, 1], [1, 2], 1),
        (1, [0, 1], [1, 2], -1),
        (1, [-1], [3], 1),
    ]


def nominate_second(session: Session) -> int:
    task = number(session, "ns/b-1")
    session.state.nominate(1, int(session.snapshot.tasks.shape[task]), np.array([task]), np.array([1]), np.array([1]))
    return task


def test_a_pod_on_a_node_that_has_gone_can_be_evicted(opened: Callable[..., Session]) -> None:
    session = opened(cluster(node("n1"), gang("a", on=["gone"])))
    with session.statement() as statement:
        session.state.evict(0)
        statement.commit()
    assert [Status.RELEASING] == session.state.status.tolist()
    assert 0 == session.state.releasing.sum()


def test_queues_above_count_too(opened: Callable[..., Session]) -> None:
    session = opened(
        cluster(
            node("n1", gpu=8), Queue("team"), Queue("me", parent="team"), gang("a", 2, gpu=3, queue="me", on=["n1"])
        )
    )
    gpu, number = session.snapshot.axes.index["nvidia.com/gpu"], session.snapshot.queues.number
    session.state.bind(0, 0, np.array([1]), np.array([0]), np.array([1]))
    had = {name: int(session.state.queue_allocated[q, gpu]) for name, q in number.items()}
    assert {"me": 6, "team": 6, "root": 6, "default": 0} == had
    assert all(isinstance(x, int) for x in session.state.queue_allocated.flat)


def test_features_follow_their_pods(session: Session) -> None:
    assert {Port(80): 0} == session.snapshot.shapes.feature
    with session.statement():
        session.state.evict(number(session, "ns/a-0"))
        assert ([[1, 1]], [[1, 0]]) == (session.state.features.tolist(), session.state.leaving.tolist())
    assert ([[1, 1]], [[0, 0]]) == (session.state.features.tolist(), session.state.leaving.tolist())


def test_many_tasks_leave_together_as_one_by_one(opened: Callable[..., Session]) -> None:
    queues = [Queue("q0"), Queue("q1", parent="q0")]
    nodes = [f"n{i}" for i in range(5)]
    running = [
        gang(f"r{i:02}", 3, gpu=1 + i % 2, on=[nodes[(i + k) % 5] for k in range(3)], queue=f"q{i % 2}")
        for i in range(20)
    ]
    made = cluster([node(name, gpu=64, cpu=200, memory="200Gi") for name in nodes], queues, running)
    session, going = opened(made), range(50)
    before = contents(session)
    assert len(going) > MANY

    def columns() -> dict[str, Any]:
        public = ((name, value) for name, value in vars(session.state).items() if not name.startswith("_"))
        return {name: value.tolist() for name, value in public if isinstance(value, np.ndarray)}

    with session.statement() as statement:
        session.state.evict(*going)
        together = columns()
        session.state.spare(*going[5:])
        assert [True] * 5 + [False] * 55 == (session.state.status == Status.RELEASING).tolist()
        statement.rollback()
        assert before == contents(session)
        for task in going:
            session.state.evict(task)
        assert columns() == together
        assert together["releasing"] != np.zeros_like(session.state.releasing).tolist()
