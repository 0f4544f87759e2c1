"""Measures forecasts: `make bench-forecast`.

(a) Accuracy, on generated weeks (`bench.forecast_scenes`): log-normal run times (sigma 1.5), declared limits of 1.5 to
10 run times, a load of 0.95, gangs, two queues, elastic jobs, jobs that are cancelled. Forecasts are made as
`bench.forecast_weeks` says, and judged as they were made at submission, after a minute and after an hour; only jobs
that did not start in their first cycle count. Each week is calibrated on what was known when it began; the first weeks
are only learned from. Cancelled jobs are censored. The comparison is a planner in Slurm's style (`bench.planner`), on
the same jobs and moments.
(b) On some of those moments: how far forecasts are from exact ones, and what future arrivals change.
(c) Speed: 32 roll-outs of 200 nodes with 500 waiting jobs, in CPU seconds of one core.

Forecasts have future arrivals, drawn from the past; with `--alone` those of (a) and (c) have none.

The last line is JSON. Exit code 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from bench.forecast_scenes import LOAD, WEEK, Weeks, large, weeks
from bench.forecast_weeks import Judged, Moment, Player, forecast_at
from maar.config.config import Config
from maar.config.file import default_config
from maar.forecast.arrivals import arrivals_for
from maar.forecast.calibrate import Age, Calibration, Made, age_of, quality
from maar.forecast.forecast import Options, forecast
from maar.forecast.rollout import CAREFUL, EXACT
from maar.forecast.start import StartState
from maar.lengths.runtimes import RunTimes
from maar.registry import catalog

COVERAGE = (0.85, 0.95)
ERROR = 0.5
"""Median error, of the planner's."""
SECONDS = 300.0
NODES = 16
JOBS_PER_WEEK = 2100
"""More than come in a week, so that jobs come until the last forecast is judged."""
WARM = 2 * 86400.0
"""The first forecast: some hundred jobs have ended by then."""


def play(made: Weeks, config: Config, args: argparse.Namespace) -> tuple[list[Judged], list[Moment]]:
    player = Player(made, config, NODES, Options(rollouts=args.rollouts), not args.alone)
    for count, at in enumerate(player.run(WARM, args.weeks * WEEK, args.every * 3600.0)):
        if count % 20 == 0:
            print(f"  forecast {count + 1} at day {at / 86400:.1f}", flush=True)
    return player.judged(), player.moments


def calibrated(judged: Sequence[Judged], learn: int, until: int) -> list[tuple[Judged, Made]]:
    """The forecasts after the first `learn` weeks, each also as calibrated on what was known when its week began."""
    every = [one.made for one in judged]
    found = []
    for week in range(learn, until):
        known = Calibration(every, before=week * WEEK, every=WEEK)
        for one in judged:
            if week * WEEK <= one.made.at < (week + 1) * WEEK:
                m = one.made
                found.append((one, replace(m, start=known.stretched(m.start, m.queue, m.age, m.at))))
    return found


def planner_error(judged: Iterable[Judged]) -> float:
    misses = [abs(j.planned - j.made.started) for j in judged if j.planned is not None and j.made.started is not None]
    return statistics.median(misses) if misses else 0.0


def accuracy(judged: list[Judged], args: argparse.Namespace) -> dict[str, float | None]:
    found = calibrated(judged, args.learn, args.weeks)
    assert found, "no job waited after the first weeks"
    moments = len({one.made.at for one in judged})
    print(f"(a) seed {args.seed}: {len(judged)} forecasts of jobs at {moments} moments of {args.weeks} weeks")
    print(f"    {len(judged) - len(found)} of them only to learn from; {sum(not j.known for j, _ in found)} unknown")
    print(f"    {'':16} {'judged':>7} {'censored':>9} {'p90 held':>9} {'raw':>7} {'error':>8} {'planner':>9}")
    for name in ("all", *Age, *sorted({j.made.queue for j in judged}), *(f"week {w + 1}" for w in range(args.weeks))):
        part = [(one, made) for one, made in found if name in ("all", made.age, made.queue, _week(made))]
        if part:
            good, raw = quality([made for _, made in part]), quality([one.made for one, _ in part])
            held = f"{_percent(good.coverage_p90):>9} {_percent(raw.coverage_p90):>7}"
            errors = f"{good.median_error or 0.0:>6.0f} s {planner_error(one for one, _ in part):>7.0f} s"
            print(f"    {name:16} {good.judged:>7} {good.censored:>9} {held} {errors}")
    good = quality([made for _, made in found])
    return {
        "coverage_p90": good.coverage_p90,
        "median_error_s": good.median_error,
        "planner_median_error_s": planner_error(one for one, _ in found),
    }


def _week(made: Made) -> str:
    return f"week {int(made.at // WEEK) + 1}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share * 100:.1f} %"


def against_exact(config: Config, judged: list[Judged], moments: list[Moment], args: argparse.Namespace) -> None:
    """How much forecasts move if each event has its own cycle about all jobs, and what that changes in their error."""
    starts = {one.made.job: one.made.started for one in judged if one.made.started is not None}
    moved: list[float] = []
    errors: tuple[list[float], list[float]] = ([], [])
    for moment in moments:
        run_times = RunTimes(moment.samples)
        exact, careful = (
            forecast_at(moment, config, run_times, Options(rollouts=args.rollouts, precision=one), not args.alone)
            for one in (EXACT, CAREFUL)
        )
        for job in exact.jobs:
            other = careful.of(job.job)
            if other is None or job.start.p50 is None or other.start.p50 is None or job.job not in starts:
                continue
            moved.append(other.start.p50 - job.start.p50)
            for found, p50 in zip(errors, (job.start.p50, other.start.p50), strict=True):
                found.append(abs(p50 - starts[job.job]))
    if moved:
        print(
            f"(b) p50 differs from exact roll-outs by {statistics.median(abs(d) for d in moved):.0f} s (median of"
            f" {len(moved)} jobs; mean shift {statistics.fmean(moved):+.0f} s);"
            f" median error {statistics.median(errors[1]):.0f} s,"
            f" of exact ones {statistics.median(errors[0]):.0f} s"
        )


def compared(config: Config, judged: list[Judged], moments: list[Moment], rollouts: int) -> None:
    """The same forecasts with and without future arrivals, as they are before calibration."""
    outcome = {one.made.job: one.made for one in judged}
    found: tuple[list[Made], list[Made]] = ([], [])
    for moment in moments:
        run_times, options = RunTimes(moment.samples), Options(rollouts=rollouts)
        for some, arrivals in zip(found, (False, True), strict=True):
            some.extend(
                replace(outcome[f.job], age=age_of(0.0), at=moment.at, start=f.start)
                for f in forecast_at(moment, config, run_times, options, arrivals).jobs
                if f.state is StartState.WAITING and f.job in outcome
            )
    first, second = map(quality, found)
    print(
        f"    with future arrivals, uncalibrated: p90 held for {_percent(second.coverage_p90)} (without:"
        f" {_percent(first.coverage_p90)}), median error {second.median_error or 0.0:.0f} s"
        f" (without: {first.median_error or 0.0:.0f} s), {second.judged} jobs at {len(moments)} moments"
    )


def speed(config: Config, args: argparse.Namespace) -> tuple[float, int]:
    """CPU seconds and finished roll-outs of the large cluster."""
    now = 1e9
    cluster, finished, past = large(args.seed, 200, 500, now)
    begin = time.process_time()
    budget: Callable[[], bool] = lambda: time.process_time() - begin < SECONDS  # noqa: E731
    options, run_times = Options(rollouts=args.large), RunTimes(finished)
    future = arrivals_for(cluster, [] if args.alone else past, now, run_times, options=options)
    made = forecast(cluster, config, now, run_times, options=options, may_go_on=budget, arrivals=future)
    took = time.process_time() - begin
    waiting = sum(f.state is StartState.WAITING for f in made.jobs)
    each = made.decisions / max(made.rollouts, 1)
    print(f"(c) {len(cluster.nodes)} nodes, {waiting} waiting jobs: {made.rollouts} of {made.wanted} roll-outs")
    print(f"    in {took:.0f} CPU seconds, {each:.0f} decisions each")
    return took, made.rollouts


def spread(moments: list[Moment], count: int) -> list[Moment]:
    """Some moments, evenly spread."""
    return moments[len(moments) // 3 :: max(len(moments) * 2 // 3 // max(count, 1), 1)][:count]


def measured(config: Config, args: argparse.Namespace) -> dict[str, float | None]:
    """The accuracy, of new forecasts or of those that an earlier run kept."""
    if args.judge:
        return accuracy(msgspec.json.decode(Path(args.judge).read_bytes(), type=list[Judged]), args)
    made = weeks(args.seed, JOBS_PER_WEEK * (args.weeks + 1), NODES, LOAD)
    judged, moments = play(made, config, args)
    if args.keep:
        Path(args.keep).write_bytes(msgspec.json.encode(judged))
    figures = accuracy(judged, args)
    against_exact(config, judged, spread(moments, args.more // 3), args)
    compared(config, judged, spread(moments, args.more), args.rollouts)
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--weeks", type=int, default=10, help="generated weeks; 0 leaves accuracy out")
    parser.add_argument("--learn", type=int, default=3, help="weeks that are only learned from")
    parser.add_argument("--every", type=float, default=48.0, help="hours for which one waiting job is chosen")
    parser.add_argument("--rollouts", type=int, default=8, help="roll-outs of each forecast for accuracy")
    parser.add_argument("--more", type=int, default=6, help="moments without future arrivals; a third for batching")
    parser.add_argument("--large", type=int, default=32, help="roll-outs of the large cluster; 0 leaves it out")
    parser.add_argument("--alone", action="store_true", help="forecasts without future arrivals")
    parser.add_argument("--keep", default="", help="file for the forecasts and what happened, as JSON")
    parser.add_argument("--judge", default="", help="judge the forecasts of such a file instead of new ones")
    args = parser.parse_args()
    os.nice(19 - os.nice(0))
    config = default_config(catalog())
    figures: dict[str, float | int | None] = dict(measured(config, args)) if args.weeks else {}
    took, rollouts = speed(config, args) if args.large else (0.0, args.rollouts)
    figures |= {"rollouts": rollouts, "seconds": round(took, 1)}
    missed = []
    if args.weeks:
        coverage, error = figures["coverage_p90"], figures["median_error_s"]
        if coverage is None or not COVERAGE[0] <= coverage <= COVERAGE[1]:
            missed.append(f"p90 covers {coverage}, not {COVERAGE[0]} to {COVERAGE[1]}")
        if error is None or error > ERROR * (figures["planner_median_error_s"] or 0.0):
            missed.append(f"median error {error} s is above half of the planner's")
    if args.large and (rollouts < args.large or took > SECONDS):
        missed.append(f"{rollouts} roll-outs in {took:.0f} s, not {args.large} in {SECONDS:.0f} s")
    for bar in missed:
        print(f"missed: {bar}")
    print(json.dumps({name: round(v, 4) if isinstance(v, float) else v for name, v in figures.items()}))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
