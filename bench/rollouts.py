"""Measures how fast forecasts are on a full cluster with a long backlog: `make bench-rollouts`.

The scene is that of `bench.backlog`: every node is taken, gangs of all sizes and three priorities wait in ten queues.
The history knows how long such jobs run. A row is a size and a budget of CPU seconds; it prints the CPU seconds that
the forecast took, the roll-outs that were finished in them, and how many waiting jobs have no answer:

    python -m bench.rollouts --nodes 600 --jobs 1000 --rollouts 32 --seconds 60

The last line is JSON. Exit code 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
from typing import NamedTuple

from msgspec.structs import replace

from bench.backlog import NOW, scene
from maar.config.config import Config
from maar.config.file import default_config
from maar.forecast.forecast import Forecast, ForecastVerdict, Options, forecast
from maar.forecast.start import StartState
from maar.lengths.runtimes import RunSample, RunTimes
from maar.lengths.traits import traits_of
from maar.model.snapshot import Cluster
from maar.model.tasks import Task
from maar.registry import catalog

MEDIAN, SIGMA = 7200.0, 1.0
"""Seconds that jobs run, and the spread of their logarithm."""
FINISHED = 400


class Row(NamedTuple):
    nodes: int
    jobs: int
    rollouts: int
    """How many must be finished; with 0, only an answer for every job is needed."""
    seconds: float
    """CPU seconds: the budget, and the bar."""


ROWS = (Row(600, 1_000, 32, 60.0), Row(5_000, 5_000, 0, 60.0))


class Found(NamedTuple):
    seconds: float
    forecast: Forecast
    unanswered: int


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


def measure(row: Row, config: Config, seed: int) -> Found:
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
        options=Options(rollouts=max(row.rollouts, 1)),
        may_go_on=lambda: time.process_time() - begun < row.seconds,
    )
    took = time.process_time() - begun
    waiting = [job for job in made.jobs if job.state is StartState.WAITING]
    return Found(took, made, sum(job.verdict is ForecastVerdict.UNKNOWN for job in waiting))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, help="only this size, with --jobs")
    parser.add_argument("--jobs", type=int, default=1_000, help="how many gangs wait")
    parser.add_argument("--rollouts", type=int, default=32, help="0: any answer for every job")
    parser.add_argument("--seconds", type=float, default=60.0, help="budget of CPU seconds")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
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
