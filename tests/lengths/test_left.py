"""How much work is left: by an estimate, and by how far others of the same kind have come."""

from __future__ import annotations

import math

import numpy as np
import pytest

from maar.lengths.left import NO_KIND, left


def work_left(*jobs: tuple[float, float, float, int]) -> list[float]:
    """Of jobs as (done, half, most, kind)."""
    done, half, most, kind = zip(*jobs, strict=True)
    found: list[float] = left(np.array(done), np.array(half), np.array(most), np.array(kind)).tolist()
    return found


@pytest.mark.parametrize(("done", "expected"), [(0.0, 100.0), (60.0, 40.0), (100.0, 50.0), (149.0, 1.0)])
def test_a_job_ends_when_half_of_its_kind_have_and_then_when_nine_in_ten_have(done: float, expected: float) -> None:
    assert [expected] == work_left((done, 100.0, 150.0, NO_KIND))


def test_nothing_is_known_of_a_job_that_outlasts_its_estimate_or_has_none() -> None:
    unknown = (5.0, math.inf, math.inf, NO_KIND)
    assert [math.inf, math.inf] == work_left((150.0, 100.0, 150.0, NO_KIND), unknown)


def test_jobs_of_a_kind_are_as_long_as_each_other_and_the_furthest_is_half_done() -> None:
    jobs = [(done, math.inf, math.inf, 7) for done in (0.0, 30.0, 100.0)]
    assert [200.0, 170.0, 100.0] == work_left(*jobs)


def test_a_job_alone_of_its_kind_or_a_kind_that_has_not_begun_tells_nothing() -> None:
    alone, begun = (50.0, math.inf, math.inf, 1), (0.0, math.inf, math.inf, 2)
    assert [math.inf] * 3 == work_left(alone, begun, begun)


def test_an_estimate_goes_before_the_kind() -> None:
    other = (100.0, math.inf, math.inf, 3)
    assert [20.0, math.inf] == work_left((80.0, 100.0, 100.0, 3), other)
