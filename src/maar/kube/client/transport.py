"""Sends requests to one API server and returns the responses, short ones and watches.

`maar.kube.client.api` decides what to request. This module adds what all requests share: the HTTP head and the
credentials. After a 401 it sends a request once more with renewed credentials. Every failure is an `ApiError`.

Maar has its own connections (`pool`, `connection`) with httptools as parser. Measured with the burst of `bench.cluster`
with 6,000 pods, on two shared cores, three alternating rounds, the same load generator for all:

    client                                      event loop            pods/s          CPU seconds of Maar
    aiohttp for everything                      asyncio               236, 320, 289   8.1, 6.0, 7.1
    httptools for everything (this one)         asyncio (this one)    283, 438, 232   5.1, 3.6, 6.1
    our own parser, and aiohttp for watches     asyncio               293, 399, 223   5.2, 4.1, 7.2
    our own parser, and aiohttp for watches     sleeps while busy     268, 361, 313   4.9, 3.6, 4.1
    httptools for everything                    sleeps while busy     381, 237, 207   3.4, 5.0, 4.5
    httptools for everything                    uvloop                229, 397, 263   5.6, 3.6, 5.2
    httptools, watches read every 8 ms          asyncio               375, 373, 255   4.1, 4.0, 5.5

The noise of the machine exceeds most differences. httptools used less CPU than aiohttp, and than our own parser, in
every round of the first three rows. Sleeping 8 ms in the event loop used less CPU in five of six rounds, but it delays
timers and was removed for that reason, not for speed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from urllib.parse import quote, urlencode, urlsplit

import maar
from maar.kube.client.access import Access
from maar.kube.client.errors import AccessError, ApiError, Unauthorized, Unreachable, refusal
from maar.kube.client.pool import ConnectionPool, proxy_authorization

JSON = "application/json"
CONNECTIONS = 160
"""Maximum for short requests: the executor's 64, one list per kind at the start, and a reserve. Tuned by hand. Further
requests wait. Watches, about 25, do not count."""
LONGEST_REFUSAL = 1024 * 1024
"""Bytes that are read of the body of a refused stream."""
_STRANGE = re.compile(r"[^!-~]")
"""Characters that must be quoted in a request head: spaces, control characters and everything beyond ASCII."""
_SAFE = "/?&=%:@!$'()*+,;~"


class CommonHead:
    """The common part of the head of all requests to one server with one identity, built once."""

    def __init__(self, server: str, authorization: str, proxy: str | None) -> None:
        self.server = server
        self.authorization = authorization
        self.proxy = proxy
        url = urlsplit(server)
        # A proxy needs the whole URL in a request, unless the request goes through a TLS tunnel.
        through = proxy if proxy and url.scheme == "http" else ""
        self._prefix = _plain(server if through else url.path)
        lines = {
            "Host": url.netloc.rpartition("@")[2],
            "Accept": JSON,
            # Compressed responses would cost the API server more than they save on the network.
            "Accept-Encoding": "identity",
            "User-Agent": f"maar/{maar.__version__}",
        }
        if authorization:
            if _STRANGE.search(authorization.replace(" ", "")):
                raise AccessError("the token contains invalid characters")
            lines["Authorization"] = authorization
        self._common = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        if through:
            self._common += proxy_authorization(urlsplit(through))

    def request(
        self, verb: str, path: str, params: Mapping[str, str] | None, data: bytes | None, content_type: str
    ) -> bytes:
        query = f"?{urlencode(params, quote_via=quote)}" if params else ""
        line = f"{verb} {self._prefix}{_plain(path)}{query} HTTP/1.1\r\n{self._common}"
        if data is None:
            return (line + ("\r\n" if verb == "GET" else "Content-Length: 0\r\n\r\n")).encode()
        return f"{line}Content-Type: {content_type}\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


class Transport:
    def __init__(self, access: Access, connections: int) -> None:
        self.access = access
        self.pool = ConnectionPool(access, connections)
        self._head: CommonHead | None = None

    @classmethod
    async def open(cls, access: Access, connections: int = CONNECTIONS) -> Transport:
        """Reads credentials; opens no connection yet."""
        await access.headers()
        return cls(access, connections)

    async def close(self) -> None:
        await self.pool.close()

    async def request(
        self,
        verb: str,
        path: str,
        params: Mapping[str, str] | None,
        timeout: float,
        data: bytes | None = None,
        content_type: str = JSON,
        check: Callable[[], None] = lambda: None,
    ) -> bytes:
        """The whole body of a successful response; every failure is an `ApiError`.

        `check` is called right before the request is sent, each time. If it raises an `ApiError`, nothing is sent.
        """
        with self._failures(verb, path):
            renewed = False
            while True:
                head = await self._current()
                async with asyncio.timeout(timeout):
                    request = head.request(verb, path, params, data, content_type)
                    response = await self.pool.ask(head.server, verb, request, check)
                if response.status < 400:
                    return response.body
                if response.status != 401 or renewed or not await self.access.renew(head.authorization):
                    raise refusal(response.status, response.body, verb, path, response.retry_after)
                renewed = True

    async def read(self, path: str, params: Mapping[str, str], timeout: float, most: int) -> bytes:
        """The body of a successful response to a GET; an `ApiError` if it has more than `most` bytes."""
        try:
            async with asyncio.timeout(timeout), self.stream(path, params, timeout, "GET") as chunks:
                body = await _some(chunks, most + 1)
        except TimeoutError as error:
            raise Unreachable(f"no response from {self.access.server} in time", verb="GET", path=path) from error
        if len(body) > most:
            raise ApiError(f"the response exceeds {most} bytes", verb="GET", path=path)
        return body

    @asynccontextmanager
    async def stream(
        self, path: str, params: Mapping[str, str], patience: float | None, verb: str = "WATCH"
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The body of a successful response to a GET, as it arrives; every failure is an `ApiError`, also later on.

        `verb` is what errors call it.
        """
        with self._failures(verb, path):
            renewed = False
            while True:
                head = await self._current()
                request = head.request("GET", path, params, None, JSON)
                async with self.pool.stream(head.server, request, patience) as connection:
                    if connection.status < 400:
                        yield connection.chunks(patience)
                        return
                    body = await _some(connection.chunks(patience), LONGEST_REFUSAL)
                    response = connection.take()
                if response.status != 401 or renewed or not await self.access.renew(head.authorization):
                    raise refusal(response.status, body, verb, path, response.retry_after)
                renewed = True

    async def _current(self) -> CommonHead:
        authorization = (await self.access.headers()).get("Authorization", "")
        head, server, proxy = self._head, self.access.server, self.access.proxy
        if head is None or (head.server, head.authorization, head.proxy) != (server, authorization, proxy):
            head = self._head = CommonHead(server, authorization, proxy)
        return head

    @contextmanager
    def _failures(self, verb: str, path: str) -> Iterator[None]:
        try:
            yield
        except AccessError as error:
            raise Unauthorized(str(error), verb=verb, path=path) from error
        except TimeoutError as error:
            raise Unreachable(f"no response from {self.access.server} in time", verb=verb, path=path) from error
        except OSError as error:
            message = f"{self.access.server}: {str(error) or type(error).__name__}"
            raise Unreachable(message, verb=verb, path=path) from error
        except ApiError as error:
            error.verb, error.path = verb, path
            raise


async def _some(chunks: AsyncIterator[bytes], most: int) -> bytes:
    """What arrives, until it has `most` bytes or a little more."""
    parts, size = [], 0
    async for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size >= most:
            break
    return b"".join(parts)


def _plain(path: str) -> str:
    """A path with special characters quoted; existing quoting is kept."""
    return quote(path, safe=_SAFE) if _STRANGE.search(path) else path
