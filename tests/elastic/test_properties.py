"""Safety and liveness of every algorithm, and equality with its plain rule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.elastic.reference import REFERENCE

from maar.config.config import Registration
from maar.elastic.allocate import allocate
from maar.elastic.jobs import Jobs, make_jobs
from maar.elastic.speedup import LINEAR, curve
from maar.registry import ALGORITHMS

each = pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda algorithm: algorithm.name)
each_rule = pytest.mark.parametrize(
    "algorithm", [a for a in ALGORITHMS if a.name != "price"], ids=lambda algorithm: algorithm.name
)
"""All but `price`, whose rule is a sum to maximise: see `test_price`."""
GROWS = {"elastic-fifo", "elastic-srjf", "afs-l", "max-min"}
"""Algorithms that leave no GPU idle that a running job could use."""
STARTS = GROWS | {"fifo", "srjf", "optimus"}
"""Algorithms that leave no job waiting whose minimum fits."""

CURVES = [
    LINEAR,
    curve({1: 1.0, 2: 1.8, 4: 3.0}),
    curve({1: 1.0, 2: 1.5, 3: 1.5}),
    curve({2: 2.0}),
    curve({1: 1.0, 8: 2.0}),
    curve({1: 0.5, 2: 0.75, 3: 0.8}),
]


def table(seed: int, jobs: int, workers: int = 6) -> Jobs:
    """Jobs with many ties, several priorities and workers of several GPUs.

    Made by a random generator whose seed hypothesis chooses: drawing each value alone takes a hundred times as long.
    """
    dice = np.random.default_rng(seed)
    least = dice.integers(1, 4, jobs)
    most = least + dice.integers(0, workers - 2, jobs)
    seconds = [0.0, 10.0, 100.0, 3600.0, 3601.0, 28_800.0]
    return make_jobs(
        [f"job-{i}" for i in dice.permutation(jobs)],
        min=least,
        max=most,
        requested=np.minimum(least + dice.integers(0, 4, jobs), most),
        gpus=dice.choice([1, 1, 1, 2, 3, 8] if dice.random() < 0.7 else [1], jobs),
        priority=dice.choice([0, 0, 0, 5, -5], jobs) if dice.random() < 0.5 else 0,
        submit=dice.choice([0.0, 1.0, 2.0], jobs),
        remaining=dice.choice([0.0, 60.0, 90.0, 100.0, 1000.0, 1e5, np.inf], jobs),
        attained=dice.choice(seconds, jobs),
        first_start=dice.choice([0.0, 1.0, np.inf], jobs),
        waited=dice.choice(seconds, jobs),
        ran=dice.choice(seconds, jobs),
        speedup=[CURVES[i] for i in dice.integers(0, len(CURVES), jobs)],
    )


def tables(most: int = 14) -> st.SearchStrategy[Jobs]:
    return st.builds(table, st.integers(0, 2**32), st.integers(0, most))


def sizes(algorithm: Registration, jobs: Jobs, gpus: int) -> dict[str, int]:
    return dict(zip(jobs.names, allocate(algorithm, jobs, gpus).tolist(), strict=True))


@each
@settings(max_examples=40)
@given(jobs=tables(), gpus=st.integers(0, 60))
def test_safety_bounds_and_capacity(algorithm: Registration, jobs: Jobs, gpus: int) -> None:
    workers = algorithm.make(jobs, gpus, algorithm.arguments())  # without the checks of `allocate`
    assert workers.dtype == np.int64
    assert bool(np.all((workers == 0) | ((jobs.min <= workers) & (workers <= jobs.max))))
    assert int((workers * jobs.gpus).sum()) <= gpus


@each
@settings(max_examples=40)
@given(jobs=tables(), gpus=st.integers(0, 60), data=st.data())
def test_safety_the_order_of_rows_does_not_matter(
    algorithm: Registration, jobs: Jobs, gpus: int, data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(range(len(jobs))))
    assert sizes(algorithm, jobs, gpus) == sizes(algorithm, jobs.only(np.array(shuffled, dtype=np.int64)), gpus)


@each
@settings(max_examples=40)
@given(jobs=tables(), gpus=st.integers(0, 60))
def test_safety_the_table_is_only_read(algorithm: Registration, jobs: Jobs, gpus: int) -> None:
    columns = {name: getattr(jobs, name) for name in Jobs.__slots__ if name != "names"}
    before = {name: column.copy() for name, column in columns.items()}
    first = sizes(algorithm, jobs, gpus)
    assert [] == [name for name in columns if not np.array_equal(before[name], columns[name])]
    assert first == sizes(algorithm, jobs, gpus)


@each_rule
@settings(max_examples=200)
@given(jobs=tables(), gpus=st.integers(0, 60))
def test_safety_it_is_the_rule(algorithm: Registration, jobs: Jobs, gpus: int) -> None:
    if algorithm.name == "ffdl":
        jobs = jobs.only(np.arange(len(jobs))[:4])  # the reference tries everything
    assert REFERENCE[algorithm.name](jobs, gpus) == sizes(algorithm, jobs, gpus)


@each_rule
@settings(max_examples=30)
@given(jobs=tables(most=120), gpus=st.integers(0, 400))
def test_safety_it_is_the_rule_for_many_jobs(algorithm: Registration, jobs: Jobs, gpus: int) -> None:
    if algorithm.name != "ffdl":
        assert REFERENCE[algorithm.name](jobs, gpus) == sizes(algorithm, jobs, gpus)


@given(jobs=tables(most=40), gpus=st.integers(0, 100))
def test_safety_ffdl_finds_the_fastest_sum(jobs: Jobs, gpus: int) -> None:
    """For one priority, compared with a slower program that keeps no sizes."""
    jobs = jobs.only(jobs.priority == 0)
    (ffdl,) = [algorithm for algorithm in ALGORITHMS if algorithm.name == "ffdl"]
    workers = allocate(ffdl, jobs, gpus)
    first = sorted(range(len(jobs)), key=lambda row: (jobs.submit[row], jobs.names[row]))[:gpus]
    best = [0.0] * (gpus + 1)
    for row in first:
        speed, width = jobs.speedup(row).tolist(), int(jobs.gpus[row])
        choices = [0, *range(int(jobs.min[row]), int(jobs.max[row]) + 1)]
        best = [max(best[g - n * width] + speed[n] for n in choices if n * width <= g) for g in range(gpus + 1)]
    assert best[gpus] == pytest.approx(float(jobs.speed(workers).sum()))


@each
@settings(max_examples=40)
@given(jobs=tables(), gpus=st.integers(0, 60))
def test_safety_a_lower_priority_changes_nothing_above(algorithm: Registration, jobs: Jobs, gpus: int) -> None:
    """Except growth: some algorithms share it by gain, and a shrunk job makes room for waiting jobs."""
    if algorithm.name in {"optimus", "max-min", "elastic-fifo", "elastic-srjf", "elastic-tiresias"} or len(jobs) == 0:
        return
    highest = jobs.priority == jobs.priority.max()
    alone = sizes(algorithm, jobs.only(highest), gpus)
    assert alone == {name: size for name, size in sizes(algorithm, jobs, gpus).items() if name in alone}


@each
@settings(max_examples=40)
@given(jobs=tables(), gpus=st.integers(0, 60))
def test_liveness_no_gpu_idles_that_a_job_could_use(algorithm: Registration, jobs: Jobs, gpus: int) -> None:
    workers = allocate(algorithm, jobs, gpus)
    left = gpus - int((workers * jobs.gpus).sum())
    if algorithm.name in GROWS:
        assert [] == [
            jobs.names[i] for i in np.flatnonzero((workers > 0) & (workers < jobs.max) & (jobs.gpus <= left)).tolist()
        ]
    if algorithm.name in STARTS:
        assert [] == [jobs.names[i] for i in np.flatnonzero((workers == 0) & (jobs.min * jobs.gpus <= left)).tolist()]


@each
@settings(max_examples=40)
@given(jobs=tables())
def test_liveness_all_run_where_there_is_room(algorithm: Registration, jobs: Jobs) -> None:
    workers = allocate(algorithm, jobs, 10_000)
    assert bool(np.all(workers >= jobs.min))


@each
@settings(max_examples=40)
@given(jobs=tables(), gpus=st.integers(0, 60), data=st.data())
def test_safety_a_cap_below_the_minimum_is_nothing(
    algorithm: Registration, jobs: Jobs, gpus: int, data: st.DataObject
) -> None:
    caps = np.array([data.draw(st.integers(0, int(most))) for most in jobs.max], dtype=np.int64)
    capped = jobs.bounded(max=caps)
    workers = allocate(algorithm, capped, gpus)
    assert bool(np.all(workers <= caps))
    runs = caps >= jobs.min
    part = sizes(algorithm, capped.only(runs), gpus)
    assert part == {name: size for name, size in sizes(algorithm, capped, gpus).items() if name in part}
