"""An answer is checked before it is used, and a failure is never an empty plan."""

from __future__ import annotations

import re
import sys

import msgspec
import numpy as np
import pytest

from maar.config.config import Registration, Serving
from maar.elastic.allocate import InvalidPlan, allocate, wake_after
from maar.elastic.jobs import Ints, Jobs, make_jobs
from maar.registry import ALGORITHMS, by_name

JOBS = make_jobs(["a", "b"], min=[1, 2], max=[4, 4], gpus=[1, 2])
BY_NAME = by_name(ALGORITHMS)


def answering(answer: object) -> Registration:
    return Registration("mine", lambda jobs, gpus, arguments: answer)


def test_every_algorithm_says_what_it_does_and_where_it_is_from() -> None:
    for algorithm in ALGORITHMS:
        doc = sys.modules[algorithm.make.__module__].__doc__ or ""
        assert doc.startswith(f"{algorithm.name}: "), f"the docstring of {algorithm.name}"
        assert "Source: " in doc, f"the docstring of {algorithm.name}"


def test_a_valid_answer_is_given_back() -> None:
    assert [4, 2] == allocate(answering([4, 2]), JOBS, 8).tolist()
    assert np.int64 == allocate(answering(np.array([4, 2], dtype=np.int8)), JOBS, 8).dtype


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ([], "expected a size for each of 2 jobs, got shape (0,)"),
        ({}, "expected a size for each of 2 jobs, got shape ()"),
        (None, "expected a size for each of 2 jobs, got shape ()"),
        ([1, 2, 3], "expected a size for each of 2 jobs, got shape (3,)"),
        ([1.0, 2.0], "expected whole numbers of workers, got float64"),
        ([True, False], "expected whole numbers of workers, got bool"),
        ([1, 1], "job `b`: expected 0 or 2 to 4 workers, got 1"),
        ([5, 0], "job `a`: expected 0 or 1 to 4 workers, got 5"),
        ([-1, 0], "job `a`: expected 0 or 1 to 4 workers, got -1"),
        ([3, 3], "expected at most 8 GPUs in use, got 9 (most by `b`: 3 workers with 2 GPUs each)"),
    ],
)
def test_an_invalid_answer_is_an_error(answer: object, why: str) -> None:
    with pytest.raises(InvalidPlan, match=re.escape(f"algorithm `mine`: {why}")):
        allocate(answering(answer), JOBS, 8)


def test_a_failure_is_an_error_and_not_an_empty_plan() -> None:
    """Voda treated a failed call as a plan without jobs, and halted all of them."""

    def fails(jobs: Jobs, gpus: int, arguments: object) -> Ints:
        raise ZeroDivisionError("1 / 0")

    with pytest.raises(InvalidPlan, match=r"^algorithm `mine` failed: ZeroDivisionError: 1 / 0$"):
        allocate(Registration("mine", fails), JOBS, 8)


def test_arguments_reach_the_function() -> None:
    def all_of_a(jobs: Jobs, gpus: int, arguments: int) -> Ints:
        return np.array([arguments, 0])

    mine = Registration("mine", all_of_a)
    assert [3, 0] == allocate(mine, JOBS, 8, 3).tolist()
    with pytest.raises(InvalidPlan, match="mine`: job `a`"):
        allocate(mine, JOBS, 8, 9)


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda algorithm: algorithm.name)
def test_an_algorithm_that_serves_in_order_asks_which_jobs_fit(algorithm: Registration) -> None:
    asked = []

    def nobody(order: Ints, needs: Ints, gpus: int) -> tuple[Ints, int]:
        asked.append((sorted(order.tolist()), gpus))
        return order[:0], 0

    if algorithm.serving is Serving.TOGETHER:
        with pytest.raises(InvalidPlan, match="positional arguments"):
            allocate(algorithm, JOBS, 8, serve=nobody)
        return
    assert [0, 0] == allocate(algorithm, JOBS, 8, serve=nobody).tolist()
    assert [([0, 1], 8)] == asked


def test_no_jobs_and_no_gpus() -> None:
    for algorithm in ALGORITHMS:
        assert [] == allocate(algorithm, make_jobs([]), 8).tolist()
        assert [0, 0] == allocate(algorithm, JOBS, 0).tolist()
        assert [0, 0] == allocate(algorithm, JOBS, -3).tolist()


def test_arguments_are_used() -> None:
    jobs = make_jobs(["old", "young"], submit=[0, 1], first_start=[0, 1], attained=[100, 0])
    tiresias = BY_NAME["tiresias"]
    assert [1, 0] == allocate(tiresias, jobs, 1).tolist()
    strict = msgspec.convert({"thresholds": [50.0]}, tiresias.arguments)
    assert [0, 1] == allocate(tiresias, jobs, 1, strict).tolist()


def test_only_the_tiresias_family_and_price_look_at_time() -> None:
    timed = {"tiresias", "elastic-tiresias", "price"}
    assert timed == {algorithm.name for algorithm in ALGORITHMS if algorithm.wake_after is not None}
    workers = np.array([1, 2])
    assert {None} == {wake_after(algorithm, JOBS, workers) for algorithm in ALGORITHMS if algorithm.name not in timed}
    assert 3600 / 4 + 0.001 == wake_after(BY_NAME["tiresias"], JOBS, workers)
    price = BY_NAME["price"]
    assert 60.0 == wake_after(price, JOBS, workers)
    waits = make_jobs(["a", "b"], delayed=[86_390.0, 90_000.0])
    assert 10.001 == pytest.approx(wake_after(price, waits, np.array([0, 0])) or 0.0, abs=1e-9)
    assert 60.0 == wake_after(price, waits, np.array([1, 1])), "they no longer wait"
