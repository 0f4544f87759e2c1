"""Estimates for decisions: conservative, only from enough similar jobs, and rarely different."""

from __future__ import annotations

import pytest

from maar.lengths.runtimes import SIMILAR, RunTimes, Sample, Traits

BERT = Traits("team", "bert", 8)


def ran(traits: Traits, *seconds: float) -> list[Sample]:
    return [Sample(traits, s) for s in seconds]


@pytest.mark.parametrize(("runs", "known"), [(SIMILAR - 1, False), (SIMILAR, True)])
def test_there_is_an_estimate_only_from_enough_runs_of_the_same_owner_and_name(runs: int, known: bool) -> None:
    others = ran(Traits("other", "bert", 8), *[50.0] * 100)
    times = RunTimes([*others, *ran(BERT, *[100.0] * runs)])
    assert known == (times.estimate(BERT) is not None)


def test_a_stated_category_makes_jobs_similar_too() -> None:
    times = RunTimes(ran(Traits("team", "a", 8, "team/vision"), *[100.0] * SIMILAR))
    assert times.estimate(Traits("team", "b", 8)) is None
    found = times.estimate(Traits("team", "b", 8, "team/vision"))
    assert found is not None
    assert SIMILAR == found.runs


def test_few_similar_runs_give_a_longer_estimate_than_many() -> None:
    """With few, what other jobs took counts too: very likely means very likely."""
    others = ran(Traits("other", "x", 8), *[10_000.0] * 50)
    few, many = (RunTimes([*others, *ran(BERT, *[100.0] * n)]).estimate(BERT) for n in (SIMILAR, 200))
    assert few is not None
    assert many is not None
    assert few.most > many.most
    assert 100.0 <= many.half <= many.most < 115.0


def test_no_estimate_is_above_the_declared_limit_by_more_than_its_rounding() -> None:
    times = RunTimes(ran(BERT, *[1000.0] * 50))
    found = times.estimate(Traits("team", "bert", 8, limit=500.0))
    assert found is not None
    assert 500.0 <= found.most < 550.1


def test_one_more_run_like_the_others_changes_no_estimate() -> None:
    times = RunTimes(ran(BERT, *[float(90 + n % 20) for n in range(100)]))
    before = times.estimate(BERT)
    times.add(Sample(BERT, 100.0))
    after = times.estimate(BERT)
    assert before is not None
    assert after is not None
    assert (before.half, before.most) == (after.half, after.most)
