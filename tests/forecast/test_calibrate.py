"""Old forecasts are judged by what was known, and new ones stretched until p90 holds; cancelled jobs are censored."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from maar.forecast.calibrate import (
    SPELL,
    Age,
    Calibration,
    Made,
    Score,
    age_of,
    quality,
    quantile_of,
    share_below,
    survival,
)
from maar.forecast.forecast import ForecastVerdict, JobForecast, Span
from maar.forecast.start import StartState


def made(number: int, wait: float | None, p50: float = 100.0, p90: float = 200.0, **fields: object) -> Made:
    """A forecast of the spell with its number, with waits in seconds."""
    at = SPELL * number
    start = None if wait is None else at + wait
    return replace(Made(f"j{number}", "q", Age.SUBMITTED, at, Span(at + p50, at + p90), start), **fields)


def waits(count: int, factor: float = 1.0) -> list[Made]:
    """Jobs that wait for 1 to `count` parts of `factor` times 200 seconds."""
    return [made(i, 200.0 * factor * ((i * 37) % count + 1) / count) for i in range(count)]


NEVER = 1e12
"""Factors that are never learned again: without feedback."""
WAITS = st.lists(st.tuples(st.floats(0.0, 1e5), st.booleans()), min_size=1, max_size=60)


def records(given_: list[tuple[float, bool]]) -> list[Made]:
    return [
        made(i, None if cancelled else wait, gone=SPELL * i + wait if cancelled else None)
        for i, (wait, cancelled) in enumerate(given_)
    ]


@given(st.lists(st.floats(0.0, 1e5), min_size=31, max_size=80))
def test_p90_holds_on_what_it_was_learned_from(seconds: list[float]) -> None:
    past = [made(i, wait) for i, wait in enumerate(seconds)]
    known = Calibration(past, every=NEVER)
    assert 0.0 == known.more, "without an earlier period nothing is fed back"
    again = [replace(m, start=known.stretched(m.start, m.queue, m.age, m.at)) for m in past]
    held = sum(m.started is not None and m.started <= (m.start.p90 or 0.0) + 1e-6 for m in again) / len(again)
    assert held >= 0.9 - 1e-9
    exact = sorted(seconds)[min(math.ceil(0.9 * (len(seconds) + 1) - 1e-9), len(seconds)) - 1]
    assert 100.0 == again[0].start.p50
    assert again[0].start.p90 == pytest.approx(max(exact, 100.0), abs=1e-3)


def test_forecasts_that_were_too_short_are_widened_and_too_long_ones_narrowed() -> None:
    for factor in (0.4, 0.7, 3.0):
        known = Calibration(waits(100, factor), every=NEVER)
        stretched = known.stretched(Span(100.0, 200.0), "q", Age.SUBMITTED, 0.0)
        assert stretched.p90 == pytest.approx(max(0.91 * 200.0 * factor, 100.0))
        assert 100.0 == stretched.p50


def test_feedback_widens_what_held_too_seldom_and_narrows_what_held_too_often() -> None:
    """Waits grow from day to day: the past alone is always too short. Then they shrink: it is always too long."""
    grow = [made(i, 10.0 * 1.1 ** (i / 4)) for i in range(160)]
    shrink = [made(i, 1e5 * 0.9 ** (i / 4)) for i in range(160)]
    assert 0.1 == Calibration(grow).more
    assert Calibration(shrink).more < -0.1
    wide, plain = Calibration(grow), Calibration(grow, every=NEVER)
    assert wide.factors("q", Age.SUBMITTED).p90 > plain.factors("q", Age.SUBMITTED).p90


def held_over_weeks(seed: int) -> float:
    """Each day has its own mean wait. Forecasts of each week are stretched by what was known when it began."""
    dice, week = Random(seed), 28 * SPELL
    days = [dice.gauss(0.0, 0.6) for _ in range(84)]
    past = [made(i, 100.0 * math.exp(days[i // 4] + dice.gauss(0.0, 0.5))) for i in range(84 * 4)]
    held = []
    for number in range(3, 12):
        known = Calibration(past, number * week, week)
        for m in past[28 * number : 28 * (number + 1)]:
            p90 = known.stretched(m.start, m.queue, m.age, m.at).p90
            held.append(m.started is not None and p90 is not None and m.started <= p90)
    return sum(held) / len(held)


def test_p90_holds_over_weeks_although_days_differ() -> None:
    assert all(0.85 <= held_over_weeks(seed) <= 0.95 for seed in range(6))


def test_jobs_that_wait_at_the_same_time_are_one_observation() -> None:
    """100 jobs of one spell say less than one job in each of 100 spells: the factor is higher."""
    apart = waits(100)
    together = [replace(m, at=0.0, start=Span(100.0, 200.0), started=(m.started or 0.0) - m.at) for m in apart]
    wide, narrow = (Calibration(past, every=NEVER).factors("q", Age.SUBMITTED) for past in (together, apart))
    assert (1, 100) == (wide.spells, narrow.spells)
    assert pytest.approx(1.0) == wide.p90, "the longest wait was 200 s, as forecast"
    assert wide.p90 > narrow.p90
    few = [replace(m, queue="small") for m in together]
    assert 200 == Calibration([*apart, *few]).factors("small", Age.SUBMITTED).started, "those of all jobs"


def test_without_enough_jobs_of_a_queue_the_broader_group_counts() -> None:
    few = [replace(m, queue="small") for m in waits(10, 9.0)]
    known = Calibration([*waits(100, 3.0), *few])
    assert known.factors("q", Age.SUBMITTED) == known.factors("q", Age.HOUR)
    assert known.factors("small", Age.SUBMITTED) == known.factors("unknown", Age.HOUR)
    assert known.factors("small", Age.SUBMITTED).p90 > known.factors("q", Age.SUBMITTED).p90
    assert 1.0 == Calibration(few).factors("small", Age.SUBMITTED).p90


@given(WAITS, st.floats(1.0, 100 * SPELL), st.floats(0.0, 1e5))
def test_safety_nothing_later_is_used(past: list[tuple[float, bool]], before: float, other: float) -> None:
    """What happens after the time of learning does not change what is learned."""
    true = records(past)

    def rewritten(m: Made) -> Made:
        started = m.started if m.started is None or m.started <= before else before + 1e-3 + other
        gone = m.gone if m.gone is None or m.gone <= before else before + 1e-3 + other
        return replace(m, started=started, gone=gone)

    changed = [rewritten(m) for m in true] + [made(10_000, other)]
    first, second = (Calibration(rows, before).factors("q", Age.SUBMITTED) for rows in (true, changed))
    assert first == second


@given(WAITS)
def test_safety_censored_jobs_never_make_waits_look_shorter(past: list[tuple[float, bool]]) -> None:
    """A job that was cancelled after a wait counts as a job that would have waited at least as long."""
    scores = [Score(wait, cancelled) for wait, cancelled in past]
    assert quantile_of(scores, 0.9) >= quantile_of([replace(s, censored=False) for s in scores], 0.9) - 1e-9
    share, plain = share_below(scores, 1000.0), share_below([replace(s, censored=False) for s in scores], 1000.0)
    assert share is not None
    assert plain is not None
    assert share <= plain + 1e-9


def test_dropping_cancelled_jobs_would_look_better() -> None:
    jobs = [made(i, 50.0) for i in range(50)] + [made(50 + i, None, gone=SPELL * (50 + i) + 190.0) for i in range(40)]
    late = [made(90 + i, 1000.0) for i in range(10)]
    assert quality([*jobs, *late]).coverage_p90 == pytest.approx(0.5 / 1.0, abs=1e-9)
    kept = [m for m in [*jobs, *late] if m.gone is None]
    assert quality(kept).coverage_p90 == pytest.approx(50 / 60)


def test_the_estimate_is_that_of_the_textbook() -> None:
    """Six remissions of Freireich's trial, by hand: 6, 6, 6, 6+, 7, 10."""
    scores = [Score(6.0), Score(6.0), Score(6.0), Score(6.0, True), Score(7.0), Score(10.0)]
    found = survival(scores)
    assert [6.0, 6.0, 6.0, 7.0, 10.0] == [value for value, _ in found]
    assert [5 / 6, 4 / 6, 3 / 6, 1 / 4, 0.0] == pytest.approx([above for _, above in found])


def test_quality_counts_what_was_known_then() -> None:
    jobs = [made(0, 150.0), made(1, SPELL), made(2, None), made(3, None, gone=3 * SPELL + 60.0)]
    found = quality(jobs, before=1.5 * SPELL)
    assert (2, 1, 50.0) == (found.judged, found.censored, found.median_error)
    found = quality(jobs, before=3.5 * SPELL)
    assert (4, 2) == (found.judged, found.censored)
    assert quality([]).coverage_p90 is None


def test_ages_begin_at_their_first_second() -> None:
    assert [Age.SUBMITTED, Age.MINUTE, Age.HOUR] == [age_of(s) for s in (59.0, 60.0, 3600.0)]


def test_the_end_of_a_job_moves_with_its_start() -> None:
    known = Calibration(waits(100, 3.0), every=NEVER)
    before = JobForecast(
        "j", "q", StartState.WAITING, ForecastVerdict.EXPECTED, "", Span(100.0, 200.0), Span(1100.0, 2200.0)
    )
    after = known.applied(before, Age.SUBMITTED, 0.0)
    assert after.start.p90 == pytest.approx(546.0)
    assert after.finish.p90 == pytest.approx(2546.0)
    unknown = replace(before, start=Span(), finish=Span())
    assert known.applied(unknown, Age.SUBMITTED, 0.0) == unknown
