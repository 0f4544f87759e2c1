"""Servers that close connections, are slow, send nonsense or send nothing, and callers that give up."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest
from tests.kube.client.peers import OK, Peer, certified, opened, pooled, run, served, trusting
from tests.support.patience import until

from maar.kube.client.errors import Unreachable
from maar.kube.wire.api_resources import PODS


def test_a_server_that_closes_idle_connections_loses_no_request() -> None:
    async def main() -> None:
        async with served() as server, pooled(server.url) as (api, pool):
            for _ in range(3):
                await api.create("/x", {})
                server.peers[-1].transport.close()
                await until(lambda: not pool.connections)
            assert [["POST"]] * 3 == server.verbs

    run(main)


def test_data_on_an_idle_connection_is_ignored() -> None:
    async def main() -> None:
        async with served() as server, pooled(server.url) as (api, pool):
            await api.create("/x", {})
            server.peers[0].say(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
            await until(lambda: not pool.connections)
            assert b"{}" == await api.create("/x", {})
            assert [["POST"], ["POST"]] == server.verbs

    run(main)


def test_a_request_on_a_dead_connection_is_sent_again_only_if_it_reads() -> None:
    def act(peer: Peer) -> None:
        if len(peer.requests) == 1:
            peer.say()
        else:
            peer.transport.abort()

    async def main() -> None:
        async with served(act) as server, opened(server.url) as api:
            await api.create("/x", {})
            assert b"{}" == await api.get("/x")
            assert [["POST", "GET"], ["GET"]] == server.verbs
        for verb in ("POST", "PUT", "PATCH", "DELETE"):
            async with served(act) as server, opened(server.url) as api:
                await api.get("/x")
                with pytest.raises(Unreachable) as caught:
                    await api.request(verb, "/x", body={})
                assert (verb, "/x") == (caught.value.verb, caught.value.path)
                assert [["GET", verb]] == server.verbs

    run(main)


def test_a_new_connection_that_dies_is_not_replaced() -> None:
    async def main() -> None:
        async with served(lambda peer: peer.transport.abort()) as server, opened(server.url) as api:
            with pytest.raises(Unreachable):
                await api.get("/x")
            assert [["GET"]] == server.verbs

    run(main)


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_a_server_that_closes_each_new_connection_is_not_waited_for(secure: bool) -> None:
    async def main() -> None:
        inside, outside = certified()
        for patience in range(12):
            async with served(tls=inside if secure else None) as server:
                server.welcome = lambda peer, after=patience: later(after, peer.transport.abort)  # type: ignore[misc]
                async with opened(trusting(server, outside)) as api:
                    with suppress(Unreachable):
                        assert b"{}" == await api.create("/x", {})

    run(main)


def later(after: int, call: Callable[[], None]) -> None:
    """Calls after this many iterations of the event loop."""
    loop = asyncio.get_running_loop()
    loop.call_soon(*((later, after - 1, call) if after else (call,)))


def test_a_request_with_a_partial_response_is_not_sent_again() -> None:
    def act(peer: Peer) -> None:
        peer.say(OK if len(peer.requests) == 1 else OK[:-1])
        if len(peer.requests) > 1:
            peer.transport.close()

    async def main() -> None:
        async with served(act) as server, opened(server.url) as api:
            await api.get("/x")
            with pytest.raises(Unreachable, match="in the middle of a response"):
                await api.get("/x")
            assert [["GET", "GET"]] == server.verbs

    run(main)


@pytest.mark.parametrize(
    "data",
    [OK, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1;x\r\n}\r\n0\r\nA: b\r\n\r\n"],
    ids=["sized", "chunked"],
)
def test_a_server_that_responds_byte_by_byte(data: bytes) -> None:
    def act(peer: Peer) -> None:
        async def dawdle() -> None:
            for byte in data:
                peer.say(bytes([byte]))
                await asyncio.sleep(0)

        tasks.add(asyncio.create_task(dawdle()))

    tasks: set[asyncio.Task[None]] = set()

    async def main() -> None:
        async with served(act) as server, opened(server.url) as api:
            assert [b"{}"] * 2 == [await api.create("/x", {}), await api.get("/x")]
            assert [["POST", "GET"]] == server.verbs

    run(main)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n\r\n{}",
        b"HTTP/1.0 200 OK\r\n\r\n{}",
    ],
)
@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_a_server_that_responds_and_closes_the_connection(data: bytes, secure: bool) -> None:
    def act(peer: Peer) -> None:
        peer.say(data)
        peer.transport.close()

    async def main() -> None:
        inside, outside = certified()
        async with served(act, inside if secure else None) as server, opened(trusting(server, outside)) as api:
            assert [b"{}"] * 2 == [await api.create("/x", {}), await api.create("/x", {})]
            assert [["POST"], ["POST"]] == server.verbs

    run(main)


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: rot13\r\n\r\n",
        b"\0" * 9,
    ],
)
def test_nonsense_is_unreachable_at_once_and_its_connection_is_closed(data: bytes) -> None:
    async def main() -> None:
        async with served(lambda peer: peer.say(data)) as server, opened(server.url) as api:
            with pytest.raises(Unreachable, match=server.url):
                await api.create("/x", {})
            await until(lambda: server.peers[0].ended)

    run(main)


def test_a_request_without_a_response_times_out_and_a_late_response_is_dropped() -> None:
    async def main() -> None:
        async with served(lambda peer: None) as server, opened(server.url) as api:
            with pytest.raises(Unreachable, match="in time"):
                await api.request("POST", "/x", body={}, timeout=0.02)
            server.peers[0].say(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate")
            server.act = Peer.say
            assert b"{}" == await api.get("/x")
            await until(lambda: server.peers[0].ended)
            assert [["POST"], ["GET"]] == server.verbs

    run(main)


def test_a_request_that_is_cancelled_closes_its_connection() -> None:
    async def main() -> None:
        async with served(lambda peer: peer.say(OK[:20])) as server, opened(server.url) as api:
            asking = asyncio.create_task(api.get("/x"))
            await until(lambda: any(server.verbs))
            asking.cancel()
            await asyncio.wait([asking])
            assert asking.cancelled()
            await until(lambda: server.peers[0].ended)
            server.act = Peer.say
            assert b"{}" == await api.get("/x")

    run(main)


BOOKMARK = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}\n'


def test_the_rest_of_an_abandoned_watch_is_not_the_next_response() -> None:
    begin = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (2 * len(BOOKMARK)) + BOOKMARK

    async def main() -> None:
        async with (
            served(lambda peer: peer.say(begin if len(peer.requests) == 1 else OK)) as server,
            pooled(server.url) as (api, pool),
        ):
            events = api.watch(PODS, "1")
            assert "9" == (await anext(events)).resource_version
            server.peers[0].say(BOOKMARK)
            await until(lambda: [True] == [each.usable for each in pool.connections])
            await events.aclose()
            assert b"{}" == await api.get("/x")
            assert [["GET", "GET"]] == server.verbs

    run(main)


def test_closing_ends_a_watch_with_an_error_also_while_its_reader_is_busy() -> None:
    async def main() -> None:
        begin = b"HTTP/1.1 200 OK\r\n\r\n" + BOOKMARK
        async with served(lambda peer: peer.say(begin)) as server, pooled(server.url) as (api, pool):
            events = api.watch(PODS, "1")
            assert "9" == (await anext(events)).resource_version
            await api.close()
            await until(lambda: not pool.connections)
            with pytest.raises(Unreachable):
                await anext(events)

    run(main)
