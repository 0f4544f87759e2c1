"""Where workers go: few nodes, whole nodes if possible, and as few moves as possible."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maar.elastic.placement import best_fit, moved, reshuffle

NONE: list[int] = []


def fit(fits: list[int], wanted: int, own: list[int] | None = None) -> dict[int, int]:
    rows, counts = best_fit(np.array(fits), wanted, np.array(own or [0] * len(fits)))
    return dict(zip(rows.tolist(), counts.tolist(), strict=True))


@pytest.mark.parametrize(
    ("fits", "wanted", "own", "expected"),
    [
        ([8, 4, 8], 4, NONE, {1: 4}),  # the node that takes all with least to spare
        ([8, 3, 8], 4, NONE, {0: 4}),  # not the fullest node if it does not take all
        ([2, 8, 3], 11, NONE, {1: 8, 2: 3}),  # whole nodes first, then the remainder where it fits best
        ([4, 4], 3, [0, 2], {1: 3}),  # where the job already runs
        ([4, 1], 3, [0, 2], {1: 1, 0: 2}),  # first where it runs, the rest elsewhere
        ([0, 0], 3, NONE, {}),
        ([1, 1], 3, NONE, {0: 1, 1: 1}),
    ],
)
def test_best_fit(fits: list[int], wanted: int, own: list[int], expected: dict[int, int]) -> None:
    assert expected == fit(fits, wanted, own)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.integers(0, 30), st.data())
def test_safety_no_node_takes_more_than_it_can_and_all_that_can_be_is_placed(
    fits: list[int], wanted: int, data: st.DataObject
) -> None:
    own = data.draw(st.lists(st.integers(0, 3), min_size=len(fits), max_size=len(fits)))
    placed = fit(fits, wanted, own)
    assert all(0 < count <= fits[row] for row, count in placed.items())
    assert min(wanted, sum(fits)) == sum(placed.values())


@st.composite
def layouts(draw: st.DrawFn) -> tuple[list[list[int]], list[int], list[int]]:
    """Workers by job and node, GPUs of a worker, and enough room for them."""
    jobs, nodes = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    now = [[draw(st.integers(0, 3)) for _ in range(nodes)] for _ in range(jobs)]
    gpus = [draw(st.sampled_from((1, 2, 4))) for _ in range(jobs)]
    used = [sum(row[n] * g for row, g in zip(now, gpus, strict=True)) for n in range(nodes)]
    return now, gpus, [u + draw(st.integers(0, 4)) for u in used]


@given(layouts())
def test_safety_a_new_layout_keeps_sizes_and_room_and_lies_on_fewer_nodes(
    drawn: tuple[list[list[int]], list[int], list[int]],
) -> None:
    now, gpus, room = (np.array(part) for part in drawn)
    then = reshuffle(now, gpus, room, np.argmax(now > 0, axis=1))
    assert now.sum(axis=1).tolist() == then.sum(axis=1).tolist()
    assert ((then * gpus[:, None]).sum(axis=0) <= room).all()
    assert (then == now).all() or (then > 0).sum() < (now > 0).sum()


def test_workers_are_mapped_to_nodes_where_most_of_them_are() -> None:
    """Voda mapped them in random order, and deleted 74 to 115 workers in a run of 24 jobs."""
    now = np.array([[2, 2, 0], [1, 0, 3], [1, 2, 1]])
    then = reshuffle(now, np.ones(3, dtype=np.int64), np.full(3, 4), np.array([0, 2, 1]))
    assert [[4, 0, 0], [0, 0, 4], [0, 4, 0]] == then.tolist()
    assert 5 == moved(now, then)


def test_a_layout_that_is_good_is_left_alone() -> None:
    now = np.array([[4, 0], [0, 4]])
    assert now.tolist() == reshuffle(now, np.ones(2, dtype=np.int64), np.full(2, 4), np.array([0, 1])).tolist()
