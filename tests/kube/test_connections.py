"""No connection is left open, at whatever moment its request is cancelled or all are closed."""

import asyncio
import gc
import ssl
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

import pytest
import trustme
from aiohttp import web
from tests.support.sockets import answer, serving

from maar.kube.client.access import Access
from maar.kube.client.api import Api
from maar.kube.wire.resources import PODS

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
        assert ready.wait(60)
        yield address
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()


async def short(api: Api) -> None:
    await api.get("/x")


async def watch(api: Api) -> None:
    async with aclosing(api.watch(PODS, "1")) as events:
        async for _ in events:
            pass


async def ended_after(
    turns: int, server: str, trust: ssl.SSLContext | None, ask: Callable[[Api], Coroutine[Any, Any, None]], cancel: bool
) -> None:
    access = Access(server)
    access.ssl = trust
    api = await Api.open(access)
    asking = asyncio.create_task(ask(api))
    for _ in range(turns):
        await asyncio.sleep(0)
    if cancel:
        asking.cancel()
        await asyncio.wait([asking])
    await api.close()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert {asyncio.current_task()} == asyncio.all_tasks()


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize(
    ("ask", "cancel"),
    [(short, True), (short, False), (watch, True)],
    ids=["short-cancelled", "short-closed", "watch-cancelled"],
)
def test_a_request_that_ends_at_any_moment_leaves_nothing_open(
    secure: bool, ask: Callable[[Api], Coroutine[Any, Any, None]], cancel: bool
) -> None:
    authority = trustme.CA()
    inside, outside = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(inside)
    authority.configure_trust(outside)
    gc.collect()
    with beside(inside if secure else None) as server, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        for turns in [*range(TURNS)] * 3:
            asyncio.run(ended_after(turns, server, outside if secure else None, ask, cancel))
        gc.collect()
    assert [] == [str(warning.message) for warning in caught]
