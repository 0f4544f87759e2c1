"""Reads kubeconfigs, certificates, service accounts and exec plugins for `maar.kube.client.access`.

kubernetes_asyncio does the work; this module converts its results to plain data and its errors to `AccessError`. The
functions import it, since it takes 36 MiB and neither `maar plan` nor the embedded server needs it.
"""

from __future__ import annotations

import asyncio
import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maar.files import check_regular
from maar.kube.client.errors import AccessError


@dataclass(frozen=True)
class Credentials:
    """The result of reading a kubeconfig or a service account once."""

    server: str
    authorization: str = ""
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify: bool = True
    server_hostname: str | None = None
    proxy: str | None = None
    expires: float | None = None
    """Unix seconds; `None` if unknown."""


def check_kubeconfig(paths: str, context: str | None) -> tuple[str, bool]:
    """The server of a kubeconfig, and whether an exec plugin supplies the credentials."""
    import yaml
    from kubernetes_asyncio.config.config_exception import ConfigException
    from kubernetes_asyncio.config.kube_config import KubeConfigMerger

    try:
        _check_files(paths)
        config: Any = KubeConfigMerger(paths).config
        known = [entry["name"] for entry in config.safe_get("contexts") or ()]
        name = context or config.safe_get("current-context")
        if not known:
            way = "`kubectl config get-contexts` lists them, --kubeconfig or KUBECONFIG names another file"
            raise AccessError(f"{paths}: this kubeconfig has no contexts; {way}")
        if not name:
            raise AccessError(f"{paths}: no current-context; name one of: {', '.join(known)}")
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean `{close[0]}`?" if close else ";"
            raise AccessError(f"{paths}: unknown context `{name}`{hint} known: {', '.join(known)}")
        chosen = config["contexts"].get_with_name(name)["context"]
        cluster = config["clusters"].get_with_name(chosen["cluster"])["cluster"]
        user = config["users"].get_with_name(chosen["user"])["user"] if chosen.safe_get("user") else {}
        if str(cluster["server"]).startswith("https:") and not user:
            raise AccessError(f"{paths}: context `{name}` has no user")
        return str(cluster["server"]), "exec" in user
    except OSError as error:
        raise AccessError(f"{error.filename or paths}: {error.strerror or error}") from error
    except (ConfigException, yaml.YAMLError, AttributeError, TypeError, KeyError, ValueError) as error:
        raise AccessError(f"{paths}: not a kubeconfig: {' '.join(str(error).split())}") from error


def namespace_in(paths: str, context: str | None) -> str:
    """The namespace that a context names; empty if it names none."""
    from kubernetes_asyncio.config.kube_config import KubeConfigMerger

    check_kubeconfig(paths, context)
    config: Any = KubeConfigMerger(paths).config
    chosen = config["contexts"].get_with_name(context or config["current-context"])["context"]
    return str(chosen.safe_get("namespace") or "")


async def from_kubeconfig(paths: str, context: str | None) -> Credentials:
    """The current credentials of a kubeconfig; runs its exec plugin, if any."""
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config import ConfigException, load_kube_config

    configuration: Any = Configuration()
    try:
        await asyncio.to_thread(_check_files, paths)
        loader: Any = await load_kube_config(paths, context, configuration)
    except (ConfigException, OSError, ValueError, TypeError) as error:
        raise AccessError(f"{paths}: {' '.join(str(error).split())}") from error
    expiry = getattr(loader, "exec_plugin_expiry", None)
    return _credentials(configuration, expiry.timestamp() if expiry is not None else None)


async def from_files(paths: str, context: str | None) -> Credentials:
    """The current credentials of a kubeconfig without a plugin, read in a thread: others wait for this event loop."""
    return await asyncio.to_thread(asyncio.run, from_kubeconfig(paths, context))


def _check_files(paths: str) -> None:
    """Refuse a kubeconfig that is no regular file, or is huge."""
    for path in paths.split(os.pathsep):
        if path and (file := Path(path).expanduser()).exists():
            check_regular(file)


def from_account(environ: Mapping[str, str], account: Path) -> Credentials:
    """The current credentials of this pod's service account."""
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config import ConfigException
    from kubernetes_asyncio.config.incluster_config import InClusterConfigLoader

    configuration: Any = Configuration()
    try:
        files = str(account / "token"), str(account / "ca.crt")
        for file in files:
            check_regular(file)
        InClusterConfigLoader(*files, try_refresh_token=False, environ=dict(environ)).load_and_set(configuration)
    except (ConfigException, OSError) as error:
        raise AccessError(f"service account in {account}: {error}") from error
    return _credentials(configuration, None)


def _credentials(configuration: Any, expires: float | None) -> Credentials:
    return Credentials(
        server=configuration.host,
        authorization=(configuration.api_key.get("BearerToken") or "").strip(),
        ca_file=configuration.ssl_ca_cert,
        cert_file=configuration.cert_file,
        key_file=configuration.key_file,
        verify=configuration.verify_ssl,
        server_hostname=getattr(configuration, "tls_server_name", None),
        proxy=getattr(configuration, "proxy", None),
        expires=expires,
    )
