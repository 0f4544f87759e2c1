"""Judges old forecasts by what happened, and stretches new ones until their p90 holds.

A forecast is judged by its score: the real wait divided by the forecast one. If p90 holds, 90 % of its scores are at
most 1, so the p90 of new forecasts is multiplied by the 90 % quantile of the scores, by queue and by the age of the
job. Jobs that wait at the same time see the same queue, and their scores are alike, so they count as one observation
(`SPELL`): with few observations the quantile is a higher one, and forecasts are wider until more is known. Busy days
differ more than that can tell, so there is a feedback: the past is gone through again, as if forecasts had been
stretched by these rules, and if too few of them held, the quantile becomes a higher one (adaptive conformal inference,
Gibbs and Candes 2021). p50 stays as it is: stretching it too did not lower the median error on generated weeks.

A job that was cancelled while it waited, or still waits, is censored: its score is at least the one at that time.
Censored scores are counted by Kaplan and Meier's rule; dropping them would make waits look short.

Everything here is given the time `before`, and uses nothing that was known only later.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from maar.forecast.forecast import JobForecast, Span

SLACK = 60.0
"""Seconds added to both waits of a score, so that short waits do not give huge scores. Tuned by hand."""
HELD = 0.9
"""The share of jobs that start by their p90."""
ENOUGH = 30
"""Started jobs that a group must have for factors of its own. Tuned by hand."""
SPELL = 6 * 3600.0
"""Forecasts made within the same part of the day count as one observation. Tuned by hand."""
SPELLS = 20
"""Observations that a group must have for factors of its own; all jobs together need not. Tuned by hand."""


DAY = 86400.0
WEEK = 7 * DAY
GAIN = 0.3
"""How much the quantile moves in a week, for the share of forecasts that held too seldom or too often. Tuned by hand on
made-up scores, not on forecasts."""
BOUNDS = (-0.3, 0.1)
"""How far feedback moves the quantile. Tuned by hand."""
Group = tuple[str, "Age | None"]
ALL: Group = ("", None)
"""The group of all forecasts."""


class Age(enum.StrEnum):
    """How old a job was when a forecast was made."""

    SUBMITTED = "at submission"
    MINUTE = "after 1 minute"
    HOUR = "after 1 hour"


AGES = ((3600.0, Age.HOUR), (60.0, Age.MINUTE), (0.0, Age.SUBMITTED))


def age_of(seconds: float) -> Age:
    return next((age for least, age in AGES if seconds >= least), Age.SUBMITTED)


class Made(msgspec.Struct, frozen=True):
    """A forecast as it was made, before it was stretched, and what became of the job."""

    job: str
    queue: str
    age: Age
    at: float
    start: Span
    started: float | None = None
    gone: float | None = None
    """When the job was cancelled or deleted without a start."""


class Score(msgspec.Struct, frozen=True, order=True):
    value: float
    censored: bool = False


class Factors(msgspec.Struct, frozen=True):
    """What forecast waits are multiplied by."""

    p90: float = 1.0
    started: int = 0
    """The started jobs that they were learned from."""
    spells: int = 0
    """The observations that they were learned from."""


class Quality(msgspec.Struct, frozen=True):
    """How good forecasts were."""

    judged: int
    censored: int
    coverage_p90: float | None
    """The share of jobs that started by their p90."""
    median_error: float | None
    """Median of the seconds between p50 and the real start, of started jobs."""


class Calibration:
    """The factors for new forecasts, from all that was known at one time."""

    def __init__(self, made: Iterable[Made] = (), before: float = math.inf, every: float = DAY) -> None:
        """`every` is for how long factors are used until they are learned again."""
        known = [forecast for forecast in made if forecast.at < before]
        self.more = feedback(known, before, every)
        """What feedback adds to the quantile."""
        self._factors = _learned(known, before, self.more)

    def factors(self, queue: str, age: Age) -> Factors:
        """Those of the queue and the age, or of a broader group if there are too few."""
        return _of_group(self._factors, queue, age) or Factors()

    def stretched(self, start: Span, queue: str, age: Age, at: float) -> Span:
        """A new forecast of a start, with the factors applied."""
        return _stretched(start, at, self.factors(queue, age))

    def applied(self, forecast: JobForecast, age: Age, at: float) -> JobForecast:
        """A forecast with its start stretched, and its end moved by as much."""
        start = self.stretched(forecast.start, forecast.queue, age, at)
        finish = Span(
            _moved(forecast.finish.p50, forecast.start.p50, start.p50),
            _moved(forecast.finish.p90, forecast.start.p90, start.p90),
        )
        return msgspec.structs.replace(forecast, start=start, finish=finish)


def quality(made: Sequence[Made], before: float = math.inf) -> Quality:
    """The quality of forecasts as they stand in `made`."""
    known = [m for m in made if m.at < before]
    scores = [s for m in known if (s := score(m, m.start.p90, before)) is not None]
    errors = sorted(
        abs(m.started - m.start.p50)
        for m in known
        if m.started is not None and m.started < before and m.start.p50 is not None
    )
    middle = len(errors) // 2
    error = None if not errors else (errors[middle] + errors[~middle]) / 2
    return Quality(len(scores), sum(s.censored for s in scores), share_below(scores, 1.0), error)


def factors(made: Sequence[Made], before: float, more: float = 0.0) -> Factors:
    """The quantile of n observations is a little above 90 %: so the next one is below it with 90 % probability."""
    scored = [(m, s) for m in made if (s := score(m, m.start.p90, before)) is not None]
    p90 = [s for _, s in scored]
    started = sum(not s.censored for s in p90)
    if not started:
        return Factors()
    spells = len({math.floor(m.at / SPELL) for m, _ in scored})
    return Factors(quantile_of(p90, min(HELD * (spells + 1) / spells + more, 1.0)), started, spells)


def feedback(made: Sequence[Made], before: float, every: float) -> float:
    """What to add to the quantile, so that 90 % hold in the long run.

    Goes through the past period by period, with factors from what was known when each began.
    """
    more, gain = 0.0, GAIN * min(every / WEEK, 1.0)
    periods: dict[int, list[Made]] = {}
    for forecast in made:
        periods.setdefault(math.floor(forecast.at / every), []).append(forecast)
    for period in sorted(periods):
        begin = period * every
        learned = _learned([forecast for forecast in made if forecast.at < begin], begin, more)
        scores: list[Score] = []
        for forecast in periods[period]:
            found = _of_group(learned, forecast.queue, forecast.age)
            if found is not None:
                p90 = _stretched(forecast.start, forecast.at, found).p90
                scores.extend(() if (s := score(forecast, p90, before)) is None else (s,))
        held = share_below(scores, 1.0)
        if held is not None:
            more = min(max(more + gain * (HELD - held), BOUNDS[0]), BOUNDS[1])
    return more


def _learned(made: Sequence[Made], before: float, more: float) -> dict[Group, Factors]:
    groups: dict[Group, list[Made]] = {}
    for forecast in made:
        for key in _groups(forecast.queue, forecast.age):
            groups.setdefault(key, []).append(forecast)
    return {key: factors(group, before, more) for key, group in groups.items()}


def _of_group(learned: Mapping[Group, Factors], queue: str, age: Age) -> Factors | None:
    for key in _groups(queue, age):
        found = learned.get(key)
        if found is not None and found.started >= ENOUGH and (found.spells >= SPELLS or key == ALL):
            return found
    return None


def _stretched(start: Span, at: float, found: Factors) -> Span:
    p90 = stretch(start.p90, at, found.p90)
    return Span(start.p50, p90 if start.p50 is None or p90 is None else max(start.p50, p90))


def score(made: Made, forecast: float | None, before: float) -> Score | None:
    """The real wait in forecast waits, as known at `before`; `None` without a forecast."""
    if forecast is None:
        return None
    ends = [t for t in (made.started, made.gone) if t is not None and t <= before]
    until = min(ends, default=before)
    started = made.started is not None and made.started <= until
    if until == math.inf:
        return None
    return Score(max(until - made.at + SLACK, 0.0) / max(forecast - made.at + SLACK, SLACK), not started)


def stretch(time: float | None, at: float, factor: float) -> float | None:
    return None if time is None else at + max((time - at + SLACK) * factor - SLACK, 0.0)


def survival(scores: Iterable[Score]) -> list[tuple[float, float]]:
    """Kaplan and Meier's estimate: each uncensored value, and the share of all scores that is above it."""
    ordered = sorted(scores)
    above, left, steps = 1.0, len(ordered), []
    for found in ordered:
        if not found.censored:
            above *= (left - 1) / left
            steps.append((found.value, above))
        left -= 1
    return steps


def quantile_of(scores: Sequence[Score], share: float) -> float:
    """The quantile of scores, some of them censored. If too many are, the largest score: more is not known."""
    for value, above in survival(scores):
        if 1.0 - above >= share - 1e-9:
            return value
    return max((s.value for s in scores), default=1.0)


def share_below(scores: Sequence[Score], value: float) -> float | None:
    """The share of scores that are at most `value`."""
    if not scores:
        return None
    return 1.0 - next((above for at, above in reversed(survival(scores)) if at <= value), 1.0)


def _groups(queue: str, age: Age) -> tuple[Group, ...]:
    return (queue, age), (queue, None), ALL


def _moved(finish: float | None, before: float | None, after: float | None) -> float | None:
    return None if finish is None or before is None or after is None else finish + after - before
