"""The options of commands that read a cluster from manifests, and the reading with its warnings."""

from __future__ import annotations

from collections.abc import Sequence

import click

from maar.cli.support.garbage import no_garbage
from maar.cli.support.inputs import read_text, source_of
from maar.cli.support.output import tell
from maar.config.config import Config
from maar.config.file import default_config, read_config
from maar.kube.picture.manifests import Manifests, read
from maar.kube.wire.values import moment
from maar.registry import catalog

NO_NODES = "the input has no nodes: nothing can start (`kubectl get nodes -o yaml` lists them)"

CONFIG = click.option(
    "--config", "config_file", metavar="FILE", help="Configuration. Default: Maar's own (`maar config show`)."
)
SCHEDULER_NAMES = click.option(
    "--scheduler-name",
    "names",
    multiple=True,
    metavar="NAME",
    help="Schedule only pods with this schedulerName. May be repeated. Default: all pods.",
)


def as_moment(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
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


def chosen_config(file: str | None, lenient: bool) -> tuple[Config, list[str]]:
    """The configuration in a file, or the default one, with its warnings."""
    if file is None:
        return default_config(catalog()), []
    loaded = read_config(read_text(file), source_of(file), catalog(), lenient)
    return loaded.config, loaded.warnings


def read_cluster(
    paths: Sequence[str], config_file: str | None, lenient: bool, names: Sequence[str], now: float
) -> tuple[Config, Manifests, list[str]]:
    """The configuration, the cluster, and all warnings, which are also written to standard error."""
    config, warnings = chosen_config(config_file, lenient)
    with no_garbage():
        given = read(paths, frozenset(names) if names else None, now)
    warnings += given.warnings
    if not given.cluster.nodes:
        warnings.append(NO_NODES)
    for warning in warnings:
        tell(f"warning: {warning}")
    if given.ignored:
        tell(f"ignored: {', '.join(f'{count} {kind}' for kind, count in given.ignored.items())}")
    return config, given, warnings
