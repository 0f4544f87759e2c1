"""`maar allocate`: the number of workers that an algorithm gives each elastic job.

Reads a list of jobs (`allocate_file`) and prints sizes. It needs no cluster: the same file, algorithm and number of
GPUs always give the same answer. `maar run` computes the same target for these jobs.
"""

from __future__ import annotations

import click
import msgspec
import numpy as np
from rich import box
from rich.table import Table

from maar.cli.algorithms import WithAlgorithms
from maar.cli.support.allocate_file import MOST, read_jobs
from maar.cli.support.exits import Problem
from maar.cli.support.inputs import OUTPUT, read_text, source_of
from maar.cli.support.output import say, say_json
from maar.cli.support.printing import printed
from maar.config.arguments import read_arguments
from maar.config.config import Registration
from maar.config.problems import Findings
from maar.elastic.allocate import InvalidPlan
from maar.elastic.allocate import allocate as ask
from maar.elastic.jobs import Ints, Jobs
from maar.model.words import count, number, unknown
from maar.registry import catalog


def _algorithm(ctx: click.Context, param: click.Parameter, name: str) -> Registration:
    known = catalog()
    if name in known.algorithms:
        return known.algorithms[name]
    why = known.broken.get(name) or unknown("algorithm", name, known.algorithms)
    raise click.BadParameter(why, ctx, param)


@click.command(cls=WithAlgorithms)
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--algorithm", callback=_algorithm, required=True, metavar="NAME", help="Algorithm, from the list below.")
@click.option("--gpus", type=click.IntRange(0, MOST**2), required=True, metavar="N", help="Number of GPUs to share.")
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Parameter of the algorithm. May be repeated."
)
@OUTPUT
def allocate(file: str, algorithm: Registration, gpus: int, settings: tuple[str, ...], output: str) -> None:
    """Show how many workers each elastic job in FILE gets.

    FILE (- for standard input) is YAML or JSON: a list of jobs, or a mapping with that list as `jobs`. A job needs a
    `name`. Optional fields are `submit`, `min`, `max`, `requested`, `gpus_per_worker`, `speedup`, `remaining`,
    `attained`, `priority`, `first_start`, `waited`, `ran`, `size`, `restart`, `done`, `delayed` and `promised`.
    Times are in seconds.
    """
    arguments = _arguments(algorithm, settings)
    try:
        jobs = read_jobs(read_text(file), source_of(file))
        workers = ask(algorithm, jobs, gpus, arguments)
    except InvalidPlan as error:
        raise Problem(str(error)) from None
    if output == "json":
        say_json(as_json(jobs, workers))
    else:
        say(as_text(jobs, workers, gpus))


def _arguments(algorithm: Registration, settings: tuple[str, ...]) -> msgspec.Struct:
    """The parameters of the algorithm, with the names that they have in configurations."""
    raw: dict[str, object] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise click.BadOptionUsage("--set", f"--set: expected NAME=VALUE, got `{setting}`")
        if name.strip() in raw:
            raise click.BadOptionUsage("--set", f"--set: `{name.strip()}` is given twice")
        raw[name.strip()] = value.strip()
    findings = Findings("--set")
    arguments = read_arguments(algorithm.name, algorithm.arguments, raw, algorithm.name, findings)
    if arguments is None or findings.problems:
        raise click.BadOptionUsage("--set", "\n".join(findings.problems))
    return arguments


def as_json(jobs: Jobs, workers: Ints) -> str:
    """`{"plan": {"job": workers}}`, in the order of the file."""
    plan = dict(zip(jobs.names, workers.tolist(), strict=True))
    return msgspec.json.encode({"plan": plan}).decode() + "\n"


def as_text(jobs: Jobs, workers: Ints, gpus: int) -> str:
    """A table of sizes, with the reason for each waiting job."""
    used = int((workers * jobs.gpus).sum())
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in ("job", "bounds", "workers", "GPUs", "why it waits"):
        table.add_column(column, overflow="fold", justify="right" if column in ("workers", "GPUs") else "left")
    for row, name in enumerate(jobs.names):
        size, least, most = int(workers[row]), int(jobs.min[row]), int(jobs.max[row])
        bounds = f"{least}" if least == most else f"{least}..{most}"
        why = "" if size else why_it_waits(jobs, row, gpus - used, gpus)
        table.add_row(name, bounds, str(size), str(size * int(jobs.gpus[row])), why)
    waits = int(np.count_nonzero(workers == 0))
    run = f"{count(len(jobs) - waits, 'job runs', 'jobs run')}, {number(waits)} {'waits' if waits == 1 else 'wait'}"
    return printed([table, "", f"{number(used)} of {count(gpus, 'GPU')} in use, {run}"])


def why_it_waits(jobs: Jobs, row: int, left: int, gpus: int) -> str:
    """Why a job has no workers, as far as the answer shows."""
    width = int(jobs.gpus[row])
    for verb, size in (("needs", int(jobs.min[row])), ("asks for", int(jobs.requested[row]))):
        if size * width > left:
            room = f"there are {gpus}" if size * width > gpus else f"{left} left"
            return f"{verb} {count(size * width, 'GPU')} ({count(size, 'worker')} of {number(width)}), {room}"
    return "other jobs come first"
