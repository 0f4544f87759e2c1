"""`maar web`: serves why, when and what if over HTTP. Jobs are written only if that is switched on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from maar.cli.run import FILE, scheduled, settings_of
from maar.cli.support.exits import BadInput, CannotRun
from maar.cli.support.inputs import CONTEXT, KUBECONFIG, LOG_FORMAT, filled
from maar.cli.support.logs import log_to_stderr
from maar.controller.process import LEASE_NAMESPACE, BadOptions, RunError
from maar.web.addresses import Address, CannotServe
from maar.web.api import main as api
from maar.web.forecasting.keeper import ForecastPace

PORT = 8090


@click.command()
@KUBECONFIG
@CONTEXT
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, metavar="PORT",
    help="Port to serve at. 0: any free port, which the log names.",
)  # fmt: skip
@click.option(
    "--address", default="127.0.0.1", show_default=True, metavar="HOST",
    help="Address to serve at. Without TLS, tokens are accepted from the same host only.",
)  # fmt: skip
@click.option("--tls-cert", type=FILE, metavar="FILE", help="Certificate (PEM), read again when it changes.")
@click.option("--tls-key", type=FILE, metavar="FILE", help="Key of the certificate (PEM).")
@click.option(
    "--anonymous", is_flag=True,
    help="Answer requests without a token too, with the rights of `system:anonymous` in the cluster.",
)  # fmt: skip
@click.option(
    "--allow-writes", is_flag=True,
    help="Let users submit, hold, change and cancel jobs, with their own tokens and rights.",
)  # fmt: skip
@click.option(
    "--aggregated-port", type=click.IntRange(0, 65535), metavar="PORT",
    help="Also serve the API server there, for an APIService. Needs --tls-cert.",
)  # fmt: skip
@scheduled
@click.option(
    "--history", envvar="MAAR_HISTORY", metavar="WHERE",
    help="History of `maar run`: a SQLite file, a postgresql:// URL, or none. Only forecasts are written there.",
)  # fmt: skip
@click.option(
    "--forecast-seconds", type=click.FloatRange(0), default=ForecastPace().budget, show_default=True, metavar="N",
    help="Time for each forecast, in a process of its own at the lowest priority. 0: no forecasts.",
)  # fmt: skip
@click.option(
    "--recordings", type=FILE, metavar="FOLDER",
    help="Folder with recordings (`maar run --record`) that users may open. They are only read.",
)  # fmt: skip
@click.option(
    "--lease-namespace", default=LEASE_NAMESPACE, show_default=True, metavar="NAME",
    help="Maar's own namespace, with the ConfigMap `maar-state`.",
)  # fmt: skip
@LOG_FORMAT
def web(
    port: int,
    address: str,
    tls_cert: Path | None,
    tls_key: Path | None,
    aggregated_port: int | None,
    forecast_seconds: float,
    log_format: str,
    **given: Any,
) -> None:
    """Serve why, when and what if over HTTP, until SIGTERM or SIGINT.

    It reads the cluster as `maar run` does, decides in shadow, and writes nothing to the cluster by itself. Give it
    the same configuration and history.
    """
    log_to_stderr(log_format)
    if (tls_cert is None) != (tls_key is None):
        raise click.UsageError("--tls-cert and --tls-key belong together")
    if aggregated_port is not None and tls_cert is None:
        raise click.UsageError("--aggregated-port needs --tls-cert and --tls-key")
    host = address.strip("[]")
    options = filled(
        api.WebOptions,
        given,
        address=Address(host, port),
        settings=settings_of(given),
        tls_cert=tls_cert,
        tls_key=tls_key,
        aggregated=None if aggregated_port is None else Address(host, aggregated_port),
        pace=ForecastPace(budget=forecast_seconds) if forecast_seconds else None,
    )
    try:
        api.run(options)
    except BadOptions as error:
        raise BadInput(*str(error).split("\n")) from None
    except (RunError, CannotServe) as error:
        raise CannotRun(str(error)) from None
