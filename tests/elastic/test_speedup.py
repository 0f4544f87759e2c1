"""The speed-up model: only measured points count; the curve is always monotone and concave."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maar.elastic.speedup import LINEAR, curve

points = st.dictionaries(st.integers(1, 64), st.floats(0.01, 100.0), min_size=1, max_size=8)


def test_nothing_measured_is_linear() -> None:
    assert [0.0, 1.0, 2.0, 3.0] == LINEAR.values(3).tolist()
    assert LINEAR == curve({})


def test_measured_points_are_kept_and_joined_by_straight_lines() -> None:
    measured = curve({4: 3.0, 1: 1.0, 2: 1.8})
    assert [0.0, 1.0, 1.8, pytest.approx(2.4), 3.0] == measured.values(4).tolist()


def test_beyond_the_last_point_its_slope_continues() -> None:
    assert [0.0, 1.0, 1.8, pytest.approx(2.6), pytest.approx(3.4)] == curve({1: 1.0, 2: 1.8}).values(4).tolist()


def test_one_point_speaks_for_all_sizes_in_proportion() -> None:
    assert [0.0, 0.75, 1.5, 2.25, 3.0, 3.75] == curve({4: 3.0}).values(5).tolist()


def test_a_job_slower_on_more_workers_gains_nothing_there() -> None:
    values = curve({1: 1.0, 2: 1.8, 4: 1.7}).values(8)
    assert values[2] == pytest.approx(values[4])
    assert values[4] == pytest.approx(values[8])
    assert 1.7 < values[4] < 1.8


def test_one_bad_measurement_does_not_corrupt_the_table() -> None:
    """Voda kept a default for unmeasured sizes: one measurement changed the apparent gain of all others."""
    good = {1: 1.0, 2: 1.8, 4: 3.0, 8: 4.4}
    honest, bad = curve(good).values(8), curve({**good, 3: 30.0}).values(8)
    assert np.max(np.abs(bad - honest) / np.maximum(honest, 1.0)) < 0.35
    first = curve({4: 3.0}).values(8)
    assert bool(np.all(np.diff(first) > 0)), "a first measurement gives plausible values for other sizes"
    more = curve({4: 3.0, 8: 4.5}).values(8)
    assert first[:5].tolist() == more[:5].tolist(), "a further measurement does not change them"


@given(measured=points)
def test_safety_monotone_and_concave(measured: dict[int, float]) -> None:
    values = curve(measured).values(80)
    steps = np.diff(values)
    assert 0.0 == values[0]
    assert values[1] > 0.0
    assert bool(np.all(steps >= -1e-9 * values[-1]))
    assert bool(np.all(np.diff(steps) <= 1e-9 * values[-1]))


@given(measured=points)
def test_safety_no_fit_is_far_better_than_this(measured: dict[int, float]) -> None:
    """The fitted curve is itself concave: fitting it again changes nothing."""
    once = curve(measured)
    again = curve(dict(zip(once.workers, once.speeds, strict=True)))
    assert list(once.speeds) == pytest.approx(list(again.speeds), rel=1e-6)


@given(slopes=st.lists(st.floats(0.01, 2.0), min_size=1, max_size=8))
def test_safety_valid_points_are_kept(slopes: list[float]) -> None:
    speeds = np.cumsum(sorted(slopes, reverse=True)).tolist()
    measured = dict(enumerate(speeds, 1))
    assert speeds == curve(measured).values(len(speeds)).tolist()[1:]


@pytest.mark.parametrize("bad", [{0: 1.0}, {-1: 1.0}, {2: 0.0}, {2: -1.0}, {2: float("nan")}, {2: float("inf")}])
def test_invalid_points_are_refused(bad: dict[int, float]) -> None:
    with pytest.raises(ValueError, match="expected a number above 0 for at least 1 worker"):
        curve(bad)
