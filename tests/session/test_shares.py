"""Limits of groups of jobs that are nested or overlap: all of them hold."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from maar.model.resources import Ints
from maar.session.resizing.shares import Ask, Cap, Shares

JOBS = 5
MOST = st.lists(st.integers(1, 6), min_size=JOBS, max_size=JOBS)
WIDTHS = st.lists(st.sampled_from([1, 1, 2, 4]), min_size=JOBS, max_size=JOBS)
LIMITS = st.dictionaries(st.frozensets(st.integers(0, JOBS - 1), min_size=1), st.integers(0, 12), max_size=4)


def first_come(most: list[int], widths: list[int]) -> Ask:
    """Each job gets what it can use, until nothing is left."""

    def ask(rows: Ints, gpus: int) -> Ints:
        sizes = np.zeros(len(rows), dtype=np.int64)
        for i, row in enumerate(rows.tolist()):
            sizes[i] = min(most[row], gpus // widths[row])
            gpus -= int(sizes[i]) * widths[row]
        return sizes

    return ask


def filled(most: list[int], widths: list[int], limits: dict[frozenset[int], int], gpus: int) -> list[int]:
    sizes = np.zeros(len(most), dtype=np.int64)
    shares = Shares([Cap(*of) for of in limits.items()], np.array(widths), np.ones((len(most), 1), dtype=np.int64))
    shares.fill(sizes, first_come(most, widths), np.ones(len(most), dtype=np.bool_), gpus)
    result: list[int] = sizes.tolist()
    return result


@given(MOST, WIDTHS, LIMITS, st.integers(0, 30))
def test_every_limit_holds(most: list[int], widths: list[int], limits: dict[frozenset[int], int], gpus: int) -> None:
    sizes = filled(most, widths, limits, gpus)
    assert sum(size * width for size, width in zip(sizes, widths, strict=True)) <= gpus
    for rows, limit in limits.items():
        assert sum(sizes[row] * widths[row] for row in rows) <= limit


@given(MOST, st.integers(0, 30))
def test_limits_that_are_not_reached_change_nothing(most: list[int], gpus: int) -> None:
    wide = {frozenset({0, 1}): 12, frozenset({1, 2}): 12, frozenset({0, 1, 2}): 18}
    assert filled(most, [1] * JOBS, {}, gpus) == filled(most, [1] * JOBS, wide, gpus)


def test_groups_in_each_other_and_across() -> None:
    one, both, across = frozenset({0}), frozenset({0, 1}), frozenset({1, 2})
    assert [2, 4, 1] == filled([6, 4, 6], [1] * 3, {one: 2}, 7)
    assert [2, 3, 6] == filled([6, 6, 6], [1] * 3, {one: 2, both: 5}, 30)
    assert [2, 3, 1] == filled([6, 6, 6], [1] * 3, {one: 2, both: 5, across: 4}, 30)
