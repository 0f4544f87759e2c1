"""Measurements over HTTP: bytes over a socket, with a real store."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from tests.support.front import TEAM, Tokens, bearer, fronting, token
from tests.support.patience import until

from maar.elastic.steps import Basis
from maar.history.history import History
from maar.web.front.routes import MANY, MEASUREMENTS
from maar.web.limits import HttpLimits

BODY = HttpLimits().body
GOOD = {"epoch": 3, "seconds": 61.5, "workers": 4}
URL = "/v1/jobs/team/resnet-1/measurements"
Story = Callable[[ClientSession, History], Awaitable[None]]


def run(address: str, story: Story, wait: bool = True, **options: Any) -> None:
    """Tell a story with a session that sends the token of a pod in namespace `team`."""

    async def main() -> None:
        history = History(address, **options)
        history.start()
        async with fronting(history, Tokens({token(): TEAM})) as server:
            try:
                if wait:
                    await until(lambda: not history.problem)
                base = f"http://127.0.0.1:{server.port(MEASUREMENTS)}"
                async with ClientSession(base, headers=bearer(token())) as session:
                    await story(session, history)
            finally:
                await history.close()

    asyncio.run(main())


@pytest.fixture
def address(tmp_path: Path) -> str:
    return str(tmp_path / "h.db")


async def post(session: ClientSession, body: Any, url: str = URL, **more: Any) -> tuple[int, Any]:
    data = io.BytesIO(body) if isinstance(body, bytes) else json.dumps(body).encode()
    async with session.post(url, data=data, **more) as answer:
        return answer.status, await answer.json()


async def get(session: ClientSession, url: str = URL) -> tuple[int, Any]:
    async with session.get(url) as answer:
        return answer.status, await answer.json()


def test_what_is_posted_is_stored_and_learnt(address: str) -> None:
    full = GOOD | {
        "total_epochs": 90, "local_batch_size": 32, "global_batch_size": 128, "step_seconds": 0.5, "nodes": 2,
        "noise_scale": 512.5, "started": 900.5, "category": "team/vision", "accelerator": "a100",
    }  # fmt: skip

    async def story(session: ClientSession, history: History) -> None:
        assert (202, {"accepted": 1}) == await post(session, full)
        await history.settled()
        (status, answer) = await get(session)
        (stored,) = answer["measurements"]
        assert 200 == status
        assert full.items() <= stored.items()
        assert "" == stored["goodput"]
        assert ("team", "resnet-1", 1000.0, False) == tuple(
            stored[k] for k in ("namespace", "name", "arrived", "resized")
        )
        goodput = 4 * (512.5 + 32) / (512.5 + 128)
        assert 86 * 61.5 * goodput == pytest.approx(history.remaining("team/resnet-1"))

    run(address, story)


def test_goodput_by_size(address: str) -> None:
    """The job's own knowledge counts for this job only, and up to twice the size that it ran on."""

    async def story(session: ClientSession, history: History) -> None:
        goodput = {"1": 10.0, "2": 18.0, "4": 30.0, "8": 50.0, "16": 80.0}
        assert 202 == (await post(session, GOOD | {"goodput": goodput}))[0]
        await history.settled()
        assert goodput == json.loads((await get(session))[1]["measurements"][0]["goodput"])
        speeds = history.speeds("team/resnet-1", "team/resnet", "")
        points = dict(speeds.points)
        assert (4, Basis.GOODPUT) == (speeds.measured, speeds.basis)
        assert (1.8, 3.0, 5.0, 5.0) == pytest.approx((points[2], points[4], points[8], points[9]))
        assert 9 == max(points)
        assert Basis.POINTS == history.speeds("team/resnet-2", "team/resnet", "").basis

    run(address, story)


def test_an_unknown_job_is_accepted_and_a_retry_counts_once(address: str) -> None:
    async def story(session: ClientSession, history: History) -> None:
        for _ in range(3):
            assert 202 == (await post(session, GOOD))[0]
        await history.settled()
        assert 1 == len((await get(session))[1]["measurements"])
        assert (200, {"measurements": []}) == await get(session, "/v1/jobs/team/other/measurements")

    run(address, story)


def test_several_at_once(address: str) -> None:
    async def story(session: ClientSession, history: History) -> None:
        assert (202, {"accepted": 3}) == await post(session, [GOOD | {"epoch": n} for n in range(3)])
        await history.settled()
        assert [0, 1, 2] == [m["epoch"] for m in (await get(session))[1]["measurements"]]

    run(address, story)


@pytest.mark.parametrize(
    ("more", "resized"),
    [({"workers_at_start": 2}, True), ({"workers_at_start": 4}, False), ({"resized": True}, True), ({}, False)],
)
def test_an_epoch_of_two_sizes_is_marked(address: str, more: dict[str, object], resized: bool) -> None:
    async def story(session: ClientSession, history: History) -> None:
        assert 202 == (await post(session, GOOD | more))[0]
        await history.settled()
        assert [resized] == [m["resized"] for m in (await get(session))[1]["measurements"]]
        assert resized == (not history.model.points())

    run(address, story)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", "measurements: Input data was truncated"),
        (b"\xff\xfe", "measurements: JSON is malformed: invalid character (byte 0)"),
        ({"seconds": 1, "workers": 1}, "measurements: Object missing required field `epoch`"),
        (GOOD | {"workers": "4"}, "measurements: Expected `int`, got `str` - at `$.workers`"),
        (GOOD | {"workers": 0}, "measurements: Expected `int` >= 1 - at `$.workers`"),
        (GOOD | {"workers": True}, "measurements: Expected `int`, got `bool` - at `$.workers`"),
        (GOOD | {"epoch": -1}, "measurements: Expected `int` >= 0 - at `$.epoch`"),
        (GOOD | {"seconds": 0}, "measurements: Expected `float` > 0.0 - at `$.seconds`"),
        (b'{"epoch":1,"workers":1,"seconds":1e400}', "measurements: Number out of range - at `$.seconds`"),
        (b'{"epoch":1,"workers":1,"seconds":NaN}', "measurements: JSON is malformed: invalid character (byte 33)"),
        (GOOD | {"total_epoch": 9}, "measurements: Object contains unknown field `total_epoch`"),
        ([GOOD, GOOD | {"epoch": "x"}], "measurements: Expected `int`, got `str` - at `$[1].epoch`"),
        ([], "measurements: Expected `array` of length >= 1"),
        (GOOD | {"nodes": 0}, "measurements: Expected `int` >= 1 - at `$.nodes`"),
        (GOOD | {"nodes": 5}, "measurements: Expected at most as many `nodes` as `workers` (4), got 5"),
        (GOOD | {"noise_scale": -1.0}, "measurements: Expected `float` >= 0.0 - at `$.noise_scale`"),
        (GOOD | {"goodput": {}}, "measurements: Expected `object` of length >= 1 - at `$.goodput`"),
        (GOOD | {"goodput": {"x": 1.0}}, "measurements: Expected `int`, got `str` - at `key` in `$.goodput`"),
        (GOOD | {"goodput": {"0": 1.0}}, "measurements: Expected `int` >= 1 - at `key` in `$.goodput`"),
        (GOOD | {"goodput": {"1": 0}}, "measurements: Expected `float` > 0.0 - at `$.goodput[...]`"),
        (
            GOOD | {"goodput": {str(n): 1.0 for n in range(1, 66)}},
            "measurements: Expected `object` of length <= 64 - at `$.goodput`",
        ),
        ([GOOD] * (MANY + 1), f"measurements: Expected `array` of length <= {MANY}"),
        (7, "measurements: Expected `object | array`, got `int`"),
        (GOOD | {"epoch": 2**60}, f"measurements: Expected `int` <= {2**53} - at `$.epoch`"),
    ],
)
def test_invalid_bodies_are_refused_with_the_field(address: str, body: Any, error: str) -> None:
    async def story(session: ClientSession, history: History) -> None:
        assert (400, {"error": error}) == await post(session, body)
        assert (200, {"measurements": []}) == await get(session)

    run(address, story)


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [("Content-Encoding", "gzip", 415), ("Transfer-Encoding", "chunked", 411), ("Content-Length", "1x", 400)],
)
def test_bodies_are_sent_as_they_are(address: str, header: str, value: str, status: int) -> None:
    """What is packed or in chunks is refused: its size is not known before it is read."""

    async def story(session: ClientSession, history: History) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", session._base_url.port)  # type: ignore[union-attr]
        head = f"POST {URL} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token()}\r\n{header}: {value}\r\n\r\n"
        writer.write(head.encode())
        assert f"HTTP/1.1 {status} " in (await reader.read()).decode()
        writer.close()

    run(address, story)


@pytest.mark.parametrize("word", ["a\x00b", "line\n", "x" * 254, "\x1b[31m"])
def test_words_hold_nothing_that_hurts_a_terminal_or_a_database(address: str, word: str) -> None:
    async def story(session: ClientSession, history: History) -> None:
        status, answer = await post(session, GOOD | {"category": word})
        assert 400 == status
        assert "`$.category`" in answer["error"]

    run(address, story)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/jobs/team/Re%20s/measurements",
        "/v1/jobs/t%00/x/measurements",
        "/v1/jobs/team/%ff%C3%A9/measurements",
        f"/v1/jobs/{'x' * 254}/x/measurements",
    ],
)
def test_names_are_names(address: str, path: str) -> None:
    async def story(session: ClientSession, history: History) -> None:
        for status, answer in (await post(session, GOOD, path), await get(session, path)):
            assert 400 == status
            assert "not a Kubernetes name" in answer["error"]

    run(address, story)


def test_what_is_too_long_is_not_read(address: str) -> None:
    async def story(session: ClientSession, history: History) -> None:
        assert (413, {"error": f"the body has more than {BODY} bytes"}) == await post(session, b" " * (BODY + 1))
        assert 202 == (await post(session, json.dumps(GOOD).encode().ljust(BODY)))[0]

    run(address, story)


def test_a_missing_database_means_retry_later() -> None:
    async def story(session: ClientSession, history: History) -> None:
        await until(lambda: "127.0.0.1" in history.problem)
        for ask in (session.post(URL, json=GOOD), session.get(URL)):
            async with ask as answer:
                assert (503, "30") == (answer.status, answer.headers["Retry-After"])
                assert "postgresql://me:***@127.0.0.1:1/maar" in (await answer.json())["error"]
        async with session.get("/healthz") as healthy:
            assert 200 == healthy.status

    run("postgresql://me:secret@127.0.0.1:1/maar", story, wait=False)


def test_a_full_queue_means_retry_later(address: str) -> None:
    async def story(session: ClientSession, history: History) -> None:
        status, answer = await post(session, [GOOD | {"epoch": n} for n in range(3)])
        assert (503, {"error": "queue of measurements is full"}) == (status, answer)

    run(address, story, queue=2)


def test_without_a_history_there_is_no_such_path() -> None:
    async def story(session: ClientSession, history: History) -> None:
        async with session.post(URL, json=GOOD) as answer:
            assert 404 == answer.status

    run("none", story, wait=False)
