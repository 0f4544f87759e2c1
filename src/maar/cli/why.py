"""`maar why`: why a job waits, its place, and what would start it, for a cluster that manifests describe.

Reads manifests as `maar plan` does, asks `maar.whatif` and prints text or JSON. It prints nothing on standard output
after an error.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import click
import msgspec

from maar.cli.exits import BadInput
from maar.cli.inputs import LENIENT, OUTPUT
from maar.cli.manifests import CONFIG, SCHEDULER_NAMES, as_moment, read_cluster
from maar.cli.output import say, say_json
from maar.cli.why_text import as_text
from maar.whatif.edit import EditError
from maar.whatif.why import why as answer

NAMESPACE = "default"


@click.command()
@click.argument("job", metavar="NS/JOB")
@click.option(
    "-f", "--file", "paths", multiple=True, required=True, metavar="PATH",
    help="Manifests of the cluster: a file, a folder, or - for standard input. May be repeated.",
)  # fmt: skip
@CONFIG
@LENIENT
@click.option(
    "--now", callback=as_moment, metavar="TIME",
    help="Time of the decision, in RFC 3339 or in seconds since 1970. Default: now.",
)  # fmt: skip
@click.option(
    "--seconds", type=click.FloatRange(0), default=10.0, show_default=True, metavar="N",
    help="Time for the search of changes that would start the job; 0: no search.",
)  # fmt: skip
@OUTPUT
@SCHEDULER_NAMES
def why(
    job: str,
    paths: tuple[str, ...],
    config_file: str | None,
    lenient: bool,
    now: float | None,
    seconds: float,
    output: str,
    names: tuple[str, ...],
) -> None:
    """Show why a job waits, which jobs go first, and what would start it.

    NS/JOB is the namespace and the name of the job, as `maar plan` shows it; without a namespace it is `default`. The
    cluster is read from manifests, as by `maar plan`. Each change that is shown was tried: with it alone the job starts
    in the next cycle, and no smaller change of its kind is enough.
    """
    at = time.time() if now is None else now
    config, given, warnings = read_cluster(paths, config_file, lenient, names, at)
    key = job if "/" in job else f"{NAMESPACE}/{job}"
    try:
        found = answer(given.cluster, config, at, key, _until(seconds))
    except EditError as error:
        raise BadInput(error.problem) from None
    if output == "json":
        data = msgspec.to_builtins(found)
        say_json(json.dumps({**data, **({"warnings": warnings} if warnings else {})}, indent=2, allow_nan=False))
    else:
        say(as_text(found, at))


def _until(seconds: float) -> Callable[[], bool]:
    """Whether the time for a search is left."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() < end
