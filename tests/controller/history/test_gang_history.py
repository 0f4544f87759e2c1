"""Accounts of rigid gangs: from a live Maar on the embedded server to what `maar history` shows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.support.live import GPU, NAMESPACE, OUR_CRDS, Live, bound, connected, scheduling

from maar.cli.history import history as show_history
from maar.embedded.parts.jobs import Jobs
from maar.embedded.parts.kubelets import RUNTIME, Kubelets
from maar.embedded.server import EmbeddedServer
from maar.history.history import History
from maar.kube.kinds import volcano_podgroup
from maar.kube.wire.api_resources import PODS

JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    server = EmbeddedServer(parts=[Kubelets(start=0.01, stop=0.01), Jobs()])
    server.start()
    yield server.kubeconfig(tmp_path / "kubeconfig")
    server.stop()


class Stage:
    """One node with 8 GPUs, and a Maar that records."""

    def __init__(self, live: Live, folder: Path) -> None:
        self.live = live
        self.file = str(folder / "history.db")

    @asynccontextmanager
    async def maar(self) -> AsyncIterator[None]:
        history = History(self.file)
        history.start()
        async with scheduling(self.live, history=history):
            yield
        await history.close()

    def shown(self, job: str) -> dict[str, Any] | None:
        """One job as `maar history -o json` shows it."""
        ran = CliRunner().invoke(show_history, ["--history", self.file, "-o", "json"])
        jobs = json.loads(ran.stdout)["jobs"] if ran.exit_code == 0 else []
        found = [j for j in jobs if j["job"] == f"{NAMESPACE}/{job}"]
        assert len(found) < 2
        return found[0] if found else None

    async def until(self, job: str, *kinds: str) -> dict[str, Any]:
        """The account of a job, once it has exactly these events."""

        def happened() -> list[str] | None:
            found = self.shown(job)
            return None if found is None else [event["kind"] for event in found["events"]]

        await self.live.eventually(lambda: happened() == list(kinds), f"{job}: {kinds}, not {happened()}")
        found = self.shown(job)
        assert found is not None
        return found

    async def submit(self, name: str, pods: int, gpus: int, priority: str = "") -> None:
        """A batch Job whose pods are a gang, and come back after an eviction."""
        container = {"name": "c", "image": "x", "resources": {"limits": {GPU: str(gpus)}}}
        spec: dict[str, Any] = {"schedulerName": "maar", "restartPolicy": "Never", "containers": [container]}
        if priority:
            spec["priorityClassName"] = priority
        template = {"metadata": {"annotations": {"maar.dev/gang": "true"}}, "spec": spec}
        body = {
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"parallelism": pods, "completions": pods, "template": template},
        }
        await self.live.api.create(JOBS, body)

    async def finish(self, name: str) -> None:
        body = {"metadata": {"annotations": {RUNTIME: "0"}}}
        for pod in await self.live.pods():
            if pod.name.startswith(f"{name}-"):
                await self.live.api.patch(PODS.path(NAMESPACE, pod.name), body)


def told(kubeconfig: Path, folder: Path, story: Callable[[Stage], Awaitable[None]]) -> None:
    async def main() -> None:
        async with connected(kubeconfig) as live:
            await live.crds(OUR_CRDS)
            await live.nodes(1, gpu=8)
            await live.priority("high", 1000)
            await story(Stage(live, folder))

    asyncio.run(main())


def test_a_gang_from_its_submission_to_its_end(kubeconfig: Path, tmp_path: Path) -> None:
    """It waits, starts, is evicted, starts again and completes: five rows, whatever its number of pods."""

    async def story(stage: Stage) -> None:
        async with stage.maar():
            await stage.submit("study", 4, 2)
            first = await stage.until("study", "submitted", "started")
            assert ("running", 4, 0) == (first["state"], first["workers"], first["evictions"])
            await stage.submit("urgent", 1, 8, "high")
            second = await stage.until("study", "submitted", "started", "evicted")
            assert ("waiting", 0, 1) == (second["state"], second["workers"], second["evictions"])
            await stage.live.until(lambda pods: any(p.phase == "Running" and "urgent" in p.name for p in pods))
            await stage.finish("urgent")
            await stage.until("study", "submitted", "started", "evicted", "started")
            await stage.live.until(
                lambda pods: sum(p.phase == "Running" and p.name.startswith("study-") for p in pods) == 4
            )
            await stage.finish("study")
            last = await stage.until("study", "submitted", "started", "evicted", "started", "ended")
        assert ("completed", 0, 1) == (last["state"], last["workers"], last["evictions"])
        times = [event["at"] for event in last["events"]]
        assert times == sorted(times)
        waited = (times[1] - times[0]) + (times[3] - times[2])
        ran = (times[2] - times[1]) + (times[4] - times[3])
        assert waited == pytest.approx(last["waited_seconds"], abs=0.01)
        assert ran * 8 / 3600 == pytest.approx(last["gpu_hours"], rel=0.3)
        assert "nvidia.com/gpu" == last["accelerator"]

    told(kubeconfig, tmp_path, story)


def test_a_gang_of_a_podgroup_and_a_restart_of_maar(kubeconfig: Path, tmp_path: Path) -> None:
    """The next Maar goes on with the account; what ended meanwhile has ended. Single pods have no account."""

    async def story(stage: Stage) -> None:
        async with stage.maar():
            await stage.live.pod("alone", gpu=1)
            for name in ("kept", "gone"):
                await stage.live.gang(name, 2, gpu=1)
                await stage.live.until(bound(name, 2))
                await stage.until(name, "submitted", "started")
        for pod in ("gone-0", "gone-1"):
            await stage.live.delete(pod)
        await stage.live.api.delete(volcano_podgroup.KIND.resource.path(NAMESPACE, "gone"))
        await stage.live.until(lambda pods: not any(p.name.startswith("gone-") for p in pods))
        async with stage.maar():
            ended = await stage.until("gone", "submitted", "started", "ended")
            assert "deleted" == ended["state"]
            kept = await stage.until("kept", "submitted", "started")
            assert "running" == kept["state"]
            assert stage.shown("alone") is None

    told(kubeconfig, tmp_path, story)
