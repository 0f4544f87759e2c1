"""Measures what election brings and costs: `make bench-election` makes the tables of docs/reservation.md.

    python -m bench.election [--before FILE] [--jobs 400] [--seeds 5] [--loads 0.7,0.9,1.1,1.3] [--elastic 0]

Runs the traces of `maar trace generate` at depth `cluster` on 8 nodes of 8 GPUs, without election and with the default
configuration. The names of these jobs say nothing about their lengths. So each trace runs once more with names that
do: jobs of one tenth of all lengths have one name stem, as if they repeated the same training. Nothing else differs,
so without estimates both are equal.

Measured are the mean wait of the largest tenth of gangs, that of all jobs, and the part of all GPUs in use until the
last submission. `--before` takes the output of a run with the sources of another version (in `PYTHONPATH`), and shows
its default configuration beside. Prints Markdown; the last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from maar.config.config import Config
from maar.config.file import default_config
from maar.registry import catalog
from maar.sim import cluster
from maar.sim.generate import Recipe, generate
from maar.sim.result import Run
from maar.sim.setting import Setting
from maar.sim.trace import Trace

NODES, GPUS = 8, 8
OFF, ON, REPEATS, BEFORE = "off", "on", "repeats", "before"
TITLES = {
    OFF: "without election",
    BEFORE: "before",
    ON: "names say nothing",
    REPEATS: "names say the kind",
}
KINDS = 10
"""How many kinds of jobs the names of a trace tell apart: tenths of all lengths."""


class One(NamedTuple):
    """One run."""

    variant: str
    load: float
    seed: int
    jobs: int
    elastic: float


class Figures(NamedTuple):
    """Waits in seconds, the part of GPUs in use, and CPU seconds of the run."""

    large: float
    all: float
    used: float
    cpu: float


def config_of(variant: str) -> Config:
    config = default_config(catalog())
    if variant != OFF:
        return config
    return replace(config, actions=tuple(a for a in config.actions if a.name not in ("elect", "reserve")))


def named_by_kind(trace: Trace) -> Trace:
    """The same jobs with names whose stems tell the tenth of lengths."""
    order = sorted(range(len(trace.jobs)), key=lambda i: (trace.jobs[i].duration, i))
    kind = {i: rank * KINDS // len(order) for rank, i in enumerate(order)}
    jobs = (replace(job, name=f"kind{kind[i]}-{i}") for i, job in enumerate(trace.jobs))
    return replace(trace, jobs=tuple(jobs))


def measured(one: One) -> Figures:
    recipe = Recipe(seed=one.seed, jobs=one.jobs, load=one.load, cluster=NODES * GPUS, elastic=one.elastic)
    trace = generate(recipe)
    if one.variant == REPEATS:
        trace = named_by_kind(trace)
    begun = time.process_time()
    run = cluster.simulate(trace, config_of(one.variant), Setting(NODES, GPUS), one.variant)
    cpu = time.process_time() - begun
    assert len(run.jobs) == len(trace.jobs), run.unfinished
    rigid = [done for done, job in zip(run.jobs, trace.jobs, strict=True) if not job.elastic]
    largest = sorted(rigid, key=lambda job: (-job.gpus, job.submit))[: max(len(rigid) // 10, 1)]
    waits = [job.waited for job in run.jobs]
    return Figures(fmean(job.waited for job in largest), fmean(waits), used(run, trace), cpu)


def used(run: Run, trace: Trace) -> float:
    """The part of GPU seconds in use until the last submission."""
    last = max(job.submit for job in trace.jobs)
    busy = 0.0
    for done, job in zip(run.jobs, trace.jobs, strict=True):
        for (since, workers), (until, _) in zip(done.sizes, done.sizes[1:], strict=False):
            busy += workers * job.gpus_per_worker * (min(until, last) - min(since, last))
    return busy / (run.gpus * last)


def averaged(found: Iterable[Figures]) -> Figures:
    return Figures(*np.mean(np.array(list(found)), axis=0).tolist())


def table(figures: dict[str, dict[str, Figures]], variants: list[str]) -> None:
    """Loads down, variants across; each with its difference from the run without election."""
    print("| load | figure |", " | ".join(TITLES[v] for v in variants), "|")
    print("|---|---|" + "---|" * len(variants))
    for load, by_variant in figures.items():
        off = by_variant[OFF]
        for name, title in (("large", "wait of the largest tenth"), ("all", "wait of all"), ("used", "GPUs in use")):
            cells = []
            for variant in variants:
                value, base = getattr(by_variant[variant], name), getattr(off, name)
                text = f"{value * 100:.1f} %" if name == "used" else f"{value:,.0f} s"
                change = "" if variant == OFF or name == "used" else f" ({value / base - 1:+.0%})"
                cells.append(text + change)
            print(f"| {load} | {title} |", " | ".join(cells), "|")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="the output of a run with the sources of another version")
    parser.add_argument("--variants", default=f"{OFF},{ON},{REPEATS}")
    parser.add_argument("--loads", default="0.7,0.9,1.1,1.3")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=400)
    parser.add_argument("--elastic", type=float, default=0.0, help="the share of elastic jobs")
    args = parser.parse_args()
    variants, loads = args.variants.split(","), args.loads.split(",")
    runs = [
        One(variant, float(load), seed, args.jobs, args.elastic)
        for load in loads
        for variant in variants
        for seed in range(args.seeds)
    ]
    figures: dict[str, dict[str, Figures]] = {load: {} for load in loads}
    with ProcessPoolExecutor(os.cpu_count()) as executor:
        done = dict(zip(runs, executor.map(measured, runs), strict=True))
    for load in loads:
        for variant in variants:
            found = [done[one] for one in runs if (one.variant, one.load) == (variant, float(load))]
            figures[load][variant] = averaged(found)
    if args.before is not None:
        before = json.loads(args.before.read_text().splitlines()[-1])["election"]
        for load in loads:
            figures[load][OFF] = figures[load].get(OFF) or Figures(**before[load][OFF])
            figures[load][BEFORE] = Figures(**before[load][ON])
    table(figures, [v for v in TITLES if v in figures[loads[0]]])
    print(f"{sum(one.cpu for one in done.values()):.0f} CPU seconds, {args.jobs} jobs for each run", file=sys.stderr)
    print(json.dumps({"election": {load: {v: f._asdict() for v, f in by.items()} for load, by in figures.items()}}))


if __name__ == "__main__":
    main()
