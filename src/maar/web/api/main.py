"""The composition root of `maar web`: builds all parts of the process, and runs them until SIGTERM or SIGINT."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from maar import __version__
from maar.controller.observer import Observer
from maar.controller.process import BadOptions, Sources, beside, run_process, sources_of, until_stopped
from maar.controller.settings.brakes import Brakes
from maar.controller.settings.config_file import ConfigFile
from maar.controller.settings.settings import Observing
from maar.history.address import default_address
from maar.history.forecasts import ForecastLog
from maar.history.history import History
from maar.kube.client.access import load_access
from maar.kube.client.reader import Reader
from maar.kube.kinds.cluster import QUEUES
from maar.web.addresses import Address
from maar.web.api.access import RightsCheck
from maar.web.api.aggregated import Aggregated
from maar.web.api.certificate import Certificate
from maar.web.api.desk import Api1
from maar.web.api.guard import Guard
from maar.web.api.mirror import Mirror
from maar.web.api.recordings import Recordings
from maar.web.api.server import serving
from maar.web.api.writing import Writer
from maar.web.forecasting.keeper import ForecastPace, Keeper
from maar.web.limits import HttpLimits
from maar.web.workers.pool import WorkerPool

logger = logging.getLogger("maar")

EVERY = 1.0
"""Minimum seconds between two decisions; a long one is followed by a longer pause. Tuned by hand."""


class WebOptions(Observing, frozen=True, kw_only=True):
    """The options of one `maar web`."""

    address: Address
    tls_cert: Path | None = None
    tls_key: Path | None = None
    anonymous: bool = False
    allow_writes: bool = False
    """Jobs may be submitted and changed, with the callers' own tokens."""
    aggregated: Address | None = None
    """Where to serve the aggregated API; it needs the TLS files."""
    names: tuple[str, ...] = ()
    """The scheduler names in the order of the command line: submitted pods that name none get the first."""
    recordings: Path | None = None
    """A folder with recordings of the scheduler, which are only read."""
    every: float = EVERY
    """Minimum seconds between two decisions."""
    clock: Callable[[], float] = time.monotonic
    """Says for how long answers of the API server about tokens and rights are believed."""
    pace: ForecastPace | None = ForecastPace()
    """How forecasts are made; `None`: none are made."""


def run(options: WebOptions) -> None:
    """Serve until stopped. Raises `RunError` or `CannotServe`."""
    address = options.history or default_address(os.environ)
    sources = sources_of(options, address, write=False)
    if options.recordings is not None and not options.recordings.is_dir():
        raise BadOptions(f"{options.recordings}: not a folder")
    certificate = None
    if options.tls_cert is not None and options.tls_key is not None:
        certificate = Certificate(options.tls_cert, options.tls_key)
    run_process(_run(options, sources, ForecastLog(address), certificate))


async def _run(options: WebOptions, sources: Sources, log: ForecastLog, certificate: Certificate | None) -> None:
    config, brakes, _, history = sources
    access = load_access(options.kubeconfig, options.context)
    logger.info("Maar %s reads %s", __version__, access.server)
    api = await Reader.open(access)
    try:
        async with (
            answering(api, options, config, brakes, history, log=log) as (mirror, answers, guard),
            serving(answers, guard, options.address, certificate) as port,
            contextlib.AsyncExitStack() as parts,
        ):
            scheme, host = "http" if certificate is None else "https", options.address.host or "localhost"
            logger.info("serving at %s://%s:%d/", scheme, f"[{host}]" if ":" in host else host, port)
            works = [mirror.run(), *beside(mirror.observer, sources)]
            if answers.keeper is not None:
                works.append(answers.keeper.run())
            if options.aggregated is not None:
                assert options.tls_cert is not None
                assert options.tls_key is not None
                files = options.tls_cert, options.tls_key
                aggregated = Aggregated(answers, guard, options.aggregated, files, api)
                await parts.enter_async_context(aggregated)
                logger.info("serving the aggregated API at port %d", aggregated.port)
                works.append(aggregated.run())
            await until_stopped(works)
    finally:
        await api.close()
        logger.info("stopped")


@asynccontextmanager
async def answering(
    api: Reader,
    options: WebOptions,
    config: ConfigFile,
    brakes: Brakes | None = None,
    history: History | None = None,
    limits: HttpLimits | None = None,
    log: ForecastLog | None = None,
    pool: WorkerPool | None = None,
) -> AsyncIterator[tuple[Mirror, Api1, Guard]]:
    """The parts that answer, while the context is open; the caller runs the mirror and the server."""
    known = history or History()
    async with contextlib.AsyncExitStack() as parts:
        known.start()
        parts.push_async_callback(known.close)
        settings = replace(options.settings, min_interval=max(options.settings.min_interval, options.every))
        observer = Observer(api, settings, config, brakes, history=known, clock=time.time)
        parts.push_async_callback(observer.close)
        mirror = Mirror(observer)
        limits = limits or HttpLimits()
        guard = Guard(limits)
        access = RightsCheck(api, anonymous=options.anonymous, limits=limits, clock=options.clock)
        names = options.names or sorted(options.settings.scheduler_names)
        queues = mirror.observer.picture.objects.of(QUEUES)
        writer = Writer(api, names, lambda: list(queues.values())) if options.allow_writes else None
        recordings = Recordings(options.recordings)
        keeper = None if options.pace is None else Keeper(mirror, known, log, options.pace)
        if keeper is not None:
            parts.push_async_callback(keeper.close)
        pool = pool or WorkerPool()
        parts.push_async_callback(pool.close)
        yield mirror, Api1(mirror, access, guard, api, known, writer, recordings, keeper, pool), guard
