"""`maar why`: why a job waits, its place, and what would start it: of a cluster, or of manifests that describe one.

It prints nothing on standard output after an error.
"""

from __future__ import annotations

import json
import time

import click
import msgspec

from maar.cli.asking.detail import detail_text
from maar.cli.asking.options import Asked, asking, searching, show
from maar.cli.support.exits import BadInput
from maar.cli.support.manifests import as_moment, read_cluster
from maar.cli.support.output import say, say_json
from maar.views.jobs import job_detail
from maar.views.sight import ALL
from maar.views.tally import Tally
from maar.whatif.answer import decided
from maar.whatif.edit import EditError, Scene
from maar.whatif.patience import USUAL
from maar.whatif.why import why as answer

NAMESPACE = "default"


@asking(watch=True)
@click.argument("job", metavar="NS/JOB")
@click.option(
    "-f", "--file", "paths", multiple=True, metavar="PATH",
    help="Read the cluster from manifests, as `maar plan` does: a file, a folder, or - for standard input. "
    "May be repeated.",
)  # fmt: skip
@click.option(
    "--now", callback=as_moment, metavar="TIME",
    help="With -f: time of the decision, in RFC 3339 or in seconds since 1970. Default: now.",
)  # fmt: skip
@click.option(
    "--seconds", type=click.FloatRange(0), metavar="N",
    help="Time for the search of changes that would start the job; 0: no search. "
    f"Default: {USUAL:g} of CPU time, or half of what one decision takes here, if that is longer.",
)  # fmt: skip
def why(asked: Asked, job: str, paths: tuple[str, ...], now: float | None, seconds: float | None) -> None:
    """Show why a job waits, which jobs go first, and what would start it.

    NS/JOB is the namespace and the name of the job, as `maar jobs` shows it, or of the object that was submitted.
    Without a namespace it is that of the kubeconfig; with -f it is `default`. Each change that is shown was tried: with
    it alone the job starts in the next cycle, and no smaller change of its kind is enough. `-o wide` has all jobs that
    go first, the measured speed-up of an elastic job, and its story if `maar web` is asked (--server).
    """
    if paths:
        _from_files(asked, job, paths, now, seconds)
        return
    key = asked.key(job)
    show(
        asked, lambda source: source.job(key, seconds), lambda found: detail_text(found.detail, found.as_of, asked.wide)
    )


def _from_files(asked: Asked, job: str, paths: tuple[str, ...], now: float | None, seconds: float | None) -> None:
    at = time.time() if now is None else now
    names = click.get_current_context().get_parameter_source("names")
    ours = asked.names if names is not None and names.name == "COMMANDLINE" else ()
    config, given, warnings = read_cluster(paths, asked.config_file, asked.lenient, ours, at)
    key = job if "/" in job else f"{NAMESPACE}/{job}"
    begun = time.monotonic()
    before = decided(Scene(given.cluster, config), at)
    took = time.monotonic() - begun
    patience = searching(seconds, took)
    try:
        found = answer(given.cluster, config, at, key, patience, before)
    except EditError as error:
        raise BadInput(error.problem) from None
    if asked.output == "json":
        data = {**msgspec.to_builtins(found), **({"warnings": warnings} if warnings else {})}
        say_json(json.dumps(data, indent=2, allow_nan=False))
        return
    say(detail_text(job_detail(Tally(before.snapshot, before.plan, at), found, ALL), at, asked.wide))
