"""`maar plan`: what Maar would do with a cluster that manifests describe.

Manifests in (`maar.kube.picture.manifests`), decisions (`maar.decide`), text or JSON out. The only clock is here: what
the decision takes as `now` is an option, or the time of day. Nothing is printed on standard output unless all went
well.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from maar.cli.plan_json import as_json
from maar.cli.plan_text import Cycle, as_text
from maar.config.config import Config
from maar.config.file import ConfigError, default_config, read_config
from maar.controller.record import RecordingError, is_recording, length, read_recording
from maar.decide import decide
from maar.kube.picture.manifests import read
from maar.kube.wire.errors import ManifestError
from maar.kube.wire.values import moment
from maar.model.outcome import carry_out
from maar.model.snapshot import Cluster, Snapshot
from maar.registry import catalog

CANNOT_READ = 2
"""The exit code for input that cannot be read; click uses the same for options."""


def _moment(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Unix seconds of an option's text: RFC 3339, or the seconds themselves."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if 0 <= seconds < 1e11:
        return seconds
    try:
        return moment(value)
    except ValueError:
        expected = "expected e.g. `2030-01-31T12:00:00Z` or seconds since 1970"
        raise click.BadParameter(f"{expected}, got `{value}`", ctx, param) from None


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--config", "config_file", metavar="FILE", help="Configuration; Maar's own if not given.")
@click.option(
    "--cycles", type=click.IntRange(1), default=1, show_default=True, metavar="N",
    help="How many cycles to decide, a second apart.",
)  # fmt: skip
@click.option(
    "--now", callback=_moment, metavar="TIME",
    help="The time of the first cycle: RFC 3339 or seconds since 1970; now if not given.",
)  # fmt: skip
@click.option("-o", "output", type=click.Choice(["text", "json"]), default="text", help="How to print the plan.")
@click.option(
    "--scheduler-name",
    "names",
    multiple=True,
    metavar="NAME",
    help="Place only pods with this schedulerName (may be repeated); all pods if not given.",
)
def plan(
    paths: tuple[str, ...],
    config_file: str | None,
    cycles: int,
    now: float | None,
    output: str,
    names: tuple[str, ...],
) -> None:
    """Show what Maar decides for the cluster that the manifests in PATH... describe.

    A PATH is a file (YAML or JSON, many objects in it), a folder, or - for standard input. Nodes, pods, groups, queues
    and the like count as they are, with their phases and node names; other kinds are ignored. Between cycles the plan
    is carried out: bound pods run, evicted pods are gone.

    A recording (`maar run --record FILE`) is decided again, cycle by cycle, under its own configuration or --config.
    """
    start = time.time() if now is None else now
    if len(paths) == 1 and is_recording(Path(paths[0])):
        _replay(Path(paths[0]), config_file, output)
        return
    try:
        config, warnings = _config(config_file)
        with _no_garbage():
            cluster, ignored = read(paths, frozenset(names) if names else None, start)
    except (ManifestError, ConfigError) as error:
        click.echo(str(error), err=True)
        sys.exit(CANNOT_READ)
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    if ignored:
        kinds = ", ".join(f"{count} {kind}" for kind, count in ignored.items())
        click.echo(f"ignored: {kinds}", err=True)
    click.echo(_shown(_decide(cluster, config, cycles, start), cycles, output), nl=False)


def _shown(cycles: Iterable[Cycle], count: int, output: str) -> str:
    return as_json(cycles) if output == "json" else as_text(cycles, count)


def _replay(path: Path, config_file: str | None, output: str) -> None:
    """Decide a recording's cycles again, under its own configuration or another; its own must give the same plans."""
    differ: list[str] = []
    try:
        shown = _shown(_decide_again(path, config_file, differ), length(path), output)
    except (RecordingError, ConfigError) as error:
        click.echo(str(error), err=True)
        sys.exit(CANNOT_READ)
    if differ:
        click.echo(f"decided differently than recorded: cycles {', '.join(differ)}", err=True)
    click.echo(shown, nl=False)
    if differ:
        sys.exit(1)


def _decide_again(path: Path, config_file: str | None, differ: list[str]) -> Iterator[Cycle]:
    """One recorded cycle after the other, since a week of them would not fit into memory."""
    config, text = _config(config_file)[0], None
    for number, cycle in enumerate(read_recording(path), 1):
        if config_file is None and cycle.config is not None and cycle.config != text:
            config, text = read_config(cycle.config, f"{path}: configuration", catalog()).config, cycle.config
        snapshot = Snapshot(cycle.cluster)
        rows = snapshot.jobs.number
        snapshot.resting = frozenset(rows[job] for job in cycle.resting if job in rows)
        plan = decide(snapshot, config, cycle.now)
        if config_file is None and plan != cycle.plan:
            differ.append(str(number))
        yield Cycle(plan, snapshot, Snapshot(carry_out(cycle.cluster, plan, cycle.now)))


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Reading only adds objects: the collector finds nothing, and takes almost half of the time to see it."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _config(file: str | None) -> tuple[Config, list[str]]:
    if file is None:
        return default_config(catalog()), []
    try:
        text = Path(file).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError([f"{file}: no such file"]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"{file}: cannot be read: {error}"]) from None
    loaded = read_config(text, file, catalog())
    return loaded.config, loaded.warnings


def _decide(cluster: Cluster, config: Config, cycles: int, now: float) -> Iterator[Cycle]:
    """One cycle after the other, each on what the one before has left."""
    snapshot = Snapshot(cluster)
    for i in range(cycles):
        decided = decide(snapshot, config, now + i)
        after = Snapshot(carry_out(snapshot.cluster, decided, now + i))
        yield Cycle(decided, snapshot, after)
        snapshot = after
