"""`maar run`: Maar on a Kubernetes cluster, until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import signal
import socket
import uuid
from datetime import UTC, datetime
from pathlib import Path

import click
from aiohttp.web import RouteDef

from maar import __version__
from maar.config.file import ConfigError
from maar.controller.brake_file import BrakeFile
from maar.controller.brakes import Brakes
from maar.controller.reload import ConfigFile
from maar.controller.run import Scheduler
from maar.controller.settings import Settings
from maar.controller.shadow import Shadow
from maar.history.address import NONE, default_address
from maar.history.errors import BadAddress
from maar.history.history import History
from maar.kube.client.access import load_access
from maar.kube.client.api import Api
from maar.kube.client.errors import AccessError, ApiError
from maar.kube.write.events import Reference
from maar.kube.write.leases import LeaderElection
from maar.model.selectors import Requirement, Selector
from maar.web.measurements import routes
from maar.web.metrics import Metrics
from maar.web.server import CannotServe, serve

logger = logging.getLogger("maar")

LEASE = "maar"
"""The lease's name; events about Maar itself are about it."""
RARELY = (10_000, 10, 10)
"""After so many new objects Python looks for cycles among them; nearly all that Maar makes go without. By taste."""
SHADOW_EVERY = 30.0
"""Seconds between two lines of shadow mode."""


@click.command()
@click.option(
    "--kubeconfig", metavar="FILE",
    help="If not given, as kubectl: $KUBECONFIG, ~/.kube/config, in a pod its service account.",
)  # fmt: skip
@click.option("--context", metavar="NAME", help="Context of the kubeconfig; its current one if not given.")
@click.option(
    "--config", "config_file", metavar="FILE",
    help="Configuration, read again when it changes; Maar's own if not given.",
)  # fmt: skip
@click.option("--brakes", "brake_file", metavar="FILE", help="Brakes on evictions, read again when it changes.")
@click.option(
    "--scheduler-name", "names", multiple=True, default=("maar",), show_default=True, metavar="NAME",
    help="Pods with this schedulerName are ours (may be repeated).",
)  # fmt: skip
@click.option("--node-selector", metavar="KEY=VALUE,...", help="Only nodes with these labels are ours.")
@click.option("--dry-run", is_flag=True, help="Shadow mode: decide, write nothing, and say how others differ.")
@click.option("--record", metavar="FILE", help="Record what each cycle saw and decided, for `maar plan FILE`.")
@click.option(
    "--leader-elect/--no-leader-elect", default=True, show_default=True,
    help="Of several replicas one decides: by a lease, or at once and without.",
)  # fmt: skip
@click.option(
    "--lease-namespace", default="kube-system", show_default=True, metavar="NAME", help="Where the lease lives."
)
@click.option(
    "--http-port",
    default=8080,
    show_default=True,
    metavar="PORT",
    help="For health, metrics and measurements; 0: none.",
)
@click.option(
    "--history", "history_at", envvar="MAAR_HISTORY", metavar="WHERE",
    help="What jobs did: a SQLite file, postgresql://..., or none. Default: a file in the state folder.",
)  # fmt: skip
@click.option("--history-token", metavar="FILE", help="Who reports measurements must know what is in this file.")
@click.option("--delete-victims", is_flag=True, help="Delete victims instead of evicting them, past their budgets.")
@click.option("--pod-events", is_flag=True, help="An event for each pod that is bound, not only for its gang.")
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How to log."
)
def run(
    kubeconfig: str | None,
    context: str | None,
    config_file: str | None,
    brake_file: str | None,
    names: tuple[str, ...],
    node_selector: str | None,
    dry_run: bool,
    record: str | None,
    leader_elect: bool,
    lease_namespace: str,
    http_port: int,
    history_at: str | None,
    history_token: str | None,
    delete_victims: bool,
    pod_events: bool,
    log_format: str,
) -> None:
    """Schedule the pods of a cluster, until SIGTERM or SIGINT."""
    _log(log_format)
    settings = Settings(
        scheduler_names=frozenset(names),
        node_selector=_selector(node_selector),
        dry_run=dry_run,
        delete_victims=delete_victims,
        pod_events=pod_events,
    )
    try:
        config = ConfigFile(None if config_file is None else Path(config_file))
    except ConfigError as error:
        raise click.ClickException("\n".join(error.problems)) from None
    except OSError as error:
        raise click.ClickException(f"{config_file}: {error.strerror}") from None
    lease = lease_namespace if leader_elect and not dry_run else None
    try:
        history = History(history_at or (NONE if dry_run else default_address(os.environ)))
    except BadAddress as error:
        raise click.ClickException(str(error)) from None
    reports = routes(history, None if history_token is None else Path(history_token))
    try:
        work = _run(settings, config, kubeconfig, context, brake_file, record, lease, http_port, history, reports)
        gc.set_threshold(*RARELY)
        asyncio.run(work)
    except (AccessError, ApiError, CannotServe) as error:
        raise click.ClickException(str(error)) from None


class JsonLines(logging.Formatter):
    """A line of JSON for each record: what a log collector takes apart without guessing."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def _log(how: str) -> None:
    handler = logging.StreamHandler()
    plain = logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s")
    handler.setFormatter(JsonLines() if how == "json" else plain)
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def _selector(text: str | None) -> Selector | None:
    if text is None:
        return None
    requirements = []
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"expected KEY=VALUE, got `{part}`", param_hint="--node-selector")
        requirements.append(Requirement(key.strip(), "In", (value.strip(),)))
    return Selector(tuple(requirements))


async def _run(
    settings: Settings,
    config: ConfigFile,
    kubeconfig: str | None,
    context: str | None,
    brake_file: str | None,
    record: str | None,
    lease: str | None,
    http_port: int,
    history: History,
    reports: list[RouteDef],
) -> None:
    brakes = Brakes()
    brakes_said = None if brake_file is None else _brakes(Path(brake_file), brakes)
    access = load_access(kubeconfig, context)
    names = " or ".join(sorted(settings.scheduler_names))
    logger.info("Maar %s on %s, for pods with schedulerName %s", __version__, access.server, names)
    api = await Api.open(access)
    try:
        recording = None if record is None else Path(record)
        scheduler = Scheduler(api, settings, config, brakes, recording, history)
    except OSError as error:
        await api.close()
        raise click.ClickException(f"{record}: {error.strerror}") from None
    metrics = Metrics(scheduler.cache, lambda: config.current()[0].pools)
    scheduler.loop.on_cycle.append(metrics.on_cycle)
    scheduler.loop.on_action.append(metrics.on_action)
    about = Reference("coordination.k8s.io/v1", "Lease", lease or "kube-system", LEASE)

    def refused(problems: list[str]) -> None:
        metrics.config_refused()
        if not settings.dry_run:
            scheduler.events.emit(about, "Warning", "ConfigurationRefused", "; ".join(problems))

    config.on_refused.append(refused)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    history.start()
    web = None
    work: list[asyncio.Task[None]] = []
    stopping = asyncio.create_task(stop.wait())
    try:
        if http_port:
            web = await serve(
                http_port,
                healthy=lambda: scheduler.trouble,
                ready=scheduler.not_ready,
                metrics=lambda: metrics.text(scheduler.lags),
                more=reports,
            )
        work.append(asyncio.create_task(_work(api, scheduler, metrics, settings, lease)))
        if brakes_said is not None:
            brakes_said.on_changed.append(scheduler.look_again)
            work.append(asyncio.create_task(brakes_said.watch()))
        await asyncio.wait([*work, stopping], return_when=asyncio.FIRST_COMPLETED)
        for done in work:
            if done.done():
                done.result()
    finally:
        for running in work:
            running.cancel()
        stopping.cancel()
        await asyncio.gather(*work, stopping, return_exceptions=True)
        await scheduler.close()
        if web is not None:
            await web.cleanup()
        await history.close()
        await api.close()
        logger.info("stopped")


def _brakes(path: Path, brakes: Brakes) -> BrakeFile:
    """The brakes as their file says; one that makes no sense must not mean that there are none."""
    said = BrakeFile(path, brakes)
    said.look()
    if said.problem:
        raise click.ClickException(said.problem)
    return said


async def _work(api: Api, scheduler: Scheduler, metrics: Metrics, settings: Settings, lease: str | None) -> None:
    await scheduler.sync()
    there = scheduler.picture.objects
    logger.info("everything is listed: nodes: %d, pods: %d", *(len(there.get(home, ())) for home in ("nodes", "pods")))
    if settings.dry_run:
        logger.info("shadow mode: decides and writes nothing; every %.0f s says how others differ", SHADOW_EVERY)
        shadow = Shadow(scheduler.cache)
        scheduler.loop.on_cycle.append(shadow.on_cycle)
        async with asyncio.TaskGroup() as group:
            group.create_task(scheduler.lead())
            group.create_task(_say(shadow))
        return
    if lease is None:
        metrics.set_leader(True)
        await scheduler.lead()
        return
    election = LeaderElection(api, LEASE, lease, identity())

    async def started() -> None:
        metrics.set_leader(True)
        await scheduler.lead()

    def lost() -> None:
        metrics.set_leader(False)
        logger.warning("the lease is lost: somebody else decides now")

    await election.lead(started, lost)


def identity() -> str:
    """Who we are in the lease: in containers that share their host's name all of us may be process 1."""
    return f"{socket.gethostname()}_{uuid.uuid4().hex[:12]}_{os.getpid()}"


async def _say(shadow: Shadow) -> None:
    try:
        while True:
            await asyncio.sleep(SHADOW_EVERY)
            logger.info("%s", shadow.line())
    finally:
        logger.info("%s", shadow.line())
