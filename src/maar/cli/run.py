"""`maar run`: runs the scheduler on a Kubernetes cluster until a signal stops it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from maar.cli.support.exits import BadInput, CannotRun
from maar.cli.support.inputs import CONTEXT, KUBECONFIG, LENIENT, LOG_FORMAT, filled
from maar.cli.support.logs import log_to_stderr
from maar.controller import main as controller
from maar.controller import shadow
from maar.controller.main import LEASE_SECONDS, Options
from maar.controller.process import LEASE_NAMESPACE, BadOptions, RunError
from maar.controller.settings.settings import Settings
from maar.files import read_regular
from maar.kube.kinds import WATCHED
from maar.model.selectors import Requirement, Selector
from maar.web.addresses import Address, CannotServe, read_address
from maar.web.server import groups_at, serving

FILE = click.Path(path_type=Path)
_FAMILIES = sorted({kind.family for kind in WATCHED if kind.family})
F = TypeVar("F", bound=Callable[..., Any])


def scheduled(command: F) -> F:
    """The options that say what is scheduled and by what rules: `maar web` needs the same as `maar run`."""
    for option in (
        click.option(
            "--without", multiple=True, type=click.Choice(_FAMILIES), metavar="FAMILY",
            help=f"Leave a family of kinds alone, even if it is served. May be repeated: {', '.join(_FAMILIES)}.",
        ),
        click.option(
            "--node-selector", metavar="KEY=VALUE,...", help="Use only nodes with these labels. Default: all nodes."
        ),
        click.option(
            "--scheduler-name", "names", multiple=True, default=("maar",), show_default=True, metavar="NAME",
            help="Schedule pods with this schedulerName. May be repeated.",
        ),
        click.option(
            "--brakes", type=FILE, metavar="FILE", help="Limits on evictions and resizes, read again when it changes."
        ),
        LENIENT,
        click.option(
            "--config", type=FILE, metavar="FILE",
            help="Configuration file, read again when it changes. Default: Maar's own (`maar config show`).",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def _address(_: click.Context, __: click.Parameter, text: str | None) -> Address | None:
    try:
        return None if text is None else read_address(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@KUBECONFIG
@CONTEXT
@scheduled
@click.option(
    "--dry-run", is_flag=True, help="Shadow mode: write nothing, and report where other schedulers decide differently."
)
@click.option(
    "--record", type=FILE, metavar="FILE", help="Record the input and plan of each cycle, for `maar plan FILE`."
)
@click.option(
    "--leader-elect/--no-leader-elect", default=True, show_default=True,
    help="Stand by while another replica holds the lease. Otherwise that is an error.",
)  # fmt: skip
@click.option(
    "--lease-namespace", default=LEASE_NAMESPACE, show_default=True, metavar="NAME",
    help="Maar's own namespace: of the lease of each scheduler name, and of its ConfigMaps. "
    "Tenants must not write there.",
)  # fmt: skip
@click.option(
    "--lease-duration", type=click.IntRange(3, 300), default=LEASE_SECONDS, show_default=True, metavar="SECONDS",
    help="A standby takes over after this time without a renewal: 3 to 300.",
)  # fmt: skip
@click.option(
    "--shards", type=click.IntRange(1, 64), metavar="N",
    help="Share the cluster with others as shards: N if the cluster has no ShardMap yet, otherwise its number counts "
    "(`maar shards set`). Default: one Maar leads.",
)  # fmt: skip
@click.option(
    "--rack-label", default="", metavar="KEY",
    help="With shards: the node label that names racks, so that they are kept in one shard. Default: HyperNodes.",
)  # fmt: skip
@click.option(
    "--http-port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    metavar="PORT",
    help="Port for health, metrics and measurements. 0 disables it.",
)
@click.option(
    "--http-address", default="", metavar="HOST", help="Address for --http-port. Default: all, IPv4 and IPv6."
)
@click.option(
    "--health-address", callback=_address, metavar="HOST:PORT", help="Serve /healthz and /readyz there instead."
)
@click.option("--metrics-address", callback=_address, metavar="HOST:PORT", help="Serve /metrics there instead.")
@click.option(
    "--history", envvar="MAAR_HISTORY", metavar="WHERE",
    help="History of jobs: a SQLite file, a postgresql:// URL, or none. Default: ~/.local/state/maar/history.db.",
)  # fmt: skip
@click.option(
    "--history-token", type=FILE, metavar="FILE",
    help="File with a token that may report on all jobs. Others need a ServiceAccount token of the job's namespace.",
)  # fmt: skip
@click.option(
    "--delete-victims", is_flag=True, help="Delete victims instead of evicting them: ignores disruption budgets."
)
@click.option("--without-intents", is_flag=True, hidden=True, help="Unsafe: only to measure what intents cost.")
@click.option("--pod-events", is_flag=True, help="Write an event for each bound pod, not only for its gang.")
@LOG_FORMAT
def run(
    dry_run: bool,
    shards: int | None,
    http_port: int,
    http_address: str,
    health_address: Address | None,
    metrics_address: Address | None,
    history_token: Path | None,
    log_format: str,
    **given: Any,
) -> None:
    """Schedule the pods of a Kubernetes cluster, until SIGTERM or SIGINT."""
    log_to_stderr(log_format)
    if shards is not None and "shards" in given["without"]:
        raise click.UsageError("--shards and --without shards contradict each other")
    if history_token is not None:
        _check_token(history_token)
    common = Address(http_address.strip("[]"), http_port) if http_port else None
    addresses = groups_at(common, health_address, metrics_address)
    web = partial(serving, addresses=addresses, token_file=history_token) if addresses else None
    try:
        if dry_run:
            shadow.run(filled(shadow.ShadowOptions, given, settings=settings_of(given)), web)
        else:
            renamed = {"lease_seconds": given["lease_duration"], "stand_by": given["leader_elect"]}
            controller.run(filled(Options, given, settings=settings_of(given), shards=shards, **renamed), web)
    except BadOptions as error:
        raise BadInput(*str(error).split("\n")) from None
    except (RunError, CannotServe) as error:
        raise CannotRun(str(error)) from None


def _check_token(file: Path) -> None:
    """Refuse a file without a token: all reports with the administrator's token would be refused later."""
    try:
        if not read_regular(file).strip():
            raise BadInput(f"{file}: expected a token, got an empty file")
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}") from None


def settings_of(given: Mapping[str, Any]) -> Settings:
    """The settings that the options of `maar run` and `maar web` state."""
    return filled(
        Settings,
        given,
        scheduler_names=frozenset(given["names"]),
        namespace=given["lease_namespace"],
        node_selector=node_selector_of(given["node_selector"]),
        without=frozenset(given["without"]),
        announce=not given.get("without_intents"),
    )


def node_selector_of(text: str | None) -> Selector | None:
    """The selector of an option `KEY=VALUE,...`."""
    if text is None:
        return None
    requirements = []
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"expected KEY=VALUE, got `{part}`", param_hint="--node-selector")
        requirements.append(Requirement(key.strip(), "In", (value.strip(),)))
    return Selector(tuple(requirements))
