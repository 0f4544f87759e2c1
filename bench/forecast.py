"""Measures forecasts: `make bench-forecast`.

(a) Accuracy, on generated weeks: log-normal run times (sigma 1.5), declared limits of 1.5 to 10 run times, a load of 0.95,
gangs, two queues, elastic jobs. The simulator plays the weeks and knows the true run times. A forecast sees only what a
scheduler sees: the cluster at that moment, and the jobs that ended before. Factors are learned on the first half of the
forecasts, as far as their outcome was known when the second half began; the second half is judged. Only jobs that did
not start in their first cycle count, each with its first forecast. The comparison is a planner in Slurm's style
(`bench.planner`), on the same moments.
(b) The error that batching events up to a minute apart adds, on some of those moments.
(c) Speed: 32 roll-outs of 200 nodes with 500 waiting jobs, in CPU seconds of one core.

The last line is JSON. Exit code 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from bench import planner
from bench.forecast_scenes import honest, large, sample, weeks
from maar.config.config import Config
from maar.config.file import default_config
from maar.forecast.calibrate import Calibration, Made, age_of, quality
from maar.forecast.forecast import Forecast, Options, Span, Verdict, begins_of, forecast
from maar.forecast.runtimes import RunTimes
from maar.forecast.start import State
from maar.model.snapshot import Cluster
from maar.registry import catalog
from maar.sim.cluster import Play
from maar.sim.setting import Setting
from maar.sim.trace import Trace
from maar.sim.virtual import key_of

COVERAGE = (0.85, 0.95)
ERROR = 0.5
"""Median error, of the planner's."""
SECONDS = 300.0
NODES = 16
LOAD = 0.95
WARM = 500
"""Finished jobs before the first forecast."""


class Moment(msgspec.Struct):
    """One forecast, with the planner's, and the cluster it was made for."""

    at: float
    cluster: Cluster
    finished: int
    made: Forecast
    planned: dict[str, float]
    new: list[str]
    """Waiting jobs without an earlier forecast."""


def play(trace: Trace, config: Config, count: int, every: int, rollouts: int) -> tuple[list[Moment], dict[str, float]]:
    """Play the trace; make a forecast at every so many arrivals of jobs that have to wait. Returns the real starts too."""
    run = Play(trace, config, Setting(NODES, 8))
    run_times, finished = RunTimes(), 0
    jobs = {key_of(job): job for job in trace.jobs}
    moments: list[Moment] = []
    starts: dict[str, float] = {}
    there: set[str] = set()
    seen: set[str] = set()
    waits = 0
    while run.step():
        now = run.plans[0][0]
        starts.update((key, now) for key, work in run.works.items() if work.started and key not in starts)
        for key in there - run.works.keys():
            run_times.add(sample(jobs[key]))
            finished += 1
        arrived = run.works.keys() - there
        there = set(run.works)
        if len(moments) < count and finished >= WARM and any(key not in starts for key in arrived):
            waits += 1
            if waits % every == 0:
                cluster = honest(run.virtual.cluster())
                made = forecast(cluster, config, now, run_times, options=Options(rollouts=rollouts))
                planned = planner.plan(cluster, begins_of(cluster, now), now)
                waiting = [f.job for f in made.jobs if f.state is State.WAITING and f.job not in starts]
                new = [key for key in waiting if key not in seen]
                seen.update(new)
                moments.append(Moment(now, cluster, finished, made, planned, new))
                print(f"  {len(moments)}/{count} at {now / 3600:.0f} h: {len(waiting)} wait, {len(new)} new", flush=True)
        if len(moments) == count and all(key in starts for moment in moments for key in moment.new):
            break
    return moments, starts


def made_of(moment: Moment, key: str, starts: dict[str, float], trace: dict[str, float], start: Span) -> Made:
    found = moment.made.of(key)
    assert found is not None
    return Made(key, found.queue, age_of(moment.at - trace[key]), moment.at, start, starts.get(key))


def accuracy(config: Config, args: argparse.Namespace) -> dict[str, float | None]:
    trace = weeks(args.seed, args.jobs, NODES, LOAD)
    submit = {key_of(job): job.submit for job in trace.jobs}
    moments, starts = play(trace, config, args.forecasts, args.every, args.rollouts)
    assert len(moments) == args.forecasts, f"only {len(moments)} forecasts: more --jobs are needed"
    half = len(moments) // 2
    records = [
        [made_of(m, key, starts, submit, f.start) for key in m.new if (f := m.made.of(key)) is not None] for m in moments
    ]
    if args.keep:
        plans = [{key: m.planned[key] for key in m.new} for m in moments]
        Path(args.keep).write_bytes(msgspec.json.encode({"made": records, "planned": plans}))
    earlier = [made for group in records[:half] for made in group]
    calibration = Calibration(earlier, before=moments[half].at)
    later = [made for group in records[half:] for made in group]
    raw = quality(later)
    stretched = [
        msgspec.structs.replace(made, start=calibration.stretched(made.start, made.queue, made.age, made.at))
        for made in later
    ]
    good = quality(stretched)
    plans = [
        abs(m.planned[key] - starts[key]) for m in moments[half:] for key in m.new if key in starts and key in m.planned
    ]
    planner_error = statistics.median(plans)
    unknown = sum(f.verdict is not Verdict.EXPECTED for m in moments[half:] for key in m.new if (f := m.made.of(key)))
    waits = statistics.median(starts[made.job] - made.at for made in later if made.job in starts)
    print(f"(a) {len(moments)} forecasts of {args.rollouts} roll-outs, {len(earlier)} jobs to learn from, {good.judged} judged")
    print(f"    {unknown} unknown; median wait {waits:.0f} s; factors " + _factors(calibration, later))
    print(f"    p90 held for {_percent(good.coverage_p90)} ({_percent(raw.coverage_p90)} before calibration)")
    print(f"    median error {good.median_error:.0f} s ({raw.median_error:.0f} s before), planner {planner_error:.0f} s")
    batching(config, trace, moments[half :: max(half // 3, 1)], args.rollouts)
    return {
        "coverage_p90": good.coverage_p90,
        "median_error_s": good.median_error,
        "planner_median_error_s": planner_error,
    }


def _factors(calibration: Calibration, made: list[Made]) -> str:
    keys = sorted({(m.queue, m.age) for m in made})
    found = ((queue, age, calibration.factors(queue, age)) for queue, age in keys)
    return ", ".join(f"{queue} {age}: {f.p50:.2f} and {f.p90:.2f}" for queue, age, f in found)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share * 100:.1f} %"


def batching(config: Config, trace: Trace, moments: list[Moment], rollouts: int) -> None:
    """How much forecasts move if each event has its own cycle."""
    differences = []
    for moment in moments:
        ended = trace.jobs[: moment.finished]  # any finished jobs do: both forecasts get the same
        run_times = RunTimes(sample(job) for job in ended)
        both = [
            forecast(moment.cluster, config, moment.at, run_times, options=Options(rollouts=rollouts, batch=batch))
            for batch in (0.0, 60.0)
        ]
        for exact in both[0].jobs:
            batched = both[1].of(exact.job)
            if batched is not None and exact.start.p50 is not None and batched.start.p50 is not None:
                differences.append(batched.start.p50 - exact.start.p50)
    if differences:
        size = statistics.median(abs(d) for d in differences)
        print(
            f"(b) batching moves p50 by {size:.0f} s (median of {len(differences)} jobs;"
            f" mean shift {statistics.fmean(differences):+.0f} s)"
        )


def speed(config: Config, args: argparse.Namespace) -> tuple[float, int]:
    """CPU seconds and finished roll-outs of the large cluster."""
    now = 1e9
    cluster, finished = large(args.seed, 200, 500, now)
    begin = time.process_time()
    budget: Callable[[], bool] = lambda: time.process_time() - begin < SECONDS  # noqa: E731
    options = Options(rollouts=args.large)
    made = forecast(cluster, config, now, RunTimes(finished), options=options, may_go_on=budget)
    took = time.process_time() - begin
    waiting = sum(f.state is State.WAITING for f in made.jobs)
    each = made.decisions / max(made.rollouts, 1)
    print(f"(c) {len(cluster.nodes)} nodes, {waiting} waiting jobs: {made.rollouts} of {made.wanted} roll-outs")
    print(f"    in {took:.0f} CPU seconds, {each:.0f} decisions each")
    return took, made.rollouts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=4000, help="jobs of the generated weeks")
    parser.add_argument("--forecasts", type=int, default=80, help="forecasts; half of them to learn from")
    parser.add_argument("--every", type=int, default=8, help="a forecast at every so many arrivals that have to wait")
    parser.add_argument("--rollouts", type=int, default=32)
    parser.add_argument("--large", type=int, default=32, help="roll-outs of the large cluster; 0 leaves it out")
    parser.add_argument("--keep", default="", help="file for the forecasts and what happened, as JSON")
    args = parser.parse_args()
    os.nice(19 - os.nice(0))
    config = default_config(catalog())
    figures: dict[str, float | int | None] = dict(accuracy(config, args)) if args.forecasts else {}
    took, rollouts = speed(config, args) if args.large else (0.0, args.rollouts)
    figures |= {"rollouts": rollouts, "seconds": round(took, 1)}
    missed = []
    if args.forecasts:
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
