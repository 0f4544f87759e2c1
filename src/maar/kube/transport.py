"""Requests and answers over aiohttp, with connections of our own to one API server.

Below `maar.kube.api`, which knows what to ask. Here is what all requests share: credentials (a 401 is tried again once,
with fresh ones), a bound on connections, and that whatever goes wrong is an `ApiError`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp
from yarl import URL

import maar
from maar.kube.access import Access
from maar.kube.connections import Connector
from maar.kube.errors import AccessError, ApiError, Unauthorized, Unreachable, refusal

CONNECTIONS = 160
"""About 25 watches, the executor's 64 requests, and room; by taste. Requests beyond wait for one to be free."""
READ_BUFFER = 4 * 1024 * 1024
"""What aiohttp takes in before it stops reading a watch: a server cuts watches that are read too slowly."""
JSON = "application/json"


class Transport:
    """One API server's connections."""

    def __init__(self, access: Access, session: aiohttp.ClientSession, connector: Connector) -> None:
        self.access = access
        self._session = session
        self._connector = connector

    @classmethod
    async def open(cls, access: Access, connections: int = CONNECTIONS) -> Transport:
        """Reads credentials; connects to nothing yet."""
        await access.headers()
        connector = Connector(limit=connections, ssl=access.ssl or True)
        session = aiohttp.ClientSession(
            connector=connector,
            # Compressed answers would cost the API server more than they save on the way to it.
            headers={"Accept": JSON, "Accept-Encoding": "identity", "User-Agent": f"maar/{maar.__version__}"},
            read_bufsize=READ_BUFFER,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return cls(access, session, connector)

    async def close(self) -> None:
        """Let go of all connections."""
        await self._connector.let_go()
        await self._session.close()

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
        except AccessError as error:
            raise Unauthorized(str(error), verb=verb, path=path) from error
        except TimeoutError as error:
            raise Unreachable(f"no answer from {self.access.server} in time", verb=verb, path=path) from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(
                f"{self.access.server}: {str(error) or type(error).__name__}", verb=verb, path=path
            ) from error
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


def _authorization(response: aiohttp.ClientResponse) -> Mapping[str, str]:
    return {"Authorization": response.request_info.headers.get("Authorization", "")}


def _seconds(text: str | None) -> float:
    """A Retry-After header; API servers send whole seconds, dates count as not given."""
    return float(text) if text is not None and text.isascii() and text.isdecimal() else 0.0
