"""Who may ask `maar web`: tokens, rights, TLS, hosts, limits. On an embedded API server, over sockets."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme
from aiohttp import ClientSession, TCPConnector
from tests.support.patience import PATIENCE, until
from tests.support.web import ADMIN, MINE, THEIRS, USER, Client, Web, webbing
from tests.web.api.test_api import Story, scene

from maar.web.addresses import CannotServe
from maar.web.api.certificate import Certificate
from maar.web.api.errors import Refused
from maar.web.api.guard import Guard, Spending
from maar.web.api.server import HEADERS
from maar.web.authentication import AUDIENCE, KeptAnswers
from maar.web.front.hosts import is_loopback
from maar.web.limits import HttpLimits, Rate


def told(tmp_path: Path, story: Story, full: bool = False, **options: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE), webbing(tmp_path, **options) as web:
            if full:
                await scene(web)
            await story(web)

    asyncio.run(main())


def failing(web: Web, path: str) -> None:
    """The API server answers requests to some paths with an error."""
    faults = web.server.faults
    faults.fail_share, faults.fail_codes, faults.fails = 1.0, (500,), lambda method, asked: asked.startswith(path)


def test_a_token_is_needed_and_checked(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        good = (await web.as_user(USER)).headers["Authorization"]
        for header in (
            "",
            "x",
            "Bearer",
            "Bearer  ",
            "Basic eDp5",
            "Bearer \u00e9",
            f"Bearer {'x' * 20000}",
            f"{good}x",
        ):
            status, body = await web.with_token().ask(
                "/api/v1/cluster", **({"Authorization": header} if header else {})
            )
            assert status in (400, 401), header
            assert b"nodes" not in body
        status, _ = await web.with_token().ask("/api/v1/cluster", Authorization=good)
        assert 200 == status

    told(tmp_path, story)


def test_a_token_is_for_the_api_server_or_for_maar(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        for audiences, expected in (([], 200), ([AUDIENCE], 200), (["elsewhere"], 401)):
            client = await web.as_user(USER, **({"audiences": audiences} if audiences else {}))
            assert expected == (await client.ask("/api/v1/cluster"))[0], audiences

    told(tmp_path, story)


def test_an_api_server_that_ignores_audiences_has_not_checked_a_token_for_maar(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        tokens, asked = web.server.handler.tokens, []
        review = tokens.review

        def careless(body: Any) -> Any:
            asked.append(body["spec"])
            answer = review(body)
            answer["status"].pop("audiences", None)
            return answer

        tokens.review = careless  # type: ignore[method-assign]
        for audiences, expected in (([], 200), ([AUDIENCE], 401)):
            client = await web.as_user(USER, **({"audiences": audiences} if audiences else {}))
            assert [expected] * 3 == [(await client.ask("/api/v1/cluster"))[0] for _ in range(3)]
        assert [None, [AUDIENCE]] == [spec.get("audiences") for spec in asked], "each token is asked about once"

    told(tmp_path, story)


def test_answers_of_the_api_server_are_kept_and_errors_are_not(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        client = await web.as_user(USER)
        failing(web, "/apis/authorization.k8s.io")
        status, body = await client.ask("/api/v1/jobs")
        assert (503, "the API server cannot be asked about tokens and rights now") == (
            status,
            msgspec.json.decode(body)["error"],
        )
        web.server.faults.clear()
        await client.get("/jobs")
        asked = len(web.asked)
        assert {"", MINE, THEIRS} == {spec["resourceAttributes"].get("namespace", "") for spec in web.asked}
        (spec, *_) = web.asked
        assert spec["user"].endswith(f":{USER}")
        assert "system:serviceaccounts" in spec["groups"]
        assert spec["uid"]
        for _ in range(5):
            await client.get("/jobs")
        assert asked == len(web.asked)

    told(tmp_path, story, full=True)


def test_each_user_sees_her_part(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        user, admin = await web.as_user(USER), await web.as_user(ADMIN)
        who = {"user": f"system:serviceaccount:{MINE}:user", "everything": False, "namespaces": [MINE], "writes": False}
        assert who == await user.get("/whoami")
        assert (await admin.get("/whoami"))["everything"]
        answer = await user.get("/jobs")
        assert ["runs", "waits"] == [job["name"] for job in answer["items"]]
        assert {"running": 1, "waiting": 1} == answer["others"]
        for path in (f"/jobs/{THEIRS}/aq7runs", f"/jobs/{THEIRS}/nothing", "/jobs/nowhere/nothing"):
            assert (404, b'{"error":"no such job that you may see"}') == await user.ask(f"/api/v1{path}")
        assert 200 == (await admin.ask(f"/api/v1/jobs/{THEIRS}/aq7runs"))[0]

    told(tmp_path, story, full=True)


def test_no_name_of_another_namespace_in_any_byte_of_any_answer(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        user = await web.as_user(USER)
        paths = ["/whoami", "/cluster", "/queues", "/nodes", "/jobs", "/decisions", "/forecasts", "/openapi.json", "/x"]
        paths += ["/utilisation", "/recordings", "/jobs?sort=-queue", f"/jobs?namespace={THEIRS}", "/nodes?sort=free"]
        paths += [f"/jobs/{MINE}/waits?budget=5", f"/jobs/{MINE}/runs", f"/jobs/{THEIRS}/aq7runs", "/jobs?x=1"]
        edits: list[Any] = [
            {"edit": "end-jobs", "jobs": [f"{MINE}/runs"]},
            {"edit": "set-priority", "job": f"{MINE}/waits", "priority": 1000},
            {"edit": "set-priority", "job": f"{MINE}/wait", "priority": 1},
            {"edit": "add-nodes-like", "like": "n0", "count": 2},
            {"edit": "remove-nodes", "nodes": ["n1"]},
            {"edit": "end-reservation", "job": f"{MINE}/waits"},
            {"edit": "set-quota", "quota": f"{MINE}/q", "hard": {"cpu": 1}},
        ]
        bodies = [(await user.ask(f"/api/v1{path}"))[1] for path in paths]
        bodies += [(await user.ask("/api/v1/what-if", {"edits": [edit]}))[1] for edit in edits]
        async with user.stream() as events:
            bodies.append(msgspec.json.encode(await anext(events)))
            await web.gang(THEIRS, "aq7more", 1, gpu=1)
            bodies.append(msgspec.json.encode(await anext(events)))
        for body in bodies:
            assert b"aq7" not in body, body
        assert b"another job" in b"".join(bodies), "some sentences named others"
        assert b"aq7" in (await (await web.as_user(ADMIN)).ask("/api/v1/nodes"))[1]

    told(tmp_path, story, full=True)


def test_anonymous_access_is_off_unless_switched_on(tmp_path: Path) -> None:
    async def off(web: Web) -> None:
        for path in ("/api/v1/cluster", "/api/v1/stream", "/api/v1/what-if"):
            assert 401 == (await web.with_token().ask(path, None if path != "/api/v1/what-if" else {}))[0]
        assert (200, b"ok\n") == await web.with_token().ask("/readyz")
        assert 200 == (await web.with_token().ask("/api/v1/openapi.json"))[0]

    async def on(web: Web) -> None:
        answer = await web.with_token().get("/whoami")
        assert ("system:anonymous", False, []) == (answer["user"], answer["everything"], answer["namespaces"])
        assert 401 == (await web.with_token("bad").ask("/api/v1/cluster"))[0], "a bad token is not anonymous"

    told(tmp_path, off)
    told(tmp_path, on, anonymous=True)


def test_another_site_cannot_use_a_browser_on_this_host(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        for host, expected in (("evil.example", 403), ("localhost", 200), ("[::1]:80", 200), ("127.0.0.1:1", 200)):
            assert expected == (await web.with_token().ask("/api/v1/cluster", Host=host))[0], host
        assert 200 == (await (await web.as_user(USER)).ask("/api/v1/cluster", Host="maar.example"))[0], "a proxy"

    told(tmp_path, story, anonymous=True)


def test_tokens_travel_over_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    made = authority.issue_cert("127.0.0.1", "localhost")
    made.cert_chain_pems[0].write_to_path(str(tmp_path / "cert"))
    made.private_key_pem.write_to_path(str(tmp_path / "key"))
    context = ssl.create_default_context()
    authority.configure_trust(context)

    async def story(web: Web) -> None:
        token = (await web.as_user(ADMIN)).headers["Authorization"].removeprefix("Bearer ")
        async with ClientSession(connector=TCPConnector(ssl=context)) as session:
            client = Client(session, web.base, token)
            assert 200 == (await client.ask("/api/v1/cluster", Host="maar.example"))[0]

    told(tmp_path, story, certificate=Certificate(tmp_path / "cert", tmp_path / "key"))


def test_only_the_same_host_is_private_without_tls() -> None:
    assert all(map(is_loopback, ("127.0.0.5", "::1", "::ffff:127.0.0.1")))
    assert not any(map(is_loopback, ("10.0.0.1", "::", "::ffff:10.0.0.1", "", "localhost.evil")))


def test_a_token_in_the_clear_from_another_host_is_refused(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        client = await web.as_user(ADMIN)
        port = int(web.base.rpartition(":")[2])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))  # nothing is sent: it only chooses the address of this host
            host = probe.getsockname()[0]
        if is_loopback(host):
            pytest.skip("this machine has no other address")
        client.base = f"http://{host}:{port}"
        status, body = await client.ask("/api/v1/cluster")
        assert 403 == status
        assert b"only over TLS" in body

    told(tmp_path, story, host="0.0.0.0")


def test_every_answer_forbids_what_browsers_allow_by_default(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        (tmp_path / "page").mkdir(exist_ok=True)
        async with ClientSession() as session:
            for path in ("/", "/api/v1/openapi.json", "/api/v1/cluster", "/nothing", "/healthz"):
                async with session.get(f"{web.base}{path}") as answer:
                    for name, value in HEADERS.items():
                        assert value == answer.headers[name], (path, name)
                    policy = answer.headers["Content-Security-Policy"]
                    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
                    assert "unsafe" not in policy
                    assert "http" not in policy
                    assert "Set-Cookie" not in answer.headers
                    assert "Access-Control-Allow-Origin" not in answer.headers

    told(tmp_path, story)


def test_the_page_is_served_and_nothing_beside_it(tmp_path: Path) -> None:
    page = tmp_path / "files"
    page.mkdir()
    (page / "index.html").write_text("<p>page")
    (page / "app.js").write_text("1")
    (tmp_path / "secret.txt").write_text("secret")

    async def story(web: Web) -> None:
        client = web.with_token()
        assert (200, b"<p>page") == await client.ask("/")
        assert (200, b"1") == await client.ask("/app.js")
        for path in ("/../secret.txt", "/%2e%2e/secret.txt", "//secret.txt", "/app.js/", "/index"):
            assert 404 == (await client.ask(path))[0], path
        assert 405 == (await client.ask("/", {}))[0]

    told(tmp_path, story, page=page)


def test_users_addresses_and_bodies_are_limited(tmp_path: Path) -> None:
    limits = HttpLimits(body=1000, user_requests=Rate(0.001, 5), requests_each=Rate(0.001, 30), streams_each=1)

    async def story(web: Web) -> None:
        user, admin = await web.as_user(USER), await web.as_user(ADMIN)
        assert 413 == (await user.ask("/api/v1/what-if", {"manifests": "x" * 2000}))[0]
        async with user.stream():
            assert 429 == (await user.ask("/api/v1/stream"))[0]
        statuses = [(await user.ask("/api/v1/cluster"))[0] for _ in range(6)]
        assert [200, 200, 429, 429, 429, 429] == statuses
        assert 200 == (await admin.ask("/api/v1/cluster"))[0], "another user is not affected"
        statuses = [(await admin.ask("/api/v1/openapi.json"))[0] for _ in range(30)]
        assert 429 == statuses[-1]
        assert 200 == (await admin.ask("/healthz"))[0], "health is exempt"

    told(tmp_path, story, limits=limits)


def test_a_client_that_says_nothing_is_cut_off(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        host, port = web.base.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /api/v1/clu")
        assert b"" == await reader.read()
        writer.close()

    told(tmp_path, story, limits=HttpLimits(head_seconds=0.1))


def test_bytes_that_are_no_request_are_refused_and_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    hostile = [
        b"GET / HTTP/1.1\r\nAuthorization: Bearer s3cret\x00\r\n\r\n",
        b"GET / HTTP/1.1\r\n Authorization : Bearer s3cret\r\n\r\n",
        b"POST /api/v1/what-if HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\ns3cret",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\ns3cret",
        b"\x16\x03\x01\x02\x00\x01\x00s3cret",
        b"GET /" + b"a" * 100_000 + b"s3cret HTTP/1.1\r\n\r\n",
        b"s3cret\r\n\r\n",
    ]

    async def story(web: Web) -> None:
        host, port = web.base.removeprefix("http://").split(":")
        for sent in hostile:
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(sent)
            answer = await reader.read()
            writer.close()
            assert answer.startswith(b"HTTP/1.1 4") or answer.startswith(b"HTTP/1.0 4"), (sent, answer)
            assert b"s3cret" not in answer
            assert b"Content-Security-Policy: default-src 'none'" in answer
        assert (200, b"ok\n") == await web.with_token().ask("/healthz")

    caplog.set_level(0)
    told(tmp_path, story)
    assert "s3cret" not in caplog.text


def test_a_client_with_too_many_connections_is_refused(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        host, port = web.base.removeprefix("http://").split(":")
        held = [await asyncio.open_connection(host, int(port)) for _ in range(3)]
        reader, writer = await asyncio.open_connection(host, int(port))
        with contextlib.suppress(ConnectionResetError):
            assert b"" == await reader.read()
        for _, each in [*held, (reader, writer)]:
            each.close()

        async def answered() -> int:
            with contextlib.suppress(OSError):
                return (await web.with_token().ask("/healthz"))[0]
            return 0

        assert 200 == await until(answered, "a connection is accepted again")

    told(tmp_path, story, limits=HttpLimits(connections_each=3))


def test_questions_of_one_user_do_not_stop_another(tmp_path: Path) -> None:
    question = {"edits": [{"edit": "cordon", "nodes": ["n0"]}]}

    async def story(web: Web) -> None:
        user, admin = await web.as_user(USER), await web.as_user(ADMIN)
        assert 200 == (await user.ask("/api/v1/what-if", question))[0]
        status, body = await user.ask("/api/v1/what-if", question)
        assert 429 == status
        assert b"too much computing" in body
        assert 200 == (await user.ask("/api/v1/cluster"))[0], "reading goes on"
        assert 200 == (await admin.ask("/api/v1/what-if", question))[0]

    told(tmp_path, story, limits=HttpLimits(computing=Rate(0.0001, 0.0001)))


def test_the_work_of_another_process_is_paid_by_its_cpu_time() -> None:
    now = 0.0
    guard = Guard(HttpLimits(computing=Rate(1, 10)), lambda: now)

    async def story() -> None:
        nonlocal now
        for seconds in (2.0, None):  # a busy machine gives a process little time: that is not hers to pay
            async with guard.computing("a", forecast=True) as bill:
                now += 60.0
                bill.seconds = seconds
        with pytest.raises(Refused, match="ask again in 51 s"):
            async with guard.computing("a"):
                raise AssertionError("she has used it up")

    asyncio.run(story())


def test_computing_is_paid_by_the_user() -> None:
    now = 0.0
    spending = Spending(Rate(0.5, 10), lambda: now)
    spending.check("a")
    spending.spend("a", 12.0)
    with pytest.raises(Refused) as refused:
        spending.check("a")
    assert (429, "5") == (refused.value.status, refused.value.headers["Retry-After"])
    spending.check("b")
    now = 5.0
    spending.check("a")


def test_answers_are_kept_for_a_minute_and_in_a_limited_number() -> None:
    now = 0.0
    kept: KeptAnswers[str, int | None] = KeptAnswers(lambda: now, seconds=60.0, most=2)
    kept.put("a", None)
    assert (None,) == kept.get("a")
    now = 59.9
    assert (None,) == kept.get("a")
    now = 60.0
    assert None is kept.get("a")
    for name in "abc":
        kept.put(name, 1)
    assert [None, (1,), (1,)] == [kept.get(name) for name in "abc"]


def test_the_token_is_never_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story(web: Web) -> None:
        client = await web.as_user(USER)
        failing(web, "/apis/auth")
        await client.ask("/api/v1/cluster")
        await client.ask("/api/v1/what-if", b"{")
        secret = client.headers["Authorization"].rpartition(".")[2]
        assert "cannot check tokens and rights" in caplog.text
        assert secret not in caplog.text

    caplog.set_level(0)
    told(tmp_path, story)


def test_a_certificate_that_becomes_a_fifo_is_refused_and_the_one_before_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Reading it would wait for its writer, and nobody would get an answer."""
    authority = trustme.CA()
    made = authority.issue_cert("localhost")
    cert, key = tmp_path / "cert", tmp_path / "key"
    made.cert_chain_pems[0].write_to_path(cert)
    made.private_key_pem.write_to_path(key)
    certificate = Certificate(cert, key)
    cert.unlink()
    os.mkfifo(cert)
    certificate.look()
    assert [
        "the new certificate cannot be used: [Errno 22] expected a regular file, got a FIFO: " + repr(str(cert))
    ] == (caplog.messages)
    with pytest.raises(CannotServe, match="expected a regular file, got a FIFO"):
        Certificate(cert, key)
