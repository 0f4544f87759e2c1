"""Forecasts as answers, for viewers who may see the jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from maar.forecast.calibrate import age_of
from maar.forecast.forecast import Forecast, ForecastVerdict, JobForecast
from maar.forecast.start import StartState as Stage
from maar.views.answers import ShiftsView, ShiftView, WhatIfView
from maar.views.jobs import WAITS
from maar.views.records import ForecastView, JobView, QualityView, StartView
from maar.views.sight import ALL, Sight
from maar.web.forecasting.judging import Judged, Verdicts
from maar.web.forecasting.keeper import Latest
from maar.web.forecasting.messages import ForecastAnswer


def start_view(one: JobForecast) -> StartView:
    return StartView(verdict=one.verdict.value, start_p50=one.start.p50, start_p90=one.start.p90)


def with_forecast(view: JobView, latest: Latest | None) -> JobView:
    """A job as an item of a list, with its place and its start. Forecasts of a job that has started since are over."""
    key = f"{view.namespace}/{view.name}"
    one = None if latest is None else latest.shown.get(key)
    if latest is None or one is None or view.state not in WAITS or one.state is not Stage.WAITING:
        return view
    return replace(view, place=latest.places.get(key), forecast=start_view(one))


def with_forecasts(views: Iterable[JobView], latest: Latest | None) -> list[JobView]:
    return [with_forecast(view, latest) for view in views]


def forecast_view(
    one: JobForecast,
    made: Forecast,
    now: float,
    sight: Sight = ALL,
    namespaces: frozenset[str] = frozenset(),
    trust: QualityView | None = None,
) -> ForecastView:
    """The forecast of a job that the viewer may see; its sentence may name others."""
    why = sight.said(one.why, namespaces)
    known = one.verdict is ForecastVerdict.EXPECTED
    return ForecastView(
        known=known,
        verdict=one.verdict.value,
        words=why if known else f"{one.verdict}: {why}",
        start_p50=one.start.p50,
        start_p90=one.start.p90,
        finish_p50=one.finish.p50,
        finish_p90=one.finish.p90,
        within_hour=one.within_hour,
        rollouts=made.rollouts,
        wanted=made.wanted,
        made_at=made.at,
        age=round(max(now - made.at, 0.0), 3),
        arrivals=made.arrivals,
        trust=trust,
    )


def of_job(
    view: JobView,
    latest: Latest | None,
    verdicts: Verdicts,
    now: float,
    sight: Sight,
    namespaces: frozenset[str],
    problem: str,
) -> ForecastView:
    """What is known about the start and the end of a job now."""
    if latest is None:
        return ForecastView(words=f"unknown: {problem or 'no forecast has been made yet'}")
    one = latest.shown.get(f"{view.namespace}/{view.name}")
    if one is None:
        return ForecastView(words="unknown: the job came after the last forecast")
    if (one.state is Stage.WAITING) != (view.state in WAITS):
        return ForecastView(words="unknown: the job has started or stopped since the last forecast")
    trust = trusted(verdicts.judged, one.queue, latest.made.at - view.created) if view.state in WAITS else None
    return forecast_view(one, latest.made, now, sight, namespaces, trust)


def trusted(judged: Iterable[Judged], queue: str, age: float) -> QualityView | None:
    """How good forecasts were of jobs like one."""
    return next((quality_view(j) for j in judged if j.queue == queue and j.age is age_of(age)), None)


def quality_view(judged: Judged) -> QualityView:
    return QualityView(
        queue=judged.queue,
        age=judged.age.value,
        judged=judged.shown.judged,
        censored=judged.shown.censored,
        coverage_p90=judged.shown.coverage_p90,
        median_error=judged.shown.median_error,
        coverage_as_made=judged.made.coverage_p90,
        factor=judged.factor,
    )


def shifts(
    before: Mapping[str, JobForecast], after: Mapping[str, JobForecast], sight: Sight
) -> tuple[tuple[ShiftView, ...], int]:
    """The starts of all waiting jobs before and after, of those that the viewer may see, and the number of others."""

    def waiting(of: Mapping[str, JobForecast]) -> dict[str, JobForecast]:
        return {key: one for key, one in of.items() if one.state is Stage.WAITING}

    was, then = waiting(before), waiting(after)
    keys = sorted(was.keys() | then.keys())
    mine = sight.only(keys)
    views = tuple(
        ShiftView(
            job=key,
            before=start_view(was[key]) if key in was else None,
            after=start_view(then[key]) if key in then else None,
        )
        for key in mine
    )
    return views, len(keys) - len(mine)


def with_shifts(
    view: WhatIfView,
    answer: ForecastAnswer,
    before: Mapping[str, JobForecast],
    after: Mapping[str, JobForecast],
    sight: Sight,
) -> WhatIfView:
    """The answer to a what-if question, with the forecasts of both scenes."""
    first, second = answer.forecasts
    rollouts = min(first.rollouts, second.rollouts)
    if not rollouts:
        return replace(view, forecast=ShiftsView(words="no roll-out was finished in time"))
    found, others = shifts(before, after, sight)
    same = first.rollouts == second.rollouts
    words = "" if same else "the time ended before the same futures were played for both"
    made = ShiftsView(
        rollouts=rollouts, seconds=round(answer.seconds, 3), words=words, others=others, arrivals=first.arrivals
    )
    return replace(view, forecasts=found, forecast=made)
