"""Which forecasts are kept, what became of the jobs, and what is learned from that."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from maar.config.file import default_config
from maar.decide import decide
from maar.forecast.calibrate import Age
from maar.forecast.forecast import Forecast, ForecastVerdict, JobForecast, Span
from maar.forecast.start import StartState
from maar.history.records import Fate, Prediction
from maar.model.jobs import Job
from maar.model.snapshot import Snapshot
from maar.registry import catalog
from maar.testing.builders import Part, cluster, gang, node
from maar.views.tally import Tally
from maar.web.forecasting.judging import Judge, calibrated, judged

CONFIG = default_config(catalog())
JOBS: Mapping[str, Job] = {"ns/a": Job("ns/a", uid="u-a", created=0.0), "ns/b": Job("ns/b", uid="u-b", created=5000.0)}


def forecast(at: float, *keys: str, rollouts: int = 4) -> Forecast:
    made = tuple(
        JobForecast(key, "red", StartState.WAITING, ForecastVerdict.EXPECTED, "", Span(at + 100, at + 200))
        for key in keys
    )
    return Forecast(at, rollouts, 4, made)


def kept(judge: Judge, at: float, *keys: str) -> list[tuple[str, float, bool]]:
    return [(p.name, p.age, p.first) for p in judge.chosen(forecast(at, *keys), {}, JOBS)]


def test_one_forecast_in_ten_minutes_is_kept_and_the_first_at_each_age() -> None:
    judge = Judge()
    assert [("a", 2.0, True)] == kept(judge, 2.0, "ns/a")
    assert [] == kept(judge, 30.0, "ns/a")
    assert [("a", 61.0, True)] == kept(judge, 61.0, "ns/a")
    assert [] == kept(judge, 600.0, "ns/a")
    assert [("a", 661.0, False)] == kept(judge, 661.0, "ns/a")
    assert [("a", 3600.0, True)] == kept(judge, 3600.0, "ns/a")
    assert [("a", 4200.0, False)] == kept(judge, 4200.0, "ns/a")
    assert [("b", 1.0, True)] == kept(judge, 5001.0, "ns/b", "ns/gone")
    assert [] == judge.chosen(forecast(9000.0, "ns/a", rollouts=0), {}, JOBS), "nothing was forecast"


def test_the_p90_that_people_saw_is_kept_beside_the_one_that_was_made() -> None:
    made = forecast(2.0, "ns/a")
    shown = {"ns/a": replace(made.jobs[0], start=Span(102.0, 302.0))}
    (one,) = Judge().chosen(made, shown, JOBS)
    assert (102.0, 202.0, 302.0) == (one.start_p50, one.start_p90, one.shown_p90)


def test_after_a_restart_it_goes_on_with_what_was_kept() -> None:
    old = Prediction("ns", "a", "u-a", "red", at=100.0, age=100.0, first=True, verdict="expected")
    judge = Judge([old])
    assert [] == kept(judge, 400.0, "ns/a")
    assert [("a", 700.0, False)] == kept(judge, 700.0, "ns/a")


def tally(*parts: Part, now: float = 1000.0) -> Tally:
    snapshot = Snapshot(cluster(*parts))
    return Tally(snapshot, decide(snapshot, CONFIG, now), now)


def test_jobs_are_followed_until_they_start_or_are_gone() -> None:
    old = Prediction("ns", "a", "u-a", "red", at=100.0, age=100.0, first=True, verdict="expected")
    judge = Judge([old, replace(old, name="b", uid="u-b"), replace(old, name="c", uid="u-c")])
    waits = gang("a", gpu=1, uid="u-a")
    there = (gang("b", gpu=1, on=["n1"], uid="u-b", task={"started": 700.0}), gang("c", gpu=1, uid="new"))
    found = judge.fates(tally(node("n1", gpu=8), waits, *there))
    assert [Fate("ns", "b", "u-b", started=700.0), Fate("ns", "c", "u-c", gone=1000.0)] == found
    assert [] == judge.fates(tally(node("n1", gpu=8), waits, *there)), "said once"
    assert 1 == len(judge)


def past(number: int, wait: float, **more: float | None) -> Prediction:
    """A job that started after `wait`, while 100 s were forecast for p50 and 200 s for p90."""
    at = 1000.0 * number
    return Prediction(
        *("ns", f"j{number}", f"u{number}", "red"),
        at=at,
        age=0.0,
        first=True,
        verdict="expected",
        start_p50=at + 100.0,
        start_p90=at + 200.0,
        shown_p90=at + 900.0,
        **{"started": at + wait, **more},  # type: ignore[arg-type]
    )


def test_late_starts_stretch_new_forecasts_and_quality_is_of_what_was_shown() -> None:
    known = [past(n, 800.0) for n in range(40)]
    found = judged(known, 1e6)
    (one,) = found.judged
    assert ("red", Age.SUBMITTED, 40, 0) == (one.queue, one.age, one.shown.judged, one.shown.censored)
    assert (1.0, 0.0, 700.0) == (one.shown.coverage_p90, one.made.coverage_p90, one.shown.median_error)
    assert (800.0 + 60.0) / (200.0 + 60.0) == pytest.approx(one.factor)
    new = forecast(2e6, "ns/a").jobs[0]
    stretched = found.alone.applied(new, Age.SUBMITTED, 2e6)
    assert 2e6 + 100.0 == stretched.start.p50
    assert stretched.start.p90 == pytest.approx(2e6 + 800.0)


def test_forecasts_with_and_without_later_submissions_are_stretched_by_their_own_past() -> None:
    """Old forecasts left later submissions out, and were too short. New ones with them were right."""
    alone = [past(n, 800.0) for n in range(40)]
    crowded = [replace(past(100 + n, 200.0), arrivals=True) for n in range(40)]
    found = judged([*alone, *crowded], 1e6)
    made = forecast(2e6, "ns/a")
    starts = [calibrated(replace(made, arrivals=a), JOBS, found)["ns/a"].start.p90 for a in (False, True)]
    assert [2e6 + 800.0, 2e6 + 200.0] == pytest.approx(starts)
    (one,) = found.judged
    assert 1.0 == pytest.approx(one.factor), "of forecasts as they are made now"
    (kept,) = Judge().chosen(replace(made, arrivals=True), {}, JOBS)
    assert kept.arrivals


def test_cancelled_jobs_are_censored_not_dropped() -> None:
    started = [past(n, 150.0) for n in range(10)]
    gone = [past(100 + n, 0.0, started=None, gone=(100.0 + n) * 1000.0 + 5.0) for n in range(10)]
    (one,) = judged([*started, *gone], 1e6).judged
    assert (20, 10, 1.0) == (one.made.judged, one.made.censored, one.made.coverage_p90)
    late = [past(200 + n, 0.0, started=None, gone=(200.0 + n) * 1000.0 + 500.0) for n in range(10)]
    (worse,) = judged([*started, *late], 1e6).judged
    assert worse.made.coverage_p90 == pytest.approx(0.5)


def test_only_the_past_counts() -> None:
    known = [past(n, 150.0) for n in range(5)]
    (one,) = judged(known, 1500.0).judged
    assert 2 == one.shown.judged


def test_a_job_starts_with_the_last_pod_of_its_minimum_also_of_a_role() -> None:
    old = Prediction("ns", "a", "u-a", "red", at=100.0, age=100.0, first=True, verdict="expected")
    made = gang("a", roles={"w": 3, "ps": 1}, minimum=2, role_min={"ps": 1}, gpu=1, on=["n1"] * 4, uid="u-a")
    starts = dict(zip((t.key for t in made.tasks), (500.0, 510.0, 520.0, 700.0), strict=True))
    made = replace(made, tasks=tuple(replace(t, started=starts[t.key]) for t in made.tasks))
    assert [Fate("ns", "a", "u-a", started=700.0)] == Judge([old]).fates(tally(node("n1", gpu=8), made))
