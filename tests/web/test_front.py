"""The HTTP process: bytes over sockets against the real process, with limits that a test can reach."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import resource
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import ClassVar

import pytest
from tests.support.front import Scheduler, fronting
from tests.support.patience import PATIENCE, until, wait_until

from maar.history.history import History
from maar.web.addresses import Address, CannotServe, listening, read_address
from maar.web.front.hosts import is_loopback, is_misled
from maar.web.front.main import LINES, LONGEST_LINE, Log
from maar.web.front.routes import HEALTH, MEASUREMENTS, PAGES
from maar.web.limits import HttpLimits, Rate, client
from maar.web.messages import LogLine
from maar.web.server import Server

IPV6 = socket.has_ipv6 and Path("/proc/net/if_inet6").exists() and Path("/proc/net/if_inet6").read_text().strip()


class Client:
    """One connection."""

    opened: ClassVar[list[Client]] = []
    """All clients of a story, which closes them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.opened.append(self)

    @classmethod
    async def to(cls, server: Server, group: str = HEALTH, source: str = "127.0.0.1") -> Client:
        port = server.port(group)
        return cls(*await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0)))

    def send(self, text: str) -> None:
        self.writer.write(text.encode("latin-1"))

    def get(self, path: str, method: str = "GET", host: str = "localhost") -> None:
        self.send(f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")

    async def answer(self, with_body: bool = True) -> tuple[int, dict[str, str], bytes]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        body = await self.reader.readexactly(int(headers["content-length"])) if with_body else b""
        return int(head[0].split()[1]), headers, body

    async def status(self, path: str, host: str = "localhost") -> int:
        self.get(path, host=host)
        return (await self.answer())[0]

    async def is_closed(self) -> bool:
        """Wait until the other end closes."""
        with contextlib.suppress(ConnectionError):
            await self.reader.read()
        return True

    @classmethod
    async def close_all(cls) -> None:
        for each in cls.opened:
            each.writer.transport.abort()
        cls.opened.clear()
        await asyncio.sleep(0)


def blocking_get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def told(
    story: Callable[[Server], Awaitable[None]],
    limits: HttpLimits | None = None,
    scheduler: Scheduler | None = None,
    history: History | None = None,
) -> None:
    async def main() -> None:
        async with fronting(history, limits=limits, scheduler=scheduler) as server:
            try:
                await story(server)
            finally:
                await Client.close_all()

    asyncio.run(main())


async def closing(story: Callable[[], Awaitable[None]]) -> None:
    """Tell a story, and close its clients."""
    try:
        await story()
    finally:
        await Client.close_all()


# -- pages


def test_states_and_pages_are_those_of_the_scheduler() -> None:
    scheduler = Scheduler()

    async def story(server: Server) -> None:
        one = await Client.to(server)
        for path in ("/healthz", "/readyz"):
            one.get(path)
            assert (200, b"ok") == ((answer := await one.answer())[0], answer[2])
        scheduler.trouble, scheduler.missing = "a task died", "not listed yet: pods\u00e9"

        async def sees(path: str, text: str) -> None:
            async def shown() -> bool:
                one.get(path)
                status, _, body = await one.answer()
                return (status, body.decode()) == (503, text)

            await until(shown, f"{path} says: {text}")

        await sees("/healthz", "a task died")
        await sees("/readyz", "not listed yet: pods\u00e9")
        one.get("/metrics")
        status, headers, body = await one.answer()
        assert (200, b"page 1\n") == (status, body)
        assert "text/plain; version=0.0.4; charset=utf-8" == headers["content-type"]
        one.get("/metrics", "HEAD")
        assert "7" == (await one.answer(with_body=False))[1]["content-length"]
        for path, method, wanted in (("/", "GET", 404), ("/metrics", "POST", 405), ("/metricsx", "GET", 404)):
            one.get(path, method)
            assert wanted == (await one.answer())[0]

    told(story, scheduler=scheduler)


def test_a_page_is_kept_for_a_second_for_all_clients() -> None:
    scheduler = Scheduler()

    async def story(server: Server) -> None:
        clients = [await Client.to(server) for _ in range(20)]
        assert await clients[0].status("/metrics") == 200
        begun = asyncio.get_running_loop().time()
        for _ in range(10):
            assert {200} == set(await asyncio.gather(*(each.status("/metrics") for each in clients)))
        seconds = asyncio.get_running_loop().time() - begun
        assert scheduler.pages <= 2 + seconds

    told(story, HttpLimits(requests_each=Rate(1e6, 1e6)), scheduler)


def test_a_page_that_takes_long_is_kept_for_longer() -> None:
    """20 ms for a page are too much for each second: the scheduler has other work."""
    scheduler = Scheduler()

    def slow() -> bytes:
        begun = os.times().user
        while os.times().user - begun < 0.05:
            pass
        return b"slow"

    scheduler.page = slow

    async def story(server: Server) -> None:
        one = await Client.to(server)
        begun = asyncio.get_running_loop().time()
        while asyncio.get_running_loop().time() - begun < 1.5:
            assert 200 == await one.status("/metrics")
        assert 1 == scheduler.pages

    told(story, HttpLimits(requests_each=Rate(1e6, 1e6), requests=Rate(1e6, 1e6)), scheduler)


def test_a_hung_scheduler_is_not_healthy() -> None:
    """This test hangs the scheduler's event loop, because its own requests block."""

    async def story(server: Server) -> None:
        url = f"http://127.0.0.1:{server.port(HEALTH)}/healthz"
        assert 200 == await (await Client.to(server)).status("/healthz")

        def refused() -> str:
            status, text = blocking_get(url)
            return text if status == 503 else ""

        assert "the scheduler has not answered for " in wait_until(refused)

    told(story, HttpLimits(hung_seconds=1.5))


# -- the process


def test_if_it_dies_it_starts_again_and_clients_wait() -> None:
    scheduler = Scheduler()

    async def story(server: Server) -> None:
        first = await Client.to(server)
        assert 200 == await first.status("/healthz")
        before = server.pid
        os.kill(before, signal.SIGKILL)
        assert await first.is_closed()
        assert 200 == await (await Client.to(server)).status("/healthz"), "the port stays open"
        assert server.pid != before
        assert 1 == scheduler.restarts

    told(story, scheduler=scheduler)


def test_it_has_low_priority_and_ends_with_the_server() -> None:
    pids: list[int] = []

    async def story(server: Server) -> None:
        assert 200 == await (await Client.to(server)).status("/healthz")
        pids.append(server.pid)
        assert os.getpriority(os.PRIO_PROCESS, server.pid) == min(os.getpriority(os.PRIO_PROCESS, 0) + 10, 19)

    told(story)
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


# -- limits


def test_requests_of_one_address_are_limited_and_health_is_not() -> None:
    async def story(server: Server) -> None:
        one = await Client.to(server)
        answers = []
        for _ in range(5):
            one.get("/metrics")
            answers.append(await one.answer())
        assert [200, 200, 200, 429, 429] == [status for status, _, _ in answers]
        assert "1" == answers[-1][1]["retry-after"]
        assert {"error": "too many requests from this address"} == json.loads(answers[-1][2])
        assert 200 == await one.status("/healthz")
        other = await Client.to(server, source="127.0.0.2")
        assert 200 == await other.status("/metrics")

    told(story, HttpLimits(requests_each=Rate(0.001, 3)))


def test_requests_of_all_addresses_are_limited() -> None:
    async def story(server: Server) -> None:
        statuses = []
        for number in range(1, 6):
            one = await Client.to(server, source=f"127.0.0.{number}")
            statuses.append(await one.status("/metrics"))
            assert 200 == await one.status("/healthz")
        assert [200, 200, 200, 429, 429] == statuses

    told(story, HttpLimits(requests=Rate(0.001, 3)))


def test_two_thousand_connections_keep_nobody_out() -> None:
    """Clients that only hold connections lose the oldest ones."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    many = 2_000
    if hard < many + 200:
        pytest.skip(f"needs {many + 200} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    async def story(server: Server) -> None:
        sockets = []
        try:
            for number in range(many):
                each = socket.socket()
                each.bind((f"127.0.1.{number % 50 + 1}", 0))
                each.setblocking(False)
                await asyncio.get_running_loop().sock_connect(each, ("127.0.0.1", server.port(HEALTH)))
                sockets.append(each)
            one = await Client.to(server)
            assert 200 == await one.status("/healthz")
            assert 200 == await one.status("/metrics")
            assert b"" == await _read(sockets[0]), "the oldest is closed"
        finally:
            for each in sockets:
                each.close()

    told(story)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def _read(each: socket.socket) -> bytes:
    try:
        return await asyncio.get_running_loop().sock_recv(each, 1)
    except ConnectionError:
        return b""


def test_connections_of_one_address_are_limited() -> None:
    async def story(server: Server) -> None:
        other = await Client.to(server, source="127.0.0.2")
        clients = [await Client.to(server) for _ in range(6)]
        for each in clients[-3:]:
            assert 200 == await each.status("/healthz")
        for each in clients[:3]:
            assert await each.is_closed()
        assert 200 == await other.status("/healthz"), "another address is not touched"

    told(story, HttpLimits(connections_each=3))


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ("GET /metrics HTTP/1.1\r\nHost: x", 408),
        ("GET /healthz HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc", 408),
    ],
)
def test_slow_clients_are_cut(sent: str, status: int) -> None:
    async def story(server: Server) -> None:
        one = await Client.to(server)
        one.send(sent)
        assert status == (await one.answer())[0]
        assert await one.is_closed()
        silent = await Client.to(server)
        assert await silent.is_closed()

    told(story, HttpLimits(head_seconds=0.1, body_seconds=0.1))


def test_clients_that_do_not_read_cost_no_memory() -> None:
    """A page of 20 MB, and 50 clients that ask for it and read nothing."""
    scheduler = Scheduler()
    scheduler.page = lambda: b"x" * 20_000_000

    async def story(server: Server) -> None:
        clients = [await Client.to(server, source=f"127.0.0.{n}") for n in range(1, 51)]
        for each in clients:
            each.writer.transport.pause_reading()  # type: ignore[attr-defined]
            each.get("/metrics")
        last = await Client.to(server)
        last.get("/metrics")
        assert 20_000_000 == len((await last.answer())[2])
        status = Path(f"/proc/{server.pid}/status").read_text()
        (peak,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
        assert peak < 200_000, "kB"

    told(story, scheduler=scheduler)


# -- bytes


LINE = "GET /healthz HTTP/1.1\r\n"
POST = "POST /v1/jobs/team/train/measurements HTTP/1.1\r\n"
ENDING = {
    "no version": ("GET /healthz\r\n\r\n", 400),
    "HTTP/2": ("GET /healthz HTTP/2.0\r\n\r\n", 400),
    "HTTP/1.2": ("GET /healthz HTTP/1.2\r\n\r\n", 400),
    "HTTP/0.9": ("GET /healthz HTTP/0.9\r\n\r\n", 400),
    "preface of HTTP/2": ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "method in lower case": ("get /healthz HTTP/1.1\r\n\r\n", 400),
    "unknown method": ("BREW /healthz HTTP/1.1\r\n\r\n", 400),
    "binary": ("\x00\xff\r\n\r\n", 400),
    "TLS": ("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + "\x00" * 500, 400),
    "a response": ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 400),
    "space in the target": ("GET /health z HTTP/1.1\r\n\r\n", 400),
    "NUL in the target": ("GET /health\x00z HTTP/1.1\r\n\r\n", 400),
    "no colon": (f"{LINE}no colon\r\n\r\n", 400),
    "no name": (f"{LINE}: x\r\n\r\n", 400),
    "folded first header": (f"{LINE} folded: x\r\n\r\n", 400),
    "folded header": (f"{LINE}a: b\r\n folded: x\r\n\r\n", 400),
    "space before the colon": (f"{LINE}name : x\r\n\r\n", 400),
    "bare LF in a value": (f"{LINE}a: x\ny\r\n\r\n", 400),
    "bare LF between headers": (f"{LINE}a: x\nb: y\r\n\r\n", 400),
    "bare LF everywhere": ("GET /healthz HTTP/1.1\na: b\n\n", 400),
    "bare CR": (f"{LINE}a: x\ry\r\n\r\n", 400),
    "NUL in a value": (f"{LINE}a: x\x00y\r\n\r\n", 400),
    "Content-Length twice": (f"{LINE}Content-Length: 1\r\nContent-Length: 1\r\n\r\n", 400),
    "Content-Length twice, different": (f"{LINE}Content-Length: 0\r\nContent-Length: 9\r\n\r\n", 400),
    "two lengths in one": (f"{LINE}Content-Length: 1, 1\r\n\r\n", 400),
    "negative length": (f"{LINE}Content-Length: -1\r\n\r\n", 400),
    "length with a sign": (f"{LINE}Content-Length: +1\r\n\r\n", 400),
    "length in hexadecimal": (f"{LINE}Content-Length: 0x5\r\n\r\n", 400),
    "no length": (f"{LINE}Content-Length:\r\n\r\n", 400),
    "huge length": (f"{LINE}Content-Length: {'9' * 5000}\r\n\r\n", 400),
    "length and chunks": (f"{LINE}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "chunks and length": (f"{LINE}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400),
    "another encoding": (f"{LINE}Transfer-Encoding: gzip\r\n\r\n", 400),
    "chunks, then another encoding": (f"{LINE}Transfer-Encoding: chunked, gzip\r\n\r\n", 400),
    "Host twice": (f"{LINE}Host: a\r\nHost: b\r\n\r\n", 400),
    "Authorization twice": (f"{POST}Authorization: a\r\nAuthorization: b\r\n\r\n", 400),
    "only line ends": ("\r\n\r\n\r\n\r\n", 400),
    "garbage without an end": ("x" * 17_000, 400),
    "chunks": (f"{LINE}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 411),
    "huge chunk": (f"{LINE}Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFFF\r\nhello", 411),
    "long chunk extension": (f"{LINE}Transfer-Encoding: chunked\r\n\r\n5;{'x' * 20_000}", 411),
    "large body": (f"{LINE}Content-Length: 999999999\r\n\r\n", 413),
    "long target": (f"GET /{'a' * 5_000} HTTP/1.1\r\n\r\n", 414),
    "compressed body": (f"{POST}Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", 415),
    "long header": (f"{LINE}a: {'x' * 17_000}", 431),
    "many headers": (LINE + "a: b\r\n" * 4_000, 431),
    "no such path, with a body": ("POST /nothing HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 404),
    "method not allowed, with a body": ("POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 405),
    "no token, with a body": (f"{POST}Content-Length: 3\r\n\r\nabc", 401),
    "a tunnel": ("CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\nGET / HTTP/1.1\r\n\r\n", 404),
    "an upgrade": (f"{LINE}Connection: Upgrade\r\nUpgrade: h2c\r\n\r\nPRI * HTTP/2.0\r\n\r\n", 200),
    "a websocket": (f"{LINE}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x05hello", 200),
}
"""What ends a connection, with the status of its answer."""
STAYING = {
    "no such path": ("GET /nothing HTTP/1.1\r\n\r\n", 404),
    "method not allowed": ("POST /metrics HTTP/1.1\r\n\r\n", 405),
    "no token": (f"{POST}\r\n", 401),
    "no name of a job": ("GET /v1/jobs/TEAM/x/measurements HTTP/1.1\r\n\r\n", 400),
}
"""What is refused, and leaves the connection open: it is whole, and no body follows."""


async def _rest(one: Client) -> list[int]:
    """The statuses of all answers until the connection ends, without their bodies."""
    statuses = []
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            statuses.append((await one.answer())[0])
    return statuses


@pytest.mark.parametrize("before", ["nothing", "answered", "in one piece", "refused"])
def test_what_is_no_request_gets_one_answer_and_ends_the_connection(before: str, tmp_path: Path) -> None:
    """As the first request of a connection, and as a further one."""
    good = {"answered": LINE + "\r\n", "in one piece": LINE + "\r\n", "refused": "GET /nothing HTTP/1.1\r\n\r\n"}

    async def story(server: Server) -> None:
        async with asyncio.timeout(PATIENCE):
            for name, (sent, status) in ENDING.items():
                one = await Client.to(server)
                if before in ("answered", "refused"):
                    one.send(good[before])
                    assert (200 if before == "answered" else 404) == (await one.answer())[0], name
                one.send(good[before] + sent if before == "in one piece" else sent)
                expected = [200, status] if before == "in one piece" else [status]
                assert expected == await _rest(one), name
                await Client.close_all()
            assert 200 == await (await Client.to(server)).status("/healthz")

    history = History(str(tmp_path / "history.db"))
    told(story, HttpLimits(requests=Rate(1e6, 1e6), requests_each=Rate(1e6, 1e6)), history=history)


@pytest.mark.parametrize("before", ["", LINE + "\r\n"])
def test_a_whole_request_that_is_refused_leaves_the_connection_open(before: str, tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        for name, (sent, status) in STAYING.items():
            one = await Client.to(server)
            one.send(before + sent + LINE + "\r\n" + sent)
            expected = [*([200] if before else []), status, 200, status]
            assert expected == [(await one.answer())[0] for _ in expected], name
            assert 200 == await one.status("/healthz"), name

    history = History(str(tmp_path / "history.db"))
    told(story, HttpLimits(requests=Rate(1e6, 1e6), requests_each=Rate(1e6, 1e6)), history=history)


@pytest.mark.parametrize("before", ["", LINE + "\r\n"])
@pytest.mark.parametrize("sent", [LINE + "Host: x", f"{LINE}Content-Length: 9\r\n\r\nabc"])
def test_what_does_not_arrive_in_time_is_refused_once(sent: str, before: str) -> None:
    async def story(server: Server) -> None:
        one = await Client.to(server)
        one.send(before + sent)
        assert ([200, 408] if before else [408]) == await _rest(one)

    told(story, HttpLimits(head_seconds=0.1, body_seconds=0.1))


def test_a_flood_in_one_piece_ends_with_the_first_refusal() -> None:
    """A valid request, and then garbage: the bytes that were refused are not read again."""

    async def story(server: Server) -> None:
        one = await Client.to(server)
        one.send(LINE + "\r\n" + "garbage\r\n\r\n" * 1_000)
        async with asyncio.timeout(PATIENCE):
            assert [200, 400] == await _rest(one)

    told(story)


def test_a_head_may_arrive_byte_by_byte() -> None:
    async def story(server: Server) -> None:
        one = await Client.to(server)
        for text in (f"{LINE}Host: maar\r\n\r\n", "GET /nothing HTTP/1.1\r\n\r\n"):
            for each in text:
                one.send(each)
                await one.writer.drain()
                await asyncio.sleep(0)
        assert [200, 404] == [(await one.answer())[0] for _ in range(2)]

    told(story)


def test_several_requests_may_be_sent_at_once() -> None:
    async def story(server: Server) -> None:
        one = await Client.to(server)
        for path in ("/metrics", "/healthz", "/nothing", "/metrics", "/healthz"):
            one.get(path)
        assert [200, 200, 404, 200, 200] == [(await one.answer())[0] for _ in range(5)]
        one.send("GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n")
        assert 200 == (await one.answer())[0]
        assert await one.is_closed()
        old = await Client.to(server)
        old.send("GET /healthz HTTP/1.0\r\n\r\n")
        assert 200 == (await old.answer())[0]
        assert await old.is_closed()

    told(story)


@pytest.mark.parametrize(("path", "body"), [("/nothing", "no such path"), ("/healthz", "ok")])
def test_thousands_of_requests_in_one_piece_are_answered_in_turns(
    path: str, body: str, caplog: pytest.LogCaptureFixture
) -> None:
    many = 3_000

    async def story(server: Server) -> None:
        one, other = await Client.to(server), await Client.to(server)
        one.send(f"GET {path} HTTP/1.1\r\n\r\n" * many)
        other.send("GET /readyz HTTP/1.1\r\n\r\n")
        seen = []
        for number in range(many):
            status, _, text = await one.answer()
            assert (200, b"ok") == (status, text) if path == "/healthz" else status in (404, 429)
            seen.append(text)
            if number == many // 2:
                assert 200 == (await other.answer())[0]
        assert body in seen[0].decode()

    told(story, HttpLimits(requests=Rate(1, many)))
    assert [] == [record.getMessage()[:200] for record in caplog.records]


def test_unknown_paths_count_as_requests() -> None:
    async def story(server: Server) -> None:
        one = await Client.to(server)
        assert [404, 404, 429] == [await one.status(path) for path in ("/a", "/b", "/c")]

    told(story, HttpLimits(requests_each=Rate(0.01, 2)))


def test_what_it_logs_is_short_and_rare() -> None:
    sent: list[LogLine] = []

    class Sink:
        def send(self, message: LogLine) -> None:
            sent.append(message)

    log = logging.Logger("http", logging.WARNING)
    log.addHandler(Log(Sink()))  # type: ignore[arg-type]
    for _ in range(100):
        log.error("x" * 1_000_000)
    assert int(LINES.burst) == len(sent)
    assert all(len(said.text) < 2 * LONGEST_LINE for said in sent)


# -- addresses


def test_health_and_metrics_may_have_their_own_addresses() -> None:
    async def story() -> None:
        async with fronting(health=Address("127.0.0.2", 0), metrics=Address("127.0.0.3", 0)) as server:
            for group, host, path in ((HEALTH, "127.0.0.2", "/healthz"), (PAGES, "127.0.0.3", "/metrics")):
                one = Client(*await asyncio.open_connection(host, server.port(group)))
                assert 200 == await one.status(path)
                others = {"/healthz", "/readyz", "/metrics"} - {path, "/readyz" if group == HEALTH else path}
                assert {404} == {await one.status(other) for other in others}
            common = Client(*await asyncio.open_connection("127.0.0.1", server.port(MEASUREMENTS)))
            assert {404} == {await common.status(path) for path in ("/healthz", "/readyz", "/metrics")}

    asyncio.run(closing(story))


@pytest.mark.skipif(not IPV6, reason="no IPv6 here")
@pytest.mark.parametrize("host", ["", "::1"])
def test_it_serves_ipv6(host: str) -> None:
    async def story() -> None:
        async with fronting(address=Address(host, 0)) as server:
            for where in ("::1", "127.0.0.1") if not host else ("::1",):
                one = Client(*await asyncio.open_connection(where, server.port(HEALTH)))
                assert 200 == await one.status("/healthz")

    asyncio.run(closing(story))


# -- names that were made to lead here

EVIL = ("evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "maar.maar-system", "")
OURS = ("localhost", "LOCALHOST:8080", "127.0.0.1", "127.0.0.1:8080", "127.8.0.1", "[::1]", "[::1]:8080")


@pytest.mark.parametrize("remote", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_from_this_host_only_its_own_names_lead_here(remote: str) -> None:
    assert list(EVIL) == [host for host in (*EVIL, *OURS) if is_misled(host, remote)]
    assert [] == [host for host in (*EVIL, *OURS) if is_misled(host, "10.0.0.1")], "a Service has any name"


@pytest.mark.parametrize("where", ["127.0.0.1", pytest.param("::1", marks=pytest.mark.skipif(not IPV6, reason="IPv6"))])
def test_a_page_of_another_site_cannot_read_metrics(where: str) -> None:
    """DNS rebinding: for a browser, the name of the other site has the address of this host."""

    async def story() -> None:
        async with fronting(address=Address("", 0)) as server:
            one = Client(*await asyncio.open_connection(where, server.port(PAGES)))
            assert [403] * len(EVIL) == [await one.status("/metrics", host) for host in EVIL]
            assert [200] * len(OURS) == [await one.status("/metrics", host) for host in OURS]
            assert 200 == await one.status("/healthz", "evil.example"), "probes may use any name"
            one.send("GET /metrics HTTP/1.0\r\n\r\n")
            assert 403 == (await one.answer())[0], "no name at all"

    asyncio.run(closing(story))


def test_another_host_may_use_any_name() -> None:
    """Prometheus scrapes the address of a pod, and people ask a Service by its name."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # nothing is sent: it only chooses the address of this host
        mine = probe.getsockname()[0]
    if is_loopback(mine):
        pytest.skip("this machine has no other address")

    async def story() -> None:
        async with fronting(address=Address("", 0)) as server:
            one = Client(*await asyncio.open_connection(mine, server.port(PAGES)))
            for host in (f"{mine}:8080", "maar.maar-system.svc:8080", "maar", "localhost"):
                assert 200 == await one.status("/metrics", host), host

    asyncio.run(closing(story))


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:80", Address("127.0.0.1", 80)),
        (":8081", Address("", 8081)),
        ("[::1]:65535", Address("::1", 65535)),
        ("localhost:0", Address("localhost", 0)),
    ],
)
def test_addresses_are_read(text: str, address: Address) -> None:
    assert address == read_address(text)


@pytest.mark.parametrize("text", ["8080", "", "a:", "a:b", "a:65536", "a:-1", "a:" + "9" * 5000, "::1:80", "a:\u0661"])
def test_bad_addresses_are_refused(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"expected HOST:PORT with a port from 0 to 65535|an IPv6 address needs brackets"
    ):
        read_address(text)


def test_what_cannot_be_served_is_told() -> None:
    with listening(Address("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for address, why in (
            (Address("127.0.0.1", port), f"127.0.0.1:{port}: Address already in use"),
            (Address("", 65536), "port 65536: not from 0 to 65535"),
            (Address("192.0.2.1", 80), "192.0.2.1:80: Cannot assign requested address"),
        ):
            with pytest.raises(CannotServe) as refused:
                listening(address)
            assert why == str(refused.value)


@pytest.mark.parametrize(
    ("host", "its"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8::1", "2001:db8::"),
        ("2001:db8::ffff:2", "2001:db8::"),
        ("2001:db8:0:1::1", "2001:db8:0:1::"),
        ("fe80::1%eth0", "fe80::"),
        ("::1", "::1"),
        ("::ffff:127.0.0.1", "127.0.0.1"),
    ],
)
def test_limits_belong_to_an_address_or_a_network(host: str, its: str) -> None:
    assert its == client(host)


def test_it_imports_little() -> None:
    """The process starts in a tenth of a second and stays small."""

    async def story(server: Server) -> None:
        assert 200 == await (await Client.to(server)).status("/healthz")
        status = Path(f"/proc/{server.pid}/status").read_text()
        (memory,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
        assert memory < 40_000, "kB"
        maps = Path(f"/proc/{server.pid}/maps").read_text()
        assert [] == [name for name in ("numpy", "sqlalchemy", "aiohttp", "_sqlite3") if name in maps]

    told(story)
