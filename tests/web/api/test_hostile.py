"""700 hostile requests as bytes on a socket: what is no HTTP, what is too large, too slow, too deep.

With the 300 of `test_openapi.py`, they are 1,000. None may be answered with a 5xx status, none may change the cluster,
and the process must still serve when they are over.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
from tests.support.patience import PATIENCE
from tests.support.web import MINE, THEIRS, USER, Web, webbing
from tests.web.api.test_api import scene

from maar.web.limits import HttpLimits, Rate

pytestmark = pytest.mark.slow

COUNT = 700
AT_ONCE = 20
LIMITS = HttpLimits(
    user_requests=Rate(10**6, 10**6),
    requests_each=Rate(10**6, 10**6),
    computing=Rate(10**6, 10**6),
    body_seconds=0.5,
    head_seconds=1.0,
)
TEXTS = (
    "../../etc/passwd",
    "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "..%5c..%5cwindows",
    "%c0%ae%c0%ae/",
    "%00",
    "\u202egnp.sh",
    "\U0001f30b" * 200,
    "e\u0301" * 300,
    "\ufeff\u200b\u2028",
    "a" * 100_000,
    "{{7*7}}${7*7}",
    "' OR '1'='1",
    "<script>alert(1)</script>",
    "\r\nSet-Cookie: a=b",
    f"{THEIRS}/aq7runs",
    "-1",
    "NaN",
)
DEEP = 100_000
CLOSED = 0
"""Instead of a status: the connection was closed without an answer."""


class Hostile:
    """Makes requests."""

    def __init__(self, dice: random.Random, token: str) -> None:
        self.dice = dice
        self.token = token
        self.kinds: tuple[Callable[[], bytes], ...] = (
            self.noise,
            self.broken_line,
            self.headers,
            self.large,
            self.slow,
            self.path,
            self.wrong_token,
            self.json,
            self.query,
        )

    def request(self, method: str, path: str | bytes, *headers: bytes, body: bytes = b"", token: bool = True) -> bytes:
        """A request; with the user's token, so that it gets far."""
        at = path if isinstance(path, bytes) else path.encode("utf-8", "surrogatepass")
        lines = [method.encode() + b" " + at + b" HTTP/1.1", b"Host: localhost", b"Connection: close", *headers]
        if token:
            lines.append(b"Authorization: Bearer " + self.token.encode())
        return b"\r\n".join([*lines, b"", body])

    def asked(self, body: bytes, *headers: bytes) -> bytes:
        """A what-if question with this body."""
        sized = b"Content-Length: " + str(len(body)).encode()
        return self.request("POST", "/api/v1/what-if", b"Content-Type: application/json", sized, *headers, body=body)

    def noise(self) -> bytes:
        return self.dice.randbytes(self.dice.randrange(1, 3000)) + b"\r\n\r\n"

    def broken_line(self) -> bytes:
        lines = (
            b"GET\r\n\r\n",
            b"\r\n\r\n\r\n",
            b"GET  /\r\n\r\n",
            b"GET /api/v1/jobs HTTP/9.9\r\nHost: x\r\n\r\n",
            b"GET /api/v1/jobs HTTP/1.1\r\n\r\n",
            b"get /api/v1/jobs http/1.1\r\nHost: x\r\n\r\n",
            b"G\x00T / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
            b"A" * 100_000 + b" / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
            b"CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET http://example.com/api/v1/jobs HTTP/1.1\r\nHost: example.com\r\n\r\n",
            b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            b"GET / HTTP/1.1\nHost: x\n\n",
        )
        return self.dice.choice(lines)

    def headers(self) -> bytes:
        dice = self.dice
        some = (
            (b"X-Long: " + b"a" * dice.choice((8_000, 9_000, 100_000, 1_000_000)),),
            tuple(b"X-%d: y" % i for i in range(dice.choice((100, 2000, 20_000)))),
            (b"No colon here",),
            (b"X-Null: a\x00b",),
            (b"X-Folded: a\r\n b",),
            (b"X-Latin: \xff\xfe",),
            (b": no name",),
            (b"Content-Length: 5", b"Content-Length: 6"),
            (b"Content-Length: 5", b"Transfer-Encoding: chunked"),
            (b"Content-Length: -1",),
            (b"Content-Length: " + b"9" * 40,),
            (b"Transfer-Encoding: gzip, chunked",),
            (b"Transfer-Encoding: chunked, chunked",),
            (b"Upgrade: websocket", b"Connection: Upgrade", b"Sec-WebSocket-Key: x"),
            (b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQAAP__"),
            (b"Expect: 100-continue",),
            (b"Expect: something",),
            (b"Content-Type: " + dice.choice((b"text/plain", b"application/json; charset=utf-7", b";", b"/" * 5000)),),
            (b"Content-Encoding: gzip", b"Content-Type: application/json", b"Content-Length: 2"),
            (b"Host: evil.example",),
            (b"X-Remote-User: system:admin", b"X-Remote-Group: system:masters", b"X-Forwarded-For: 127.0.0.1"),
            (b"Impersonate-User: admin",),
        )
        method = dice.choice(("GET", "POST", "PUT"))
        return self.request(
            method, dice.choice(("/api/v1/jobs", "/api/v1/what-if", "/")), *dice.choice(some), body=b"{}"
        )

    def large(self) -> bytes:
        dice, kind = self.dice, b"Content-Type: application/json"
        chunked = b"Transfer-Encoding: chunked"
        match dice.randrange(5):
            case 0:
                return self.asked(b" " * dice.choice((1024 * 1024, 1024 * 1024 + 1, 3_000_000)))
            case 1:
                part = b"10000\r\n" + b" " * 65536 + b"\r\n"
                return self.request("POST", "/api/v1/what-if", kind, chunked, body=part * 20 + b"0\r\n\r\n")
            case 2:
                size = dice.choice((b"zz", b"-5", b"FFFFFFFFFFFFFFFFFF", b"", b"5;" + b"x" * 20_000))
                return self.request("POST", "/api/v1/what-if", kind, chunked, body=size + b"\r\nhello\r\n0\r\n\r\n")
            case 3:
                return self.asked(msgspec.json.encode({"edits": [{"edit": "open-queue", "queue": "red"}] * 10_000}))
            case _:
                return self.asked(msgspec.json.encode({"manifests": "a: b\n---\n" * 50_000}))

    def slow(self) -> bytes:
        """The rest never comes."""
        head = self.request("POST", "/api/v1/what-if", b"Content-Type: application/json", b"Content-Length: 500")
        whole = head + b'{"edits": '
        return self.dice.choice((whole, head, whole[: len(head) // 2], b"G", b"POST /api/v1/what-if HTTP/1.1\r\nX: "))

    def path(self) -> bytes:
        dice, text = self.dice, self.dice.choice(TEXTS)
        text = quote(text, safe="/%:;=?#\\") if dice.random() < 0.7 else text
        places = (f"/{text}", f"/js/{text}", f"//{text}", f"/api/v1/{text}", f"/api/v1/jobs/{text}/x", f"/api/{text}")
        path = dice.choice((*places, f"/api/v1/jobs/{MINE}/{text}", "/api/v1/../../../etc/passwd", "/index.html/../js"))
        return self.request(dice.choice(("GET", "HEAD", "DELETE", "PATCH")), path.encode("utf-8", "replace"))

    def wrong_token(self) -> bytes:
        dice = self.dice
        deep = base64.urlsafe_b64encode(b"[" * 8000).rstrip(b"=")
        lie = base64.urlsafe_b64encode(b'{"aud": "maar.dev", "sub": "system:admin"}').rstrip(b"=")
        tokens = (
            b"Bearer",
            b"Bearer  ",
            b"Basic YWRtaW46YWRtaW4=",
            b"Bearer " + b"a" * 20_000,
            b"Bearer a." + deep + b".c",
            b"Bearer a." + lie + b".c",
            b"Bearer " + self.token.encode()[:-2] + b"xx",
            b"Bearer \xff\xfe\x00",
            b"Bearer " + "\u202e".encode(),
            b"bearer null",
            *(b"Bearer " + dice.randbytes(20).hex().encode() for _ in range(10)),
        )
        headers = [b"Authorization: " + dice.choice(tokens) for _ in range(dice.choice((1, 1, 1, 2)))]
        return self.request("GET", dice.choice(("/api/v1/jobs", "/api/v1/stream")), *headers, token=False)

    def json(self) -> bytes:
        dice, text = self.dice, msgspec.json.encode(self.dice.choice(TEXTS[:9]))
        bodies = (
            b"[" * DEEP,
            b'{"a":' * DEEP,
            b'{"edits":' + b"[" * 900 + b"]" * 900 + b"}",
            b'{"manifests":[' + b'{"a":' * 900 + b"1" + b"}" * 900 + b"]}",
            msgspec.json.encode({"manifests": "[" * 5000}),
            msgspec.json.encode({"manifests": "{a: " * 2000 + "}" * 2000}),
            msgspec.json.encode({"manifests": "a: &a [*a, *a]\n"}),
            msgspec.json.encode({"edits": [{"edit": "use-config", "text": "[" * 5000}]}),
            b'{"edits": [{"edit": "set-weight", "queue": "red", "weight": ' + b"9" * 5000 + b"}]}",
            b'{"edits": [{"edit": "set-weight", "queue": "red", "weight": 1e99999}]}',
            b'{"edits": [{"edit": "add-nodes-like", "like": "n0", "count": 1e18}]}',
            b'{"edits": NaN}',
            b'{"edits": [], "edits": {}}',
            b'\xef\xbb\xbf{"edits": []}',
            b'{"edits": ["\xff\xfe"]}',
            b'{"edits": [{"edit": "open-queue", "queue": "\\ud800"}]}',
            b'{"edits": [{"edit": "cordon", "nodes": [' + text + b"]}]}",
            b'{"edits": [{"edit": "end-jobs", "jobs": [' + text + b"]}]}",
            b'{"recording": ' + text + b', "decision": 1, "edits": [{"edit": "cordon", "nodes": ["n0"]}]}',
            b'{"decision": -9223372036854775809, "edits": [{"edit": "cordon", "nodes": ["n0"]}]}',
            b"null",
            b"",
        )
        return self.asked(dice.choice(bodies))

    def query(self) -> bytes:
        dice = self.dice
        name = dice.choice(("limit", "offset", "sort", "state", "owner", "recording", "before", "job", quote("\u202e")))
        value = quote(dice.choice(TEXTS)[:20_000])
        path = dice.choice(("jobs", "nodes", "decisions", "cluster", "utilisation", "recordings", "stream"))
        return self.request("GET", f"/api/v1/{path}?{name}={value}{dice.choice(('', '&' * 5000, '&limit=1&limit=2'))}")


async def answered(base: str, request: bytes) -> int:
    """The status of the answer to these bytes, or `CLOSED`."""
    host, _, port = base.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(request)
        line = b""
        try:
            async with asyncio.timeout(PATIENCE):
                await writer.drain()
                line = await reader.readline()
        except (ConnectionError, ValueError):
            return CLOSED
        return int(line.split()[1]) if line.startswith(b"HTTP/1.") else CLOSED
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def test_hostile_bytes_change_nothing_and_it_keeps_serving(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story(web: Web) -> None:
        user = await web.as_user(USER)
        before = await web.cluster.versions()
        hostile = Hostile(random.Random(7), user.headers["Authorization"].removeprefix("Bearer "))
        requests = [hostile.kinds[i % len(hostile.kinds)]() for i in range(COUNT)]
        statuses: Counter[int] = Counter()
        turns = asyncio.Semaphore(AT_ONCE)

        async def send(request: bytes) -> None:
            async with turns:
                status = await answered(web.base, request)
            assert status < 500, (status, request[:300])
            statuses[status] += 1

        await asyncio.gather(*(send(request) for request in requests))
        assert COUNT == statuses.total()
        assert {CLOSED, 200, 400, 401, 403, 404, 405, 408, 413, 415, 422, 429} <= statuses.keys(), statuses
        assert statuses.keys() <= {CLOSED, 200, 400, 401, 403, 404, 405, 408, 413, 414, 415, 417, 422, 429, 431}
        assert before == await web.cluster.versions(), "something was written"
        assert 200 == (await user.ask("/readyz"))[0]
        assert ["runs", "waits"] == [job["name"] for job in (await user.get("/jobs"))["items"]]

    async def main() -> None:
        async with asyncio.timeout(PATIENCE), webbing(tmp_path, limits=LIMITS) as web:
            await scene(web)
            await story(web)

    asyncio.run(main())
    assert [] == [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
