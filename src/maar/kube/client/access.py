"""The address of the API server and the credentials to use: from a kubeconfig, or from the pod's service account.

`load_access` checks the kubeconfig at once. The transport then calls `headers` for every request and `renew` after a
401. `maar.kube.client.credentials` reads the files.
"""

from __future__ import annotations

import asyncio
import dataclasses
import ipaddress
import logging
import os
import ssl
import time
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from maar.files import read_regular
from maar.kube.client.credentials import (
    Credentials,
    check_kubeconfig,
    from_account,
    from_files,
    from_kubeconfig,
    namespace_in,
)
from maar.kube.client.errors import AccessError

log = logging.getLogger(__name__)

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
REREAD_SECONDS = 60.0
"""A token from a file is read again after this time, as in client-go. A rotated token stays valid for longer."""
RENEW_PAUSE = 5.0
"""Minimum time between two renewals after a 401, so that a plugin does not run in a loop. Tuned by hand."""
EXPIRY_MARGIN = 60.0
"""A plugin's token is replaced this long before it expires, or after 80% of its lifetime if that is later. Tuned by
hand."""

Load = Callable[[], Awaitable[Credentials]]


class Access:
    """A server and the credentials for it. Create it with `load_access`, or directly with a fixed token or none."""

    def __init__(
        self,
        server: str,
        *,
        token: str = "",
        load: Load | None = None,
        reread: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.server = server.rstrip("/")
        self.ssl: ssl.SSLContext | None = None
        self.server_hostname: str | None = None
        self.proxy: str | None = proxy_for(self.server, None, os.environ)
        self._load = load
        self._reread = reread
        self._clock = clock
        self._lock = asyncio.Lock()
        self._authorization = f"Bearer {token}" if token else ""
        self._loaded: float | None = None
        self._due: float | None = None
        self._files: tuple[bytes, ...] | None = None
        self._read: Credentials | None = None
        """What was loaded last."""

    def of_caller(self, token: str) -> Access:
        """The same server for the token of another user, with none of our own credentials.

        A client certificate of ours would be one: an API server believes it before it looks at a token.
        """
        other = Access(self.server, token=token)
        if self._read is not None:
            read = dataclasses.replace(self._read, authorization="", cert_file=None, key_file=None)
            other._trust(read, _certificates(read))
        return other

    async def headers(self) -> dict[str, str]:
        """The headers that authenticate a request; reads files or runs a plugin if that is due."""
        if self._load is not None and (self._loaded is None or (self._due is not None and self._clock() >= self._due)):
            async with self._lock:
                if self._loaded is None or (self._due is not None and self._clock() >= self._due):
                    await self._reload()
        return {"Authorization": self._authorization} if self._authorization else {}

    async def renew(self, used: str) -> bool:
        """Reloads after a 401 to a request with the header `Authorization: used`; returns whether another is there."""
        if self._load is None:
            return False
        async with self._lock:
            if self._authorization == used:
                if self._loaded is not None and self._clock() - self._loaded < RENEW_PAUSE:
                    return False
                await self._reload()
            return self._authorization != used

    async def _reload(self) -> None:
        assert self._load is not None
        now = self._clock()
        try:
            credentials = await self._load()
            self._trust(credentials, await asyncio.to_thread(_certificates, credentials))
        except (AccessError, OSError) as error:
            if self._loaded is None:
                raise error if isinstance(error, AccessError) else AccessError(str(error)) from error
            log.warning("cannot reload credentials, keeping the current ones: %s", error)
            self._loaded, self._due = now, now + RENEW_PAUSE
            return
        self._read = credentials
        self._authorization = credentials.authorization
        self._loaded, self._due = now, self._next(credentials, now)

    def _next(self, credentials: Credentials, now: float) -> float | None:
        if credentials.expires is not None:
            life = max(credentials.expires - now, 0.0)
            return now + max(life - min(EXPIRY_MARGIN, life / 5), RENEW_PAUSE)
        return None if self._reread is None else now + self._reread

    def _trust(self, credentials: Credentials, files: tuple[bytes, ...]) -> None:
        """Loads certificates into the one TLS context, so that new connections of an open transport use them too."""
        self.server = credentials.server.rstrip("/")
        self.server_hostname = credentials.server_hostname
        self.proxy = proxy_for(self.server, credentials.proxy, os.environ)
        if not self.server.startswith("https:"):
            return
        if files == self._files:
            return
        if self.ssl is None:
            self.ssl = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            self.ssl.check_hostname = credentials.verify
            self.ssl.verify_mode = ssl.CERT_REQUIRED if credentials.verify else ssl.CERT_NONE
            if not credentials.ca_file:
                self.ssl.load_default_certs()
        if credentials.ca_file:
            self.ssl.load_verify_locations(credentials.ca_file)
        if credentials.cert_file:
            self.ssl.load_cert_chain(credentials.cert_file, credentials.key_file)
        self._files = files


def _certificates(credentials: Credentials) -> tuple[bytes, ...]:
    """The content of all files that the TLS context is made of."""
    paths = (credentials.ca_file, credentials.cert_file, credentials.key_file)
    return tuple(read_regular(path) for path in paths if path)


def load_access(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    account: Path = ACCOUNT,
    clock: Callable[[], float] = time.time,
) -> Access:
    """The access that kubectl would use: `kubeconfig`, `KUBECONFIG`, `~/.kube/config`, else the pod's service account.

    Sends no request and runs no plugin.
    """
    stated = kubeconfig or environ.get("KUBECONFIG")
    paths, exists = _kubeconfig(stated, environ)
    if exists:
        server, by_plugin = check_kubeconfig(paths, context)
        reread = None if by_plugin else REREAD_SECONDS
        load = from_kubeconfig if by_plugin else from_files
        return Access(server, load=lambda: load(paths, context), reread=reread, clock=clock)
    if stated:
        raise AccessError(f"kubeconfig not found: `{paths}`")
    if not environ.get("KUBERNETES_SERVICE_HOST"):
        raise AccessError(f"no cluster: `{paths}` does not exist, `KUBECONFIG` is not set, and this is not a pod")

    async def read() -> Credentials:
        return await asyncio.to_thread(from_account, environ, account)

    return Access(from_account(environ, account).server, load=read, reread=REREAD_SECONDS, clock=clock)


def load_namespace(kubeconfig: str | None = None, context: str | None = None) -> str:
    """The namespace that kubectl would use: that of the context, or of this pod, else `default`."""
    paths, exists = _kubeconfig(kubeconfig or os.environ.get("KUBECONFIG"), os.environ)
    if exists:
        return namespace_in(paths, context) or "default"
    try:
        return read_regular(ACCOUNT / "namespace").decode().strip() or "default"
    except (OSError, UnicodeDecodeError):
        return "default"


def _kubeconfig(stated: str | None, environ: Mapping[str, str]) -> tuple[str, bool]:
    """The kubeconfig files, and whether one of them exists."""
    paths = stated or str(Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config")
    return paths, any(Path(path).expanduser().exists() for path in paths.split(os.pathsep) if path)


def proxy_for(server: str, stated: str | None, environ: Mapping[str, str]) -> str | None:
    """The proxy for a server: the kubeconfig's, else the environment's; `None` if the server is on this machine."""
    url = urlsplit(server)
    host = url.hostname or ""
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost" or not host
    if local:
        return None
    if stated:
        return stated
    excepted = {"no": environ.get("no_proxy") or environ.get("NO_PROXY") or ""}
    if urllib.request.proxy_bypass_environment(host, excepted):  # type: ignore[attr-defined]
        return None
    return environ.get(f"{url.scheme}_proxy") or environ.get(f"{url.scheme.upper()}_PROXY") or None
