"""Which forecasts are kept, what became of the jobs, and how good forecasts were.

Forecasts are kept as they were made, before calibration, with the p90 that people saw. Calibration uses the former,
quality is that of the latter. Both use only what was known at the time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from maar.forecast.calibrate import AGES, Age, Calibration, Made, Quality, age_of, quality
from maar.forecast.forecast import Forecast, ForecastVerdict, JobForecast, Span
from maar.forecast.start import StartState
from maar.history.records import Fate, Prediction
from maar.model.jobs import Job
from maar.model.minimum import has_minimum
from maar.model.tasks import Status
from maar.views.records import State as JobState
from maar.views.tally import Tally

EVERY = 600.0
"""Seconds between two kept forecasts of a job."""
EACH = tuple(reversed([age for _, age in AGES]))

Key = tuple[str, str]
"""Job and uid: the parts of one object share its uid, and a new job may have the name of an old one."""


class JudgedJob(msgspec.Struct):
    """What was kept of one waiting job."""

    last: float
    ages: set[Age]


class Judge:
    """Chooses forecasts to keep, and follows their jobs until they start or are gone."""

    def __init__(self, unresolved: Iterable[Prediction] = ()) -> None:
        self._kept: dict[Key, JudgedJob] = {}
        for one in unresolved:
            seen = {age for least, age in AGES if one.age >= least}
            self._kept[one.job, one.uid] = JudgedJob(one.at, seen)

    def __len__(self) -> int:
        return len(self._kept)

    def chosen(self, made: Forecast, shown: Mapping[str, JobForecast], jobs: Mapping[str, Job]) -> list[Prediction]:
        """The forecasts of waiting jobs that are kept now: one in 10 minutes, and the first one at each age."""
        found = []
        for one in made.jobs:
            job = jobs.get(one.job)
            if job is None or one.state is not StartState.WAITING or not job.uid or not made.rollouts:
                continue
            age = max(made.at - job.created, 0.0)
            kept = self._kept.get((one.job, job.uid))
            first = kept is None or age_of(age) not in kept.ages
            if kept is not None and not first and made.at - kept.last < EVERY:
                continue
            ages = {age_of(age)} if kept is None else kept.ages | {age_of(age)}
            self._kept[one.job, job.uid] = JudgedJob(made.at, ages)
            namespace, _, name = one.job.partition("/")
            found.append(
                Prediction(
                    namespace,
                    name,
                    job.uid,
                    one.queue,
                    at=made.at,
                    age=age,
                    first=first,
                    verdict=one.verdict.value,
                    start_p50=one.start.p50,
                    start_p90=one.start.p90,
                    shown_p90=shown.get(one.job, one).start.p90,
                    finish_p50=one.finish.p50,
                    finish_p90=one.finish.p90,
                    rollouts=made.rollouts,
                    arrivals=made.arrivals,
                )
            )
        return found

    def fates(self, tally: Tally) -> list[Fate]:
        """What became of jobs since the last look."""
        jobs, found = tally.snapshot.jobs, []
        for key, uid in list(self._kept):
            namespace, _, name = key.partition("/")
            row = jobs.number.get(key)
            if row is None or jobs.jobs[row].uid != uid:
                found.append(Fate(namespace, name, uid, gone=tally.now))
            elif tally.state(row) in (JobState.RUNNING, JobState.FINISHED):
                found.append(Fate(namespace, name, uid, started=_started(tally, row)))
            else:
                continue
            del self._kept[key, uid]
        return found


def _started(tally: Tally, row: int) -> float:
    """When a running job got its minimum: when the last pod of it started."""
    snapshot = tally.snapshot
    members = range(*snapshot.jobs.members.span(row))
    there = (Status.BOUND, Status.SUCCEEDED, Status.FAILED)
    tasks = [snapshot.tasks.tasks[t] for t in members if snapshot.tasks.status[t] in there]
    pods = sorted((task for task in tasks if task.started is not None), key=lambda task: task.started or 0.0)
    if not pods:
        return tally.now
    job, counts = snapshot.jobs.jobs[row], range(len(pods))
    last = bisect_left(counts, True, key=lambda i: has_minimum(job, pods[: i + 1]))
    return min(pods[min(last, len(pods) - 1)].started or 0.0, tally.now)


def made_of(predictions: Iterable[Prediction], *, shown: bool = False) -> list[Made]:
    """The forecasts with a start, for calibration; with `shown`, as people saw them."""
    return [
        Made(
            p.job,
            p.queue,
            age_of(p.age),
            p.at,
            Span(p.start_p50, p.shown_p90 if shown else p.start_p90),
            started=p.started,
            gone=p.gone,
        )
        for p in predictions
        if p.verdict == ForecastVerdict.EXPECTED.value
    ]


class Judged(msgspec.Struct, frozen=True):
    """The quality of the forecasts of one queue at one age."""

    queue: str
    age: Age
    shown: Quality
    made: Quality
    """Before calibration."""
    factor: float
    """What the p90 of new forecasts is multiplied by."""


class Verdicts(msgspec.Struct, frozen=True):
    """All that was learned from kept forecasts."""

    alone: Calibration = Calibration()
    """The calibration of forecasts without later submissions."""
    crowded: Calibration = Calibration()
    """The calibration of forecasts with later submissions."""
    judged: tuple[Judged, ...] = ()

    def of(self, arrivals: bool) -> Calibration:
        return self.crowded if arrivals else self.alone


def calibrated(made: Forecast, jobs: Mapping[str, Job], verdicts: Verdicts) -> dict[str, JobForecast]:
    """A forecast by job, with the starts of waiting jobs stretched by what was learned from earlier ones."""
    found = {}
    for one in made.jobs:
        waits = one.state is StartState.WAITING and one.job in jobs
        age = age_of(made.at - jobs[one.job].created) if waits else None
        found[one.job] = one if age is None else verdicts.of(made.arrivals).applied(one, age, made.at)
    return found


def judged(predictions: Sequence[Prediction], now: float) -> Verdicts:
    """What kept forecasts say at a time. Of a job that waits or is gone, it is known that it waited until then."""
    shown, made = made_of(predictions, shown=True), made_of(predictions)
    alone, crowded = (Calibration(made_of(p for p in predictions if p.arrivals is a), now) for a in (False, True))
    calibration = crowded if predictions and predictions[-1].arrivals else alone
    groups = sorted({(m.queue, m.age) for m in made}, key=lambda pair: (pair[0], EACH.index(pair[1])))
    found = []
    for queue, age in groups:
        seen, raw = (quality([m for m in of if (m.queue, m.age) == (queue, age)], now) for of in (shown, made))
        found.append(Judged(queue, age, seen, raw, calibration.factors(queue, age).p90))
    return Verdicts(alone, crowded, tuple(found))
