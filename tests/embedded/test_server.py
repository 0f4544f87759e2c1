"""The server inside a program: threads, history, slow readers, speed."""

import asyncio
import http.client
import json
import time
from pathlib import Path

import aiohttp
import pytest
import yaml
from tests.embedded.conftest import cluster

from maar.embedded.objects.kinds import NODES, PODS
from maar.embedded.parts.kubelets import Kubelets
from maar.embedded.server import EmbeddedServer


def test_a_server_on_its_own_thread() -> None:
    kubelets = Kubelets(start=0.0)
    server = EmbeddedServer(parts=[kubelets]).start()
    try:
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        node = {"metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "1", "pods": "1"}}}
        connection.request("POST", "/api/v1/nodes", json.dumps(node))
        with connection.getresponse() as response:
            assert 201 == response.status
        server.call(kubelets.kill, "n1")
        assert "taints" in server.call(server.api.get, NODES, "", "n1").obj["spec"]
        connection.close()
        server.call_restart()
        connection.request("GET", "/api/v1/nodes/n1")
        with connection.getresponse() as response:
            assert 200 == response.status
        connection.close()
    finally:
        server.stop()


def test_a_port_in_use_is_an_error_in_start() -> None:
    server = EmbeddedServer().start()
    try:
        with pytest.raises(OSError, match="in use"):
            EmbeddedServer(server.port).start()
    finally:
        server.stop()


def test_a_kubeconfig(tmp_path: Path) -> None:
    server = EmbeddedServer(port=1234, token="secret")
    config = yaml.safe_load(server.kubeconfig(tmp_path / "config").read_text())
    assert "http://127.0.0.1:1234" == config["clusters"][0]["cluster"]["server"]
    assert "secret" == config["users"][0]["user"]["token"]


def test_history_is_bounded() -> None:
    async def main() -> None:
        async with cluster(history=3) as c:
            await c.add_pod("a")
            old = c.server.api.store.version
            for name in "bcd":
                await c.add_pod(name)
            async with c.session.get(c.pods, params={"watch": "true", "resourceVersion": old}) as response:
                assert "ADDED" == json.loads(await response.content.readline())["type"]
            await c.add_pod("e")
            async with c.session.get(c.pods, params={"watch": "true", "resourceVersion": old}) as response:
                event = json.loads(await response.content.readline())
                assert ("ERROR", 410) == (event["type"], event["object"]["code"])

    asyncio.run(main())


def test_a_page_of_a_list_that_is_too_old_is_gone() -> None:
    async def main() -> None:
        async with cluster(history=3) as c:
            for name in "abcd":
                await c.add_pod(name)
            _, first = await c.ask("GET", f"{c.pods}?limit=2")
            for name in "efgh":
                await c.add_pod(name)
            code, body = await c.ask("GET", f"{c.pods}?limit=2&continue={first['metadata']['continue']}")
            assert (410, "Expired") == (code, body["reason"])

    asyncio.run(main())


def test_a_reader_that_is_too_slow_is_cut() -> None:
    async def main() -> None:
        async with cluster(watch_buffer=5) as c:
            response = await c.session.get(c.pods, params={"watch": "true"})
            for i in range(20):  # in one step of the loop, so no reader can keep up
                pod = {"metadata": {"name": f"p{i}"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
                c.server.api.create(PODS, "default", pod)
            lines = (await response.read()).splitlines()
            response.close()
            assert 0 < len(lines) < 20
            assert all(json.loads(line)["type"] == "ADDED" for line in lines)
            assert 20 == len(c.all_pods())

    asyncio.run(main())


def test_bookmarks_come_regularly() -> None:
    async def main() -> None:
        async with cluster(bookmark_seconds=0.01) as c:
            now = c.server.api.store.version
            asked = {"watch": "true", "resourceVersion": str(now), "allowWatchBookmarks": "true"}
            async with c.session.get(c.pods, params=asked) as response:
                await c.add_node("elsewhere")  # another kind: this watch sees only the version advance
                mark = json.loads(await response.content.readline())
                assert "BOOKMARK" == mark["type"]
                assert now < int(mark["object"]["metadata"]["resourceVersion"])

    asyncio.run(main())


def test_an_event_is_encoded_once_for_all_watchers() -> None:
    async def main() -> None:
        async with cluster() as c:
            start = {"watch": "true", "resourceVersion": str(c.server.api.store.version)}
            watches = [await c.session.get(c.pods, params=start) for _ in range(3)]
            await c.add_pod("a")
            assert 1 == len({await w.content.readline() for w in watches})
            event = c.server.api.store.table(PODS).events[-1]
            assert event.line(PODS, "ADDED") is event.line(PODS, "ADDED")
            for w in watches:
                w.close()

    asyncio.run(main())


@pytest.mark.slow
def test_ten_thousand_pods_in_some_seconds() -> None:
    """Client and server share one process and core. It took 8 s when this test was written."""

    async def main() -> float:
        async with cluster() as c:
            waiting = asyncio.Semaphore(64)

            async def add(i: int) -> None:
                async with waiting:
                    await c.add_pod(f"p{i}")

            start = time.process_time()
            await asyncio.gather(*(add(i) for i in range(10_000)))
            took = time.process_time() - start
            _, body = await c.ask("GET", "/api/v1/pods")
            assert 10_000 == len(body["items"])
            return took

    assert asyncio.run(main()) < 60


def test_nothing_is_left_behind() -> None:
    async def main() -> None:
        async with cluster(Kubelets(start=1000.0)) as c:
            await c.add_node("n1")
            await c.add_pod("a", "n1")
            response = await c.session.get(c.pods, params={"watch": "true"})
            await response.content.readline()
            response.close()
        with pytest.raises(aiohttp.ClientConnectorError):
            async with aiohttp.ClientSession(c.server.url) as session:
                await session.get("/healthz")
        assert not c.server.handler.watches
        assert not c.server.api.store.table(PODS).listeners
        assert {asyncio.current_task()} == asyncio.all_tasks()

    asyncio.run(main())
