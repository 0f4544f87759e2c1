"""Step times: the hidden truth is found again, from few and noisy measurements, and nothing strange breaks the fit."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maar.elastic.speedup import curve
from maar.elastic.steps import ENOUGH, TRUSTED, MeasuredSteps, Steps, fit, settings_of

TRUTH = {"fixed": 0.02, "sample": 0.001, "inside": 0.01, "beside": 0.002, "across": 0.05, "beyond": 0.004}
PER_NODE = 8


def step(workers: int, nodes: int, batch: float, truth: dict[str, float] = TRUTH) -> float:
    """Seconds of a step, by the form."""
    each = workers / nodes
    seconds = truth["fixed"] + truth["sample"] * batch
    seconds += (truth["inside"] + truth["beside"] * (each - 1)) if each > 1 else 0.0
    return seconds + ((truth["across"] + truth["beyond"] * (nodes - 1)) if nodes > 1 else 0.0)


def measured(
    workers: int, batch: float = 32.0, nodes: int | None = None, factor: float = 1.0, epochs: int = 9
) -> MeasuredSteps:
    """What a job with this batch for each worker measures, per sample."""
    nodes = math.ceil(workers / PER_NODE) if nodes is None else nodes
    return MeasuredSteps(workers, factor * step(workers, nodes, batch) / (batch * workers), nodes, batch, epochs)


def truth(workers: int, batch: float = 32.0) -> float:
    return measured(1, batch).seconds / measured(workers, batch).seconds


def fitted(*seen: MeasuredSteps) -> Steps:
    found = fit(seen)
    assert found is not None
    return found


def test_the_truth_is_found_from_enough_settings() -> None:
    sizes = (1, 2, 4, 8, 16, 32, 64)
    found = fitted(*(measured(n, batch) for n in sizes for batch in (16.0, 32.0)))
    assert found.error < 0.01
    assert (64, 14, PER_NODE, 126) == (found.measured, found.settings, found.dense, found.epochs)
    assert found.is_usable
    alone = fitted(*(measured(n) for n in sizes)).speeds()
    for n in sizes:
        assert alone[n] == pytest.approx(truth(n), rel=0.02)
    assert alone[128] == pytest.approx(truth(128), rel=0.1), "up to twice the largest size"
    assert (128, 129) == tuple(sorted(alone)[-2:])
    assert alone[129] == max(alone.values()), "beyond that, no gain is believed"


def test_a_fit_tells_what_nodes_cost() -> None:
    """The same sizes inside a node and across nodes: points alone would mix them."""
    seen = [measured(2, nodes=1), measured(2, nodes=2), measured(4, nodes=1), measured(4, nodes=4), measured(1)]
    speeds = fitted(*seen).speeds()
    assert speeds[4] == pytest.approx(truth(4), rel=0.03)
    assert 4 == fitted(*seen).dense
    mixed = curve({1: 1.0, 2: 2 * 0.8, 4: 4 * 0.6}).values(4)
    assert speeds[4] > mixed[4]


def test_sizes_above_a_node_are_whole_nodes() -> None:
    assert [1, 2, 3, 4, 8, 12, 16, 17] == sorted(fitted(measured(8, nodes=2), measured(1), measured(2)).speeds())


def test_unknown_nodes_and_batches_are_one_form_by_workers() -> None:
    seen = [MeasuredSteps(n, (1 + 0.1 * (n - 1)) / n) for n in (1, 2, 4, 8)]
    found = fitted(*seen)
    assert (0, False, 1.0) == (found.dense, found.has_batch, found.batch)
    assert found.speeds()[16] == pytest.approx(16 / 2.5, rel=0.03)
    partly = fitted(*(measured(n) for n in (1, 2, 4, 8)), MeasuredSteps(16, measured(16).seconds, 0, 32.0))
    assert partly.speeds()[16] == pytest.approx(truth(16), rel=0.03), "as few nodes as can hold them"


def test_a_fixed_global_batch_is_recognised() -> None:
    """Strong scaling: the fixed part of a step does not shrink."""
    seen = [MeasuredSteps(n, step(n, 1, 256 / n) / 256, 1, 256 / n) for n in (1, 2, 4, 8)]
    found = fitted(*seen)
    assert (True, 256.0) == (found.is_global, found.batch)
    assert found.speeds()[8] == pytest.approx(seen[0].seconds / seen[3].seconds, rel=0.02)
    weak = fitted(*(measured(n, batch) for n, batch in ((1, 32.0), (2, 32.0), (4, 30.0))))
    assert (False, 32.0) == (weak.is_global, weak.batch)


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), count=st.integers(3, 6))
def test_safety_few_and_noisy_points_stay_near_the_truth(seed: int, count: int) -> None:
    """Medians with 5 % of noise, and at most one size that is wrong by a factor of 2 among five and more."""
    dice = np.random.default_rng(seed)
    sizes = sorted(dice.choice([1, 2, 3, 4, 6, 8, 16], count, replace=False).tolist())
    factors = np.exp(dice.normal(0, 0.05, count))
    if count >= 5:
        factors[int(dice.integers(1, count))] *= dice.choice([0.5, 2.0])
    found = fitted(*(measured(n, factor=float(f)) for n, f in zip(sizes, factors, strict=True)))
    speeds = curve(found.speeds()).values(2 * sizes[-1])
    relative = speeds[sizes] / speeds[sizes[0]]
    real = np.array([measured(sizes[0]).seconds / measured(n).seconds for n in sizes])
    assert np.median(np.abs(relative / real - 1)) < 0.35
    assert np.all(speeds <= np.arange(len(speeds)) * (1 + 1e-6)), "never more than linear"


def test_one_wrong_size_bends_the_fit_less_than_the_points() -> None:
    seen = [measured(n, factor=2.0 if n == 4 else 1.0) for n in (1, 2, 3, 4, 6, 8)]
    found = fitted(*seen)
    assert found.speeds()[8] == pytest.approx(truth(8), rel=0.1)
    assert found.speeds()[4] == pytest.approx(truth(4), rel=0.15)
    assert abs(found.speeds()[4] - truth(4)) < abs(seen[0].seconds / seen[3].seconds - truth(4)) / 3


def test_with_a_noise_scale_goodput_replaces_throughput() -> None:
    """A step of M samples makes the progress of M / (noise + M) as many."""
    found = fitted(*(measured(n) for n in (1, 2, 4, 8)))
    throughput = found.speeds()
    for noise in (0.0, 100.0, 1e4, 1e12):
        goodput = found.speeds(noise)
        for n in (2, 4, 8):
            assert goodput[n] == pytest.approx(throughput[n] * (noise + 32) / (noise + 32 * n))
    assert found.speeds(0.0)[8] < 1, "without noise a larger batch is of no use"
    single = fitted(measured(1))
    assert single.speeds(32.0)[2] == pytest.approx(2 * 64 / 96), "one size is enough to know the batch"
    unknown = fitted(*(MeasuredSteps(n, 1 / n) for n in (1, 2, 4)))
    assert unknown.speeds(32.0) == unknown.speeds(), "without a batch size it says nothing"
    fixed = fitted(*(MeasuredSteps(n, step(n, 1, 256 / n) / 256, 1, 256 / n) for n in (1, 2, 4)))
    assert fixed.speeds(32.0) == pytest.approx(fixed.speeds()), "the global batch is the same at all sizes"


def test_below_the_smallest_size_it_is_linear() -> None:
    speeds = fitted(*(measured(n) for n in (4, 6, 8))).speeds()
    assert [1, 2, 3, 4] == pytest.approx([speeds[n] for n in (1, 2, 3, 4)])
    assert speeds[8] < 8


def test_too_little_is_said_to_be_too_little() -> None:
    assert fit([]) is None
    assert fit([MeasuredSteps(1, math.inf), MeasuredSteps(2, 0.0)]) is None
    assert not fitted(*(measured(n) for n in range(1, ENOUGH))).is_usable
    wild = [
        MeasuredSteps(n, seconds) for n, seconds in ((1, 1.0), (2, 40.0), (3, 0.01), (4, 90.0), (5, 0.002), (6, 50.0))
    ]
    assert not fitted(*wild).is_usable, "the form does not describe this"


def test_a_setting_counts_by_its_median() -> None:
    seen = [MeasuredSteps(2, s, 1, 8.0) for s in (1.0, 9.0, 2.0)] + [
        MeasuredSteps(2, 5.0, 2, 8.0),
        MeasuredSteps(1, 4.0, 1, 8.0),
    ]
    assert [
        MeasuredSteps(1, 4.0, 1, 8.0, 1),
        MeasuredSteps(2, 2.0, 1, 8.0, 3),
        MeasuredSteps(2, 5.0, 2, 8.0, 1),
    ] == settings_of(seen)


extreme = st.builds(
    MeasuredSteps,
    st.sampled_from([1, 2, 3, 7, 64, 10**6]),
    st.sampled_from([5e-324, 1e-200, 1e-9, 1.0, 3.0, 1e8]),
    st.sampled_from([0, 1, 2, 64, 10**6]),
    st.sampled_from([0.0, 1e-6, 1.0, 32.0, 2.0**53]),
    st.integers(1, 101),
)


@settings(max_examples=200)
@given(seen=st.lists(extreme, max_size=8), noise=st.sampled_from([None, 0.0, 1e-300, 1.0, 1e15]))
def test_safety_whatever_is_reported_speeds_are_usable(seen: list[MeasuredSteps], noise: float | None) -> None:
    found = fit(settings_of(seen))
    assert (found is None) == (not seen)
    if found is not None:
        speeds = found.speeds(noise)
        assert len(speeds) < 400
        assert max(speeds) == TRUSTED * max(s.workers for s in seen) + 1
        assert all(0 < speed < math.inf for speed in speeds.values())
        assert speeds[1] == pytest.approx(1.0)
        assert all(speed <= n * (1 + 1e-6) for n, speed in speeds.items())
        values = curve(speeds).values(16)
        assert all(a <= b + 1e-9 * abs(b) for a, b in pairwise(values.tolist()))
