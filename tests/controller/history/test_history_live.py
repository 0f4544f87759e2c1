"""The live Maar with its history: from a reported epoch to the next decision and to the recorded events of the job.

On the embedded server with the simulated operator; `maar.report` sends the reports over HTTP, as in users' scripts.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.support.front import fronting
from tests.support.live import GPU, NAMESPACE, Live, connected, scheduling

from maar.cli.history import history as show_history
from maar.config.file import read_config
from maar.controller.record import read_recording
from maar.controller.scheduler import Scheduler
from maar.controller.settings.settings import Settings
from maar.decide import decide
from maar.embedded.parts.kubelets import Kubelets
from maar.embedded.parts.operators import TrainingOperator
from maar.embedded.server import EmbeddedServer
from maar.history.address import read_address
from maar.history.history import History
from maar.history.records import Event
from maar.history.store import Store
from maar.kube.client.errors import Conflict
from maar.kube.kinds.kubeflow import pytorchjob
from maar.model.elastic import Elastic
from maar.model.snapshot import Snapshot
from maar.model.tasks import Status
from maar.registry import catalog
from maar.report import Reporter
from maar.web.front.routes import MEASUREMENTS
from maar.web.reviews import Reviews

PYTORCH = pytorchjob.KIND.resource
CONFIG = """
actions: "enqueue, allocate, resize"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: proportion}, {name: binpack}]
pools:
- {name: default, algorithm: optimus, rate-limit: 0, minimum-time: 0, hysteresis: 0, restart: 0}
"""
EPOCH = 0.004
"""Seconds of one epoch: short, so that no epoch starts before the last resize."""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    """A cluster with an operator."""
    server = EmbeddedServer(parts=[Kubelets(start=0.01, stop=0.01), TrainingOperator()])
    server.start()
    yield server.kubeconfig(tmp_path / "kubeconfig")
    server.stop()


class Stage:
    """A cluster of one node with 8 GPUs, a Maar with a history, and training jobs that report."""

    def __init__(self, live: Live, folder: Path) -> None:
        self.live = live
        self.folder = folder
        self.database = str(folder / "history.db")
        self.config = folder / "config.yaml"
        self.config.write_text(CONFIG)
        self.history = History()
        self._url = ""
        self._token = ""

    @asynccontextmanager
    async def maar(self, where: str | None = None, **more: Any) -> AsyncIterator[Scheduler]:
        """Run Maar with its HTTP server."""
        self.history = History(where or self.database)
        self.history.start()
        settings = Settings(learn_every=0.1)
        self._token = await self._make_token()
        async with fronting(self.history, Reviews(self.live.api), clock=time.time) as web:
            self._url = f"http://127.0.0.1:{web.port(MEASUREMENTS)}"
            try:
                async with scheduling(self.live, settings, self.config, history=self.history, **more) as scheduler:
                    yield scheduler
            finally:
                await self.history.close()

    async def _make_token(self) -> str:
        """A token as the pods of a namespace have it."""
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
        with contextlib.suppress(Conflict):
            await self.live.api.create(path, {"metadata": {"name": "trainer"}})
        answer = await self.live.api.create(f"{path}/trainer/token", {"spec": {}})
        return str(json.loads(answer)["status"]["token"])

    async def submit(
        self, name: str, low: int = 1, high: int = 8, priority: str = "", says: dict[str, str] | None = None
    ) -> None:
        """Create a suspended PyTorchJob."""
        asks = {"requests": {"cpu": "100m"}, "limits": {GPU: "1"}}
        spec: dict[str, Any] = {
            "schedulerName": "maar",
            "containers": [{"name": "pytorch", "image": "train", "resources": asks}],
            **({"priorityClassName": priority} if priority else {}),
        }
        worker = {"replicas": low, "restartPolicy": "Never", "template": {"spec": spec}}
        job = {
            "apiVersion": PYTORCH.api_version,
            "kind": PYTORCH.kind,
            "metadata": {"name": name, "namespace": NAMESPACE, "annotations": says or {}},
            "spec": {
                "runPolicy": {"suspend": True, "cleanPodPolicy": "All"},
                "elasticPolicy": {"minReplicas": low, "maxReplicas": high},
                "pytorchReplicaSpecs": {"Worker": worker},
            },
        }
        await self.live.api.create(PYTORCH.path(NAMESPACE), job)

    async def report(self, job: str, workers: int, *, first: int = 0, seconds: float = EPOCH) -> None:
        """Report three epochs, as the script in worker 0 does."""
        reporter = Reporter(
            *(self._url, f"{NAMESPACE}/{job}"),
            total_epochs=100,
            workers=workers,
            rank=0,
            token=self._token,
            timeout=30.0,  # a busy machine is not what is tested
        )
        for epoch in range(first, first + 3):
            reporter.report(epoch, seconds)
        await asyncio.to_thread(reporter.flush, 10.0)

    async def until(self, sizes: dict[str, int]) -> None:
        """Wait until the jobs have these numbers of running workers."""

        async def stand() -> bool:
            pods = [p for p in await self.live.pods() if p.phase == "Running" and not p.leaving]
            have = {job: sum(p.name.startswith(f"{job}-worker-") for p in pods) for job in sizes}
            return have == sizes

        await self.live.eventually(stand, f"{sizes}")

    async def delete(self, name: str) -> None:
        await self.live.api.delete(PYTORCH.path(NAMESPACE, name))

    async def pause(self, name: str, suspend: bool) -> None:
        """Suspend or resume a job, as its owner."""
        await self.live.api.patch(PYTORCH.path(NAMESPACE, name), {"spec": {"runPolicy": {"suspend": suspend}}})

    async def lives(self, *expected: str) -> dict[str, list[tuple[str, int, int]]]:
        """The output of `maar history` for each job, once it contains the last event of each."""
        shown: dict[str, Any] = {}

        def all_shown() -> bool:
            done = CliRunner().invoke(show_history, ["--history", self.database, "-o", "json"])
            assert 0 == done.exit_code, done.output
            shown.update({job["job"].partition("/")[2]: job for job in json.loads(done.output)["jobs"]})
            lines = (line.split() for line in expected)
            return all(job in shown and shown[job]["events"][-1]["kind"] == kind for job, kind in lines)

        try:
            await self.live.eventually(all_shown)
        except TimeoutError:
            raise AssertionError(f"missing: {expected}, but: {shown}") from None
        return {
            name: [(e["kind"] + (f" {e['how']}" if e["how"] else ""), e["before"], e["after"]) for e in job["events"]]
            for name, job in shown.items()
        }

    def events(self, job: str) -> list[Event]:
        """The stored events of a job."""
        store = Store(read_address(self.database), write=False)
        assert store.open()
        found = sorted((e for e in store.events() if e.name == job), key=lambda e: e.at)
        store.close()
        return found


Story = Callable[[Stage], Awaitable[None]]


def known(scheduler: Scheduler, job: str) -> Elastic:
    """A job as the last decision saw it."""
    jobs = scheduler.cache.latest.jobs
    found = jobs.jobs[jobs.number[f"{NAMESPACE}/{job}"]].elastic
    assert found is not None
    return found


def running(scheduler: Scheduler, job: str) -> int:
    """How many workers of a job the last decision saw on nodes."""
    seen = scheduler.cache.latest
    number = seen.jobs.number.get(f"{NAMESPACE}/{job}")
    tasks = [] if number is None else seen.jobs.members[number].tolist()
    return sum(seen.tasks.tasks[task].status is Status.BOUND for task in tasks)


def tell(kubeconfig: Path, tmp_path: Path, story: Story) -> None:
    async def main() -> None:
        async with connected(kubeconfig) as live:
            await live.nodes(1, gpu=8)
            await live.priority("high", 1000)
            await story(Stage(live, tmp_path))

    asyncio.run(main())


def test_what_trainings_report_is_what_the_next_decision_knows(kubeconfig: Path, tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        async with stage.maar(record=tmp_path / "recording") as scheduler:
            await stage.submit("flat-1")
            await stage.until({"flat-1": 8})
            await stage.report("flat-1", 8)
            await stage.live.eventually(lambda: known(scheduler, "flat-1").remaining < math.inf, "the report is known")
            await stage.submit("keen-1")  # its duration is unknown: optimus serves it first
            await stage.until({"flat-1": 1, "keen-1": 7})
            await stage.report("flat-1", 1, first=3)
            # It is as fast on 1 worker as on 8: the room that keen-1 leaves does not help it, nor its next run.
            curve = ((1, 1.0), (8, 1.0))
            await stage.live.eventually(lambda: known(scheduler, "flat-1").speedup == curve, "the speed-up is learnt")
            assert {("default/flat", GPU): dict(curve)} == stage.history.model.points()
            assert 94 * EPOCH == pytest.approx(known(scheduler, "flat-1").remaining)
            await stage.delete("keen-1")
            await stage.until({"flat-1": 1, "keen-1": 0})
            await stage.submit("flat-2")
            await stage.submit("keen-2", 2)
            await stage.until({"flat-1": 1, "flat-2": 1, "keen-2": 6})
            await stage.delete("keen-2")
            await stage.delete("flat-1")
            await stage.until({"flat-1": 0, "flat-2": 1, "keen-2": 0})
            lives = await stage.lives("flat-1 ended", "keen-1 ended", "flat-2 started", "keen-2 ended")
        resized = [("submitted", 0, 0), ("started", 0, 8), ("resized", 8, 1), ("ended deleted", 1, 0)]
        assert resized == lives["flat-1"]
        assert [("submitted", 0, 0), ("started", 0, 7), ("ended deleted", 7, 0)] == lives["keen-1"]
        assert [("submitted", 0, 0), ("started", 0, 1)] == lives["flat-2"], "one worker is enough from the start"

    tell(kubeconfig, tmp_path, story)
    # The recording contains what decisions knew: decided again, the plans are the same.
    config = read_config(CONFIG, "config", catalog()).config
    cycles = list(read_recording(tmp_path / "recording"))
    assert any(job.elastic is not None and job.elastic.speedup for cycle in cycles for job in cycle.cluster.jobs)
    for cycle in cycles:
        snapshot = Snapshot(cycle.cluster)
        snapshot.resting = frozenset(snapshot.jobs.number[key] for key in cycle.resting)
        assert cycle.plan == decide(snapshot, config, cycle.now)


def test_maar_knows_on_how_many_nodes_a_job_runs(kubeconfig: Path, tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        async with stage.maar():
            await stage.live.nodes(1, gpu=8, first=1)
            await stage.submit("wide-1", high=16)
            await stage.until({"wide-1": 16})
            places = stage.history.nodes_of
            assert places is not None
            await stage.live.eventually(lambda: places(f"{NAMESPACE}/wide-1", 16) == 2, "the nodes are known")
            assert (None, None) == (places(f"{NAMESPACE}/wide-1", 5), places(f"{NAMESPACE}/other", 16))
            await stage.report("wide-1", 16)
            await stage.report("wide-1", 5, first=3)
            seen: list[int | None] = []

            async def are_stored() -> bool:
                seen[:] = [m.nodes for m in await stage.history.measurements_of(NAMESPACE, "wide-1")]
                return len(seen) == 6

            await stage.live.eventually(are_stored, "all reports are stored")
            assert [2, 2, 2, None, None, None] == seen, "five workers is not what it has"
            await stage.delete("wide-1")
            await stage.live.eventually(lambda: places(f"{NAMESPACE}/wide-1", 16) is None, "it is gone")

    tell(kubeconfig, tmp_path, story)


def test_a_jobs_own_epochs_count_before_those_of_its_category(kubeconfig: Path, tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        async with stage.maar() as scheduler:
            annotations = {"maar.dev/category": "vision", "maar.dev/epochs": "10", "maar.dev/restart-seconds": "7"}
            await stage.submit("a", says=annotations)
            await stage.until({"a": 8})
            await stage.report("a", 8)
            await stage.submit("b", high=1, says=annotations)
            await stage.until({"a": 7, "b": 1})
            await stage.live.eventually(lambda: known(scheduler, "b").speedup, "the speed-up is learnt")
            b = known(scheduler, "b")
            assert (7.0, ((8, 8.0),)) == (b.restart, b.speedup)
            assert 10 * 8 * EPOCH == pytest.approx(b.remaining), (
                "its own number of epochs, each as long as in its category"
            )

    tell(kubeconfig, tmp_path, story)


def test_every_change_is_recorded_once_whichever_maar_made_it(kubeconfig: Path, tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        async with stage.maar():
            await stage.submit("low", 2, 6)
            await stage.until({"low": 6})
            await stage.submit("boss", 8, 8, "high")
            await stage.until({"boss": 8, "low": 0})
            await stage.delete("boss")
            await stage.until({"low": 6})
            await stage.pause("low", True)
            await stage.lives("low suspended")
            await stage.pause("low", False)
            await stage.until({"low": 6})
            await stage.lives("low started")
        async with stage.maar():  # another Maar, which finds everything unchanged
            await stage.submit("more", 2, 2)
            await stage.until({"low": 6, "more": 2})
            await stage.lives("low started", "more started")
        async with stage.maar("none"):  # a Maar without a history
            await stage.submit("most", 2, 2)
            await stage.until({"low": 4, "more": 2, "most": 2})
            await stage.live.pod_status("more-worker-0", phase="Succeeded")
            await stage.until({"low": 4, "most": 2, "more": 0})
            await stage.delete("most")
            await stage.until({"low": 6, "more": 0})
            await stage.submit("last", 2, 2, "high")
            await stage.until({"low": 6, "last": 2})
            await stage.submit("least", 1, 1)
            await stage.until({"low": 5, "last": 2, "least": 1})
        async with stage.maar():  # a Maar that catches up
            lives = await stage.lives("low resized", "more ended", "last started", "least started")
            assert [
                ("submitted", 0, 0),
                ("started", 0, 6),
                ("suspended", 6, 0),
                ("started", 0, 6),
                ("suspended", 6, 0),
                ("started", 0, 6),
                ("resized", 6, 5),
            ] == lives["low"]
            assert [("submitted", 0, 0), ("started", 0, 2), ("ended completed", 2, 0)] == lives["more"]
            assert "most" not in lives
            await stage.live.pod_status("low-worker-1", phase="Failed")
            lives = await stage.lives("low ended")
            assert ("ended failed", 5, 0) == lives["low"][-1]
        had = [event.attained for event in stage.events("low")]
        assert had[0] == 0.0
        assert had == sorted(had, key=lambda seconds: seconds or 0.0), "GPU seconds never decrease"
        _, started, ended = stage.events("boss")
        assert 8 * (ended.at - started.at) == pytest.approx(ended.attained)

    tell(kubeconfig, tmp_path, story)


def test_the_run_of_an_elastic_job_counts_at_the_size_that_its_owner_requested(
    kubeconfig: Path, tmp_path: Path
) -> None:
    """It asks for one worker and has eight, so each second of it counts as eight."""

    async def story(stage: Stage) -> None:
        async with stage.maar() as scheduler:
            await stage.submit("wide-7")
            await stage.until({"wide-7": 8})
            await stage.live.eventually(lambda: running(scheduler, "wide-7") == 8, "Maar has seen its workers")
            await asyncio.sleep(1.0)  # the length of the run
            await stage.delete("wide-7")
            store = Store(read_address(stage.database), write=False)
            await stage.live.eventually(lambda: store.open() and store.runs(), "a run")
            (run,) = store.runs()
            store.close()
        assert ("wide", 1, "deleted") == (run.stem, run.gpus, run.how)
        # Kubernetes states starts in whole seconds.
        assert 6.0 < run.seconds <= 8 * (run.ended - run.started + 1.0)

    tell(kubeconfig, tmp_path, story)


def test_without_its_database_maar_still_decides(kubeconfig: Path, tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        (tmp_path / "file").write_text("not a folder")
        async with stage.maar(f"{tmp_path}/file/history.db"):
            await stage.submit("a")
            await stage.until({"a": 8})
            await stage.report("a", 8)
            await stage.submit("b", 3)
            await stage.until({"a": 4, "b": 4})
            assert "" != stage.history.problem

    tell(kubeconfig, tmp_path, story)
