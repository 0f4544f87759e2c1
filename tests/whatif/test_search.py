"""The search for the smallest number and the smallest set."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maar.whatif.search import FEW, least, least_set


@given(most=st.integers(0, 5000), enough=st.integers(1, 6000))
def test_the_least_number(most: int, enough: int) -> None:
    asked: list[int] = []

    def works(n: int) -> bool:
        asked.append(n)
        return n >= enough

    assert (enough if enough <= most else None) == least(most, works)
    assert len(asked) <= FEW + 1 if most <= FEW else len(asked) <= 2 * most.bit_length() + 2


def test_few_numbers_are_all_tried() -> None:
    """Also if more of a change undoes it."""
    assert 3 == least(10, lambda n: n in (3, 7, 10))


@given(st.integers(1, 40), st.sets(st.integers(0, 39), min_size=1))
def test_the_least_set(size: int, needed: set[int]) -> None:
    asked: list[Sequence[int]] = []

    def works(chosen: Sequence[int]) -> bool:
        asked.append(chosen)
        return needed <= set(chosen)

    found = least_set(range(size), works)
    assert (sorted(needed) if needed <= set(range(size)) else None) == (None if found is None else sorted(found))
    assert len(asked) <= 20 + len(needed) * (2 * size.bit_length() + 3)


@given(st.integers(1, 12), st.integers(1, 14))
def test_any_set_of_a_size(size: int, count: int) -> None:
    found = least_set(range(size), lambda chosen: len(chosen) >= count)
    assert (list(range(count)) if count <= size else None) == (found if found is None else sorted(found))


@pytest.mark.parametrize("good", [{0}, {2, 3}, {0, 1, 2, 3, 4}])
def test_more_that_undoes_it(good: set[int]) -> None:
    """Only this set and all together work: what is found works, and no part of it does."""
    found = least_set(range(6), lambda chosen: set(chosen) == good or len(chosen) == 6)
    assert found is not None
    assert set(found) == good or len(found) == 6
