"""The page of a real `maar web` on an embedded API server: log-in, live changes, a viewer of one namespace, writes."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeVar

import pytest
from playwright.sync_api import Page, expect
from tests.support.elastic_story import CONFIG
from tests.support.live import scheduling
from tests.support.web import ADMIN, MINE, THEIRS, USER, Web, webbing
from tests.web.api.test_recordings import recorded
from tests.web.page.conftest import PATIENCE, Open

from maar.embedded.parts.jobs import Jobs
from maar.embedded.parts.kubelets import Kubelets
from maar.embedded.server import Part
from maar.kube.kinds import volcano_podgroup
from maar.web.api.server import PAGE
from maar.web.forecasting.keeper import ForecastPace

pytestmark = [pytest.mark.real, pytest.mark.slow]

expect.set_options(timeout=PATIENCE)
T = TypeVar("T")


class Running:
    """A `maar web` in a thread: the browser is driven from this one."""

    def __init__(self, folder: Path, works: bool = False, **options: Any) -> None:
        self._folder = folder
        self._works = works
        """Whether a scheduler, kubelets and the Job controller run, and jobs can be written."""
        self._options = options
        self._ready: Future[Web] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()))
        self._thread.start()
        self.web = self._ready.result(60)

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        try:
            config = self._folder / "maar.yaml"
            config.write_text(CONFIG)  # sizes change at once
            recordings = self._folder / "recordings"
            recordings.mkdir()
            recorded(recordings / "week.rec")
            parts: list[Part] = [Kubelets(start=0.01, stop=0.01), Jobs()] if self._works else []
            options = {"writes": self._works, "parts": parts, "recordings": recordings, **self._options}
            async with (
                webbing(self._folder, page=PAGE, **options) as web,
                scheduling(web.cluster, config=config) if self._works else nullcontext(),
            ):
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


@pytest.fixture
def working(tmp_path: Path) -> Iterator[Running]:
    """A cluster in which jobs can be submitted, and start."""
    found = Running(tmp_path, works=True)
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
    expect(page.get_by_label("Colours")).to_contain_text("jobs that you may not see: 8")
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
    expect(page.get_by_label("Colours")).to_contain_text(f"{MINE}/late")
    page.goto(f"{running.web.base}/#/waiting")
    row = page.locator(f"tr[data-job='{MINE}/waits']")
    row.get_by_role("button", name="What would start it?").click()
    expect(page.locator(".changes li").first).to_contain_text("it starts")
    page.goto(f"{running.web.base}/#/jobs/{MINE}/waits")
    expect(page.get_by_label("Why it waits")).to_contain_text("What would start it")
    expect(page.locator(".story")).to_contain_text("Created")


def test_forecasts_appear_on_the_page(tmp_path: Path, opened: Open) -> None:
    running = Running(tmp_path, nodes=1, pace=ForecastPace(every=0.5, soon=0.05, budget=20.0, rollouts=4))
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
        expect(page.locator(f"tr[data-job='{MINE}/waits']")).to_contain_text(re.compile(r"in (2 h|1 h 5\d min)"))
        expect(page.locator(f"tr[data-job='{MINE}/waits']")).to_contain_text(re.compile("place [12]"))
        expect(page.locator(f"tr[data-job='{MINE}/huge']")).to_contain_text("never as things are")
        page.goto(f"{web.base}/#/jobs/{MINE}/waits")
        expect(page.get_by_label("Forecast")).to_contain_text("From 4 roll-outs without jobs that come later")
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


MANIFEST = f"""
apiVersion: batch/v1
kind: Job
metadata: {{name: train, namespace: {MINE}, annotations: {{maar.dev/min-workers: "1", maar.dev/max-workers: "4"}}}}
spec:
  completionMode: Indexed
  parallelism: 2
  completions: 2
  template:
    spec:
      restartPolicy: Never
      containers: [{{name: c, image: train, resources: {{limits: {{nvidia.com/gpu: 1}}}}}}]
"""


def test_a_job_is_submitted_starts_and_is_held_resized_and_cancelled(working: Running, opened: Open) -> None:
    page = logged_in(working, opened, USER)
    page.get_by_role("link", name="Submit").click()
    page.get_by_label("Manifest, as YAML").fill("kind: Job\n")
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("alert")).to_have_text("manifests[0].apiVersion: missing")
    page.get_by_label("Manifest, as YAML").fill(MANIFEST)
    page.get_by_role("button", name="Submit").click()
    expect(page.locator("main [role=status]")).to_contain_text("spec.suspend: true")
    page.get_by_role("link", name=f"{MINE}/train").click()
    state, elastic = page.locator("main .tag").first, page.get_by_label("What it needs and has")
    expect(state).to_have_text("running")
    expect(elastic).to_contain_text("Elastic: 4 workers, from 1 to 4.")
    page.get_by_text("Change it").click()
    page.get_by_label("Most workers").fill("3")
    page.get_by_role("button", name="Change", exact=True).click()
    expect(elastic).to_contain_text("Elastic: 3 workers, from 1 to 3.")
    page.get_by_role("button", name="Hold and stop").click()
    expect(state).to_have_text("suspended")
    expect(page.get_by_label("Why it waits")).to_contain_text("held by its owner")
    page.get_by_role("button", name="Release").click()
    expect(state).to_have_text("running")
    page.get_by_role("button", name="Hold", exact=True).click()
    expect(page.get_by_role("button", name="Release")).to_be_visible()
    expect(state).to_have_text("running")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Cancel the job").click()
    expect(page.locator("main")).to_contain_text("There is no such job, or you may not see it")


def test_a_recording_is_stepped_through_and_decided_again(running: Running, opened: Open) -> None:
    page = logged_in(running, opened, ADMIN)
    page.set_viewport_size({"width": 400, "height": 800})
    page.goto(f"{running.web.base}/#/decisions")
    page.get_by_label("Decisions of").select_option("week.rec")
    expect(page.locator("#recording")).to_contain_text("6 cycles read")
    assert page.url.endswith("#/decisions/newest/week.rec")
    cycle = page.locator("#decision h2")
    while page.get_by_role("button", name="Step back").is_enabled():
        seen = cycle.text_content()
        page.locator("h1").click()
        page.keyboard.press("ArrowLeft")
        expect(cycle).not_to_have_text(seen or "")
    expect(cycle).to_have_text("Cycle 1")
    expect(page.locator("#decision .tag")).to_have_text("recorded")
    expect(page.get_by_role("region", name="Evicted")).to_contain_text(f"{THEIRS}/aq7low")
    assert 400 >= page.evaluate("document.documentElement.scrollWidth")
    page.reload()
    expect(cycle).to_have_text("Cycle 1")
    page.get_by_role("link", name="Decide it again").click()
    expect(page.locator("#about")).to_contain_text("About cycle 1 of the recording week.rec")
    page.get_by_label("Configuration").fill("actions: allocate\ntiers:\n- plugins: [{name: gang}]\n")
    page.get_by_role("button", name="What would happen?").click()
    expect(page.get_by_label("Answer")).to_contain_text("No longer evicted")
    page.goto(f"{running.web.base}/#/decisions")
    expect(page.get_by_label("Decisions of")).to_have_value("")
    page.get_by_label("Decisions of").select_option("week.rec")
    page.get_by_label("Decisions of").select_option("this process, in shadow")
    assert page.url.endswith("#/decisions")


def test_of_a_recording_a_user_sees_only_her_namespace(running: Running, opened: Open) -> None:
    page = logged_in(running, opened, USER)
    page.goto(f"{running.web.base}/#/decisions/1/week.rec")
    expect(page.locator("#decision")).to_contain_text("Of jobs that you may not see: 2 pods evicted")
    assert "aq7" not in page.content()


def test_a_path_that_does_not_exist_is_not_found(running: Running, opened: Open) -> None:
    page = opened(f"{running.web.base}/")
    for path in ("/foo", "/foo/bar", "/not-found.html"):
        answer = page.goto(f"{running.web.base}{path}")
        assert answer is not None
        assert (404, "text/html; charset=utf-8") == (answer.status, answer.headers["content-type"])
        expect(page.locator("h1")).to_have_text("Page not found")
    page.get_by_role("link", name="Back to the cluster").click()
    expect(page.get_by_label("Token")).to_be_visible()
    plain = page.request.get(f"{running.web.base}/foo", headers={"Accept": "*/*"})
    assert (404, "application/json") == (plain.status, plain.headers["content-type"])
