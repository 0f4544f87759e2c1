"""`maar simulate`: what a cluster would have done under other policies, on a trace.

Only what a person types and sees is here; runs are made by `maar.sim.compare`. Nothing is printed on standard output
and no file is written unless all went well.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from maar.cli.inputs import CANNOT_READ, read_text
from maar.cli.simulate_text import as_json, as_text, jobs_text, watching
from maar.cli.trace_file import load_trace
from maar.cli.trace_options import Finite
from maar.config.file import ConfigError, read_config
from maar.config.problems import unknown
from maar.elastic.allocate import InvalidPlan
from maar.registry import catalog
from maar.sim import models
from maar.sim.compare import Entry, compare
from maar.sim.faults import FaultError, Faults, parse_chance
from maar.sim.faults import read as read_faults
from maar.sim.models import default, muri
from maar.sim.report.page import write_report
from maar.sim.result import Run
from maar.sim.setting import Setting
from maar.sim.trace import Trace
from maar.sim.traces.formats import FORMATS
from maar.sim.traces.problems import TraceError

POLICIES = "fifo,srtf,tiresias,elastic-fifo"
"""What is compared where nothing is said, by taste: what most clusters do, what is best on average, and two between."""
USUAL = Setting(8, 8)


def _policies(ctx: click.Context, param: click.Parameter, value: str | None) -> list[str]:
    """Algorithms that are known, each once."""
    names = [name.strip() for name in (value or "").split(",") if name.strip()]
    known = catalog().algorithms
    for name in names:
        if name not in known:
            raise click.BadParameter(unknown("algorithm", name, known), ctx, param)
    return list(dict.fromkeys(names))


def _model(ctx: click.Context, param: click.Parameter, value: str) -> str:
    try:
        models.find(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None
    return value


@click.command()
@click.argument("file", metavar="TRACE")
@click.option(
    "--format", "format_", metavar="NAME",
    help=f"Of the trace: {', '.join(sorted(FORMATS))}. If not given: what its beginning looks like.",
)  # fmt: skip
@click.option(
    "--policy", "policies", callback=_policies, metavar="NAME,...",
    help=f"Algorithms to compare. If neither these nor --config are given: {POLICIES}.",
)  # fmt: skip
@click.option("--config", "configs", multiple=True, metavar="FILE", help="A configuration to compare; may be repeated.")
@click.option("--nodes", type=click.IntRange(1), default=USUAL.nodes, help="Equal nodes. Default 8.")
@click.option("--gpus-per-node", type=click.IntRange(1), default=USUAL.gpus_per_node, help="Default 8.")
@click.option(
    "--depth", type=click.Choice(["pool", "cluster"]),
    help="pool: GPUs are counted (as --policy does); cluster: full sessions, pods on nodes (as --config does).",
)  # fmt: skip
@click.option(
    "--model", callback=_model, default=default.NAME, metavar="NAME",
    help=f"How jobs progress and what changes cost: {', '.join(sorted(models.MODELS))}.",
)  # fmt: skip
@click.option("--restart", type=Finite(0), default=USUAL.restart, help="Seconds that a change costs: 30.")
@click.option(
    "--checkpoint", type=Finite(0), default=USUAL.checkpoint,
    help="Seconds between saves of work, which failures and evictions lose; 0: always saved. Default 600.",
)  # fmt: skip
@click.option(
    "--patience", type=Finite(0), default=USUAL.patience,
    help="Seconds after a decision until time alone asks for the next (a demotion). Default 30.",
)  # fmt: skip
@click.option("--faults", metavar="FILE", help="Nodes that fail and are drained: CSV of time,node,event.")
@click.option("--fail", metavar="BETWEEN[,REPAIR[,SEED]]", help="Nodes fail by chance: mean seconds.")
@click.option("-o", "output", type=click.Choice(["text", "json"]), default="text", help="How to print the comparison.")
@click.option("--jobs", "jobs_file", metavar="FILE", help="Write what became of each job: CSV, or JSON lines (.jsonl).")
@click.option("--report", metavar="FILE.html", help="Write a page with plots; into a folder, the plots as SVG as well.")
@click.option(
    "--processes", type=click.IntRange(1), default=max(os.cpu_count() or 1, 1), help="At once; as many as processors."
)
def simulate(
    file: str,
    format_: str | None,
    policies: list[str],
    configs: tuple[str, ...],
    nodes: int,
    gpus_per_node: int,
    depth: str | None,
    model: str,
    restart: float,
    checkpoint: float,
    patience: float,
    faults: str | None,
    fail: str | None,
    output: str,
    jobs_file: str | None,
    report: str | None,
    processes: int,
) -> None:
    """Compare policies on a TRACE: who would have waited how long, on a virtual cluster and a virtual clock.

    The same inputs give the same output to the byte. TRACE is a file of any known format, or - for standard input;
    `maar trace` makes and describes them.
    """
    try:
        entries = _entries(policies, configs, depth, model)
        trace = load_trace(file, format_)
        setting = Setting(
            nodes=nodes,
            gpus_per_node=gpus_per_node,
            restart=restart,
            checkpoint=checkpoint,
            patience=patience,
            faults=_faults(faults, fail, nodes, model),
            model=model,
        )
    except (TraceError, ConfigError, FaultError) as error:
        click.echo(str(error), err=True)
        sys.exit(CANNOT_READ)
    runs = _compare(trace, entries, setting, processes)
    for run in runs:
        _warn(run)
    _write(runs, trace, jobs_file, report)
    click.echo(as_json(runs) if output == "json" else as_text(runs, trace), nl=False)


def _entries(policies: list[str], configs: tuple[str, ...], depth: str | None, model: str) -> list[Entry]:
    if configs and depth == "pool":
        raise click.UsageError("--depth pool and --config: a configuration needs a cluster; leave one of them out")
    if model == muri.NAME and (configs or depth == "cluster"):
        raise click.UsageError("--model muri: only for counted GPUs (--depth pool)")
    if not policies and not configs:
        policies = POLICIES.split(",")
    entries = [Entry(name, depth=depth or "pool") for name in policies]
    for name in dict.fromkeys(configs):
        text = read_text(name)
        for warning in read_config(text, name, catalog()).warnings:
            click.echo(f"warning: {warning}", err=True)
        entries.append(Entry(name, text, "cluster"))
    return entries


def _faults(file: str | None, chance: str | None, nodes: int, model: str) -> Faults:
    if file is not None and chance is not None:
        raise click.UsageError("--faults and --fail: expected one of them, got both")
    if (file or chance) and model == muri.NAME:
        raise click.UsageError("--model muri: it knows no failing or draining nodes")
    if chance is not None:
        return Faults(chance=parse_chance(chance))
    return Faults() if file is None else read_faults(Path(file), nodes)


def _compare(trace: Trace, entries: list[Entry], setting: Setting, processes: int) -> list[Run]:
    try:
        with watching(entries, len(trace.jobs)) as watcher:
            return compare(trace, entries, setting, processes, watcher)
    except InvalidPlan as error:
        click.echo(str(error), err=True)
        sys.exit(1)


def _warn(run: Run) -> None:
    if run.unfinished:
        some = ", ".join(f"`{name}`" for name in run.unfinished[:3]) + (", ..." if len(run.unfinished) > 3 else "")
        count = len(run.unfinished)
        who = "1 job could not run" if count == 1 else f"{count} jobs could not run"
        what = f"{who} on {run.gpus} GPUs and {'does' if count == 1 else 'do'} not count: {some}"
        click.echo(f"warning: {run.policy}: {what}", err=True)


def _write(runs: list[Run], trace: Trace, jobs_file: str | None, report: str | None) -> None:
    try:
        if jobs_file is not None:
            Path(jobs_file).write_text(jobs_text(runs, lines=jobs_file.endswith(".jsonl")), encoding="utf-8")
        if report is not None:
            for path in write_report(runs, trace, Path(report)):
                click.echo(f"written: {path}", err=True)
    except OSError as error:
        click.echo(f"{error.filename}: cannot be written: {error.strerror}", err=True)
        sys.exit(CANNOT_READ)
