"""Synthetic traces follow their recipe, and are equal on every machine."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maar.sim.describe import describe
from maar.sim.draws import Distribution, Exponential, Lognormal, Uniform, streams
from maar.sim.generate import DAY, Recipe, generate
from maar.sim.trace import Trace, TraceJob
from maar.sim.traces.curves import CLASSES
from maar.sim.traces.own import write_csv

MANY = Recipe(seed=1, jobs=10_000, rate=120.0)
"""Enough jobs for a mean within a few percent."""


def made(**fields: object) -> Trace:
    return generate(msgspec.structs.replace(MANY, **fields))


def digest(settings: Recipe) -> str:
    return hashlib.sha256(write_csv(generate(settings)).encode()).hexdigest()


def test_the_same_seed_gives_the_same_bytes_everywhere() -> None:
    rich = Recipe(seed=7, jobs=500, night=0.8, elastic=0.5, queues=(("a", 1.0), ("b", 2.0)), load=0.9)
    assert "cff98c5949c7a4ad1ca498712b05a42fdc59de0abca42eccaf846ac15b56a479" == digest(rich)
    assert digest(rich) != digest(msgspec.structs.replace(rich, seed=8))


def test_what_is_asked_for_beside_leaves_arrivals_as_they_are() -> None:
    plain, rich = made(), made(elastic=0.5, queues=(("a", 1.0), ("b", 1.0)), models=(("scales-well", 1.0),))
    assert [(j.submit, j.duration, j.gpus) for j in plain.jobs] == [(j.submit, j.duration, j.gpus) for j in rich.jobs]


def test_jobs_come_at_the_rate_and_without_memory() -> None:
    gaps = np.diff([job.submit for job in made().jobs])
    assert 30.0 == pytest.approx(gaps.mean(), rel=0.03)
    assert 30.0 == pytest.approx(gaps.std(), rel=0.03), "of a Poisson process the gaps' deviation is their mean"
    assert gaps.min() >= 0


def test_days_are_busier_than_nights() -> None:
    jobs = made(night=0.8, jobs=40_000).jobs
    days = int(jobs[-1].submit // DAY)
    hours = np.array([job.submit % DAY // 3600 for job in jobs if job.submit < days * DAY])
    by_hour = np.bincount(hours.astype(int), minlength=24) / days
    assert 13 <= by_hour.argmax() <= 15
    assert 120 * 1.8 == pytest.approx(by_hour[13:15].mean(), rel=0.1)
    assert 120 * 0.2 == pytest.approx(by_hour[1:3].mean(), rel=0.2)
    assert 120 == pytest.approx(by_hour.mean(), rel=0.03)


def test_a_load_is_met() -> None:
    trace = made(load=0.8, cluster=256)
    load = describe(trace, 256).load
    assert load is not None
    assert 0.8 == pytest.approx(load, rel=0.03)


@pytest.mark.parametrize(
    ("distribution", "mean", "median"),
    [
        (Lognormal(600.0, 1.0), 600.0 * np.exp(0.5), 600.0),
        (Exponential(600.0), 600.0, 600.0 * np.log(2)),
        (Uniform(100.0, 700.0), 400.0, 400.0),
    ],
)
def test_durations_are_distributed_as_asked(distribution: Distribution, mean: float, median: float) -> None:
    found = [job.duration for job in made(duration=distribution).jobs]
    assert mean == pytest.approx(np.mean(found), rel=0.05)
    assert median == pytest.approx(np.median(found), rel=0.05)


def test_shares_are_as_weighted() -> None:
    trace = made(
        sizes=(("1", 3.0), ("8", 1.0)),
        queues=(("a", 9.0), ("b", 1.0)),
        priorities=(("-5", 1.0), ("100", 1.0)),
        models=(("scales-well", 1.0), ("scales-badly", 4.0)),
        elastic=0.3,
    )
    found = describe(trace)
    n = found.jobs
    assert {1: 0.75, 8: 0.25} == pytest.approx({size.gpus: size.jobs / n for size in found.sizes}, abs=0.02)
    assert {"a": 0.9, "b": 0.1} == pytest.approx({queue.queue: queue.jobs / n for queue in found.queues}, abs=0.02)
    assert {"-5": 0.5, "100": 0.5} == pytest.approx({p: c / n for p, c in found.priorities.items()}, abs=0.02)
    assert {"scales-badly": 0.8, "scales-well": 0.2} == pytest.approx(
        {m: c / n for m, c in found.models.items()}, abs=0.02
    )
    assert 0.3 == pytest.approx(found.elastic_jobs / n, abs=0.02)


def test_elastic_jobs_stretch_around_their_size() -> None:
    for job in made(jobs=200, elastic=1.0, stretch=2.0, sizes=(("1", 1.0), ("4", 1.0))).jobs:
        assert {1: (1, 2), 4: (2, 8)}[job.workers] == (job.min, job.max)
        assert CLASSES[job.model] == job.speedup


def test_workers_have_the_gpus_that_were_asked_for() -> None:
    jobs = made(jobs=200, gpus_per_worker=4, sizes=(("2", 1.0), ("4", 1.0), ("16", 1.0))).jobs
    shapes = {job.gpus: (job.workers, job.gpus_per_worker) for job in jobs}
    assert {2: (1, 2), 4: (1, 4), 16: (4, 4)} == shapes


@given(st.integers(0, 2**63), st.floats(0, 1), st.floats(1, 64), st.integers(1, 8), st.floats(0, 1))
def test_safety_every_job_makes_sense(seed: int, elastic: float, stretch: float, per_worker: int, night: float) -> None:
    settings = Recipe(
        seed=seed, jobs=20, elastic=elastic, stretch=stretch, gpus_per_worker=per_worker, night=night, rate=1000.0
    )
    jobs = generate(settings).jobs
    assert [job.submit for job in jobs] == sorted(job.submit for job in jobs)
    for job in jobs:
        assert 1 <= job.min <= job.workers <= job.max
        assert job.gpus == job.workers * job.gpus_per_worker
        assert job.duration >= 1.0
        assert elastic or not job.elastic


def test_uniform_numbers_lie_between_and_streams_differ() -> None:
    first, second = streams(0, 2)
    drawn = np.array([(first.uniform(), second.uniform()) for _ in range(5000)])
    assert ((drawn > 0) & (drawn < 1)).all()
    assert 0.0 == pytest.approx(np.corrcoef(drawn.T)[0, 1], abs=0.05)


def test_the_example_is_what_its_first_line_says() -> None:
    text = (Path(__file__).parents[2] / "examples/traces/two-days.csv").read_text()
    note = text.splitlines()[0].removeprefix("# ")
    settings = msgspec.json.decode(note.removeprefix("maar trace generate: "), type=Recipe)
    assert text == write_csv(generate(settings), note)


# Describing


def test_a_trace_is_described() -> None:
    jobs = (
        TraceJob("a", 100.0, 3600.0, 1),
        TraceJob("b", 200.0, 7200.0, 4, 2, 2, 1, 4, queue="q", priority=3, model="bert"),
        TraceJob("c", 7300.0, 10800.0, 8, 8, 1, 8, 8),
    )
    found = describe(Trace(jobs, "x", ("a note",)), 6)
    assert (3, 7200.0, 1.5, 2) == (found.jobs, found.span, found.jobs_per_hour, found.busiest_hour)
    assert (33.0, 1, 8.0) == (found.gpu_hours, found.elastic_jobs, found.elastic_gpu_hours)
    assert (3600.0, 7200.0, 10800.0) == (found.durations["p0"], found.durations["p50"], found.durations["p100"])
    assert [(1, 1, 1.0), (4, 1, 8.0), (8, 1, 24.0)] == [(s.gpus, s.jobs, s.gpu_hours) for s in found.sizes]
    assert [("default", 2, 25.0), ("q", 1, 8.0)] == [(q.queue, q.jobs, q.gpu_hours) for q in found.queues]
    assert ({"0": 2, "3": 1}, {"bert": 1}, ("a note",)) == (found.priorities, found.models, found.notes)
    assert (33.0 / 12.0, 1) == (found.load, found.too_large)


def test_jobs_that_come_all_at_once_have_no_rate() -> None:
    found = describe(Trace((TraceJob("a", 5.0, 1.0, 1), TraceJob("b", 5.0, 1.0, 1))), 4)
    assert (None, None, 0.0, 2) == (found.jobs_per_hour, found.load, found.span, found.busiest_hour)
