"""Injected faults: each has its effect and no other."""

import asyncio

import aiohttp
import pytest
from tests.embedded.conftest import Cluster, cluster
from tests.support.patience import PATIENCE

from maar.embedded.http.faults import Faults, all_binds

CUT = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionResetError)


async def watch(c: Cluster) -> aiohttp.ClientResponse:
    return await c.session.get(c.pods, params={"watch": "true", "allowWatchBookmarks": "true"})


async def line(response: aiohttp.ClientResponse) -> bytes:
    async with asyncio.timeout(PATIENCE):
        return await response.content.readline()


def test_a_share_of_writes_fails_and_is_not_executed() -> None:
    async def main() -> None:
        async with cluster() as c:
            c.server.faults.fail_share = 0.3
            codes = []
            for i in range(100):
                pod = {"metadata": {"name": f"p{i}"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
                codes.append((await c.ask("POST", c.pods, pod))[0])
            assert {201, 429, 500} == set(codes)
            assert codes.count(201) == len(c.all_pods())
            assert 15 < codes.count(429) + codes.count(500) < 45
            assert 200 == (await c.ask("GET", c.pods))[0]

    asyncio.run(main())


def test_the_same_seed_fails_the_same_requests() -> None:
    def drawn(seed: int) -> list[int]:
        faults = Faults(fail_share=0.5, seed=seed)
        return [faults.failure("POST", "/x") for _ in range(50)]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_a_bind_whose_answer_is_lost_has_happened() -> None:
    async def main() -> None:
        async with cluster() as c:
            await c.add_pod("a")
            c.server.faults.drops = all_binds
            c.server.faults.drop_next = 1
            with pytest.raises(CUT):
                await c.bind("a", "n1")
            assert "n1" == (c.pod("a") or {})["spec"]["nodeName"]
            assert 409 == await c.bind("a", "n1")

    asyncio.run(main())


def test_watches_are_cut_periodically() -> None:
    async def main() -> None:
        async with cluster() as c:
            for _ in range(2):
                async with await watch(c) as response:
                    c.server.faults.cut_watches_every = 0.01
                    assert b"" == await line(response)
                    c.server.faults.cut_watches_every = 0.0

    asyncio.run(main())


def test_refused_connections() -> None:
    async def main() -> None:
        async with cluster() as c:
            c.server.faults.refuse = True
            with pytest.raises(CUT):
                await c.ask("GET", c.pods)
            c.server.faults.clear()
            assert 200 == (await c.ask("GET", c.pods))[0]

    asyncio.run(main())


def test_lag() -> None:
    async def main() -> None:
        async with cluster() as c:
            c.server.faults.lag = 0.05
            start = asyncio.get_running_loop().time()
            await c.ask("GET", c.pods)
            assert asyncio.get_running_loop().time() - start >= 0.05

    asyncio.run(main())


def test_a_held_request_is_executed_once_it_is_let_go() -> None:
    async def main() -> None:
        async with cluster() as c:
            c.server.faults.holds = lambda method, path: method == "POST"
            adding = asyncio.create_task(c.add_pod("a"))
            for _ in range(20):  # others are answered meanwhile
                assert [] == (await c.ask("GET", c.pods))[1]["items"]
            assert not adding.done()
            c.server.faults.clear()
            await adding
            assert 1 == len((await c.ask("GET", c.pods))[1]["items"])

    asyncio.run(main())


def test_a_stalled_watch_stays_open_and_says_nothing() -> None:
    async def main() -> None:
        async with cluster(bookmark_seconds=0.01) as c:
            c.server.faults.stall_watches = True
            response = await watch(c)
            await c.add_pod("a")
            reading = asyncio.create_task(line(response))
            for _ in range(20):  # requests are answered while the watch is stalled
                await c.ask("GET", c.pods)
            assert not reading.done()
            c.server.faults.stall_watches = False
            assert b"ADDED" in await reading
            response.close()

    asyncio.run(main())


def test_a_restart_cuts_everything_and_keeps_what_is_stored() -> None:
    async def main() -> None:
        async with cluster() as c:
            await c.add_pod("a")
            response = await watch(c)
            await line(response)
            url = c.server.url
            restarting = asyncio.create_task(c.server.restart(down=0.2))
            await c.until(lambda: response.content.is_eof() or response.content.exception())
            response.close()
            with pytest.raises(aiohttp.ClientConnectorError):
                await c.ask("GET", c.pods)
            await restarting
            assert url == c.server.url
            assert ["a"] == [p["metadata"]["name"] for p in (await c.ask("GET", c.pods))[1]["items"]]

    asyncio.run(main())
