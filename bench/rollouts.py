"""Measures how fast forecasts are on a full cluster with a long backlog: `make bench-rollouts`.

The scene is that of `bench.backlog`: every node is taken, gangs of all sizes and three priorities wait in ten queues.
The history knows how long such jobs run. A row is a size and a budget of CPU seconds; it prints the CPU seconds that
the forecast took, the roll-outs that were finished in them, and how many waiting jobs have no answer:

    python -m bench.rollouts --nodes 600 --jobs 1000 --rollouts 32 --seconds 60

With `--error`, instead, how far such forecasts are from exact ones, in which each event has decisions of its own, about
all jobs. A small difference changes the order of jobs and so all that follows; how much of the error that is, shows the
line of forecasts that are exact but for events less than a minute apart:

    python -m bench.rollouts --error --nodes 100 --jobs 150 --rollouts 8

The last line is JSON. Exit code 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import random
import statistics
import sys
import time
from typing import NamedTuple

from msgspec.structs import replace

from bench.backlog import NOW, scene
from maar.config.config import Config
from maar.config.file import default_config
from maar.forecast.forecast import Forecast, ForecastVerdict, Options, forecast
from maar.forecast.rollout import CAREFUL, EXACT, FAST, Precision
from maar.forecast.start import StartState
from maar.lengths.runtimes import RunSample, RunTimes
from maar.lengths.traits import traits_of
from maar.model.snapshot import Cluster
from maar.model.tasks import Task
from maar.registry import catalog

MEDIAN, SIGMA = 7200.0, 1.0
"""Seconds that jobs run, and the spread of their logarithm."""
FINISHED = 400
SMALL = 100, 150
"""Nodes and waiting gangs of a scene on which exact forecasts take minutes."""


class Row(NamedTuple):
    nodes: int
    jobs: int
    rollouts: int
    """How many must be finished; with 0, only an answer for every job is needed."""
    seconds: float
    """CPU seconds: the bar."""


BUDGET = 0.95
"""The part of the bar in which decisions begin: the last one, and the answers, come after it."""
ROWS = (Row(600, 1_000, 32, 60.0), Row(5_000, 5_000, 0, 60.0))


class Found(NamedTuple):
    seconds: float
    forecast: Forecast
    unanswered: int


class Distance(NamedTuple):
    """How far the starts of one forecast are from those of an exact one, at one quantile."""

    seconds: float
    """The median of the differences."""
    shift: float
    """Their mean, with the sign: positive if starts are later."""
    within: float
    """The share of jobs whose wait differs by at most 10 %."""


VARIANTS = {"fast": FAST, "careful": CAREFUL}


def started(cluster: Cluster, dice: random.Random) -> Cluster:
    """The scene, in which running gangs started at different times."""
    began = {job.key: NOW - dice.uniform(0.0, MEDIAN) for job in cluster.jobs}
    tasks = (replace(task, started=began[task.job]) if task.node else task for task in cluster.tasks)
    return replace(cluster, tasks=tuple(tasks))


def history(cluster: Cluster, dice: random.Random) -> RunTimes:
    """Finished jobs like those of the scene."""
    members: dict[str, list[Task]] = {job.key: [] for job in cluster.jobs}
    for task in cluster.tasks:
        members[task.job].append(task)
    some = dice.choices(cluster.jobs, k=FINISHED)
    traits = (traits_of(job, tuple(members[job.key])) for job in some)
    return RunTimes(RunSample(of, MEDIAN * dice.lognormvariate(0.0, SIGMA)) for of in traits)


def measure(row: Row, config: Config, seed: int, precision: Precision = FAST) -> Found:
    """One forecast within the budget."""
    dice = random.Random(seed)
    cluster = started(scene(row.nodes, row.jobs, differ=True, seed=seed), dice)
    run_times = history(cluster, dice)
    gc.collect()
    begun = time.process_time()
    made = forecast(
        cluster,
        config,
        NOW,
        run_times,
        options=Options(rollouts=max(row.rollouts, 1), precision=precision),
        may_go_on=lambda: time.process_time() - begun < BUDGET * row.seconds,
    )
    took = time.process_time() - begun
    waiting = [job for job in made.jobs if job.state is StartState.WAITING]
    return Found(took, made, sum(job.verdict is ForecastVerdict.UNKNOWN for job in waiting))


def distance(exact: Forecast, other: Forecast, late: bool) -> Distance:
    """At p50, or at p90 if `late`, of all waiting jobs that both forecasts know."""
    moved, within = [], []
    for job in exact.jobs:
        found = other.of(job.job)
        true, said = (None if f is None else f.start.p90 if late else f.start.p50 for f in (job, found))
        if true is not None and said is not None:
            moved.append(said - true)
            within.append(abs(said - true) <= 0.1 * (true - NOW))
    return Distance(statistics.median(map(abs, moved)), statistics.fmean(moved), statistics.fmean(within))


def errors(row: Row, config: Config, seed: int) -> dict[str, object]:
    """Prints how far forecasts are from exact ones."""
    exact = measure(row, config, seed, EXACT)
    figures: dict[str, object] = {"nodes": row.nodes, "jobs": row.jobs, "exact": round(exact.seconds, 1)}
    print(f"{row.nodes:,} nodes, {row.jobs:,} waiting gangs, exact: {exact.seconds:.1f} CPU seconds")
    for name, precision in VARIANTS.items():
        found = measure(row, config, seed, precision)
        one: dict[str, object] = {"took": round(found.seconds, 1)}
        print(f"  {name}: {found.seconds:.1f} CPU seconds, {found.forecast.decisions} decisions", flush=True)
        for late, quantile in ((False, "p50"), (True, "p90")):
            far = distance(exact.forecast, found.forecast, late)
            one[quantile] = {what: round(value, 2) for what, value in far._asdict().items()}
            print(
                f"    {quantile}: {far.seconds:,.0f} s (median), {far.shift:+,.0f} s on average,"
                f" {far.within:.0%} of jobs within 10 % of the wait"
            )
        figures[name] = one
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, help="only this size, with --jobs")
    parser.add_argument("--jobs", type=int, default=1_000, help="how many gangs wait")
    parser.add_argument("--rollouts", type=int, default=32, help="0: any answer for every job")
    parser.add_argument("--seconds", type=float, default=60.0, help="the bar, in CPU seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--error", action="store_true", help="compare with exact forecasts; takes minutes")
    asked = parser.parse_args()
    if asked.error:
        row = Row(asked.nodes or SMALL[0], asked.jobs if asked.nodes else SMALL[1], asked.rollouts, math.inf)
        print(json.dumps({"error": errors(row, default_config(catalog()), asked.seed)}))
        return 0
    rows = ROWS if asked.nodes is None else (Row(asked.nodes, asked.jobs, asked.rollouts, asked.seconds),)
    config, figures = default_config(catalog()), []
    for row in rows:
        found = measure(row, config, asked.seed)
        made = found.forecast
        ok = found.seconds <= row.seconds and made.rollouts >= row.rollouts and not found.unanswered
        print(
            f"{row.nodes:,} nodes, {row.jobs:,} waiting gangs: {made.rollouts} of {made.wanted} roll-outs with "
            f"{made.decisions} decisions in {found.seconds:.1f} CPU seconds, {found.unanswered} jobs without an answer",
            flush=True,
        )
        figures.append(
            {
                **row._asdict(),
                "took": round(found.seconds, 1),
                "finished": made.rollouts,
                "unanswered": found.unanswered,
                "ok": ok,
            }
        )
    print(json.dumps({"rollouts": figures}))
    return 0 if all(figure["ok"] for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
