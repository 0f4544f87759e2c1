"""Forecasts of a live cluster: jobs run and end, forecasts appear in the API, and are judged later."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
from tests.support import patience
from tests.support.live import GPU, scheduling
from tests.support.patience import PATIENCE
from tests.support.web import ADMIN, MINE, THEIRS, USER, Client, Web, webbing
from tests.web.forecasting.test_process import forecasting

from maar.embedded.parts.kubelets import RUNTIME, Kubelets
from maar.forecast.arrivals import Asked, Pods
from maar.history.address import read_address
from maar.history.forecasts import ForecastLog
from maar.history.history import History
from maar.history.records import FinishedRun
from maar.history.store import Store
from maar.kube.kinds import volcano_podgroup
from maar.kube.wire.api_resources import PODS
from maar.web.forecasting.keeper import ForecastPace

FAST = ForecastPace(every=0.5, soon=0.05, budget=20.0, rollouts=4, learn=0.0)
Story = Callable[[Web], Awaitable[None]]


def told(tmp_path: Path, story: Story, **options: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE), webbing(tmp_path, **{"pace": FAST, **options}) as web:
            await story(web)

    asyncio.run(main())


def run_of(number: int, started: float, ended: float, asked: str = "") -> FinishedRun:
    """A run of a job that started when it was submitted."""
    return FinishedRun(
        *(MINE, "old", f"u{number}", MINE, "old", "default"),
        submitted=started,
        started=started,
        ended=ended,
        seconds=ended - started,
        how="completed",
        gpus=8,
        asked=asked,
    )


def finished(file: Path, seconds: float, count: int = 20) -> None:
    """A history in which all jobs ran equally long."""
    store = Store(read_address(str(file)))
    assert store.open()
    store.write([run_of(n, 0.0, seconds) for n in range(count)])
    store.close()


async def until(client: Client, path: str, holds: Callable[[Any], bool]) -> Any:
    """The answer at a path, once a condition is true for it."""

    async def found() -> Any:
        answer = await client.get(path)
        return answer if holds(answer) else None

    return await patience.until(found, f"{path}: {patience.words_of(holds)}")


def test_forecasts_from_history_are_in_the_list_the_detail_the_stream_and_the_what_if(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        admin, user = await web.as_user(ADMIN), await web.as_user(USER)
        await web.gang(MINE, "runs", 1, gpu=8, on="n0")
        await web.gang(THEIRS, "aq7waits", 1, gpu=8)
        await web.gang(MINE, "waits", 1, gpu=8)
        await web.gang(MINE, "huge", 1, gpu=64)

        def seen(answer: Any) -> bool:
            """Forecasts of the whole scene: earlier ones may be of groups whose pods were not there yet."""
            of = {job["name"]: (job["forecast"] or {}).get("verdict") for job in answer["items"]}
            return of == {"runs": None, "aq7waits": "expected", "waits": "expected", "huge": "never"}

        found = await until(admin, "/jobs", seen)
        jobs = {job["name"]: job for job in found["items"]}
        assert (None, None) == (jobs["runs"]["forecast"], jobs["runs"]["place"])
        assert {1, 2, 3} == {jobs[name]["place"] for name in ("aq7waits", "waits", "huge")}
        start = jobs["waits"]["forecast"]["startP50"]
        assert found["asOf"] + 2000.0 < start < found["asOf"] + 7000.0
        detail = (await user.get(f"/jobs/{MINE}/waits?unblock=false"))["detail"]
        forecast = detail["forecast"]
        assert ("expected", 4, 4) == (forecast["verdict"], forecast["rollouts"], forecast["wanted"])
        assert forecast["startP50"] <= forecast["startP90"] < forecast["finishP90"]
        assert 0 <= forecast["age"] < 60
        assert 0.0 <= forecast["withinHour"] <= 1.0
        assert detail["job"]["place"] == jobs["waits"]["place"]
        never = (await user.get(f"/jobs/{MINE}/huge?unblock=false"))["detail"]["forecast"]
        assert (False, "never", None) == (never["known"], never["verdict"], never["startP50"])
        assert never["words"].startswith("never: ")
        ends = (await user.get(f"/jobs/{MINE}/runs?unblock=false"))["detail"]["forecast"]
        assert (True, None) == (ends["known"], ends["startP50"])
        assert ends["finishP50"] is not None
        about = await user.get("/forecasts")
        assert (20, 4, "") == (about["finishedJobs"], about["rollouts"], about["problem"])
        assert (False, False) == (about["arrivals"], forecast["arrivals"]), "it is not known what old jobs asked for"
        question = {"edits": [{"edit": "add-nodes-like", "like": "n0", "count": 2}]}
        answer = (await user.post("/what-if", question))["whatIf"]
        assert answer["forecast"]["rollouts"] > 0
        shifts = {one["job"]: one for one in answer["forecasts"]}
        assert {f"{MINE}/waits", f"{MINE}/huge"} == shifts.keys()
        assert 1 == answer["forecast"]["others"]
        shift = shifts[f"{MINE}/waits"]
        assert shift["after"]["startP50"] < shift["before"]["startP50"], "it starts at once with more nodes"
        assert "never" == shifts[f"{MINE}/huge"]["after"]["verdict"]
        none = (await user.post("/what-if", {**question, "seconds": 0}))["whatIf"]
        assert ([], 0) == (none["forecasts"], none["forecast"]["rollouts"])
        paths = ("/forecasts", "/jobs", f"/jobs/{MINE}/waits?unblock=false", f"/jobs/{MINE}/huge?unblock=false")
        for body in [str(answer), *[str(await user.get(path)) for path in paths]]:
            assert "aq7" not in body
        async with user.stream() as events:
            async for event in events:
                if any(job["forecast"] for job in event.get("jobs", ())):  # a pulse has none
                    break
            assert "aq7" not in str(event)

    finished(tmp_path / "history.db", 3000.0)
    told(tmp_path, story, history=str(tmp_path / "history.db"), nodes=1)


def test_jobs_that_come_later_are_in_forecasts_if_the_history_has_them(tmp_path: Path) -> None:
    """Every half hour of two days an important job came. The answers say that such jobs were played."""
    now = time.time()
    asked = msgspec.json.encode(Asked((Pods(1, ((GPU, 8), ("pods", 1))),), priority=1000)).decode()
    rows = [run_of(n, at, at + 60.0, asked) for n, at in enumerate(now - 1800.0 * (n + 1) for n in range(96))]
    store = Store(read_address(str(tmp_path / "history.db")))
    assert store.open()
    store.write(rows)
    store.close()

    async def story(web: Web) -> None:
        client = await web.as_user(ADMIN)
        await web.gang(MINE, "runs", 1, gpu=8, on="n0")
        await web.gang(MINE, "waits", 1, gpu=8)
        found = await until(client, "/jobs?state=waiting", lambda a: a["total"] == 1 and a["items"][0]["forecast"])
        assert "expected" == found["items"][0]["forecast"]["verdict"]
        detail = (await client.get(f"/jobs/{MINE}/waits?unblock=false"))["detail"]
        assert detail["forecast"]["arrivals"] is True
        assert (await client.get("/forecasts"))["arrivals"] is True
        question = {"edits": [{"edit": "add-nodes-like", "like": "n0", "count": 2}]}
        assert (await client.post("/what-if", question))["whatIf"]["forecast"]["arrivals"] is True

    told(tmp_path, story, nodes=1, history=str(tmp_path / "history.db"))


def test_without_history_declared_limits_count_and_the_rest_is_unknown(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        client = await web.as_user(ADMIN)
        await web.gang(MINE, "runs", 1, gpu=8, on="n0")
        await web.gang(MINE, "waits", 1, gpu=8)
        await until(client, "/jobs?state=waiting", lambda a: a["total"] == 1)
        path = f"/jobs/{MINE}/waits?unblock=false"
        found = await until(client, path, lambda a: a["detail"]["job"]["forecast"] is not None)
        assert ("unknown", False) == (found["detail"]["forecast"]["verdict"], found["detail"]["forecast"]["known"])
        assert "unknown run time" in found["detail"]["forecast"]["words"]
        group = volcano_podgroup.KIND.resource.path(MINE, "runs")
        await web.cluster.api.patch(group, {"metadata": {"annotations": {"maar.dev/max-runtime": "2h"}}})
        found = await until(client, path, lambda a: a["detail"]["forecast"]["known"])
        assert found["detail"]["forecast"]["startP50"] > found["asOf"] + 5000.0
        about = await client.get("/forecasts")
        assert (0, [], "no history is configured") == (about["finishedJobs"], about["quality"], about["notKept"])

    told(tmp_path, story, nodes=1)


def test_a_process_that_dies_is_counted_and_answers_go_on(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        client = await web.as_user(ADMIN)
        await web.gang(MINE, "waits", 1, gpu=8)
        await until(client, "/jobs?state=waiting", lambda a: a["total"] == 1)
        about = await until(client, "/forecasts", lambda a: a["failed"] > 0)
        assert ("the last forecast failed", 0) == (about["problem"], about["made"])
        detail = (await client.get(f"/jobs/{MINE}/waits?unblock=false"))["detail"]
        assert "unknown: the forecast failed" == detail["forecast"]["words"]
        answer = await client.post("/what-if", {"edits": [{"edit": "cordon", "nodes": ["n0"]}]})
        assert "the forecast failed" == answer["whatIf"]["forecast"]["words"]

    told(tmp_path, story, pace=ForecastPace(every=0.5, soon=0.05, budget=20.0, rollouts=4, memory=60 << 20))


def test_after_a_process_was_killed_the_next_one_works(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        client = await web.as_user(ADMIN)
        for child in await patience.until(lambda: forecasting(os.getpid())):
            os.kill(child, signal.SIGKILL)
        about = await until(client, "/forecasts", lambda a: a["made"] > 0 and a["failed"] > 0)
        assert "" == about["problem"]
        assert b"maar_forecast_failures_total 1\n" in (await client.ask("/metrics"))[1]

    told(tmp_path, story, pace=ForecastPace(every=0.5, soon=0.05, budget=20.0, rollouts=4, again=0.1))


def _has_error(quality: Any) -> bool:
    return quality["medianError"] is not None


def test_jobs_run_and_end_and_forecasts_are_judged(tmp_path: Path) -> None:
    """A scheduler that records, and a `maar web` that learns from it, on one history."""
    file = str(tmp_path / "history.db")

    async def end(web: Web, name: str) -> None:
        await web.cluster.api.patch(PODS.path(MINE, f"{name}-0"), {"metadata": {"annotations": {RUNTIME: "0"}}})

    async def story(web: Web) -> None:
        client = await web.as_user(USER)
        history = History(file)
        history.start()
        async with scheduling(web.cluster, history=history):
            for i in range(6):
                await web.gang(MINE, f"old-{i}", 1, gpu=8)
                await until(client, "/jobs?state=running", lambda a: a["total"] == 1)
                await end(web, f"old-{i}")
                await until(client, "/jobs?state=running", lambda a: a["total"] == 0)
            await web.gang(MINE, "first", 1, gpu=8)
            await until(client, "/jobs?state=running", lambda a: a["total"] == 1)
            await web.gang(MINE, "second", 1, gpu=8)
            await web.gang(MINE, "cancelled", 1, gpu=8)
            await until(client, "/forecasts", lambda a: a["finishedJobs"] >= 6)
            path = f"/jobs/{MINE}/second?unblock=false"
            found = await until(client, path, lambda a: a["detail"]["forecast"]["known"])
            assert found["detail"]["forecast"]["startP50"] >= found["detail"]["forecast"]["madeAt"]
            about = await until(client, "/forecasts", lambda a: sum(q["censored"] for q in a["quality"]) >= 2)
            assert ({"default"}, "") == ({q["queue"] for q in about["quality"]}, about["notKept"])
            await web.cluster.api.delete(PODS.path(MINE, "cancelled-0"))
            await web.cluster.api.delete(volcano_podgroup.KIND.resource.path(MINE, "cancelled"))
            await end(web, "first")
            log = ForecastLog(file)
            known: dict[str, tuple[bool, bool]] = {}

            async def judged() -> bool:
                _, found = await log.load()
                known.update(
                    {p.name: (p.started is not None, p.gone is not None) for p in found if p.started or p.gone}
                )
                return {"second", "cancelled"} <= known.keys()

            await patience.until(judged, "both forecasts are judged")
            await log.close()
            assert ((True, False), (False, True)) == (known["second"], known["cancelled"])
            # On a busy machine the first forecast may be made a minute after the submission: then that is its age.
            about = await until(client, "/forecasts", lambda a: any(map(_has_error, a["quality"])))
            quality = next(filter(_has_error, about["quality"]))
            assert 0.0 <= quality["coverageP90"] <= 1.0
            assert 0.0 <= quality["medianError"] < 100.0
            assert sum(q["censored"] for q in about["quality"]) >= 1, "a cancelled job is not dropped"
            status, page = await client.ask("/metrics")
            assert 200 == status
            assert f'maar_forecast_coverage_p90{{queue="default",age="{quality["age"]}"}} '.encode() in page
            assert b"maar_forecast_failures_total 0" in page
            assert 401 == (await web.with_token().ask("/metrics"))[0]
        await history.close()

    told(tmp_path, story, nodes=1, history=file, parts=[Kubelets(start=0.01, stop=0.01)])
