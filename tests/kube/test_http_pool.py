"""Which connection a request takes, and when connections are let go."""

import asyncio
import sys

import pytest
from tests.kube.peers import opened, run, served, turns
from tests.support.sockets import until

from maar.kube.client.access import Access
from maar.kube.client.api import Api
from maar.kube.client.errors import ApiError, Unreachable
from maar.kube.client.http_pool import REST_SECONDS


def test_the_connection_that_was_used_last_is_used_next() -> None:
    async def main() -> None:
        async with served() as server, opened(server.url) as api:
            await asyncio.gather(*(api.get("/x") for _ in range(3)))
            for _ in range(4):
                await api.create("/x", {})
            assert 3 == len(server.peers)
            assert [1, 1, 5] == sorted(len(verbs) for verbs in server.verbs)

    run(main)


def test_requests_beyond_the_limit_wait_for_their_turn() -> None:
    async def main() -> None:
        async with served(lambda peer: None) as server, opened(server.url, connections=2) as api:
            asking = [asyncio.create_task(api.get(f"/{i}")) for i in range(6)]
            await until(lambda: 2 == sum(map(len, server.verbs)))
            asking[3].cancel()
            for i in (0, 1, 2, 4, 5):
                await until(lambda i=i: bool(server.asked(f"/{i}")))  # type: ignore[misc]
                server.asked(f"/{i}")[0].say()
            done = await asyncio.gather(*asking, return_exceptions=True)
            assert 2 == len(server.peers)
            assert [b"{}"] * 5 == [each for each in done if not isinstance(each, asyncio.CancelledError)]

    run(main)


@pytest.mark.parametrize("part", [b"", b"HTTP/1.1 200 OK\r\n\r\n{"], ids=["nothing came", "a part came"])
def test_closing_ends_requests_under_way_and_allows_no_others(part: bytes) -> None:
    async def main() -> None:
        async with served(lambda peer: peer.say(part)) as server:
            api = await Api.open(Access(server.url), connections=1)
            asking = [asyncio.create_task(api.get("/x")) for _ in range(2)]
            await until(lambda: any(server.verbs))
            await turns()
            await api.close()
            for each in (*asking, api.get("/x")):
                with pytest.raises(Unreachable):
                    await each
            assert [["GET"]] == server.verbs

    run(main)


class Ahead(asyncio.SelectorEventLoop):
    """A loop whose clock can be put forward."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


def test_a_connection_that_rested_for_long_is_not_used() -> None:
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


def test_an_answer_is_not_kept_by_its_connection() -> None:
    async def main() -> None:
        async with served() as server, opened(server.url) as api:
            answer, other = await api.get("/x"), bytes(bytearray(b"{}"))
            await turns()
            assert sys.getrefcount(other) == sys.getrefcount(answer)

    run(main)
