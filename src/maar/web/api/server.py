"""HTTP: from a request to a route and back, with limits on everything that a client sends.

A token is accepted only over TLS or from the same host, and is never stored or logged. No answer may be kept, framed or
read by other sites.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from maar.web.addresses import Address, listening
from maar.web.api.access import bearer
from maar.web.api.certificate import Certificate
from maar.web.api.desk import Api1
from maar.web.api.errors import Refused, not_decoded
from maar.web.api.guard import Guard
from maar.web.api.handlers.stream import stream
from maar.web.api.openapi import document
from maar.web.api.queries import NoQuery, read
from maar.web.api.question import Question, better
from maar.web.api.roots import PREFIX
from maar.web.api.routes import OPENAPI, ROUTES, STREAM, Route
from maar.web.api.writing import Token
from maar.web.forecasting import metrics
from maar.web.front.hosts import MISLED, is_loopback, is_misled
from maar.web.limits import HttpLimits, client
from maar.web.reviews import User

logger = logging.getLogger("maar.web")

JSON = "application/json"
INTERNAL = b'{"error":"internal error"}'
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
PAGE = Path(__file__).parents[1] / "page"
"""The files of the page."""
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".json": JSON,
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}
INDEX, MODULES = "/index.html", b"  <!-- modules -->\n"
"""What is served at the root, and the line of it in whose place all modules are named but the first, which it loads."""
MAIN = "/js/main.js"
NOT_FOUND = "/not-found.html"
"""What a browser shows at a path that does not exist; other clients get JSON."""
METRICS = "/metrics"
"""For every user that the API server knows: it has queues and no jobs."""
LOOK = 60.0
"""Seconds between two looks at the certificate files, and between two moments of forgetting."""
HANDSHAKE = 10.0


class Site:
    """Answers all requests of one process."""

    def __init__(self, api: Api1, guard: Guard, page: Path = PAGE) -> None:
        self._api = api
        self._guard = guard
        self._routes = [(route, _pattern(PREFIX + route.path)) for route in ROUTES]
        self._document = msgspec.json.encode(document())
        self._files = files_of(page)

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """One request. Whatever happens, the answer is JSON without the details of a bug."""
        protocol = request.protocol
        if isinstance(protocol, ApiConnection):
            protocol.begin()
        try:
            return await self._answer(request)
        except Refused as refused:
            return as_json(refused.status, msgspec.json.encode(refused.view), refused.headers)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as error:
            # The text of the error and the request may have names or a token: neither goes to the client.
            logger.error("internal error in an answer: %s", type(error).__name__, exc_info=error)
            return as_json(500, INTERNAL)
        finally:
            if isinstance(protocol, ApiConnection):
                protocol.rest()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.rel_url.raw_path
        if path in ("/healthz", "/readyz"):
            return self._health(path)
        address = client(request.remote or "")
        self._guard.from_address(address)
        if path == METRICS:
            _only(request, "GET")
            await self._user(request, address)
            page = await asyncio.to_thread(metrics.text, self._api.mirror.as_of(), self._api.keeper)
            headers = {**HEADERS, "Cache-Control": "no-store", "Content-Type": "text/plain; version=0.0.4"}
            return web.Response(body=page, headers=headers)
        if not path.startswith("/api/"):
            return self._file(request, path)
        _check_site(request)
        return await self._asked(request, path, address)

    async def _asked(self, request: web.BaseRequest, path: str, address: str) -> web.StreamResponse:
        """The answer to a request of the API."""
        if path == PREFIX + OPENAPI:
            _only(request, "GET")
            return as_json(200, self._document)
        if path == PREFIX + STREAM:
            _only(request, "GET")
            return await self._stream(request, address)
        route, parts = self._route(request.method, path)
        user = await self._user(request, address)
        token = self._token(request) if route.writes else None
        query = read(route.query, _query(request))
        with self._guard.holding(user.username) as more:
            body = None if route.body is None else await self._body(request, route.body, more)
            asked = await self._api.asked(user, query, parts, body, token, self._can_write(request))
            answer = await route.handle(self._api, asked)
            encoded = await asyncio.to_thread(msgspec.json.encode, answer)
        return as_json(route.status, encoded)

    def _health(self, path: str) -> web.Response:
        mirror = self._api.mirror
        problem = mirror.observer.trouble or (mirror.not_ready() if path == "/readyz" else "")
        status, text = (503, "not ready\n" if path == "/readyz" else "failed\n") if problem else (200, "ok\n")
        return web.Response(status=status, text=text, headers=HEADERS)

    def _route(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        allowed = []
        for route, pattern in self._routes:
            if found := pattern.fullmatch(path):
                if route.method == method:
                    return route, {name: _part(name, text) for name, text in found.groupdict().items()}
                allowed.append(route.method)
        if allowed:
            raise _wrong_method(allowed)
        raise Refused(404, f"no such path; the API is described at {PREFIX}{OPENAPI}")

    async def _user(self, request: web.BaseRequest, address: str) -> User:
        headers = request.headers.getall("Authorization", [])
        if len(headers) > 1:
            raise Refused(400, "more than one Authorization header")
        if not headers:
            _check_host(request)
        elif not _is_private(request):
            raise Refused(
                403, "tokens are accepted only over TLS or from the same host: this one was sent in the clear"
            )
        user = await self._api.access.user(headers[0] if headers else None, address)
        self._guard.from_user(user.username)
        return user

    def _can_write(self, request: web.BaseRequest) -> bool:
        return self._api.writer is not None and "Authorization" in request.headers

    def _token(self, request: web.BaseRequest) -> Token:
        """The token of a user who writes, after `_user` has checked it."""
        if self._api.writer is None:
            raise Refused(403, "writes are off here: `maar web --allow-writes` switches them on")
        header = request.headers.get("Authorization")
        if header is None:
            raise Refused(401, "writes need a token: `Authorization: Bearer ...`", sign_in=True)
        return Token(bearer(header))

    async def _body(self, request: web.BaseRequest, kind: type[Any], more: Callable[[int], None]) -> Any:
        """The body of a request. `more` counts bytes that are going to be held, and refuses too many."""
        if request.content_type != JSON:
            raise Refused(415, f"expected Content-Type {JSON}")
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise Refused(415, "send the body without a Content-Encoding")
        most = self._guard.limits.body
        if (request.content_length or 0) > most:
            raise Refused(413, f"expected at most {most} bytes, got {request.content_length}")
        data, counted = bytearray(), request.content_length or 0
        more(counted)
        try:
            async with asyncio.timeout(self._guard.limits.body_seconds):
                async for chunk in request.content.iter_any():
                    data += chunk
                    if len(data) > most:
                        raise Refused(413, f"expected at most {most} bytes")
                    if len(data) > counted:  # it comes in chunks
                        more(len(data) - counted)
                        counted = len(data)
        except TimeoutError:
            raise Refused(408, "the body did not arrive in time") from None
        try:
            return msgspec.json.decode(bytes(data), type=kind)
        except msgspec.DecodeError as error:
            refused = not_decoded(error)
            raise refused if kind is not Question else better(refused, bytes(data)) from None
        except RecursionError:
            raise Refused(422, "lists and objects are nested too deeply") from None

    async def _stream(self, request: web.BaseRequest, address: str) -> web.StreamResponse:
        user = await self._user(request, address)
        read(NoQuery, _query(request))
        header = request.headers.get("Authorization")
        await self._api.asked(user, None, {})  # an error comes before the head of the answer
        with self._guard.streaming(user.username):
            response = web.StreamResponse(
                headers={**HEADERS, "Content-Type": "text/event-stream", "Cache-Control": "no-store"}
            )
            await response.prepare(request)
            events = stream(self._api, user, lambda: self._again(header, address))
            with contextlib.suppress(Refused, ConnectionError):  # a token that is no longer valid ends the stream
                async with contextlib.aclosing(events):
                    async for event in events:
                        await response.write(event)
            return response

    async def _again(self, header: str | None, address: str) -> User:
        """The user of a stream that goes on; raises `Refused` if her token is no longer valid."""
        return await self._api.access.user(header, address, again=True)

    def _file(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        _only(request, "GET", "HEAD")
        found, status = self._files.get(INDEX if path == "/" else path), 200
        if found is None or path == NOT_FOUND:
            found, status = self._files.get(NOT_FOUND), 404
            if found is None or "text/html" not in request.headers.get("Accept", ""):
                raise Refused(404, f"no such path; the API is described at {PREFIX}{OPENAPI}")
        headers = {**HEADERS, "Cache-Control": "no-cache", "Content-Type": KINDS[found.suffix]}
        return web.Response(status=status, body=content(found, self._files), headers=headers)


def content(file: Path, files: Iterable[str]) -> bytes:
    """What is sent of a file of the page: a browser fetches all modules at once, because its index names them."""
    modules = sorted(name[1:] for name in files if name.endswith(".js") and name != MAIN)
    links = "".join(f'  <link rel="modulepreload" href="{name}">\n' for name in modules)
    return file.read_bytes().replace(MODULES, links.encode()) if file.suffix == ".html" else file.read_bytes()


def files_of(page: Path) -> dict[str, Path]:
    """The files of the page by their path; nothing else can be read."""
    if not page.is_dir():
        return {}
    files = sorted(file for file in page.rglob("*") if file.is_file() and file.suffix in KINDS)
    return {f"/{file.relative_to(page).as_posix()}": file for file in files}


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", path))


def _part(name: str, text: str) -> str:
    decoded = unquote(text, errors="replace")
    if len(decoded) > 600 or not decoded.isprintable():
        raise Refused(400, "expected a name", f"path.{name}")
    return decoded


def _query(request: web.BaseRequest) -> dict[str, list[str]]:
    given: dict[str, list[str]] = {}
    for name, value in request.rel_url.query.items():
        given.setdefault(name, []).append(value)
    return given


def _only(request: web.BaseRequest, *methods: str) -> None:
    if request.method not in methods:
        raise _wrong_method(list(methods))


def _wrong_method(allowed: list[str]) -> Refused:
    refused = Refused(405, f"expected {' or '.join(allowed)}")
    refused.headers["Allow"] = ", ".join(allowed)
    return refused


def as_json(status: int, body: bytes, headers: dict[str, str] | None = None) -> web.Response:
    made = {**HEADERS, "Cache-Control": "no-store", "Content-Type": JSON, **(headers or {})}
    return web.Response(status=status, body=body, headers=made)


def _is_private(request: web.BaseRequest) -> bool:
    """Whether nobody on a network can read the request: it came over TLS, or from this host."""
    return _is_tls(request) or is_loopback(request.remote or "")


def _is_tls(request: web.BaseRequest) -> bool:
    transport = request.transport
    return transport is not None and transport.get_extra_info("sslcontext") is not None


def _check_host(request: web.BaseRequest) -> None:
    """Refuse what a page of another site may have sent. It has no token, so this is about requests without one."""
    if not _is_tls(request) and is_misled(request.headers.get("Host", ""), request.remote or ""):
        raise Refused(403, MISLED)


def _check_site(request: web.BaseRequest) -> None:
    """Refuse what a browser sends for a page of another site, which must not even cost anything.

    Browsers say so in `Sec-Fetch-Site`, and older ones, or those without TLS, in `Origin`. Nothing else sends these.
    """
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    if site is None and origin is not None:
        host = request.headers.get("Host", "").lower()
        site = "same-origin" if origin.lower().partition("://")[2] == host else "cross-site"
    if site not in (None, "same-origin", "none"):
        raise Refused(403, "not for pages of other sites")


class ApiConnection(RequestHandler):
    """A connection that must bring its first request in time, and makes room for others while it has none."""

    __slots__ = ("_address", "_counts", "_entered", "_seconds", "_served", "_timer")

    def __init__(self, *args: Any, counts: OpenConnections, seconds: float, **more: Any) -> None:
        super().__init__(*args, **more)
        self._counts = counts
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None
        self._address = ""
        self._served = False
        self._entered = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self._address = client(str(peer[0])) if peer else ""
        self._entered = self._counts.enter(self, self._address)
        if not self._entered:
            self.abort()
            return
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._check)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._entered:
            self._counts.leave(self, self._address)
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to bytes that are no request. Neither they nor the error are logged: both may have a token."""
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has begun already")
        logger.debug("not a request: %s", type(exc).__name__)
        answer = as_json(status, b'{"error":"not a request of HTTP/1.1"}' if status < 500 else INTERNAL)
        answer.force_close()
        return answer

    def begin(self) -> None:
        """A request has come."""
        self._served = True
        self._counts.work(self)

    def rest(self) -> None:
        """Its answer is made."""
        if self._entered and self.transport is not None:
            self._counts.rest(self)

    def abort(self) -> None:
        if isinstance(self.transport, asyncio.Transport):
            self.transport.abort()

    def _check(self) -> None:
        if not self._served:
            self.abort()


class OpenConnections:
    """Open connections, in total and by address. One more than all makes the one leave that is idle longest."""

    def __init__(self, most: int, each: int) -> None:
        self._most = most
        self._each = each
        self._of: Counter[str] = Counter()
        self._idle: dict[ApiConnection, None] = {}
        """Connections without a request, the oldest first."""

    def enter(self, connection: ApiConnection, address: str) -> bool:
        """Count a connection, which `leave` takes back; false: it is one too many."""
        if self._of[address] >= self._each:
            return False
        if self._of.total() >= self._most:
            oldest = next(iter(self._idle), None)
            if oldest is None:
                return False
            oldest.abort()
            del self._idle[oldest]
        self._of[address] += 1
        self.rest(connection)
        return True

    def work(self, connection: ApiConnection) -> None:
        self._idle.pop(connection, None)

    def rest(self, connection: ApiConnection) -> None:
        self._idle.pop(connection, None)
        self._idle[connection] = None

    def leave(self, connection: ApiConnection, address: str) -> None:
        self._idle.pop(connection, None)
        self._of[address] -= 1
        if self._of[address] <= 0:
            del self._of[address]


class Protocols(web.Server):
    """Makes a `ApiConnection` for each client."""

    def __init__(self, handler: Callable[..., Any], counts: OpenConnections, seconds: float, **more: Any) -> None:
        super().__init__(handler, **more)
        self._counts = counts
        self._seconds = seconds

    def __call__(self) -> RequestHandler:
        return ApiConnection(self, loop=self._loop, counts=self._counts, seconds=self._seconds, **self._kwargs)


def protocols_of(site: Site, limits: HttpLimits, connections_each: int) -> Protocols:
    """What serves connections; `connections_each` is for one client address."""
    return Protocols(
        site,
        OpenConnections(limits.connections, connections_each),
        limits.head_seconds,
        handler_cancellation=True,  # a question ends when its client has gone
        access_log=None,
        auto_decompress=False,  # such bodies are refused; decompressing another body would end in the log
        keepalive_timeout=limits.idle_seconds,
        logger=logging.getLogger("maar.web.http"),
    )


@asynccontextmanager
async def serving(
    api: Api1, guard: Guard, address: Address, certificate: Certificate | None = None, page: Path = PAGE
) -> AsyncIterator[int]:
    """Serve while the context is open; yields the port. Raises `CannotServe` if the address is not available."""
    limits = guard.limits
    protocols = protocols_of(Site(api, guard, page), limits, limits.connections_each)
    sock = listening(address)
    server = await asyncio.get_running_loop().create_server(
        protocols,
        sock=sock,
        ssl=None if certificate is None else certificate.context,
        ssl_handshake_timeout=None if certificate is None else HANDSHAKE,
    )
    looking = asyncio.create_task(_look(api, guard, certificate))
    try:
        yield int(sock.getsockname()[1])
    finally:
        looking.cancel()
        server.close()
        await protocols.shutdown(1.0)
        await asyncio.gather(looking, return_exceptions=True)


async def _look(api: Api1, guard: Guard, certificate: Certificate | None) -> None:
    while True:
        await asyncio.sleep(LOOK)
        api.access.forget()
        guard.forget()
        if certificate is not None:
            certificate.look()
