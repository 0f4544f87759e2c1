"""The table of jobs: defaults, parts and other bounds."""

from __future__ import annotations

import numpy as np
import pytest

from maar.elastic.jobs import make_jobs
from maar.elastic.speedup import LINEAR, curve


def test_defaults() -> None:
    jobs = make_jobs(["b", "a"], min=[2, 1], requested=[2, 3])
    assert ([2, 1], [2, 3], [2, 3]) == (jobs.min.tolist(), jobs.max.tolist(), jobs.requested.tolist())
    assert ([1, 1], [0, 0], [0.0, 0.0]) == (jobs.gpus.tolist(), jobs.priority.tolist(), jobs.submit.tolist())
    assert bool(np.all(np.isinf(jobs.remaining) & np.isinf(jobs.first_start)))
    assert [1, 0] == jobs.rank.tolist()
    assert [0.0, 1.0, 2.0] == jobs.speedup(0).tolist()


def test_a_part_keeps_names_and_curves() -> None:
    measured = curve({1: 1.0, 2: 1.5})
    jobs = make_jobs(["c", "b", "a"], max=[4, 3, 2], speedup=[LINEAR, measured, LINEAR])
    part = jobs.only([2, 1])
    assert ("a", "b") == part.names
    assert [[0.0, 1.0, 2.0], [0.0, 1.0, 1.5, 2.0]] == [part.speedup(0).tolist(), part.speedup(1).tolist()]
    assert [2.0, 1.5] == part.speed(np.array([2, 2])).tolist()
    assert ("b",) == jobs.only(jobs.max == 3).names
    assert () == jobs.only([]).names


def test_equal_curves_are_stored_once() -> None:
    jobs = make_jobs([str(i) for i in range(100)], max=np.arange(1, 101), speedup=[curve({2: 1.5})] * 100)
    assert 101 == len(jobs.curves)


def test_other_bounds_take_the_request_along() -> None:
    jobs = make_jobs(["a", "b"], min=1, max=8, requested=[6, 2])
    other = jobs.bounded(min=np.array([1, 3]), max=np.array([4, 8]))
    assert [4, 3] == other.requested.tolist()
    assert [6, 2] == jobs.requested.tolist()
    with pytest.raises(ValueError, match="`b`: no speed-up beyond 8 workers, got max 9"):
        jobs.bounded(max=np.array([8, 9]))
    with pytest.raises(ValueError, match="`a`: `min` must be at least 1"):
        jobs.bounded(min=np.array([0, 1]))


@pytest.mark.parametrize("bad", [{"min": 0}, {"gpus": 0}, {"gpus": [1, -1]}])
def test_workers_and_their_gpus_are_at_least_one(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        make_jobs(["a", "b"], **bad)  # type: ignore[arg-type]


def test_a_speedup_for_every_job() -> None:
    with pytest.raises(ValueError, match="expected a speed-up for each of 2 jobs, got 1"):
        make_jobs(["a", "b"], speedup=[LINEAR])
