"""Queue arithmetic: water-filling and exact shares."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maar.model.fitting import how_many
from maar.plugins.support.shares import Dominant, Ratio, divide, real_capability, share_of

CLAIMS = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=7)
TOTALS = st.integers(0, 200)


@pytest.mark.parametrize(
    ("total", "weights", "low", "high", "expected"),
    [
        (8, [1, 1], [0, 0], [8, 8], [4, 4]),
        (8, [1, 3], [0, 0], [8, 8], [2, 6]),
        (8, [1, 1], [0, 0], [2, 8], [2, 6]),  # the other queue gets what one does not want
        (8, [1, 1], [6, 0], [8, 8], [6, 2]),  # a guarantee comes before weights
        (10, [1, 1, 1], [8, 0, 0], [10, 2, 2], [8, 1, 1]),  # Volcano would give 12 of 10
        (10, [1, 1, 1], [0, 0, 0], [10, 10, 10], [4, 3, 3]),  # no unit is left idle
        (10, [2, 1], [0, 0], [10, 10], [7, 3]),  # the rest goes to the larger remainder
        (8, [1, 1], [0, 0], [3, 3], [3, 3]),  # no queue gets more than it wants
        (8, [1, 1], [6, 6], [8, 8], [6, 6]),  # guarantees hold even if they exceed the total
        (8, [1, 1], [5, 0], [1, 8], [5, 3]),  # a guarantee may exceed the request
        (0, [1, 1], [0, 0], [8, 8], [0, 0]),
    ],
)
def test_water_filling(total: int, weights: list[int], low: list[int], high: list[int], expected: list[int]) -> None:
    assert expected == divide(total, weights, low, high)


def _sides(claims: list[tuple[int, int, int]]) -> tuple[list[int], list[int], list[int]]:
    weights, low, high = (list(side) for side in zip(*claims, strict=True))
    return weights, low, high


@given(TOTALS, CLAIMS)
def test_safety_every_queue_stays_between_guarantee_and_limit(total: int, claims: list[tuple[int, int, int]]) -> None:
    weights, low, high = _sides(claims)
    for given_, least, most in zip(divide(total, weights, low, high), low, high, strict=True):
        assert least <= given_ <= max(least, most)


@given(TOTALS, CLAIMS)
def test_liveness_nothing_is_left_that_a_queue_wants(total: int, claims: list[tuple[int, int, int]]) -> None:
    weights, low, high = _sides(claims)
    wanted = sum(max(a, b) for a, b in zip(low, high, strict=True))
    assert max(min(total, wanted), sum(low)) == sum(divide(total, weights, low, high))


@given(TOTALS, CLAIMS)
def test_the_water_stands_equally_high_for_all_that_could_have_more(
    total: int, claims: list[tuple[int, int, int]]
) -> None:
    """A queue above its guarantee is at most one unit of rounding above a queue that wants more."""
    weights, low, high = _sides(claims)
    parts = divide(total, weights, low, high)
    for i, mine in enumerate(parts):
        for j, theirs in enumerate(parts):
            if mine > low[i] and theirs < high[j]:
                assert Fraction(mine - 1, weights[i]) < Fraction(theirs + 1, weights[j])


@given(st.integers(0, 40), st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9), st.integers(0, 20)), max_size=4))
def test_the_order_of_queues_matters_to_ties_only(total: int, claims: list[tuple[int, int, int]]) -> None:
    if not claims:
        return
    weights, low, high = _sides(claims)
    parts = dict(enumerate(divide(total, weights, low, high)))
    for order in permutations(range(len(claims))):
        again = divide(total, [weights[i] for i in order], [low[i] for i in order], [high[i] for i in order])
        assert all(abs(parts[i] - part) <= 1 for i, part in zip(order, again, strict=True))


@given(st.integers(1, 10**6), CLAIMS)
def test_a_finer_unit_changes_no_share_by_a_unit(scale: int, claims: list[tuple[int, int, int]]) -> None:
    """No drift: the division is the same in milli-units, in bytes or in whole devices."""
    weights, low, high = _sides(claims)
    coarse = divide(60, weights, low, high)
    fine = divide(60 * scale, weights, [n * scale for n in low], [n * scale for n in high])
    assert all(abs(a * scale - b) <= scale for a, b in zip(coarse, fine, strict=True))


def test_shares_are_exact() -> None:
    assert Ratio(1, 3) == share_of([1, 0], [3, 5], (0, 1))
    assert share_of([1], [3], (0,)) < share_of([333334], [1000000], (0,))
    assert share_of([0, 4], [0, 8], (0, 1)) == Ratio(1, 2)
    assert share_of([1, 4], [0, 8], (0, 1)) == Ratio(1, 1)  # any amount of an undeserved resource counts as 1


@given(*[st.tuples(st.integers(0, 9), st.integers(1, 9))] * 2)
def test_ratios_compare_as_fractions(left: tuple[int, int], right: tuple[int, int]) -> None:
    a, b = Ratio(*left), Ratio(*right)
    exact_a, exact_b = Fraction(*left), Fraction(*right)
    assert ((a < b), (a == b)) == ((exact_a < exact_b), (exact_a == exact_b))
    assert a != b or hash(a) == hash(b)


def test_how_many_more_fit_under_a_limit() -> None:
    assert how_many([9, 4], [2, 1], 10) == 4
    assert how_many([9, 4], [2, 0], 3) == 3
    assert how_many([-1, 4], [1, 1], 3) == 0


def test_real_capability_leaves_others_their_guarantees() -> None:
    assert real_capability([16, 16], [6, 0], [2, 0], [20, 8]) == [12, 8]
    assert real_capability([4], [9], [2], [20]) == [2]


def test_dominant_shares_are_whole_numbers() -> None:
    dominant = Dominant([6, 4, 100, 0], ignored=2)
    assert dominant.whole == 12
    assert dominant.share([3, 1, 99, 7]) == 6  # half of the first; pods and resources that no node has are ignored
    assert dominant.parts([3, 1, 99, 7]) == [6, 3]
