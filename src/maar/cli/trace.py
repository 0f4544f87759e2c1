"""`maar trace`: make a synthetic trace, say what one is like, turn any into Maar's own format.

Only what a person types and sees is here: traces are made by `maar.sim.generate`, described by `maar.sim.describe` and
read by `maar.cli.trace_file`. Nothing is written unless all went well.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec

from maar.cli.inputs import CANNOT_READ
from maar.cli.trace_file import load_trace
from maar.cli.trace_options import Finite, distribution, numbers, weights
from maar.cli.trace_text import as_text
from maar.sim.describe import describe as described
from maar.sim.draws import Distribution, Weights
from maar.sim.generate import Recipe
from maar.sim.generate import generate as generated
from maar.sim.trace import Trace
from maar.sim.traces.curves import CLASSES
from maar.sim.traces.formats import FORMATS
from maar.sim.traces.own import write_csv, write_json_lines
from maar.sim.traces.problems import TraceError

DEFAULTS = Recipe()

FORMAT = click.option(
    "--format",
    "format_",
    metavar="NAME",
    help=f"Of the file: {', '.join(sorted(FORMATS))}. If not given: what its beginning looks like.",
)
WHERE = click.option(
    "-O", "out", type=click.Path(dir_okay=False, writable=True), metavar="FILE", help="Write here; else to the screen."
)
KIND = click.option(
    "--as",
    "kind",
    type=click.Choice(["csv", "jsonl"]),
    help="CSV or JSON lines; if not given, as FILE ends, and CSV on the screen.",
)


@click.group()
def trace() -> None:
    """Make, describe and convert traces: which jobs came when, how large, how long."""


@trace.command()
@click.option("--seed", type=click.IntRange(0), default=DEFAULTS.seed, help="Another one, another trace. Default 0.")
@click.option("--jobs", type=click.IntRange(1), default=DEFAULTS.jobs, help="How many. Default 1000.")
@click.option("--rate", type=Finite(0, min_open=True), help="Arrivals in an hour. Default 30.")
@click.option("--load", type=Finite(0, min_open=True), help="Instead of --rate: the part of --gpus to keep busy; 0.8.")
@click.option("--gpus", type=click.IntRange(1), default=DEFAULTS.cluster, help="Those of --load. Default 64.")
@click.option(
    "--night", type=Finite(0, 1), default=0.0,
    help="How much day and night differ: 0 (default) not at all, 1 from nothing to twice the rate.",
)  # fmt: skip
@click.option(
    "--sizes", callback=numbers, metavar="GPUS:WEIGHT,...", help="GPUs of jobs. Default 1:50,2:15,4:15,8:15,16:5."
)
@click.option(
    "--gpus-per-worker", type=click.IntRange(1), default=1, help="Of jobs whose GPUs are a multiple of it. Default 1."
)
@click.option(
    "--duration", callback=distribution, metavar="KIND:...",
    help="lognormal:median=1h,sigma=1.5 (default), exponential:mean=2h or uniform:low=10m,high=8h.",
)  # fmt: skip
@click.option("--elastic", type=Finite(0, 1), default=0.0, help="The share of elastic jobs. Default 0.")
@click.option(
    "--stretch", type=Finite(1), default=DEFAULTS.stretch,
    help="Elastic jobs may have their workers divided by this and times this. Default 4.",
)  # fmt: skip
@click.option(
    "--models",
    callback=weights,
    metavar="CLASS:WEIGHT,...",
    help=f"Classes of speed-ups: {', '.join(CLASSES)}. All alike.",
)
@click.option("--queues", callback=weights, metavar="NAME:WEIGHT,...", help="Queues and their shares of the jobs.")
@click.option(
    "--priorities", callback=numbers, metavar="NUMBER:WEIGHT,...", help="Priorities and their shares of the jobs."
)
@WHERE
@KIND
def generate(
    seed: int,
    jobs: int,
    rate: float | None,
    load: float | None,
    gpus: int,
    night: float,
    sizes: Weights | None,
    gpus_per_worker: int,
    duration: Distribution | None,
    elastic: float,
    stretch: float,
    models: Weights | None,
    queues: Weights | None,
    priorities: Weights | None,
    out: str | None,
    kind: str | None,
) -> None:
    """Make a synthetic trace from a seed, in Maar's own format.

    The same options give the same trace to the byte. Jobs come by a Poisson process, whose rate follows the day if
    --night is given.
    """
    if rate is not None and load is not None:
        raise click.UsageError("--rate and --load: expected one of them, got both")
    unknown = [name for name, _ in models or () if name not in CLASSES]
    if unknown:
        raise click.BadParameter(f"unknown class `{unknown[0]}`; known: {', '.join(CLASSES)}", param_hint="--models")
    small = [size for size, _ in sizes or () if int(size) < 1]
    if small:
        raise click.BadParameter(f"expected sizes of at least 1 GPU, got `{small[0]}`", param_hint="--sizes")
    recipe = Recipe(
        seed=seed,
        jobs=jobs,
        rate=DEFAULTS.rate if rate is None else rate,
        load=load,
        cluster=gpus,
        night=night,
        sizes=sizes or DEFAULTS.sizes,
        gpus_per_worker=gpus_per_worker,
        duration=duration or DEFAULTS.duration,
        elastic=elastic,
        stretch=stretch,
        models=models or DEFAULTS.models,
        queues=queues or DEFAULTS.queues,
        priorities=priorities or DEFAULTS.priorities,
    )
    _write(generated(recipe), out, kind, f"maar trace generate: {msgspec.json.encode(recipe).decode()}")


@trace.command()
@click.argument("file")
@FORMAT
@click.option("--gpus", type=click.IntRange(1), help="What the trace would be for a cluster of so many.")
@click.option("-o", "output", type=click.Choice(["text", "json"]), default="text", help="How to print it.")
def describe(file: str, format_: str | None, gpus: int | None, output: str) -> None:
    """Say what the trace in FILE (- for standard input) is like: jobs, sizes, durations, load."""
    found = described(_read(file, format_), gpus)
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(found)).decode())
    else:
        click.echo(as_text(found), nl=False)


@trace.command()
@click.argument("file")
@FORMAT
@WHERE
@KIND
def convert(file: str, format_: str | None, out: str | None, kind: str | None) -> None:
    """Turn the trace in FILE (- for standard input) into Maar's own format, to look at or to change."""
    found = _read(file, format_)
    for note in found.notes:
        click.echo(f"note: {note}", err=True)
    _write(found, out, kind, "\n".join((f"maar trace convert: from {found.source}", *found.notes)))


def _read(file: str, format_: str | None) -> Trace:
    try:
        return load_trace(file, format_)
    except TraceError as error:
        click.echo(str(error), err=True)
        sys.exit(CANNOT_READ)


def _write(made: Trace, out: str | None, kind: str | None, note: str) -> None:
    as_json = kind == "jsonl" if kind else out is not None and out.endswith((".jsonl", ".ndjson", ".json"))
    text = write_json_lines(made) if as_json else write_csv(made, note)
    if out is None or out == "-":
        click.echo(text, nl=False)
        return
    try:
        Path(out).write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise click.ClickException(f"{out}: cannot be written: {error.strerror}") from None
