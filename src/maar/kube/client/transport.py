"""Requests and answers to one API server: short ones over connections of our own, watches over aiohttp.

Below `maar.kube.client.api`, which knows what to ask. Here is what all requests share: credentials (a 401 is tried
again once, with fresh ones), bounds on connections, and that whatever goes wrong is an `ApiError`. A burst of 10,000
binds is as many requests, and aiohttp takes two and a half times the CPU for each of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp
from yarl import URL

import maar
from maar.kube.client.access import Access
from maar.kube.client.connections import Connector
from maar.kube.client.errors import AccessError, ApiError, Unauthorized, Unreachable, refusal
from maar.kube.client.http_answer import Answer
from maar.kube.client.http_pool import Pool
from maar.kube.client.http_request import JSON, Head

CONNECTIONS = 160
"""For short requests: the executor's 64, a list of each kind at the start, and room; by taste. Others wait their turn.
Watches, some 25, have connections of their own, as many at most."""
READ_BUFFER = 4 * 1024 * 1024
"""What aiohttp takes in before it stops reading a watch: a server cuts watches that are read too slowly."""


class Transport:
    """One API server's connections."""

    def __init__(self, access: Access, pool: Pool, session: aiohttp.ClientSession, connector: Connector) -> None:
        self.access = access
        self._pool = pool
        self._session = session
        self._connector = connector
        self._head: Head | None = None

    @classmethod
    async def open(cls, access: Access, connections: int = CONNECTIONS) -> Transport:
        """Reads credentials; connects to nothing yet."""
        await access.headers()
        connector = Connector(limit=connections, ssl=access.ssl or True)
        session = aiohttp.ClientSession(
            connector=connector,
            headers={"Accept": JSON, "Accept-Encoding": "identity", "User-Agent": f"maar/{maar.__version__}"},
            read_bufsize=READ_BUFFER,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return cls(access, Pool(access, connections), session, connector)

    async def close(self) -> None:
        """Let go of all connections."""
        await self._pool.close()
        await self._connector.let_go()
        await self._session.close()

    async def request(
        self,
        verb: str,
        path: str,
        params: Mapping[str, str] | None,
        timeout: float,
        data: bytes | None = None,
        content_type: str = JSON,
    ) -> bytes:
        """The whole body of a successful answer; all that goes wrong is an `ApiError`."""
        if self.access.proxy is not None:
            # The way through proxies is aiohttp's.
            limits = aiohttp.ClientTimeout(total=timeout)
            async with self.answer(verb, path, params, limits, data, content_type) as response:
                return await response.read()
        try:
            used = await self.access.headers()
            answer = await self._ask(used, verb, path, params, timeout, data, content_type)
            if answer.status == 401 and await self.access.renew(used):
                used = await self.access.headers()
                answer = await self._ask(used, verb, path, params, timeout, data, content_type)
        except (AccessError, OSError) as error:
            raise self._failure(error, verb, path) from error
        if answer.status >= 400:
            raise refusal(answer.status, answer.body, verb, path, answer.retry_after)
        return answer.body

    async def _ask(
        self,
        used: Mapping[str, str],
        verb: str,
        path: str,
        params: Mapping[str, str] | None,
        timeout: float,
        data: bytes | None,
        content_type: str,
    ) -> Answer:
        server, authorization = self.access.server, used.get("Authorization", "")
        head = self._head
        if head is None or head.server != server or head.authorization != authorization:
            head = self._head = Head(server, authorization)
        request = head.request(verb, path, params, data, content_type)
        async with asyncio.timeout(timeout):
            return await self._pool.ask(server, verb, request)

    @asynccontextmanager
    async def answer(
        self,
        verb: str,
        path: str,
        params: Mapping[str, str] | None,
        limits: aiohttp.ClientTimeout,
        data: bytes | None = None,
        content_type: str = JSON,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A successful answer, its body still to be read; all that goes wrong, then too, is an `ApiError`."""
        try:
            response = await self._send(verb, path, params, limits, data, content_type)
            if response.status == 401:
                async with response:
                    refused = await response.read()
                if not await self.access.renew(_authorization(response)):
                    raise refusal(401, refused, verb, path)
                response = await self._send(verb, path, params, limits, data, content_type)
            async with response:
                if response.status >= 400:
                    after = _seconds(response.headers.get("Retry-After"))
                    raise refusal(response.status, await response.read(), verb, path, after)
                yield response
        except (AccessError, aiohttp.ClientError, OSError) as error:
            raise self._failure(error, verb, path) from error
        except ApiError as error:
            error.verb, error.path = verb, path
            raise

    async def _send(
        self,
        verb: str,
        path: str,
        params: Mapping[str, str] | None,
        limits: aiohttp.ClientTimeout,
        data: bytes | None,
        content_type: str,
    ) -> aiohttp.ClientResponse:
        access = self.access
        headers = await access.headers()
        if data is not None:
            headers["Content-Type"] = content_type
        return await self._session.request(
            "GET" if verb == "WATCH" else verb,
            URL(access.server + path, encoded=True),
            params=params,
            data=data,
            headers=headers,
            timeout=limits,
            proxy=access.proxy,
            server_hostname=access.server_hostname,
            allow_redirects=False,
        )

    def _failure(self, error: Exception, verb: str, path: str) -> ApiError:
        """What it means that no answer came."""
        if isinstance(error, AccessError):
            return Unauthorized(str(error), verb=verb, path=path)
        if isinstance(error, TimeoutError):
            return Unreachable(f"no answer from {self.access.server} in time", verb=verb, path=path)
        return Unreachable(f"{self.access.server}: {str(error) or type(error).__name__}", verb=verb, path=path)


def _authorization(response: aiohttp.ClientResponse) -> Mapping[str, str]:
    return {"Authorization": response.request_info.headers.get("Authorization", "")}


def _seconds(text: str | None) -> float:
    """A Retry-After header; API servers send whole seconds, dates count as not given."""
    return float(text) if text is not None and text.isascii() and text.isdecimal() else 0.0
