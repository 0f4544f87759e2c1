"""A small HTTP server for tests of the Kubernetes client: each test passes a handler, which often misbehaves.

It sends real bytes over a real socket and replaces none of our code. For a whole API server, see `maar.embedded`.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """The address of a server that answers every request with `handler`."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.01, handler_cancellation=True)
    await runner.setup()
    assert runner.server is not None
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(runner.server, "127.0.0.1", 0, ssl=tls)
    host, port = listening.sockets[0].getsockname()[:2]
    try:
        yield f"{'https' if tls else 'http'}://{host}:{port}"
    finally:
        for each in listening.sockets:
            # Stop accepting first: asyncio loses a connection that it accepted but did not wrap before closing.
            loop.remove_reader(each.fileno())
        for _ in range(3):
            await asyncio.sleep(0)
        listening.close()
        await runner.cleanup()


def answer(document: Any, status: int = 200, **headers: str) -> web.Response:
    """A JSON response. Headers are written with underscores for dashes."""
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return web.Response(body=json.dumps(document).encode(), status=status, headers=named)


def refusal(status: int, reason: str = "", message: str = "", **details: Any) -> web.Response:
    """An error response of an API server."""
    body = {"kind": "Status", "status": "Failure", "code": status, "reason": reason, "message": message}
    return answer(body | ({"details": details} if details else {}), status)


def cut(request: web.Request) -> None:
    """Close the connection in the middle of a response."""
    assert request.transport is not None
    request.transport.abort()


async def stream(request: web.Request, *lines: Any) -> web.StreamResponse:
    """Start a response that stays open, such as a watch. Lines are JSON documents or raw bytes."""
    response = web.StreamResponse()
    await response.prepare(request)
    for line in lines:
        await response.write(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
    return response
