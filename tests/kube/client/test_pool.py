"""Which connection a request uses, and when connections are closed; none stays open."""

import asyncio
import gc
import ssl
import sys
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

import pytest
from aiohttp import web
from tests.kube.client.peers import certified, opened, pooled, run, served
from tests.support.patience import until
from tests.support.sockets import answer, serving

from maar.kube.client.access import Access
from maar.kube.client.api import Api
from maar.kube.client.errors import ApiError, Unreachable
from maar.kube.client.pool import REST_SECONDS
from maar.kube.wire.api_resources import PODS


def test_the_connection_that_was_used_last_is_used_next() -> None:
    async def main() -> None:
        async with served() as server, opened(server.url) as api:
            await asyncio.gather(*(api.get("/x") for _ in range(3)))
            for _ in range(4):
                await api.create("/x", {})
            assert 3 == len(server.peers)
            assert [1, 1, 5] == sorted(len(verbs) for verbs in server.verbs)

    run(main)


def test_requests_beyond_the_limit_wait() -> None:
    async def main() -> None:
        async with served(lambda peer: None) as server, opened(server.url, connections=2) as api:
            asking = [asyncio.create_task(api.get(f"/{i}")) for i in range(6)]
            await until(lambda: 2 == sum(map(len, server.verbs)))
            asking[3].cancel()
            for i in (0, 1, 2, 4, 5):
                await until(lambda: bool(server.asked(f"/{i}")))  # noqa: B023
                server.asked(f"/{i}")[0].say()
            done = await asyncio.gather(*asking, return_exceptions=True)
            assert 2 == len(server.peers)
            assert [b"{}"] * 5 == [each for each in done if not isinstance(each, asyncio.CancelledError)]

    run(main)


@pytest.mark.parametrize(
    ("part", "status"), [(b"", 0), (b"HTTP/1.1 200 OK\r\n\r\n{", 200)], ids=["nothing arrived", "a part arrived"]
)
def test_closing_ends_requests_in_progress_and_allows_no_others(part: bytes, status: int) -> None:
    async def main() -> None:
        async with (
            served(lambda peer: peer.say(part)) as server,
            pooled(server.url, connections=1) as (api, pool),
        ):
            asking = [asyncio.create_task(api.get("/x")) for _ in range(2)]
            await until(lambda: any(server.verbs) and [status] == [each.status for each in pool.connections])
            await api.close()
            for each in (*asking, api.get("/x")):
                with pytest.raises(Unreachable):
                    await each
            assert [["GET"]] == server.verbs

    run(main)


class Ahead(asyncio.SelectorEventLoop):
    """An event loop with a clock that a test can advance."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


def test_a_connection_that_was_idle_for_long_is_not_used() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Ahead)
        async with served() as server, opened(server.url) as api:
            await asyncio.gather(*(api.get("/x") for _ in range(3)))
            loop.ahead += REST_SECONDS / 2
            await api.get("/x")
            loop.ahead += REST_SECONDS * 0.6
            await api.get("/x")
            await until(lambda: 2 == sum(peer.ended for peer in server.peers))
            assert 3 == len(server.peers)
            loop.ahead += REST_SECONDS * 1.1
            await api.create("/x", {})
            assert 4 == len(server.peers)
            await until(lambda: 3 == sum(peer.ended for peer in server.peers))

    with asyncio.Runner(loop_factory=Ahead) as runner:
        runner.run(main())


def test_a_server_that_moves_is_followed() -> None:
    async def main() -> None:
        async with served() as old, served() as new:
            access = Access(old.url)
            async with opened(access) as api:
                await api.get("/x")
                access.server = new.url
                await api.create("/x", {})
                assert ([["GET"]], [["POST"]]) == (old.verbs, new.verbs)
                assert b"Host: " + new.url.removeprefix("http://").encode() in new.peers[0].requests[0]

    run(main)


def test_a_refusal_leaves_the_connection_usable() -> None:
    async def main() -> None:
        data = b"HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\n{}"
        async with served(lambda peer: peer.say(data)) as server, opened(server.url) as api:
            for _ in range(2):
                with pytest.raises(ApiError):
                    await api.create("/x", {})
            assert [["POST", "POST"]] == server.verbs

    run(main)


def test_a_connection_does_not_keep_its_response() -> None:
    async def main() -> None:
        async with served() as server, opened(server.url) as api:
            answer, other = await api.get("/x"), bytes(bytearray(b"{}"))
            await until(lambda: sys.getrefcount(other) == sys.getrefcount(answer))

    run(main)


TURNS = 60
"""Iterations of the event loop that cover every stage of a request over TLS: resolve, connect, handshake, send."""


@contextmanager
def beside(tls: ssl.SSLContext | None) -> Iterator[str]:
    """A server with its own event loop, which continues when the client's loop has ended."""
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
    inside, outside = certified()
    gc.collect()
    with beside(inside if secure else None) as server, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        for turns in [*range(TURNS)] * 3:
            asyncio.run(ended_after(turns, server, outside if secure else None, ask, cancel))
        gc.collect()
    assert [] == [str(warning.message) for warning in caught]
