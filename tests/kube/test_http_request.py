"""What a short request is made of, where it goes, and what it brings back."""

import pytest
from aiohttp import web
from tests.kube.peers import Peer, certified, opened, run, served, trusting
from tests.support.sockets import serving

from maar.kube.client.access import Access
from maar.kube.client.errors import Unauthorized, Unreachable


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
def test_what_is_no_server_is_unreachable(server: str) -> None:
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
            pytest.skip("no IPv6 here")

    run(main)


def test_through_a_proxy_short_requests_go_too() -> None:
    asked: list[tuple[str, str]] = []

    async def proxy(request: web.Request) -> web.Response:
        asked.append((request.method, request.headers["Host"]))
        return web.Response(body=b"{}")

    async def main() -> None:
        async with serving(proxy) as address:
            access = Access("http://kubernetes.test")
            access.proxy = address
            async with opened(access) as api:
                assert b"{}" == await api.create("/x", {})
        assert [("POST", "kubernetes.test")] == asked

    run(main)


@pytest.mark.parametrize(("status", "expected"), [(200, b"{}"), (204, b""), (307, b"{}")])
def test_success_is_whatever_is_no_refusal(status: int, expected: bytes) -> None:
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
