"""The forecast: quantiles of the start and end of every job, over many roll-outs.

Three answers are possible for a waiting job. *Expected*: a time. *Never*: it is proved that the job cannot start on
today's nodes and limits. *Unknown*: it depends on jobs of which nothing is known, neither history nor a declared limit;
such jobs run for ever in roll-outs, so a start that is forecast nevertheless does not depend on them.

With few roll-outs because time was short, p90 is later than any of them. If not even one is finished, the first one
counts as far as it came; for a job that has not started in it, the work that is ahead of it gives a rough answer.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from maar.config.config import Config
from maar.decide import decide
from maar.forecast.draws import uniforms
from maar.forecast.rollout import (
    HORIZON,
    Arrival,
    Ended,
    MayGoOn,
    Precision,
    Prelude,
    Rollout,
    RolloutOutcome,
    always,
    precision_for,
)
from maar.forecast.start import Begin, StartState, begin, settled
from maar.lengths.runtimes import RunTimes
from maar.model.plan import Plan
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Task
from maar.model.words import count

ROLLOUTS = 32
HOUR = 3600.0
ENOUGH = 9
"""Roll-outs of which one is expected to be above the 90 % quantile of all."""
ROUGH = "a rough answer by the work ahead of it: no roll-out was finished in time"


class ForecastVerdict(enum.StrEnum):
    EXPECTED = "expected"
    NEVER = "never"
    UNKNOWN = "unknown"


class Span(msgspec.Struct, frozen=True):
    """Two quantiles of a time, in seconds since 1970; `None` where too many roll-outs did not come to it."""

    p50: float | None = None
    p90: float | None = None


class JobForecast(msgspec.Struct, frozen=True):
    """The forecast of one job."""

    job: str
    queue: str
    state: StartState
    """At the time of the forecast: waiting or running."""
    verdict: ForecastVerdict
    """Of its start, or of its end if it runs."""
    why: str = ""
    """Why it never starts, why nothing is known, or why the answer is rough; for its owner."""
    start: Span = Span()
    finish: Span = Span()
    within_hour: float | None = None
    """The share of roll-outs in which it started within one hour."""


class Forecast(msgspec.Struct, frozen=True):
    """All forecasts of one moment."""

    at: float
    rollouts: int
    """How many were played to the end."""
    wanted: int
    jobs: tuple[JobForecast, ...] = ()
    decisions: int = 0
    arrivals: bool = False
    """Whether jobs that are submitted later were played too."""

    def of(self, job: str) -> JobForecast | None:
        return next((found for found in self.jobs if found.job == job), None)


class Options(msgspec.Struct, frozen=True):
    rollouts: int = ROLLOUTS
    seed: int = 0
    precision: Precision | None = None
    """`None`: by how many jobs wait."""
    horizon: float = HORIZON


DEFAULT = Options()


def forecast(
    cluster: Cluster,
    config: Config,
    now: float,
    run_times: RunTimes,
    *,
    options: Options = DEFAULT,
    may_go_on: MayGoOn = always,
    categories: Mapping[str, str] | None = None,
    arrivals: Callable[[int], Iterable[Arrival]] | None = None,
    plan: Plan | None = None,
    only: str = "",
) -> Forecast:
    """Forecast all waiting and running jobs.

    `may_go_on` is asked before each decision but the first: when it says no, the finished roll-outs count, and their
    number is stated. `categories` has what the history calls the category of each job. `arrivals` gives the future
    jobs of each roll-out, in order of time. `plan` is the one of this moment, if it is known. With `only`, a roll-out
    ends when this job has started, and the forecast has no other job.
    """
    plan, asked = decide(Snapshot(cluster), config, now) if plan is None else plan, cluster
    never = _never(plan)
    cluster = settled(cluster, now)
    begins = begins_of(cluster, now, categories)
    waiting = sum(b.state is StartState.WAITING for b in begins.values())
    precision = options.precision or precision_for(waiting)
    needless = {*never, *begins.keys() - {only}} if only else never.keys()
    first: Prelude | None = None
    begun: Rollout | None = None
    outcomes: list[RolloutOutcome] = []

    def rollout(seconds: Mapping[str, float | None], known: Plan | None, future: Iterable[Arrival] = ()) -> Rollout:
        return Rollout(
            cluster,
            config,
            now,
            begins,
            seconds,
            arrivals=future,
            precision=precision,
            horizon=options.horizon,
            prelude=first,
            plan=known,
            may_go_on=may_go_on,
        )

    try:
        first = rollout({}, plan if cluster == asked else None).prelude()
        for number in range(options.rollouts):
            seconds = {
                key: run_times.seconds(b.traits, uniforms(options.seed, key, options.rollouts)[number], b.elapsed)
                for key, b in begins.items()
            }
            begun = rollout(seconds, None, () if arrivals is None else arrivals(number))
            outcomes.append(begun.play(needless))
    except Ended:
        pass
    finished, roughly = len(outcomes), dict[str, tuple[float, float]]()
    if not finished:
        if first is None or begun is None:
            first = Prelude.of(cluster)
            begun = rollout({k: run_times.seconds(b.traits, 0.5, b.elapsed) for k, b in begins.items()}, None)
        outcomes, roughly = [begun.so_far()], begun.rough(never)
    wide = 1.0 if finished == options.rollouts else _wide(len(outcomes))
    jobs = tuple(
        _of_job(begins[key], now, outcomes, never.get(key, ""), roughly.get(key), wide)
        for key in sorted({only} & begins.keys() if only else begins)
        if begins[key].state is not StartState.OVER
    )
    decisions = sum(outcome.decisions for outcome in outcomes)
    return Forecast(now, finished, options.rollouts, jobs, decisions, arrivals is not None)


def _wide(rollouts: int) -> float:
    """What the longest wait in too few roll-outs is multiplied by, for p90.

    It is expected to be their quantile n / (n + 1), and waits to vary as much as exponential ones.
    """
    return max(math.log(10.0) / math.log(rollouts + 1.0), 1.0) if 0 < rollouts < ENOUGH else 1.0


def _never(plan: Plan) -> dict[str, str]:
    """The jobs that are proved never to start, with the proof."""
    return {wait.job: r.never.message for wait in plan.waiting for r in wait.reasons if r.never is not None}


def begins_of(cluster: Cluster, now: float, categories: Mapping[str, str] | None = None) -> dict[str, Begin]:
    """The state of every job at the start of a forecast."""
    known = categories or {}
    members: dict[str, list[Task]] = {job.key: [] for job in cluster.jobs}
    for task in cluster.tasks:
        members[task.job].append(task)
    return {job.key: begin(job, tuple(members[job.key]), now, known.get(job.key, "")) for job in cluster.jobs}


def _of_job(
    begin: Begin,
    now: float,
    outcomes: Sequence[RolloutOutcome],
    never: str,
    roughly: tuple[float, float] | None,
    wide: float,
) -> JobForecast:
    key, queue = begin.job.key, begin.job.queue
    if never and begin.state is StartState.WAITING:
        return JobForecast(key, queue, begin.state, ForecastVerdict.NEVER, never, within_hour=0.0)
    if roughly is not None and roughly[0] < math.inf:
        soon, late = roughly
        start = Span(soon, late if late < math.inf else None)
        return JobForecast(key, queue, begin.state, ForecastVerdict.EXPECTED, ROUGH, start)
    if roughly is not None:
        return JobForecast(key, queue, begin.state, ForecastVerdict.UNKNOWN, "no roll-out was finished in time")
    finish = _wider(span([outcome.ends.get(key, math.inf) for outcome in outcomes]), now, wide)
    if begin.state is StartState.RUNNING:
        if finish.p50 is None:
            why = "its run time is unknown: no history, and no declared limit"
            return JobForecast(key, queue, begin.state, ForecastVerdict.UNKNOWN, why)
        return JobForecast(key, queue, begin.state, ForecastVerdict.EXPECTED, finish=finish)
    starts = [outcome.starts.get(key, math.inf) for outcome in outcomes]
    start = _wider(span(starts), now, wide)
    if start.p50 is None:
        started = sum(at < math.inf for at in starts)
        played = f"{started} of {count(len(starts), 'roll-out')}"
        why = f"started in {played}: it waits for jobs of unknown run time, or too long"
        return JobForecast(key, queue, begin.state, ForecastVerdict.UNKNOWN, why)
    soon = sum(at <= now + HOUR for at in starts) / len(starts)
    return JobForecast(key, queue, begin.state, ForecastVerdict.EXPECTED, "", start, finish, soon)


def _wider(found: Span, now: float, wide: float) -> Span:
    return found if found.p90 is None else Span(found.p50, now + (found.p90 - now) * wide)


def span(times: Sequence[float]) -> Span:
    ordered = sorted(times)
    return Span(quantile(ordered, 0.5), quantile(ordered, 0.9))


def quantile(ordered: Sequence[float], share: float) -> float | None:
    """The quantile of ascending values, which may be infinite: between the two nearest of n + 1 equal parts."""
    place = share * (len(ordered) + 1) - 1
    low = min(max(math.floor(place), 0), len(ordered) - 1)
    high = min(max(math.ceil(place), 0), len(ordered) - 1)
    if ordered[high] == math.inf:
        return None
    return ordered[low] + (ordered[high] - ordered[low]) * min(max(place - low, 0.0), 1.0)
