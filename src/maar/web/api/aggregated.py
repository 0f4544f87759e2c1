"""The aggregated API: the same answers, asked through the API server, which says who the user is.

The API server (an APIService) passes requests on with the user in headers. Those are believed only on connections with
a client certificate of the front proxy: of the authority, and with one of the names, that the cluster publishes in the
ConfigMap `extension-apiserver-authentication`. This listener has no other way in; no other listener reads the headers.
It does not write, because no token of the user arrives here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
from aiohttp import web

from maar.kube.client.errors import ApiError, Forbidden, NotFound
from maar.kube.client.reader import Reader
from maar.web.addresses import Address, CannotServe, listening
from maar.web.api.access import ANONYMOUS
from maar.web.api.certificate import Certificate
from maar.web.api.desk import Api1
from maar.web.api.errors import Refused
from maar.web.api.guard import Guard
from maar.web.api.roots import GROUP, PREFIX, ROOT, VERSION
from maar.web.api.routes import OPENAPI, ROUTES, STREAM
from maar.web.api.server import HANDSHAKE, LOOK, Site, as_json, protocols_of
from maar.web.api.writing import Token
from maar.web.reviews import User

logger = logging.getLogger("maar.web")

PUBLISHED = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
ROLE = "extension-apiserver-authentication-reader"
"""Kubernetes' own role in `kube-system` that may read it."""


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] = {}


class FrontProxy(msgspec.Struct, frozen=True):
    """How the API server proves that it is one, and how it names users: all from the cluster."""

    authority: str
    """Certificates of the authority, in PEM."""
    names: tuple[str, ...]
    """Common names of its certificates; none: every certificate of the authority."""
    user_headers: tuple[str, ...]
    uid_headers: tuple[str, ...]
    group_headers: tuple[str, ...]
    extra_prefixes: tuple[str, ...]

    def user(self, request: web.BaseRequest) -> User:
        """The user that the API server names; raises `Refused`."""
        headers = request.headers
        username, uid = (self._only(request, names) for names in (self.user_headers, self.uid_headers))
        if not username:
            raise Refused(401, "the API server names no user")
        extra: dict[str, list[str]] = {}
        for name in dict.fromkeys(name.lower() for name in headers):
            for prefix in self.extra_prefixes:
                if name.startswith(prefix.lower()) and len(name) > len(prefix):
                    extra.setdefault(unquote(name[len(prefix) :]), []).extend(headers.getall(name))
        groups = [group for name in self.group_headers for group in headers.getall(name, [])]
        return User(username, uid, groups, extra)

    def _only(self, request: web.BaseRequest, names: tuple[str, ...]) -> str:
        """The first value that is there, as the API server itself reads such headers."""
        return next((found[0] for name in names if (found := request.headers.getall(name, [])) and found[0]), "")

    def check(self, request: web.BaseRequest) -> None:
        """Raise `Refused` unless the connection is that of the front proxy."""
        transport = request.transport
        certificate: Any = None if transport is None else transport.get_extra_info("peercert")
        if not certificate:  # the handshake has refused it already
            raise Refused(403, "only the API server may ask here")
        names = {value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"}
        if self.names and names.isdisjoint(self.names):
            raise Refused(403, "only the API server may ask here: the certificate has another name")


async def read_front_proxy(api: Reader) -> FrontProxy:
    """What the cluster publishes; raises `CannotServe` or `ApiError`."""
    try:
        data = msgspec.json.decode(await api.get(PUBLISHED), type=_ConfigMap).data
        authority = data.get("requestheader-client-ca-file", "")
        found = FrontProxy(
            authority,
            names=_list(data, "requestheader-allowed-names"),
            user_headers=_list(data, "requestheader-username-headers"),
            uid_headers=_list(data, "requestheader-uid-headers"),
            group_headers=_list(data, "requestheader-group-headers"),
            extra_prefixes=_list(data, "requestheader-extra-headers-prefix"),
        )
    except NotFound:
        raise CannotServe("the aggregated API needs the ConfigMap extension-apiserver-authentication") from None
    except Forbidden as error:
        raise CannotServe(f"the aggregated API needs the role `{ROLE}` in kube-system: {error}") from None
    except msgspec.DecodeError as error:
        raise CannotServe(f"the ConfigMap extension-apiserver-authentication cannot be read: {error}") from None
    if not authority or not found.user_headers:
        raise CannotServe(
            "the API server has no front proxy: it needs the flags --requestheader-... (aggregation layer)"
        )
    if not found.names and _pems(authority) & _pems(data.get("client-ca-file", "")):
        raise CannotServe(
            "the authority of the front proxy is also that of users, and --requestheader-allowed-names is empty: "
            "every user with a certificate could name herself another user"
        )
    return found


def _list(data: dict[str, str], key: str) -> tuple[str, ...]:
    return msgspec.json.decode(data.get(key) or "[]", type=tuple[str, ...])


def _pems(text: str) -> set[str]:
    """The certificates in a PEM text."""
    parts = text.split("-----BEGIN CERTIFICATE-----")[1:]
    return {"".join(part.partition("-----END")[0].split()) for part in parts}


class AggregatedSite(Site):
    """Answers requests of the API server."""

    def __init__(self, api: Api1, guard: Guard, proxy: FrontProxy) -> None:
        super().__init__(api, guard, Path("/nonexistent"))
        self.proxy = proxy
        self._discovery = {path: msgspec.json.encode(found) for path, found in discovery().items()}

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.proxy.check(request)
        path = request.rel_url.raw_path
        found = self._discovery.get(path.rstrip("/"))
        if found is not None and request.method == "GET":
            return as_json(200, found)
        if not path.startswith(f"{ROOT}/"):
            raise Refused(404, f"no such path; the API is described at {ROOT}{OPENAPI}")
        return await self._asked(request, PREFIX + path.removeprefix(ROOT), "")

    async def _user(self, request: web.BaseRequest, address: str) -> User:
        user = self.proxy.user(request)
        if user.username == ANONYMOUS.username and not self._api.access.anonymous:
            raise Refused(401, "sign in to the API server")
        self._guard.from_user(user.username)
        return user

    def _can_write(self, request: web.BaseRequest) -> bool:
        return False

    def _token(self, request: web.BaseRequest) -> Token:
        raise Refused(
            403,
            "writes do not go through the aggregated API, because no token arrives here: `maar submit`, `hold`, "
            "`release`, `set` and `cancel` write to the API server directly",
        )

    async def _again(self, header: str | None, address: str) -> User:
        # The API server checks credentials at the beginning of a stream only: the next one begins with a check.
        raise Refused(401, "ask again")


def discovery() -> dict[str, dict[str, Any]]:
    """What the API server and kubectl ask for to know the group."""
    version = {"groupVersion": f"{GROUP}/{VERSION}", "version": VERSION}
    group = {"kind": "APIGroup", "apiVersion": "v1", "name": GROUP, "versions": [version], "preferredVersion": version}
    verbs: dict[str, set[str]] = {STREAM.strip("/"): {"list"}, OPENAPI.strip("/"): {"list"}}
    for route in ROUTES:
        if not route.writes and "{" not in route.path:
            verbs.setdefault(route.path.strip("/"), set()).add("create" if route.method == "POST" else "list")
    resources = [
        {"name": name, "singularName": "", "namespaced": False, "kind": "Answer", "verbs": sorted(verbs[name])}
        for name in sorted(verbs)
    ]
    listed = {"kind": "APIResourceList", "apiVersion": "v1", **{"groupVersion": f"{GROUP}/{VERSION}"}}
    return {f"/apis/{GROUP}": group, ROOT: {**listed, "resources": resources}}


@dataclass(eq=False)
class Aggregated:
    """The listener for the API server, while the context is open. Entering it raises `CannotServe` or `ApiError`."""

    api: Api1
    guard: Guard
    address: Address
    files: tuple[Path, Path]
    """Our certificate and its key."""
    kube: Reader
    every: float = LOOK

    async def __aenter__(self) -> Aggregated:
        self._proxy = await read_front_proxy(self.kube)
        self._certificate = _certificate(self.files, self._proxy)
        self._sock = listening(self.address)
        self.port = int(self._sock.getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        self._sock.close()

    async def run(self) -> None:
        """Serve until cancelled. When the cluster publishes another authority, all connections begin again."""
        while True:
            site, limits = AggregatedSite(self.api, self.guard, self._proxy), self.guard.limits
            protocols = protocols_of(site, limits, limits.connections)
            server = await asyncio.get_running_loop().create_server(
                protocols, sock=self._sock.dup(), ssl=self._certificate.context, ssl_handshake_timeout=HANDSHAKE
            )
            try:
                await self._changed()
            finally:
                server.close()
                await protocols.shutdown(1.0)

    async def _changed(self) -> None:
        """Wait until the cluster publishes something else. What is known stays true while it cannot be asked."""
        while True:
            await asyncio.sleep(self.every)
            self._certificate.look()
            with contextlib.suppress(CannotServe, ApiError):
                found = await read_front_proxy(self.kube)
                if found != self._proxy:
                    self._certificate, self._proxy = _certificate(self.files, found), found
                    logger.info("the front proxy of the API server has changed")
                    return


def _certificate(files: tuple[Path, Path], proxy: FrontProxy) -> Certificate:
    """Our certificate, with a context that accepts only clients with a certificate of the front proxy."""
    made = Certificate(*files)
    made.context.verify_mode = ssl.CERT_REQUIRED
    made.context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the authority may be no root, as for the API server
    try:
        made.context.load_verify_locations(cadata=proxy.authority)
    except (ssl.SSLError, ValueError) as error:
        raise CannotServe(f"the authority of the front proxy is not PEM: {error}") from None
    return made
