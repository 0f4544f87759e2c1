"""Plays generated weeks for `bench.forecast`, and makes forecasts in them at the ages at which they are judged.

The simulator knows the true run times. A forecast sees only what a scheduler sees: the cluster at that moment, and the
jobs that ended before. Of these it draws future arrivals, if they are wanted.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from itertools import cycle

import msgspec

from bench import planner
from bench.forecast_scenes import GPUS_PER_NODE, Weeks, honest, sample, submission
from maar.config.config import Config
from maar.forecast.arrivals import Submission, arrivals_for
from maar.forecast.calibrate import Made, age_of
from maar.forecast.forecast import Forecast, ForecastVerdict, Options, begins_of, forecast
from maar.forecast.start import StartState
from maar.lengths.runtimes import RunSample, RunTimes
from maar.model.snapshot import Cluster
from maar.sim.cluster import ClusterPlay
from maar.sim.setting import Setting
from maar.sim.virtual import key_of

LATER = (0.0, 60.0, 3600.0)
"""Ages in seconds. A chosen job gets one forecast, at one of these ages, if it still waits then. Jobs take the ages in
turn. A forecast has all jobs that wait at that time, of any age."""


class Judged(msgspec.Struct, frozen=True):
    """The forecast of one job at one age, with the planner's, and what became of the job."""

    made: Made
    planned: float | None
    gpus: int
    known: bool
    """Whether a time was forecast."""


class Moment(msgspec.Struct, frozen=True):
    """The cluster at a forecast, and what was known of run times then; for more forecasts of the same moment."""

    at: float
    cluster: Cluster
    samples: list[RunSample]
    past: list[Submission]


def forecast_at(moment: Moment, config: Config, run_times: RunTimes, options: Options, arrivals: bool) -> Forecast:
    """A forecast of a moment, as `maar web` would make it, with or without future arrivals."""
    past = moment.past if arrivals else []
    future = arrivals_for(moment.cluster, past, moment.at, run_times, options=options)
    return forecast(moment.cluster, config, moment.at, run_times, options=options, arrivals=future)


class Player:
    """Plays weeks. In each equal part of the time, the first job that has to wait is chosen for forecasts."""

    def __init__(self, weeks: Weeks, config: Config, nodes: int, options: Options, arrivals: bool) -> None:
        self._weeks, self._config, self._options, self._arrivals = weeks, config, options, arrivals
        self._play = ClusterPlay(weeks.trace, config, Setting(nodes, GPUS_PER_NODE))
        self._jobs = {key_of(job): job for job in weeks.trace.jobs}
        self._samples: list[RunSample] = []
        self._run_times = RunTimes()
        self._past: list[Submission] = []
        self._judged: dict[tuple[str, str], Judged] = {}
        self._starts: dict[str, float] = {}
        self._gone: dict[str, float] = {}
        self._due: list[tuple[float, str]] = []
        """Forecasts to make, by time, each for one job that may have started by then."""
        self.moments: list[Moment] = []

    def run(self, first: float, until: float, every: float) -> Iterator[float]:
        """Make forecasts from `first` to `until`, and play on until all their jobs are over; yields the times."""
        there: set[str] = set()
        chosen, later = first, cycle(LATER)
        before = honest(self._play.virtual.cluster())
        while self._play.step():
            now = self._play.plans[0][0]
            yield from self._forecasts(before, now)
            works = self._play.works
            self._starts.update((key, now) for key, work in works.items() if work.started and key not in self._starts)
            for key in sorted(there - works.keys()):
                self._run_times.add(sample(self._jobs[key]))
                self._samples.append(sample(self._jobs[key]))
                self._past.append(submission(self._jobs[key], self._jobs[key].submit, now))
            arrived = sorted(works.keys() - there)
            self._cancel(now)
            there = set(works)
            waits = [key for key in arrived if key not in self._starts]
            if waits and chosen <= now < until:
                chosen = now - (now - first) % every + every
                bisect.insort(self._due, (now + next(later), waits[0]))
            before = honest(self._play.virtual.cluster())
            if now >= until and not self._due and all(self._is_over(key) for key, _ in self._judged):
                break

    def _is_over(self, key: str) -> bool:
        return key in self._starts or key in self._gone

    def _cancel(self, now: float) -> None:
        """Owners delete jobs that have waited too long; at the next event, which is minutes later at most."""
        for key in [key for key, work in self._play.works.items() if not work.started]:
            if now - self._jobs[key].submit >= self._weeks.patience.get(key, float("inf")):
                self._play.cancel(key)
                self._gone[key] = now

    def _forecasts(self, cluster: Cluster, now: float) -> Iterator[float]:
        """The forecasts that are due before `now`, until which the cluster has been as given."""
        while self._due and self._due[0][0] < now:
            at, key = self._due.pop(0)
            if not self._is_over(key):
                self._forecast(cluster, at)
                yield at

    def _forecast(self, cluster: Cluster, at: float) -> None:
        moment = Moment(at, cluster, list(self._samples), list(self._past))
        made = forecast_at(moment, self._config, self._run_times, self._options, self._arrivals)
        planned = planner.plan(cluster, begins_of(cluster, at), at)
        self.moments.append(moment)
        for found in made.jobs:
            if found.state is StartState.WAITING and found.job not in self._starts:
                age = age_of(at - self._jobs[found.job].submit)
                one = Made(found.job, found.queue, age, at, found.start)
                gpus, known = self._jobs[found.job].gpus, found.verdict is ForecastVerdict.EXPECTED
                self._judged.setdefault((found.job, age), Judged(one, planned.get(found.job), gpus, known))

    def judged(self) -> list[Judged]:
        """All forecasts, the first one of each job at each age, with what happened."""
        return [
            msgspec.structs.replace(
                judged,
                made=msgspec.structs.replace(judged.made, started=self._starts.get(key), gone=self._gone.get(key)),
            )
            for (key, _), judged in self._judged.items()
        ]
