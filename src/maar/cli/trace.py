"""`maar trace`: generates a synthetic trace, describes a trace, or converts one to Maar's own format.

This module has only the command line. `maar.sim.generate`, `maar.sim.describe` and `maar.cli.support.trace_file` do
the work. After an error it writes nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from maar.cli.reports.trace_text import as_text
from maar.cli.support.exits import CannotRun
from maar.cli.support.inputs import OUTPUT
from maar.cli.support.output import say, say_data, say_json, tell
from maar.cli.support.trace_file import load_trace
from maar.cli.support.trace_options import Finite, distribution, numbers, weights
from maar.sim.describe import describe as described
from maar.sim.generate import BUSY, HALF, Recipe
from maar.sim.generate import generate as generated
from maar.sim.trace import Trace
from maar.sim.traces.curves import CLASSES
from maar.sim.traces.formats import FORMATS
from maar.sim.traces.own import write_csv, write_json_lines

DEFAULTS = Recipe()

FORMAT = click.option(
    "--format",
    "format_",
    metavar="NAME",
    help=f"Format of the file: {', '.join(sorted(FORMATS))}. Default: detected from the file.",
)
WHERE = click.option(
    "-O", "out", type=click.Path(dir_okay=False, writable=True), metavar="FILE",
    help="Output file. Default: standard output.",
    )  # fmt: skip
KIND = click.option(
    "--as",
    "kind",
    type=click.Choice(["csv", "jsonl"]),
    help="CSV or JSON lines. Default: by the extension of the output file, else CSV.",
)


@click.group()
def trace() -> None:
    """Generate, describe and convert traces: lists of jobs with submission times, sizes and durations."""


@trace.command()
@click.option("--seed", type=click.IntRange(0), default=DEFAULTS.seed, show_default=True, help="Random seed.")
@click.option("--jobs", type=click.IntRange(1), default=DEFAULTS.jobs, show_default=True, help="Number of jobs.")
@click.option("--rate", type=Finite(0, min_open=True), help="Mean arrivals per hour, instead of --load.")
@click.option(
    "--load", type=Finite(0, min_open=True),
    help=f"The share of --gpus that the jobs keep busy. Default, without --rate: {BUSY}.",
)  # fmt: skip
@click.option(
    "--gpus",
    "cluster",
    type=click.IntRange(1),
    default=DEFAULTS.cluster,
    show_default=True,
    help="GPUs that --load refers to.",
)
@click.option(
    "--night", type=Finite(0, 1), default=0.0, show_default=True,
    help="How much day and night differ: 0 is a constant rate, 1 varies from no jobs to twice the rate.",
)  # fmt: skip
@click.option(
    "--sizes", callback=numbers, metavar="GPUS:WEIGHT,...", help="GPUs per job. Default: 1:50,2:15,4:15,8:15,16:5."
)
@click.option(
    "--gpus-per-worker", type=click.IntRange(1), default=1, show_default=True,
    help="GPUs per worker, for jobs whose GPUs are a multiple of it; other jobs have one worker.",
)  # fmt: skip
@click.option(
    "--duration", callback=distribution, metavar="KIND:...",
    help="Durations: lognormal:median=1h,sigma=1.5 (default), exponential:mean=2h or uniform:low=10m,high=8h.",
)  # fmt: skip
@click.option(
    "--elastic", type=Finite(0, 1), default=HALF, show_default=True, help="Share of elastic jobs, from 0 to 1."
)
@click.option(
    "--stretch", type=Finite(1), default=DEFAULTS.stretch, show_default=True,
    help="Elastic jobs may shrink to their workers divided by this, and grow to their workers times this.",
)  # fmt: skip
@click.option(
    "--models",
    callback=weights,
    metavar="CLASS:WEIGHT,...",
    help=f"Speed-up classes: {', '.join(CLASSES)}. Default: equal weights.",
)
@click.option("--queues", callback=weights, metavar="NAME:WEIGHT,...", help="Queues of the jobs. Default: default:1.")
@click.option(
    "--priorities", callback=numbers, metavar="NUMBER:WEIGHT,...", help="Priorities of the jobs. Default: 0:1."
)
@WHERE
@KIND
def generate(out: str | None, kind: str | None, **given: Any) -> None:
    """Generate a synthetic trace from a seed, in Maar's own format.

    The same options give the same trace, to the byte. By default it keeps the GPUs of `maar simulate` busy and half of
    its jobs are elastic, so that policies differ. Jobs arrive in a Poisson process; with --night its rate follows
    the time of day. A WEIGHT is relative: weights need not add up to 1.
    """
    asked = {name: value for name, value in given.items() if value is not None}
    if "rate" in asked and "load" in asked:
        raise click.UsageError("--rate and --load: expected one of them, got both")
    if "rate" not in asked:
        asked.setdefault("load", BUSY)
    recipe = Recipe(**asked)
    unknown = [name for name, _ in recipe.models if name not in CLASSES]
    if unknown:
        raise click.BadParameter(f"unknown class `{unknown[0]}`; known: {', '.join(CLASSES)}", param_hint="--models")
    small = [size for size, _ in recipe.sizes if int(size) < 1]
    if small:
        raise click.BadParameter(f"expected sizes of at least 1 GPU, got `{small[0]}`", param_hint="--sizes")
    _write(generated(recipe), out, kind, f"maar trace generate: {msgspec.json.encode(recipe).decode()}")


@trace.command()
@click.argument("file")
@FORMAT
@click.option("--gpus", type=click.IntRange(1), help="Also show the load on a cluster with this many GPUs.")
@OUTPUT
def describe(file: str, format_: str | None, gpus: int | None, output: str) -> None:
    """Describe the trace in FILE (- for standard input): jobs, sizes, durations, load."""
    found = described(load_trace(file, format_), gpus)
    if output == "json":
        say_json(msgspec.json.format(msgspec.json.encode(found)).decode())
    else:
        say(as_text(found))


@trace.command()
@click.argument("file")
@FORMAT
@WHERE
@KIND
def convert(file: str, format_: str | None, out: str | None, kind: str | None) -> None:
    """Convert the trace in FILE (- for standard input) to Maar's own format."""
    found = load_trace(file, format_)
    for note in found.notes:
        tell(f"note: {note}")
    _write(found, out, kind, "\n".join((f"maar trace convert: from {found.source}", *found.notes)))


def _write(made: Trace, out: str | None, kind: str | None, note: str) -> None:
    as_json = kind == "jsonl" if kind else out is not None and out.endswith((".jsonl", ".ndjson", ".json"))
    text = write_json_lines(made) if as_json else write_csv(made, note)
    if out is None or out == "-":
        say_data(text)
        return
    try:
        Path(out).write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise CannotRun(f"{out}: cannot be written: {error.strerror}") from None
