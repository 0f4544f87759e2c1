"""The page of a real `maar web` on an embedded API server: log-in, live changes, and a viewer of one namespace."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import pytest
from playwright.sync_api import Page, expect
from tests.support.web import ADMIN, MINE, THEIRS, USER, Web, webbing
from tests.web.page.conftest import PATIENCE, Open

from maar.kube.kinds import volcano_podgroup
from maar.web.api.server import PAGE
from maar.web.forecasting.keeper import Pace

pytestmark = [pytest.mark.real, pytest.mark.slow]

expect.set_options(timeout=PATIENCE)
T = TypeVar("T")


class Running:
    """A `maar web` in a thread: the browser is driven from this one."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self._folder = folder
        self._options = options
        self._ready: Future[Web] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()))
        self._thread.start()
        self.web = self._ready.result(60)

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with webbing(self._folder, page=PAGE, **self._options) as web:
                self._ready.set_result(web)
                await self._stop.wait()
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def token(self, user: str) -> str:
        return self.run(self.web.as_user(user)).headers["Authorization"].removeprefix("Bearer ")

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    found = Running(tmp_path)
    found.run(found.web.gang(MINE, "runs", 2, gpu=2, on="n0"))
    found.run(found.web.gang(THEIRS, "aq7runs", 1, gpu=8, on="n1"))
    found.run(found.web.gang(MINE, "waits", 2, gpu=8))
    found.run(found.web.settled())
    yield found
    found.close()


def logged_in(running: Running, opened: Open, user: str) -> Page:
    page = opened(f"{running.web.base}/")
    page.get_by_label("Token").fill(running.token(user))
    page.get_by_role("button", name="Log in").click()
    page.wait_for_selector(".grid[data-drawn]")
    return page


def test_a_user_sees_only_her_namespace(running: Running, opened: Open) -> None:
    page = logged_in(running, opened, USER)
    expect(page.locator("#in-use")).to_have_text("12 of 16")
    expect(page.locator(".legend").last).to_contain_text("jobs that you may not see: 8")
    for place in ("cluster", "queues", "waiting", "decisions"):
        page.goto(f"{running.web.base}/#/{place}")
        expect(page.locator("main h1")).to_be_visible()
        assert "aq7" not in page.content()
    page.goto(f"{running.web.base}/#/jobs/{THEIRS}/aq7runs")
    expect(page.locator("main")).to_contain_text("There is no such job, or you may not see it")


def test_a_new_job_appears_and_a_waiting_one_is_explained(running: Running, opened: Open) -> None:
    page = logged_in(running, opened, ADMIN)
    running.run(running.web.gang(MINE, "late", 1, gpu=4, on="n0"))
    expect(page.locator("#in-use")).to_have_text("16 of 16")
    expect(page.locator(".legend").last).to_contain_text(f"{MINE}/late")
    page.goto(f"{running.web.base}/#/waiting")
    row = page.locator(f"tr[data-job='{MINE}/waits']")
    row.get_by_role("button", name="What would start it?").click()
    expect(page.locator(".changes li").first).to_contain_text("it starts")
    page.goto(f"{running.web.base}/#/jobs/{MINE}/waits")
    expect(page.get_by_label("Why it waits")).to_contain_text("What would start it")
    expect(page.locator(".story")).to_contain_text("Created")


def test_forecasts_appear_on_the_page(tmp_path: Path, opened: Open) -> None:
    running = Running(tmp_path, nodes=1, pace=Pace(every=0.5, soon=0.05, budget=20.0, rollouts=4))
    try:
        web = running.web
        running.run(web.gang(MINE, "runs", 1, gpu=8, on="n0"))
        running.run(web.gang(MINE, "waits", 1, gpu=8))
        running.run(web.gang(MINE, "huge", 1, gpu=64))
        group = volcano_podgroup.KIND.resource.path(MINE, "runs")
        limit = {"metadata": {"annotations": {"maar.dev/max-runtime": "2h"}}}
        running.run(web.cluster.api.patch(group, limit))
        page = logged_in(running, opened, USER)
        page.goto(f"{web.base}/#/waiting")
        expect(page.locator(f"tr[data-job='{MINE}/waits']")).to_contain_text(re.compile(r"in (2 h|1 h 59 min)"))
        expect(page.locator(f"tr[data-job='{MINE}/waits']")).to_contain_text(re.compile("place [12]"))
        expect(page.locator(f"tr[data-job='{MINE}/huge']")).to_contain_text("never as things are")
        page.goto(f"{web.base}/#/jobs/{MINE}/waits")
        expect(page.get_by_label("Forecast")).to_contain_text("From 4 roll-outs")
        page.goto(f"{web.base}/#/queues")
        quality = page.get_by_label("How good forecasts were")
        expect(quality).to_contain_text("Forecasts are not judged: no history is configured")
    finally:
        running.close()


def test_what_if_is_asked_on_the_live_cluster(running: Running, opened: Open) -> None:
    page = logged_in(running, opened, ADMIN)
    page.goto(f"{running.web.base}/#/what-if")
    page.get_by_label("Kind of edit").select_option("end-jobs")
    page.get_by_role("button", name="Add this edit").click()
    page.get_by_label("Jobs", exact=True).fill(f"{THEIRS}/aq7runs")
    page.get_by_label("Kind of edit").select_option("add-nodes-like")
    page.get_by_role("button", name="Add this edit").click()
    page.get_by_label("Copies of node").fill("n0")
    page.get_by_label("How many").fill("1")
    page.get_by_role("button", name="What would happen?").click()
    expect(page.get_by_label("Answer")).to_contain_text(re.compile(rf"Starts: {MINE}/waits"))
