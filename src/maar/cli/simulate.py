"""`maar simulate`: compares policies on a trace.

`maar.sim.compare` runs the simulation; this module has only the command line. After an error it prints nothing on
standard output and writes no file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from maar.cli.algorithms import WithAlgorithms
from maar.cli.reports.simulate_text import as_json, as_text, jobs_text, watching
from maar.cli.support.exits import BadInput, CannotRun, Problem
from maar.cli.support.inputs import LENIENT, OUTPUT, filled, read_text, source_of
from maar.cli.support.output import say, say_json, tell
from maar.cli.support.trace_file import load_trace
from maar.cli.support.trace_options import Finite
from maar.config.file import read_config
from maar.elastic.allocate import InvalidPlan
from maar.model.words import count as counted
from maar.model.words import unknown
from maar.registry import catalog
from maar.sim.compare import ComparedRun, compare
from maar.sim.faults import Faults, parse_chance
from maar.sim.faults import read as read_faults
from maar.sim.models import default
from maar.sim.models.table import MODELS, find
from maar.sim.papers import muri, pollux_trace, rates
from maar.sim.papers.applications import Rates, read_rates
from maar.sim.report.page import write_report
from maar.sim.result import Run
from maar.sim.setting import Setting
from maar.sim.trace import Trace
from maar.sim.traces.formats import FORMATS
from maar.sim.traces.source import Source

POLICIES = "fifo,srtf,tiresias,elastic-fifo"
"""The default policies: the most common one, the best on average, and two in between. Tuned by hand."""
USUAL = Setting(8, 8)
MOST = 1_000_000
"""Nodes, and GPUs per node: far above any cluster, and no more than memory holds."""


def _policies(ctx: click.Context, param: click.Parameter, value: str | None) -> list[str]:
    names = [name.strip() for name in (value or "").split(",") if name.strip()]
    known = catalog().algorithms
    for name in names:
        if name not in known:
            raise click.BadParameter(unknown("algorithm", name, known), ctx, param)
    return list(dict.fromkeys(names))


def _model(ctx: click.Context, param: click.Parameter, value: str) -> str:
    try:
        find(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None
    return value


@click.command(cls=WithAlgorithms)
@click.argument("file", metavar="TRACE")
@click.option(
    "--format", "format_", metavar="NAME",
    help=f"Format of the trace: {', '.join(sorted(FORMATS))}. Default: detected from the file.",
)  # fmt: skip
@click.option(
    "--policy", "policies", callback=_policies, metavar="NAME,...",
    help=f"Algorithms to compare, from the list below. Default, without --config: {POLICIES}.",
)  # fmt: skip
@click.option("--config", "configs", multiple=True, metavar="FILE", help="Configuration to compare. May be repeated.")
@LENIENT
@click.option("--nodes", type=click.IntRange(1, MOST), default=USUAL.nodes, show_default=True, help="Number of nodes.")
@click.option(
    "--gpus-per-node", type=click.IntRange(1, MOST), default=USUAL.gpus_per_node, show_default=True,
    help="GPUs per node.",
)  # fmt: skip
@click.option(
    "--depth", type=click.Choice(["pool", "cluster"]),
    help="pool counts GPUs and asks only the algorithm (default for --policy). "
    "cluster places pods on nodes with full scheduling cycles (always for --config).",
)  # fmt: skip
@click.option(
    "--model", callback=_model, default=default.NAME, show_default=True, metavar="NAME",
    help=f"Model of job progress and the cost of changes: {', '.join(sorted(MODELS))}.",
)  # fmt: skip
@click.option(
    "--rates", "rates_file", metavar="FILE", help="Table of rates by application and GPUs, for --model rates."
)
@click.option(
    "--lengths", type=click.Choice(["known", "unknown", "learnt"]), default="known", show_default=True,
    help="Whether policies know how long jobs take, or learn it from jobs that ended earlier in the same run.",
)  # fmt: skip
@click.option(
    "--speeds", type=click.Choice(["true", "learnt"]), default="true", show_default=True,
    help="Whether policies know the rates of --model rates, or learn them from jobs that run.",
)  # fmt: skip
@click.option(
    "--interval", type=Finite(0), default=USUAL.interval, show_default=True, metavar="SECONDS",
    help="Time between decisions, at depth pool. 0 decides at every event.",
)  # fmt: skip
@click.option(
    "--restart", type=Finite(0), default=USUAL.restart, show_default=True, metavar="SECONDS",
    help="Time that a job loses when its size changes or it starts again.",
)  # fmt: skip
@click.option(
    "--checkpoint", type=Finite(0), default=USUAL.checkpoint, show_default=True, metavar="SECONDS",
    help="Time between saves of work. Failures and evictions lose the work since the last save. 0 loses nothing.",
)  # fmt: skip
@click.option(
    "--patience", type=Finite(0), default=USUAL.patience, show_default=True, metavar="SECONDS",
    help="Minimum time after a decision before time alone (such as a demotion) causes the next one.",
)  # fmt: skip
@click.option("--faults", metavar="FILE", help="CSV with the columns time,node,event: nodes that fail or are drained.")
@click.option(
    "--fail", metavar="BETWEEN[,REPAIR[,SEED]]",
    help="Random node failures: mean seconds until a node fails, of a repair (default 3600), and a seed (default 0).",
)  # fmt: skip
@OUTPUT
@click.option("--jobs", "jobs_file", metavar="FILE", help="Write the outcome of each job: CSV, or JSON lines (.jsonl).")
@click.option(
    "--report", metavar="PATH", help="Write a page with plots to an .html file, or page and SVG files to a folder."
)
@click.option(
    "--processes", type=click.IntRange(1), default=max(os.cpu_count() or 1, 1),
    help="Number of parallel processes. Default: one per CPU.",
)  # fmt: skip
def simulate(
    file: str,
    format_: str | None,
    policies: list[str],
    configs: tuple[str, ...],
    lenient: bool,
    depth: str | None,
    rates_file: str | None,
    speeds: str,
    faults: str | None,
    fail: str | None,
    output: str,
    jobs_file: str | None,
    report: str | None,
    processes: int,
    **given: Any,
) -> None:
    """Compare policies on a TRACE of jobs: completion times, waiting times and GPU use on a virtual cluster.

    TRACE is a file in any known format, or - for standard input; `maar trace` generates and describes traces. Equal
    inputs give equal output, to the byte.
    """
    model: str = given["model"]
    entries = _entries(policies, configs, lenient, depth, model)
    if given["interval"] and (model == muri.NAME or any(entry.depth == "cluster" for entry in entries)):
        raise click.UsageError("--interval: only supported with --depth pool and the models default and rates")
    table = _rates(rates_file, speeds, model)
    trace = load_trace(file, format_)
    if model != rates.NAME and pollux_trace.NOTE in trace.notes:
        raise BadInput(f"{source_of(file)}: {pollux_trace.NOTE}; add --model rates --rates FILE")
    setting = filled(
        Setting,
        given,
        faults=_faults(faults, fail, given["nodes"], model),
        rates=table,
        speeds_known=speeds == "true",
    )
    if table is not None:
        _check_applications(trace, table, file)
    runs = _compare(trace, entries, setting, processes)
    for run in runs:
        _warn(run)
    _write(runs, trace, jobs_file, report)
    if output == "json":
        say_json(as_json(runs))
    else:
        say(as_text(runs, trace))


def _entries(
    policies: list[str], configs: tuple[str, ...], lenient: bool, depth: str | None, model: str
) -> list[ComparedRun]:
    if configs and depth == "pool":
        raise click.UsageError("--depth pool and --config: a configuration needs depth cluster; omit one of them")
    if model in (muri.NAME, rates.NAME) and (configs or depth == "cluster"):
        raise click.UsageError(f"--model {model}: only supported with --depth pool")
    if not policies and not configs:
        policies = POLICIES.split(",")
    entries = [ComparedRun(name, depth=depth or "pool") for name in policies]
    for name in dict.fromkeys(configs):
        text = read_text(name)
        for warning in read_config(text, name, catalog(), lenient).warnings:
            tell(f"warning: {warning}")
        entries.append(ComparedRun(name, text, "cluster", lenient))
    return entries


def _faults(file: str | None, chance: str | None, nodes: int, model: str) -> Faults:
    if file is not None and chance is not None:
        raise click.UsageError("--faults and --fail: expected one of them, got both")
    if (file or chance) and model in (muri.NAME, rates.NAME):
        raise click.UsageError(f"--model {model}: does not support failing or draining nodes")
    if chance is not None:
        return Faults(chance=parse_chance(chance))
    return Faults() if file is None else read_faults(Path(file), nodes)


def _rates(file: str | None, speeds: str, model: str) -> Rates | None:
    if model != rates.NAME:
        if file is not None or speeds == "learnt":
            option = "--rates" if file is not None else "--speeds learnt"
            raise click.UsageError(f"{option}: only supported with --model rates")
        return None
    if file is None:
        raise click.UsageError("--model rates: needs --rates FILE")
    return read_rates(Source(source_of(file), read_text(file).encode()))


def _check_applications(trace: Trace, table: Rates, file: str) -> None:
    strange = [job for job in trace.jobs if job.model not in table.applications]
    if strange:
        why = unknown("application", strange[0].model, table.applications)
        raise BadInput(f"{source_of(file)}: job `{strange[0].name}`: {why}")


def _compare(trace: Trace, entries: list[ComparedRun], setting: Setting, processes: int) -> list[Run]:
    try:
        with watching(entries, len(trace.jobs)) as watcher:
            return compare(trace, entries, setting, processes, watcher)
    except InvalidPlan as error:
        raise Problem(str(error)) from None


def _warn(run: Run) -> None:
    if run.unfinished:
        some = ", ".join(f"`{name}`" for name in run.unfinished[:3]) + (", ..." if len(run.unfinished) > 3 else "")
        count = len(run.unfinished)
        jobs = counted(count, "job")
        what = f"{jobs} could not run on {counted(run.gpus, 'GPU')}, not included in the results: {some}"
        tell(f"warning: {run.policy}: {what}")


def _write(runs: list[Run], trace: Trace, jobs_file: str | None, report: str | None) -> None:
    if jobs_file is not None:
        with _written_to(jobs_file):
            Path(jobs_file).write_text(jobs_text(runs, lines=jobs_file.endswith(".jsonl")), encoding="utf-8")
    if report is not None:
        with _written_to(report):
            paths = write_report(runs, trace, Path(report))
        for path in paths:
            tell(f"written: {path}")


@contextmanager
def _written_to(file: str) -> Iterator[None]:
    """End the command if a file cannot be written; the error names the file only if it could not be opened."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CannotRun(f"{error.filename or file}: cannot be written: {error.strerror}") from None
