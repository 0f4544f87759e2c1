"""No connection is left open, at whatever moment its request is cancelled."""

import asyncio
import gc
import ssl
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trustme
from aiohttp import web

from maar.kube.access import Access
from maar.kube.api import Api
from maar.testing.sockets import answer, serving

TURNS = 60
"""Of the event loop, in which a request over TLS is at every stage: resolving, connecting, shaking hands, asking."""


@contextmanager
def beside(tls: ssl.SSLContext | None) -> Iterator[str]:
    """A server on a loop of its own, which lives on when the client's has ended."""
    ready, address = threading.Event(), ""
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()

    async def handle(request: web.Request) -> web.Response:
        return answer({})

    async def serve() -> None:
        nonlocal address
        async with serving(handle, tls) as address:
            ready.set()
            await ended.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert ready.wait(20)
        yield address
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()


async def cancelled_after(turns: int, server: str, trust: ssl.SSLContext | None) -> None:
    access = Access(server)
    access.ssl = trust
    api = await Api.open(access)
    asking = asyncio.create_task(api.get("/x"))
    for _ in range(turns):
        await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait([asking])
    await api.close()


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_a_request_that_is_cancelled_leaves_nothing_open(secure: bool) -> None:
    authority = trustme.CA()
    inside, outside = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(inside)
    authority.configure_trust(outside)
    gc.collect()
    with beside(inside if secure else None) as server, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        for _ in range(3):
            for turns in range(TURNS):
                asyncio.run(cancelled_after(turns, server, outside if secure else None))
        gc.collect()
    assert [] == [str(warning.message) for warning in caught]
