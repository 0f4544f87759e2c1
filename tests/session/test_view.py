"""One shape compared with all nodes: how many tasks fit, now and later, and which nodes are best."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maar.model.codes import NODES, Code
from maar.model.reasons import Refusal
from maar.model.resources import Floats, Ints
from maar.model.tasks import Status
from maar.session.register import Register
from maar.session.session import Session
from maar.session.view import best_first
from maar.testing.builders import cluster, gang, node


@pytest.mark.parametrize(
    ("fits", "score", "wanted", "expected"),
    [
        ([1, 1, 1], [0, 0, 0], 2, {0: 1, 1: 1}),
        ([1, 1, 1], [1, 3, 2], 2, {1: 1, 2: 1}),
        ([5, 5], [1, 2], 3, {1: 3}),
        ([2, 2, 2], [1, 1, 1], 5, {0: 2, 1: 2, 2: 1}),
        ([0, 3, 0], [9, 1, 9], 2, {1: 2}),
        ([1, 1], [0, 0], 5, {0: 1, 1: 1}),
        ([0, 0], [1, 1], 1, {}),
        ([], [], 1, {}),
        ([4, 1, 1], [1, 1, 2], 3, {2: 1, 0: 2}),
    ],
)
def test_best_first(fits: list[int], score: list[float], wanted: int, expected: dict[int, int]) -> None:
    rows, counts = best_first(np.array(fits, dtype=np.int64), np.array(score, dtype=np.float64), wanted)
    assert list(expected.items()) == list(zip(rows.tolist(), counts.tolist(), strict=True))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=12), st.integers(1, 10))
def test_best_first_is_a_sort(nodes: list[tuple[int, int]], wanted: int) -> None:
    """The same as ranking every place by score and then by row."""
    fits = np.array([f for f, _ in nodes], dtype=np.int64)
    score = np.array([s for _, s in nodes], dtype=np.float64)
    rows, counts = best_first(fits, score, wanted)
    places = [(-s, row) for row, (f, s) in enumerate(nodes) for _ in range(f)]
    expected = [row for _, row in sorted(places)[:wanted]]
    assert expected == np.repeat(rows, counts).tolist()
    assert (counts > 0).all()


@pytest.fixture
def session(opened: Callable[..., Session]) -> Session:
    """n1: 4 GPUs, 1 of them releasing, 2 promised. n2: 4 idle GPUs. n3: 1 GPU. n4: closed."""

    def close(session: Session, on: Register) -> None:
        closed = np.array([False, False, False, True])
        on.predicate(lambda shape: [Refusal("test", Code("Closed", NODES), "closed", closed)])

    return opened(
        cluster(
            [node("n1", gpu=4), node("n2", gpu=4), node("n3", gpu=1), node("n4", gpu=8)],
            gang("leaving", gpu=1, task={"status": Status.RELEASING, "node": "n1"}),
            gang("promised", gpu=2, task={"status": Status.NOMINATED, "node": "n1"}),
            gang("waits", 4, gpu=1),
        ),
        [close],
    )


def test_room_now_and_room_to_come(session: Session) -> None:
    shape = int(session.snapshot.tasks.shape[-1])
    assert [2, 4, 1, 0] == session.view(shape).fits.tolist()
    assert [2, 4, 1, 0] == session.view(shape, later=True).fits.tolist()


def test_promised_room_comes_out_of_what_leaves_first(opened: Callable[..., Session]) -> None:
    session = opened(
        cluster(
            node("n1", gpu=4),
            gang("leaving", gpu=2, task={"status": Status.RELEASING, "node": "n1"}),
            gang("promised", gpu=1, task={"status": Status.NOMINATED, "node": "n1"}),
            gang("waits", 4, gpu=1),
        )
    )
    shape = int(session.snapshot.tasks.shape[-1])
    assert [2] == session.view(shape).fits.tolist()
    assert [3] == session.view(shape, later=True).fits.tolist()


def test_a_placement_is_seen_and_so_is_its_undoing(session: Session) -> None:
    shape, job = int(session.snapshot.tasks.shape[-1]), session.snapshot.jobs.number["ns/waits"]
    tasks = session.snapshot.jobs.members[job]
    view = session.view(shape)
    with session.statement():
        session.state.bind(job, shape, tasks[:3], np.array([1, 2]), np.array([2, 1]))
        assert [2, 2, 0, 0] == session.view(shape).fits.tolist()
    assert [2, 4, 1, 0] == session.view(shape).fits.tolist()
    assert view is session.view(shape)


def test_nothing_leaves_and_nothing_is_promised_so_later_is_now(opened: Callable[..., Session]) -> None:
    session = opened(cluster(node("n1", gpu=1), gang("a", gpu=1)))
    assert session.view(0) is session.view(0, later=True)
    session.state.soften()
    assert session.view(0) is not session.view(0, later=True)


def test_pod_slots_limit_pods_that_ask_for_nothing(opened: Callable[..., Session]) -> None:
    session = opened(cluster(node("n1", pods=3), node("n2", pods=1), gang("a", 9, cpu=0, memory=0, on=["n1"])))
    assert [2, 1] == session.view(0).fits.tolist()


def test_only_rows_that_changed_are_scored_again(opened: Callable[..., Session]) -> None:
    asked: list[list[int]] = []

    def score(shape: int, rows: Ints | slice) -> Floats:
        asked.append(np.arange(4)[rows].tolist())
        return np.zeros(4)[rows]

    session = opened(
        cluster([node(f"n{i}", gpu=4) for i in range(4)], gang("a", 3, gpu=1)),
        [lambda session, on: on.score(score)],
    )
    view = session.view(0)
    assert [] == asked, "only how many tasks fit is asked"
    assert [0, 0, 0, 0] == view.score.tolist()
    session.state.bind(0, 0, np.array([0, 1]), np.array([2, 1]), np.array([1, 1]))
    assert [0, 0, 0, 0] == session.view(0).score.tolist()
    assert [0, 0, 0, 0] == session.view(0).score.tolist()
    assert [0, 1, 2, 3] == asked[0]
    assert [[1, 2]] == [sorted(rows) for rows in asked[1:]]
