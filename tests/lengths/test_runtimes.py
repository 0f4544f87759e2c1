"""Run times from finished jobs: the quantiles are right, and a declared limit and the time already run count."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from maar.forecast.draws import uniforms
from maar.lengths.runtimes import RunSample, RunTimes, Traits

SHARES = st.floats(0.001, 0.999)
SECONDS = st.floats(1.0, 1e6)
LIMITS = st.none() | st.floats(1.0, 1e7)


def samples(seconds: list[float], owner: str = "team", stem: str = "bert") -> list[RunSample]:
    return [RunSample(Traits(owner, stem, 1), s) for s in seconds]


TRAITS = st.builds(Traits, st.sampled_from("ab"), st.just("x"), st.just(1), st.just(""), LIMITS)
HISTORIES = st.lists(
    st.builds(
        RunSample,
        st.builds(Traits, st.sampled_from("ab"), st.sampled_from("xy"), st.sampled_from([1, 8]), st.just(""), LIMITS),
        SECONDS,
    ),
    max_size=30,
)


def test_without_history_the_limit_counts_and_without_a_limit_nothing_is_known() -> None:
    assert 600.0 == RunTimes().seconds(Traits(limit=600.0), 0.1)
    assert RunTimes().seconds(Traits(), 0.1) is None
    assert RunTimes(samples([10.0] * 4)).seconds(Traits("team", "bert", 1), 0.5) is None, "four jobs are not enough"


def test_quantiles_are_those_of_similar_jobs() -> None:
    known = RunTimes(samples([100.0, 200.0, 300.0, 400.0, 500.0] * 40))
    assert math.isclose(300.0, known.seconds(Traits("team", "bert", 1), 0.5) or 0.0)
    assert math.isclose(500.0, known.seconds(Traits("team", "bert", 1), 0.999) or 0.0)


def test_jobs_of_the_same_owner_and_name_count_more_than_others() -> None:
    known = RunTimes([*samples([10_000.0] * 300, owner="other", stem="gpt"), *samples([60.0] * 30)])
    assert math.isclose(60.0, known.seconds(Traits("team", "bert", 1), 0.5) or 0.0)
    assert math.isclose(10_000.0, known.seconds(Traits("other", "gpt", 1), 0.5) or 0.0)


def test_the_share_of_the_limit_is_learned_where_it_says_more() -> None:
    """Run times differ by a factor of 1000, but every job uses a quarter of its limit."""
    times = [10.0 * 10 ** (i % 4) for i in range(100)]
    known = RunTimes(RunSample(Traits("team", "bert", 1, "", 4 * t), t) for t in times)
    assert math.isclose(5_000.0, known.seconds(Traits("team", "bert", 1, "", 20_000.0), 0.3) or 0.0)
    assert math.isclose(5_000.0, known.seconds(Traits("team", "bert", 1, "", 20_000.0), 0.9) or 0.0)


def test_a_running_job_is_compared_with_jobs_that_ran_as_long() -> None:
    known = RunTimes(samples([100.0] * 90 + [10_000.0] * 10))
    fresh, old = (known.seconds(Traits("team", "bert", 1), 0.5, elapsed) for elapsed in (0.0, 500.0))
    assert fresh is not None
    assert old is not None
    assert math.isclose(100.0, fresh)
    assert old > 5_000.0


@given(HISTORIES, TRAITS, SHARES)
def test_safety_a_job_ends_after_it_has_run_and_within_its_limit(
    history: list[RunSample], traits: Traits, u: float
) -> None:
    known = RunTimes(history)
    for elapsed in (0.0, 10.0, 1e5):
        drawn = known.seconds(traits, u, elapsed)
        if drawn is not None:
            assert drawn > elapsed
            if traits.limit is not None and traits.limit > elapsed:
                assert drawn <= traits.limit


@given(HISTORIES, TRAITS, SHARES, SHARES)
def test_larger_shares_give_longer_times(history: list[RunSample], traits: Traits, a: float, b: float) -> None:
    known = RunTimes(history)
    first, second = (known.seconds(traits, u, 30.0) for u in sorted((a, b)))
    assert (first is None) == (second is None)
    assert first is None or second is None or first <= second * (1 + 1e-12)


@given(st.integers(1, 64), st.text(max_size=10), st.integers(0, 3))
def test_draws_are_spread_evenly_and_do_not_change(rollouts: int, job: str, seed: int) -> None:
    drawn = uniforms(seed, job, rollouts)
    assert list(range(rollouts)) == sorted(int(u * rollouts) for u in drawn)
    assert all(0.0 < u < 1.0 for u in drawn)
    assert drawn == uniforms.__wrapped__(seed, job, rollouts)


def test_jobs_and_seeds_have_their_own_draws() -> None:
    assert len({uniforms(seed, job, 32) for seed in range(3) for job in ("a", "b", "c")}) == 9
