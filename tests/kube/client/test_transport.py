"""The bytes of a request, the way to the server (also through proxies), and the response."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import web
from tests.kube.client.peers import Peer, certified, opened, run, served, trusting
from tests.support.sockets import serving, stream

from maar.kube.client.access import Access
from maar.kube.client.errors import Unauthorized, Unreachable
from maar.kube.wire.api_resources import PODS


def test_a_request_is_one_write_of_these_bytes() -> None:
    async def main() -> None:
        async with served() as server:
            async with opened(Access(server.url + "/k8s/clusters/c-1", token="secret")) as api:
                await api.create("/api/v1/a b\r\nX: y/%7Eü", {"a": 1})
                await api.get("/apis", params={"labelSelector": "a in (b,c)"})
                await api.request("POST", "/empty")
            written, read, empty = server.peers[0].requests
            first, *lines = written.partition(b"\r\n\r\n")[0].decode().split("\r\n")
            assert "POST /k8s/clusters/c-1/api/v1/a%20b%0D%0AX:%20y/%7E%C3%BC HTTP/1.1" == first
            agent = lines.pop(3)
            assert agent.startswith("User-Agent: maar/")
            assert [
                "Host: " + server.url.removeprefix("http://"),
                "Accept: application/json",
                "Accept-Encoding: identity",
                "Authorization: Bearer secret",
                "Content-Type: application/json",
                "Content-Length: 7",
            ] == lines
            assert written.endswith(b'\r\n\r\n{"a":1}')
            assert read.startswith(b"GET /k8s/clusters/c-1/apis?labelSelector=a%20in%20%28b%2Cc%29 HTTP/1.1\r\n")
            assert b"Content" not in read
            assert b"Content-Length: 0\r\n\r\n" in empty

    run(main)


def test_a_token_that_would_end_its_header_is_not_sent() -> None:
    async def main() -> None:
        async with served() as server, opened(Access(server.url, token="a\r\nX: y")) as api:
            with pytest.raises(Unauthorized):
                await api.get("/x")
            assert [] == server.peers

    run(main)


@pytest.mark.parametrize(
    "server", ["10.0.0.1:6443", "ftp://127.0.0.1", "http://:80", "http://127.0.0.1:x", "http://a..b"]
)
def test_an_invalid_server_is_unreachable(server: str) -> None:
    async def main() -> None:
        async with opened(server) as api:
            with pytest.raises(Unreachable):
                await api.get("/x")

    run(main)


def test_a_host_with_a_name_and_one_with_an_ipv6_address() -> None:
    async def main() -> None:
        async with served() as server, opened(server.url.replace("127.0.0.1", "localhost")) as api:
            assert b"{}" == await api.get("/x")
        try:
            async with served(host="::1") as server, opened(server.url) as api:
                assert b"{}" == await api.get("/x")
                assert b"\r\nHost: [::1]:" in server.peers[0].requests[0]
        except OSError:
            pytest.skip("this machine has no IPv6")

    run(main)


def test_through_a_proxy_requests_and_watches_name_the_server() -> None:
    asked: list[tuple[str, str, str]] = []

    async def proxy(request: web.Request) -> web.StreamResponse:
        asked.append((request.method, str(request.url), request.headers["Proxy-Authorization"]))
        if "watch" in request.query:
            return await stream(request, {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}})
        return web.Response(body=b"{}")

    async def main() -> None:
        async with serving(proxy) as address:
            access = Access("http://kubernetes.test/k8s")
            access.proxy = address.replace("http://", "http://me:a%20b@")
            async with opened(access) as api:
                assert b"{}" == await api.create("/x", {})
                assert ["9"] == [event.resource_version async for event in api.watch(PODS, "1", timeout_seconds=1)]
        basic = "Basic bWU6YSBi"
        url = "http://kubernetes.test/k8s/api/v1/pods?watch=true&resourceVersion=1&allowWatchBookmarks=true&timeoutSeconds=1"
        assert [("POST", "http://kubernetes.test/k8s/x", basic), ("GET", url, basic)] == asked

    run(main)


@asynccontextmanager
async def tunnelling(answer: bytes) -> AsyncIterator[tuple[str, list[str], asyncio.Queue[None]]]:
    """A proxy with this response to CONNECT: its address, the requests, and an item for each tunnel that ended."""
    heads: list[str] = []
    ended: asyncio.Queue[None] = asyncio.Queue()

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        host, port = heads[-1].split()[1].split(":")
        inner_reader, inner_writer = await asyncio.open_connection(host, int(port))
        writer.write(answer)
        await asyncio.gather(pipe(reader, inner_writer), pipe(inner_reader, writer))
        ended.put_nowait(None)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        yield f"http://me:secret@127.0.0.1:{listening.sockets[0].getsockname()[1]}", heads, ended


def test_tls_goes_through_a_tunnel_which_is_kept_and_closed_at_the_end() -> None:
    async def main() -> None:
        inside, outside = certified()
        async with (
            tunnelling(b"HTTP/1.1 200 Connection established\r\n\r\n") as (proxy, heads, ended),
            served(tls=inside) as server,
        ):
            access = trusting(server, outside)
            access.proxy = proxy
            async with opened(access) as api:
                assert [b"{}"] * 2 == [await api.create("/x", {}), await api.get("/x")]
            await ended.get()
            target = server.url.removeprefix("https://")
            basic = "Proxy-Authorization: Basic bWU6c2VjcmV0"
            assert [f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{basic}\r\n\r\n"] == heads
            assert [["POST", "GET"]] == server.verbs
            assert b"Proxy" not in server.peers[0].requests[0]

    run(main)


def test_a_proxy_that_refuses_is_unreachable_and_its_connection_is_closed() -> None:
    async def main() -> None:
        inside, outside = certified()
        refused = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
        async with tunnelling(refused) as (proxy, _, ended), served(tls=inside) as server:
            access = trusting(server, outside)
            access.proxy = proxy
            async with opened(access) as api:
                with pytest.raises(Unreachable, match=r"the proxy 127\.0\.0\.1 responded with status 407"):
                    await api.get("/x")
                await ended.get()
            access.proxy = "socks5://127.0.0.1:1"
            async with opened(access) as api:
                with pytest.raises(Unreachable, match="not the URL of an HTTP server: `socks5:"):
                    await api.get("/x")

    run(main)


@pytest.mark.parametrize(("status", "expected"), [(200, b"{}"), (204, b""), (307, b"{}")])
def test_every_status_below_400_is_a_success(status: int, expected: bytes) -> None:
    body = b"" if status == 204 else b"Content-Length: 2\r\n\r\n{}"

    async def main() -> None:
        data = b"HTTP/1.1 %d X\r\n" % status + (body or b"\r\n")
        async with served(lambda peer: peer.say(data)) as server, opened(server.url) as api:
            assert [expected] * 2 == [await api.get("/x"), await api.get("/x")]
            assert [["GET", "GET"]] == server.verbs

    run(main)


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_bodies_may_be_large_both_ways(secure: bool) -> None:
    def act(peer: Peer) -> None:
        body = peer.requests[-1].partition(b"\r\n\r\n")[2]
        peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    async def main() -> None:
        inside, outside = certified()
        async with served(act, inside if secure else None) as server, opened(trusting(server, outside)) as api:
            for size in (5_000_000, 1):
                body = bytes(range(256)) * (size // 256 + 1)
                assert body == await api.request("PUT", "/x", body=body)
            assert [["PUT", "PUT"]] == server.verbs

    run(main)
