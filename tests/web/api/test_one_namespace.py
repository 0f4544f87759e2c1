"""`maar web` in the hands of a user of one namespace, of another site, and of a thousand clients; over sockets.

She may do nothing in other namespaces, and learns no name of theirs: by no listener, no method, no recording and no
stream, also not by the difference between two answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession, TCPConnector
from tests.support.patience import PATIENCE, until
from tests.support.web import ADMIN, MINE, THEIRS, USER, Client, Web, webbing
from tests.web.api.test_aggregated import AS_USER, Front, fronted
from tests.web.api.test_api import Story, scene
from tests.web.api.test_expensive import memory
from tests.web.api.test_recordings import recorded
from tests.web.api.test_writes import job, pod

from maar.web.api.roots import ROOT
from maar.web.authentication import SECONDS
from maar.web.limits import HttpLimits, Rate

HIDDEN = b"aq7"
"""Every name of the other namespace begins with it."""
FREE = HttpLimits(
    user_requests=Rate(1e6, 1e6), requests_each=Rate(1e6, 1e6), computing=Rate(1e6, 1e6), reading=Rate(1e6, 1e6)
)
NOTHING = "aq7nothing"
"""No object has this name."""


def told(tmp_path: Path, story: Story, **options: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE), webbing(tmp_path, **{"limits": FREE, **options}) as web:
            await scene(web)
            await story(web)

    asyncio.run(main())


Ask = Callable[..., Awaitable[tuple[int, bytes]]]
READS = (
    "/whoami",
    "/cluster",
    "/utilisation",
    "/queues",
    "/nodes",
    "/jobs",
    f"/jobs?namespace={THEIRS}",
    "/jobs?queue=red&sort=-since&limit=10000",
    "/jobs?owner=PodGroup",
    f"/jobs/{MINE}/waits",
    f"/jobs/{MINE}/runs?unblock=false",
    "/decisions",
    "/decisions?limit=10000",
    f"/decisions?job={MINE}/waits",
    "/decisions?recording=week.rec",
    "/decisions?recording=week.rec&before=2&limit=1",
    "/recordings",
    "/forecasts",
    "/openapi.json",
)
EDITS: tuple[dict[str, Any], ...] = (
    {"edit": "remove-nodes", "nodes": ["n1"]},
    {"edit": "add-nodes-like", "like": "n1", "count": 3},
    {"edit": "set-priority", "job": f"{MINE}/waits", "priority": 1000},
    {"edit": "set-weight", "queue": "red", "weight": 9},
    {"edit": "set-queue", "job": f"{MINE}/waits", "queue": "nothing"},
    {"edit": "cordon", "nodes": ["nothing"]},
)


def twins(name: str) -> list[tuple[str, Any]]:
    """Questions about an object of the other namespace: the answer must be the same if there is none."""
    key = f"{THEIRS}/{name}"
    edits: list[dict[str, Any]] = [
        {"edit": "end-jobs", "jobs": [key]},
        {"edit": "release", "job": key},
        {"edit": "set-minimum", "job": key, "minimum": 1},
        {"edit": "set-priority", "job": key, "priority": 1},
        {"edit": "set-queue", "job": key, "queue": "red"},
        {"edit": "set-request", "job": key, "resource": "cpu", "amount": 1},
        {"edit": "end-reservation", "job": key},
        {"edit": "set-quota", "quota": key, "hard": {"cpu": 1}},
    ]
    asked: list[tuple[str, Any]] = [(f"/jobs/{key}", None), (f"/jobs/{key}?unblock=false", None)]
    asked += [(f"/decisions?job={key}", None), (f"/decisions?recording=week.rec&job={key}", None)]
    asked += [("/what-if", {"edits": [edit], "seconds": 0}) for edit in edits]
    for when in ({"recording": "week.rec", "decision": 1}, {"decision": 1}):
        asked += [("/what-if", {"edits": [edits[0]], "seconds": 0, **when})]
    foreign = {**job(name, THEIRS), "metadata": {**job(name, THEIRS)["metadata"]}}
    asked += [("/what-if", {"manifests": [foreign], "seconds": 0})]
    return asked


async def sweep(ask: Ask) -> None:
    """Every read, and every question: no answer has a name of the other namespace."""
    for path in READS:
        status, body = await ask(path)
        assert (200, False) == (status, HIDDEN in body), (path, body)
    for edit in EDITS:
        for when in ({}, {"recording": "week.rec", "decision": 1}):
            status, body = await ask("/what-if", {"edits": [edit], "seconds": 0, **when})
            assert (True, False) == (status in (200, 422), HIDDEN in body), (edit, body)
    for real in ("aq7runs", "aq7waits", "aq7low"):
        for (path, body), (other, nothing) in zip(twins(real), twins(NOTHING), strict=True):
            status, answer = await ask(path, body)
            assert (status, answer) == await ask(other, nothing), "an answer tells whether it exists"
            assert (True, False) == (status in (403, 404, 422), HIDDEN in answer), (path, body, answer)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "recordings"
    made.mkdir()
    recorded(made / "week.rec")
    return made


def test_a_user_of_one_namespace_learns_no_name_of_another(tmp_path: Path, folder: Path) -> None:
    async def story(web: Web) -> None:
        user, admin = await web.as_user(USER), await web.as_user(ADMIN)
        await sweep(lambda path, body=None: user.ask(f"/api/v1{path}", body))
        for path in ("/jobs", "/nodes", "/decisions?recording=week.rec"):
            assert HIDDEN in (await admin.ask(f"/api/v1{path}"))[1], "there is something to hide"

    told(tmp_path, story, writes=True, recordings=folder)


def test_the_aggregated_api_tells_her_no_more(tmp_path: Path, folder: Path) -> None:
    async def story(web: Web) -> None:
        async with fronted(web, tmp_path, 60.0) as front:

            async def ask(path: str, body: Any = None) -> tuple[int, bytes]:
                status, answer = await front.as_proxy(path, body=body)
                return status, msgspec.json.encode(answer)

            await sweep(ask)
            async for line in lines(front):
                assert HIDDEN not in line, line

    async def lines(front: Front) -> AsyncIterator[bytes]:
        url = f"https://127.0.0.1:{front.port}{ROOT}/stream"
        connector = TCPConnector(ssl=front.context(front.proxies))
        async with ClientSession(connector=connector) as session, session.get(url, headers=AS_USER) as answer:
            for name in ("aq7first", "aq7second"):
                for _ in range(3):
                    yield await answer.content.readline()
                await front.web.gang(THEIRS, name, 1, gpu=1)

    told(tmp_path, story, writes=True, recordings=folder)


# -- writes


class Rights:
    """Kubernetes' rights of the user: everything in her namespace, and nothing else."""

    def __init__(self, web: Web) -> None:
        self.refused = 0
        web.server.handler.permits = self

    def __call__(self, user: str, method: str, path: str) -> bool:
        """Of ServiceAccounts only: `maar web` itself has a certificate."""
        if not user.endswith(f":{USER}") or f"/namespaces/{MINE}/" in path or "selfsubjectreviews" in path:
            return True
        self.refused += method != "GET"
        return False


def writes(name: str) -> list[tuple[str, str, Any]]:
    """Writes to the other namespace."""
    foreign = job(name, THEIRS)
    hidden = {k: v for k, v in foreign.items() if k != "metadata"}
    unnamed = {**hidden, "metadata": {"generateName": name, "namespace": THEIRS}}
    listed = {"apiVersion": "v1", "kind": "List", "items": [foreign]}
    return [
        ("POST", "/jobs", {"manifests": [foreign]}),
        ("POST", "/jobs", {"manifests": [foreign], "dryRun": True}),
        ("POST", "/jobs", {"manifests": [pod(name)], "namespace": THEIRS}),
        ("POST", "/jobs", {"manifests": [job("mine-too"), foreign]}),
        ("POST", "/jobs", {"manifests": [foreign], "namespace": MINE}),
        ("POST", "/jobs", {"manifests": [unnamed]}),
        ("POST", "/jobs", {"manifests": [listed]}),
        ("POST", "/jobs", {"manifests": msgspec.json.encode(foreign).decode()}),
        ("POST", "/jobs", {"manifests": [job("x", f"{MINE}/../{THEIRS}")]}),
        ("POST", "/jobs", {"manifests": [pod("x")], "namespace": f"../namespaces/{THEIRS}"}),
        ("POST", "/jobs", {"manifests": [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}]}),
        ("PATCH", f"/jobs/{THEIRS}/{name}", {"hold": True}),
        ("PATCH", f"/jobs/{THEIRS}/{name}?kind=PodGroup", {"queue": "red"}),
        ("PATCH", f"/jobs/{MINE}%2F..%2F{THEIRS}/{name}", {"hold": True}),
        ("PATCH", f"/jobs/{MINE}/..%2F..%2F{THEIRS}%2Fpods%2F{name}", {"hold": True}),
        ("DELETE", f"/jobs/{THEIRS}/{name}", None),
        ("DELETE", f"/jobs/{THEIRS}/{name}?kind=pod", None),
        ("DELETE", f"/jobs/{MINE}/%2e%2e%2f{THEIRS}%2f{name}", None),
    ]


def test_she_writes_nothing_in_another_namespace_and_learns_no_name(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        rights, user = Rights(web), await web.as_user(USER)
        before = await web.cluster.versions()
        for real, nothing in zip(writes("aq7waits"), writes("aq7nowhere"), strict=True):
            answers = []
            for (method, path, body), name in ((real, "aq7waits"), (nothing, "aq7nowhere")):
                status, text = await user.ask(f"/api/v1{path}", body, method=method)
                assert status in (400, 403, 404, 422), (method, path, text)
                assert b"aq7runs" not in text
                answers.append((status, text.replace(name.encode(), b"NAME")))
            assert answers[0] == answers[1], "an answer tells whether it exists"
        assert before == await web.cluster.versions(), "something was written"
        assert rights.refused > 5, "it was Kubernetes that refused them"
        assert 201 == (await user.ask("/api/v1/jobs", {"manifests": [job("own")]}))[0], "in hers she may"

    told(tmp_path, story, writes=True)


# -- rights that are revoked while a stream is open


class Clock:
    """Stands still until a test moves it."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


async def events(client: Client, seen: list[bytes]) -> None:
    """Reads a stream to its end."""
    url = f"{client.base}/api/v1/stream"
    async with ClientSession() as session, session.get(url, headers=client.headers) as answer:
        assert 200 == answer.status
        async for line in answer.content:
            seen.append(line)


def test_a_stream_tells_nothing_after_the_right_was_revoked(tmp_path: Path) -> None:
    clock = Clock()

    async def story(web: Web) -> None:
        admin = await web.as_user(ADMIN)
        seen: list[bytes] = []
        reading = asyncio.create_task(events(admin, seen))
        await web.gang(THEIRS, "aq7before", 1, gpu=1)
        await until(lambda: any(b"aq7before" in line for line in seen))
        web.server.handler.allows = lambda spec: spec["resourceAttributes"].get("namespace") == MINE
        clock.now += SECONDS
        seen.clear()
        await web.gang(THEIRS, "aq7after", 1, gpu=1)
        await web.gang(MINE, "own", 1, gpu=1)
        await until(lambda: any(b'"own"' in line for line in seen))
        assert [] == [line for line in seen if b"aq7" in line]
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)

    told(tmp_path, story, clock=clock)


def test_a_stream_ends_after_the_token_was_revoked(tmp_path: Path) -> None:
    """It asks after the time for which all answers are believed, also if another request has asked since then."""
    clock = Clock()

    async def story(web: Web) -> None:
        user = await web.as_user(USER)
        await user.get("/whoami")  # believed until SECONDS
        clock.now = SECONDS - 10
        seen: list[bytes] = []
        reading = asyncio.create_task(events(user, seen))
        await until(lambda: any(line.startswith(b"data: ") for line in seen))
        clock.now = SECONDS + 10
        await user.get("/whoami")  # asked again, and believed until 2 * SECONDS + 10
        tokens = web.server.handler.tokens
        review = tokens.review

        def revoked(body: Any) -> Any:
            answer = review(body)
            answer["status"] = {"authenticated": False}
            return answer

        tokens.review = revoked  # type: ignore[method-assign]
        clock.now = 2 * SECONDS - 10  # the stream is as old as an answer may be, and not older
        await web.gang(MINE, "early", 1, gpu=1)
        await until(lambda: any(b'"early"' in line for line in seen))
        clock.now += 1
        await user.get("/whoami")  # an answer may still be this old
        await web.gang(MINE, "late", 1, gpu=1)
        await until(lambda: reading.done() or any(b'"late"' in line for line in seen))
        assert [] == [line for line in seen if b'"late"' in line]
        await asyncio.wait_for(reading, 60)

    told(tmp_path, story, clock=clock)


# -- other sites


def test_pages_of_other_sites_are_refused_whatever_they_send(tmp_path: Path) -> None:
    """A browser sends for them what needs no permission: simple methods, simple content types, and cookies."""
    question = {"edits": [{"edit": "cordon", "nodes": ["n0"]}], "seconds": 0}

    async def story(web: Web) -> None:
        before = await web.cluster.versions()
        user, nobody = await web.as_user(USER), web.with_token()
        own = web.base.removeprefix("http://")
        evil: list[dict[str, str]] = [
            {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site", "Origin": "http://localhost:1"},
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": f"http://{own}.evil.example"},
            {"Origin": f"http://{own}1"},
        ]
        for headers in evil:
            for client in (nobody, user):
                for method, path, body in (
                    ("GET", "/cluster", None),
                    ("GET", f"/jobs/{MINE}/waits?budget=10", None),
                    ("GET", "/stream", None),
                    ("POST", "/what-if", question),
                    ("POST", "/jobs", {"manifests": [job()]}),
                    ("DELETE", f"/jobs/{MINE}/runs", None),
                ):
                    status, text = await client.ask(f"/api/v1{path}", body, method=method, **headers)
                    assert (403, b'{"error":"not for pages of other sites"}') == (status, text), (headers, path)
        assert 200 == (await nobody.ask("/", **evil[0]))[0], "a link to the page works"
        for headers in ({"Sec-Fetch-Site": "same-origin", "Origin": "https://behind.a.proxy"}, {"Origin": web.base}):
            assert 200 == (await nobody.ask("/api/v1/what-if", question, **headers))[0], headers
        assert 200 == (await nobody.ask("/api/v1/cluster", **{"Sec-Fetch-Site": "none"}))[0], "typed by a person"
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
            status, _ = await nobody.ask("/api/v1/what-if", question, **{"Content-Type": kind})
            assert 415 == status, "simple content types are no question"
        cookie = user.headers["Authorization"].removeprefix("Bearer ")
        status, text = await nobody.ask("/api/v1/jobs", {"manifests": [job()]}, Cookie=f"token={cookie}")
        assert 401 == status, "a cookie is nobody"
        assert 405 == (await nobody.ask("/api/v1/what-if", method="OPTIONS"))[0], "no permission is given"
        assert before == await web.cluster.versions()

    page = tmp_path / "files"
    page.mkdir()
    (page / "index.html").write_text("<p>page")
    told(tmp_path, story, anonymous=True, writes=True, page=page)


def test_a_name_that_was_made_to_lead_here_is_refused(tmp_path: Path) -> None:
    """DNS rebinding: a page of another site whose name now has our address. The browser calls it the same origin."""

    async def story(web: Web) -> None:
        port = web.base.rpartition(":")[2]
        for host in ("evil.example", f"evil.example:{port}", "localhost.evil.example", "127.0.0.1.evil.example", ""):
            for path in ("/api/v1/cluster", "/api/v1/jobs", "/api/v1/stream", "/metrics"):
                headers = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
                status, _ = await web.with_token().ask(path, **headers)
                assert 403 == status, (host, path)
        for sent in (
            "GET /api/v1/cluster HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
            "GET /api/v1/cluster HTTP/1.1\r\nHost: evil.example\r\nHost: localhost\r\n\r\n",
            "GET /api/v1/cluster HTTP/1.0\r\n\r\n",
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
            writer.write(sent.encode())
            line = await reader.readline()
            assert int(line.split()[1]) in (400, 403), (sent, line)
            writer.close()
        assert 200 == (await web.with_token().ask("/api/v1/cluster", Host=f"localhost:{port}"))[0]

    told(tmp_path, story, anonymous=True)


# -- a thousand connections


@pytest.mark.parametrize("used", [False, True], ids=["silent", "kept after a request"])
def test_a_thousand_connections_keep_nobody_out(used: bool, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    many, limits = 1_200, msgspec.structs.replace(FREE, head_seconds=600.0)
    if hard < 2 * many + 400:
        pytest.skip(f"needs {2 * many + 400} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    async def story(web: Web) -> None:
        loop, port = asyncio.get_running_loop(), int(web.base.rpartition(":")[2])
        before, held = memory("self", "VmRSS"), list[socket.socket]()
        user = await web.as_user(USER)
        await user.get("/cluster")
        try:
            for number in range(many):
                each = socket.socket()
                each.bind((f"127.0.2.{number % 40 + 1}", 0))
                each.setblocking(False)
                await loop.sock_connect(each, ("127.0.0.1", port))
                held.append(each)
                if used:
                    await loop.sock_sendall(each, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    assert (await loop.sock_recv(each, 4096)).startswith(b"HTTP/1.1 200")
            for _ in range(5):
                async with ClientSession() as session, session.get(f"{web.base}/healthz") as answer:
                    assert 200 == answer.status
            async with asyncio.timeout(PATIENCE):
                assert b"" == await _read(held[0]), "the one that is idle longest has gone"
            assert memory("self", "VmRSS") - before < 150 << 20, "bytes"
        finally:
            for each in held:
                each.close()

    told(tmp_path, story, limits=limits)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def _read(each: socket.socket) -> bytes:
    with contextlib.suppress(ConnectionError):
        return await asyncio.get_running_loop().sock_recv(each, 1)
    return b""


def test_a_connection_with_a_request_is_not_closed_for_others(tmp_path: Path) -> None:
    limits = msgspec.structs.replace(FREE, connections=4)

    async def story(web: Web) -> None:
        seen: list[bytes] = []
        reading = asyncio.create_task(events(await web.as_user(USER), seen))
        await until(lambda: bool(seen))
        port = int(web.base.rpartition(":")[2])
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
        assert not reading.done()
        seen.clear()
        await web.gang(MINE, "more", 1, gpu=1)
        await until(lambda: any(b"more" in line for line in seen))
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        for _, writer in opened:
            writer.transport.abort()

    told(tmp_path, story, limits=limits)
