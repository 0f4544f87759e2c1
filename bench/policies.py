"""Compares policies on the workloads of Pollux: `make bench-policies` makes the tables of docs/adaptive-jobs.md.

    python -m bench.policies FOLDER [rates] [lengths] [fixed] [cluster] [default] [--loads 0.5,2]

FOLDER has `workload-N.csv`, `rates.csv` and `fixed-batch-N.csv`. `rates` runs the workloads by rates, `lengths`
compares known, learnt and unknown lengths on them (`make bench-lengths`), `fixed` runs the same jobs with fixed batch
sizes at pool depth, `cluster` these at cluster depth, and `default` checks whether `price` may be the default of a
pool, on all traces beside FOLDER and in `examples/`. Prints Markdown, and one line of JSON per part. A load of 2 means
that the same jobs arrive twice as fast. Takes some hours for all parts on one core.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

import msgspec

from maar.registry import ALGORITHMS, catalog
from maar.sim.compare import ComparedRun, play
from maar.sim.papers.applications import read_rates
from maar.sim.pool import simulate
from maar.sim.result import Run
from maar.sim.setting import Setting
from maar.sim.trace import Trace
from maar.sim.traces.formats import read_trace
from maar.sim.traces.source import Source

HERE = Path(__file__).parents[1]
FOLDER = HERE.parent / "shared" / "traces" / "pollux"
PARTS = ("rates", "lengths", "fixed", "cluster", "default")
LOADS = (0.5, 1.0, 1.5, 2.0)
WORKLOADS = (1, 2, 3, 4)
ALL = tuple(algorithm.name for algorithm in ALGORITHMS)
RATED = (
    ("price", "known", "true"),
    ("price", "known", "learnt"),
    ("price", "learnt", "true"),
    ("price", "learnt", "learnt"),
    ("price", "unknown", "true"),
    ("price", "unknown", "learnt"),
    *((name, "known", "true") for name in ("afs-l", "srsf", "elastic-srjf", "elastic-fifo", "optimus")),
    ("tiresias", "unknown", "true"),
)
"""Policy, lengths, speeds."""
LENGTHS_LIMIT = 1.05
"""Mean completion with learnt lengths, as a multiple of that with known ones."""


def source(file: Path) -> Source:
    return Source(file.name, file.read_bytes())


def at_load(trace: Trace, load: float) -> Trace:
    """The same jobs, arriving faster by this factor."""
    jobs = (msgspec.structs.replace(job, submit=job.submit / load) for job in trace.jobs)
    return msgspec.structs.replace(trace, jobs=tuple(jobs))


def line(*cells: object) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def head(*cells: object) -> None:
    print(line(*cells), line(*["---"] * len(cells)).replace(" ", ""), sep="\n")


def mean(runs: Sequence[Run]) -> int:
    """Mean completion time in seconds, averaged over runs with the same number of jobs."""
    return round(fmean(run.summary.avg_jct for run in runs))


def rated(folder: Path) -> tuple[Setting, list[Trace]]:
    """The cluster and the workloads of Pollux's simulator."""
    setting = Setting(16, 4, restart=30.0, model="rates", rates=read_rates(source(folder / "rates.csv")), interval=60.0)
    return setting, [read_trace(source(folder / f"workload-{n}.csv"), "pollux") for n in WORKLOADS]


def by_lengths(folder: Path) -> dict[str, float]:
    """The mean completion under `price` with learnt speeds, by what is known of lengths.

    Its rule for kinds of which too few have ended (`maar.lengths.left`) was found on these workloads; no number in it
    was fitted to them. Without the rule the ratio of learnt lengths is 1.13.
    """
    setting, traces = rated(folder)
    head("lengths", *(f"workload {n}" for n in WORKLOADS), "mean", "to known")
    found: dict[str, float] = {}
    for lengths in ("known", "learnt", "unknown"):
        told = msgspec.structs.replace(setting, lengths=lengths, speeds_known=False)
        runs = [simulate(trace, catalog().algorithms["price"], told) for trace in traces]
        found[lengths] = fmean(numbers(runs))
        ratio = found[lengths] / found["known"]
        print(
            line(lengths, *(f"{round(n):,} s" for n in numbers(runs)), f"{mean(runs):,} s", f"{ratio:.3f}"), flush=True
        )
    ratio = found["learnt"] / found["known"]
    figures = {name: round(seconds, 1) for name, seconds in found.items()}
    kept = {"ratio": round(ratio, 3), "limit": LENGTHS_LIMIT, "kept": ratio <= LENGTHS_LIMIT}
    print(json.dumps({"lengths": figures, **kept}))
    return found


def by_rates(folder: Path, loads: Sequence[float]) -> None:
    """Mean completion by policy and application, with p99, worst ratio and restarts; a table for each load."""
    setting, traces = rated(folder)
    of = {job.name: job.model for trace in traces for job in trace.jobs}
    applications = sorted(set(of.values()))
    figures: dict[str, list[float]] = {}
    for load in loads:
        head(f"load {load:g}", "lengths", "speeds", "mean", *applications, "p99", "worst ratio", "restarts")
        for name, lengths, speeds in RATED:
            known = msgspec.structs.replace(setting, lengths=lengths, speeds_known=speeds == "true")
            runs = [simulate(at_load(trace, load), catalog().algorithms[name], known) for trace in traces]
            cells = []
            for application in applications:
                times = [job.jct for run in runs for job in run.jobs if of[job.name] == application]
                cells.append(f"{round(fmean(times)):,}")
            print(line(f"`{name}`", lengths, speeds, f"{mean(runs):,}", *cells, *others(runs)), flush=True)
            figures[f"{name}/{lengths}/{speeds} at {load:g}"] = numbers(runs)
        print()
    print(as_json("rates", figures))


def others(runs: Sequence[Run]) -> tuple[str, str, str]:
    """Mean p99, worst ratio of all, and mean restarts."""
    summaries = [run.summary for run in runs]
    p99, worst = fmean(s.p99_jct for s in summaries), max(s.worst_ratio for s in summaries)
    return f"{round(p99):,}", f"{worst:.1f}", f"{round(fmean(s.restarts for s in summaries)):,}"


def numbers(runs: Sequence[Run]) -> list[float]:
    return [round(run.summary.avg_jct, 1) for run in runs]


def as_json(part: str, figures: dict[str, list[float]]) -> str:
    return json.dumps({part: figures})


def by_fixed(folder: Path, depth: str, loads: Sequence[float]) -> None:
    """Mean completion of every policy at every load, with p99, worst ratio and restarts."""
    setting = Setting(16, 4, restart=30.0)
    traces = [read_trace(source(folder / f"fixed-batch-{n}.csv")) for n in WORKLOADS]
    figures: dict[str, list[float]] = {}
    for load in loads:
        head(f"{depth} depth, load {load:g}", "mean", "p99", "worst ratio", "restarts")
        found = {}
        for name in ALL:
            found[name] = [play(at_load(trace, load), ComparedRun(name, depth=depth), setting) for trace in traces]
            figures[f"{name} at {load:g}"] = numbers(found[name])
        for name in sorted(found, key=lambda name: mean(found[name])):
            print(line(f"`{name}`", f"{mean(found[name]):,} s", *others(found[name])), flush=True)
        print(flush=True)
    print(as_json(depth, figures))


def traces_beside(folder: Path) -> Iterator[tuple[str, Trace, Setting]]:
    """All traces, with a cluster for each."""
    for file in sorted((HERE / "examples" / "traces").iterdir()):
        yield file.name, read_trace(source(file)), Setting(8, 8)
    for n in WORKLOADS:
        yield f"fixed-batch-{n}", read_trace(source(folder / f"fixed-batch-{n}.csv")), Setting(16, 4)
    rates = read_rates(source(folder / "rates.csv"))
    rated = Setting(16, 4, model="rates", rates=rates, interval=60.0)
    for n in WORKLOADS:
        yield f"workload-{n}", read_trace(source(folder / f"workload-{n}.csv"), "pollux"), rated
    for file in sorted((folder.parent / "muri").glob("*.csv")):
        yield file.name, read_trace(source(file), "muri"), Setting(8, 8, patience=600.0)


def by_default(folder: Path) -> None:
    """Whether `price` is at least as good as `elastic-fifo`, with lengths and without."""
    head("trace", "lengths", "`elastic-fifo`", "`price`", "worst ratio", "with `price`", "holds")
    for name, trace, setting in traces_beside(folder):
        for lengths in ("known", "unknown"):
            known = msgspec.structs.replace(setting, lengths=lengths)
            old, new = (simulate(trace, catalog().algorithms[p], known).summary for p in ("elastic-fifo", "price"))
            holds = new.avg_jct <= old.avg_jct and new.worst_ratio <= 2 * old.worst_ratio
            means = f"{old.avg_jct:,.0f} s", f"{new.avg_jct:,.0f} s"
            ratios = f"{old.worst_ratio:.2f}", f"{new.worst_ratio:.2f}"
            print(line(name, lengths, *means, *ratios, "yes" if holds else "no"), flush=True)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    options.add_argument("parts", nargs="*", help=f"{', '.join(PARTS)}; default: all")
    options.add_argument("--loads", default=",".join(f"{load:g}" for load in LOADS), help="default: %(default)s")
    asked = options.parse_args()
    if not asked.folder.is_dir() and asked.folder.resolve() == FOLDER.resolve():
        print(f"skipped: the workloads of Pollux are not in {asked.folder}")
        return
    if not asked.folder.is_dir():
        sys.exit(f"{asked.folder}: no such folder; name the folder with the workloads")
    if wrong := [part for part in asked.parts if part not in PARTS]:
        sys.exit(f"unknown part `{wrong[0]}`; known: {', '.join(PARTS)}")
    loads = [float(load) for load in asked.loads.split(",")]
    for part in asked.parts or PARTS:
        if part == "rates":
            by_rates(asked.folder, loads)
        elif part == "lengths":
            by_lengths(asked.folder)
        elif part == "default":
            by_default(asked.folder)
        else:
            by_fixed(asked.folder, "cluster" if part == "cluster" else "pool", loads)


if __name__ == "__main__":
    main()
