"""Runs of finished jobs: from a live Maar on the embedded server to the rows that forecasts learn from."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.live import GPU, NAMESPACE, OUR_CRDS, Live, connected, scheduling

from maar.controller.scheduler import Scheduler
from maar.embedded.parts.jobs import Jobs
from maar.embedded.parts.kubelets import RUNTIME, Kubelets
from maar.embedded.server import EmbeddedServer
from maar.forecast.arrivals import Asked
from maar.history.address import read_address
from maar.history.history import History
from maar.history.records import FinishedRun
from maar.history.store import Store
from maar.kube.wire.api_resources import PODS

JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    server = EmbeddedServer(parts=[Kubelets(start=0.01, stop=0.01), Jobs()])
    server.start()
    yield server.kubeconfig(tmp_path / "kubeconfig")
    server.stop()


def rows(file: Path) -> dict[str, FinishedRun]:
    store = Store(read_address(str(file)), write=False)
    found = store.runs() if store.open() else []
    store.close()
    assert len(found) == len({run.job for run in found})
    return {run.name: run for run in found}


async def submit(live: Live, name: str, pods: int, **spec: Any) -> None:
    """A batch Job whose pods are a gang."""
    container = {"name": "c", "image": "x", "resources": {"limits": {GPU: "2"}}}
    inner = {"schedulerName": "maar", "restartPolicy": "Never", "containers": [container]}
    notes = {"maar.dev/gang": "true", "maar.dev/category": "vision"}
    body = {
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": notes},
        "spec": {"parallelism": pods, "completions": pods, "template": {"spec": inner}, **spec},
    }
    await live.api.create(JOBS, body)


async def finish(live: Live, name: str) -> None:
    for pod in await live.pods():
        if pod.name.startswith(name):
            await live.api.patch(PODS.path(NAMESPACE, pod.name), {"metadata": {"annotations": {RUNTIME: "0"}}})


def test_a_finished_gang_and_a_finished_pod_have_a_row_each(kubeconfig: Path, tmp_path: Path) -> None:
    async def story(live: Live, file: Path) -> None:
        history = History(str(file))
        history.start()
        async with scheduling(live, history=history):
            await submit(live, "study-20261101", 2, activeDeadlineSeconds=600)
            await live.pod("alone", gpu=1)
            await live.until(lambda pods: sum(p.phase == "Running" for p in pods) == 3)
            assert {} == rows(file)
            await finish(live, "study-")
            await finish(live, "alone")
            await live.eventually(lambda: len(rows(file)) == 2, "both rows")
            await live.pod("never", gpu=64)
        await history.close()
        found = rows(file)
        gang, pod = found["study-20261101"], found["alone"]
        assert ("study", NAMESPACE, "default", 4, "completed") == (
            gang.stem,
            gang.owner,
            gang.queue,
            gang.gpus,
            gang.how,
        )
        assert (600.0, f"{NAMESPACE}/vision", GPU) == (gang.declared, gang.category, gang.accelerator)
        assert gang.submitted <= gang.started <= gang.ended
        assert gang.ended - gang.started == pytest.approx(gang.seconds, abs=1.5)
        assert (1, "", None) == (pod.gpus, pod.category, pod.declared)
        gang_asked, pod_asked = (msgspec.json.decode(run.asked, type=Asked) for run in (gang, pod))
        (part,) = gang_asked.pods
        assert (2, 2, 2, 0) == (part.count, dict(part.requests)[GPU], gang_asked.least, gang_asked.most)
        assert [1] == [dict(part.requests)[GPU] for part in pod_asked.pods]

    async def main() -> None:
        async with connected(kubeconfig) as live:
            await live.crds(OUR_CRDS)
            await live.nodes(1, gpu=8)
            await story(live, tmp_path / "history.db")

    asyncio.run(main())


def test_a_deleted_job_and_a_restart_of_maar(kubeconfig: Path, tmp_path: Path) -> None:
    """The next Maar knows the start from the pods."""
    file = tmp_path / "history.db"

    async def first(live: Live, scheduler: Scheduler) -> None:
        await live.pod("alone", gpu=1)
        await live.until(lambda pods: any(p.phase == "Running" for p in pods))

        def runs() -> bool:
            return [True] == [bool(task.started) for task in scheduler.cache.latest.tasks.tasks]

        await live.eventually(runs, "Maar has seen that the pod runs")

    async def then(live: Live, scheduler: Scheduler) -> None:
        await live.eventually(lambda: scheduler.loop.cycles > 0, "the next Maar has seen the pod")
        await live.delete("alone")
        await live.eventually(lambda: "alone" in rows(file), "a row")

    async def main() -> None:
        async with connected(kubeconfig) as live:
            await live.crds(OUR_CRDS)
            await live.nodes(1, gpu=8)
            for story in (first, then):
                history = History(str(file))
                history.start()
                try:
                    async with scheduling(live, history=history) as scheduler:
                        await story(live, scheduler)
                finally:
                    await history.close()
        run = rows(file)["alone"]
        assert "deleted" == run.how
        assert run.seconds > 0.3

    asyncio.run(main())
