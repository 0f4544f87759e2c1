"""Estimates for decisions: conservative, only from enough similar jobs, and rarely different."""

from __future__ import annotations

import pytest

from maar.lengths.runtimes import SIMILAR, RunSample, RunTimes, Traits, WorkOnOne

BERT = Traits("team", "bert", 8)


def ran(traits: Traits, *seconds: float) -> list[RunSample]:
    return [RunSample(traits, s) for s in seconds]


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
    times.add(RunSample(BERT, 100.0))
    after = times.estimate(BERT)
    assert before is not None
    assert after is not None
    assert (before.half, before.most) == (after.half, after.most)


def test_the_work_of_an_elastic_job_does_not_depend_on_the_size_that_others_requested() -> None:
    """On 2 workers of 8 GPUs jobs run at 1.5 times the speed of one, on 4 at twice."""
    pair, four = Traits("team", "bert", 16), Traits("team", "bert", 32)
    times = RunTimes([*ran(pair, *[200.0] * SIMILAR), *ran(four, *[150.0] * SIMILAR)])
    work = WorkOnOne((0.0, 1.0, 1.5, 1.75, 2.0), gpus=8, requested=2)
    found = [times.estimate(traits, work) for traits in (pair, four, Traits("team", "bert", 8, limit=10.0))]
    assert found[0] is not None
    assert 300.0 <= found[0].half <= found[0].most < 331.0
    assert [found[0]] * 3 == found, "whatever the job itself requests or promises"


def test_a_kind_says_something_only_where_jobs_of_a_kind_took_about_as_long() -> None:
    alike = [RunSample(Traits("team", stem, 8), s) for stem, s in (("a", 100.0), ("b", 10_000.0)) for _ in range(9)]
    assert "team/new" == RunTimes(alike).kind(Traits("team", "new", 1))
    assert "" == RunTimes(alike[: SIMILAR // 2]).kind(Traits("team", "new", 1)), "too few"
    assert "" == RunTimes(RunSample(BERT, s.seconds) for s in alike).kind(Traits("team", "new", 1))
