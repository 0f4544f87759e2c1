"""`maar plan`: shows the plan for a cluster described by manifests, or replays a recording.

Reads manifests (`maar.kube.picture.manifests`), decides (`maar.decide`) and prints text or JSON. This module passes the
time to the decision: an option, or the clock. It prints nothing on standard output after an error.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from maar.cli.exits import BadInput, Problem
from maar.cli.inputs import LENIENT, OUTPUT, read_text, source_of
from maar.cli.output import say, say_json, tell
from maar.cli.plan_json import as_json
from maar.cli.plan_text import Cycle, WithoutPods, as_text
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

NO_NODES = "the input has no nodes: nothing can start (`kubectl get nodes -o yaml` lists them)"


def _moment(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Unix seconds of an option: RFC 3339, or the seconds themselves."""
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
        expected = "expected a time such as `2030-01-31T12:00:00Z` or seconds since 1970"
        raise click.BadParameter(f"{expected}, got `{value}`", ctx, param) from None


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--config", "config_file", metavar="FILE", help="Configuration. Default: Maar's own (`maar config show`)."
)
@LENIENT
@click.option(
    "--cycles", type=click.IntRange(1), default=1, show_default=True, metavar="N",
    help="Number of cycles to decide, one second apart.",
)  # fmt: skip
@click.option(
    "--now", callback=_moment, metavar="TIME",
    help="Time of the first cycle, in RFC 3339 or in seconds since 1970. Default: now.",
)  # fmt: skip
@OUTPUT
@click.option(
    "--scheduler-name",
    "names",
    multiple=True,
    metavar="NAME",
    help="Schedule only pods with this schedulerName. May be repeated. Default: all pods.",
)
def plan(
    paths: tuple[str, ...],
    config_file: str | None,
    lenient: bool,
    cycles: int,
    now: float | None,
    output: str,
    names: tuple[str, ...],
) -> None:
    """Show what Maar would decide for the cluster that the manifests in PATH... describe.

    A PATH is a file (YAML or JSON, with one or more objects), a folder, or - for standard input. Maar reads nodes,
    pods, jobs, pod groups, queues and other objects that it schedules by, including their status, and ignores other
    kinds. A job without pods is planned as if its controller had created them. Between cycles the plan takes effect:
    bound pods run, evicted pods are gone.

    If PATH is a recording (`maar run --record FILE`), Maar decides each recorded cycle again, with the recorded
    configuration or with --config.
    """
    start = time.time() if now is None else now
    if len(paths) == 1 and is_recording(Path(paths[0])):
        _replay(Path(paths[0]), config_file, lenient, output)
        return
    try:
        config, warnings = _config(config_file, lenient)
        with _no_garbage():
            given = read(paths, frozenset(names) if names else None, start)
    except ManifestError as error:
        raise BadInput(str(error)) from None
    except ConfigError as error:
        raise BadInput(*error.problems) from None
    warnings += given.warnings
    if not given.cluster.nodes:
        warnings.append(NO_NODES)
    for warning in warnings:
        tell(f"warning: {warning}")
    if given.ignored:
        tell(f"ignored: {', '.join(f'{count} {kind}' for kind, count in given.ignored.items())}")
    without_pods = WithoutPods(given.expected, given.skipped)
    _show(_decide(given.cluster, config, cycles, start), cycles, output, without_pods, warnings)


def _show(
    cycles: Iterable[Cycle],
    count: int,
    output: str,
    without_pods: WithoutPods | None = None,
    warnings: Sequence[str] = (),
) -> None:
    if output == "json":
        say_json(as_json(cycles, without_pods, warnings))
    else:
        say(as_text(cycles, count, without_pods))


def _replay(path: Path, config_file: str | None, lenient: bool, output: str) -> None:
    """Decide a recording again. With its own configuration, a plan that differs from the recorded one is an error."""
    differ: list[str] = []
    try:
        _show(_decide_again(path, config_file, lenient, differ), length(path), output)
    except RecordingError as error:
        raise BadInput(str(error)) from None
    except ConfigError as error:
        raise BadInput(*error.problems) from None
    if differ:
        raise Problem(f"plans differ from the recording in cycles: {', '.join(differ)}")


def _decide_again(path: Path, config_file: str | None, lenient: bool, differ: list[str]) -> Iterator[Cycle]:
    """Decide one recorded cycle after the other: a week of cycles does not fit in memory.

    The recorded configuration was in use, perhaps by `maar run --lenient`, so it is always read leniently.
    """
    config, text = _config(config_file, lenient)[0], None
    for number, cycle in enumerate(read_recording(path), 1):
        if config_file is None and cycle.config is not None and cycle.config != text:
            source = f"{path}: configuration"
            config, text = read_config(cycle.config, source, catalog(), lenient=True).config, cycle.config
        snapshot = Snapshot(cycle.cluster)
        rows = snapshot.jobs.number
        snapshot.resting = frozenset(rows[job] for job in cycle.resting if job in rows)
        plan = decide(snapshot, config, cycle.now)
        if config_file is None and plan != cycle.plan:
            differ.append(str(number))
        yield Cycle(plan, snapshot, Snapshot(carry_out(cycle.cluster, plan, cycle.now)))


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Disable the garbage collector: it takes almost half of the reading time and finds nothing."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _config(file: str | None, lenient: bool) -> tuple[Config, list[str]]:
    if file is None:
        return default_config(catalog()), []
    loaded = read_config(read_text(file), source_of(file), catalog(), lenient)
    return loaded.config, loaded.warnings


def _decide(cluster: Cluster, config: Config, cycles: int, now: float) -> Iterator[Cycle]:
    """Decide one cycle after the other, each on the cluster after the one before."""
    snapshot = Snapshot(cluster)
    for i in range(cycles):
        decided = decide(snapshot, config, now + i)
        after = Snapshot(carry_out(snapshot.cluster, decided, now + i))
        yield Cycle(decided, snapshot, after)
        snapshot = after
