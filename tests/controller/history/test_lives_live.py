"""Lives of jobs: what a listener hears of a live Maar on the embedded server."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.live import NAMESPACE, OUR_CRDS, Live, bound, connected, scheduling

from maar.controller.history.lives import Life, LifeMoment, Lives
from maar.controller.scheduler import Scheduler
from maar.embedded.parts.jobs import Jobs
from maar.embedded.parts.kubelets import RUNTIME, Kubelets
from maar.embedded.server import EmbeddedServer
from maar.history.address import read_address
from maar.history.history import History
from maar.history.store import Store
from maar.kube.kinds import volcano_podgroup
from maar.kube.wire.api_resources import PODS

BEGUN, STARTED, EVICTED, ENDED = LifeMoment.BEGUN, LifeMoment.STARTED, LifeMoment.EVICTED, LifeMoment.ENDED


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    server = EmbeddedServer(parts=[Kubelets(start=0.01, stop=0.01), Jobs()])
    server.start()
    yield server.kubeconfig(tmp_path / "kubeconfig")
    server.stop()


class Heard:
    """A listener: what happened to each job, without what happens again and again."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.moments: dict[str, list[LifeMoment]] = defaultdict(list)
        self.lives = Lives(scheduler.picture)
        self.lives.listeners.append(self)
        scheduler.loop.on_cycle.append(self.lives.on_cycle)

    def __call__(self, moment: LifeMoment, life: Life, now: float) -> None:
        assert life.since <= now
        if moment is not LifeMoment.RESIZED:
            self.moments[life.job.key.partition("/")[2]].append(moment)


async def finish(live: Live, name: str) -> None:
    await live.api.patch(PODS.path(NAMESPACE, name), {"metadata": {"annotations": {RUNTIME: "0"}}})


def test_lives_of_gangs_and_single_pods(kubeconfig: Path) -> None:
    async def story(live: Live, heard: Heard) -> None:
        async def until(job: str, *moments: LifeMoment) -> None:
            await live.eventually(lambda: heard.moments[job] == [*moments], f"{job}: {moments}")

        await live.gang("study", 2, gpu=2)
        await live.pod("alone", gpu=1)
        await until("study", BEGUN, STARTED)
        await until("alone", BEGUN, STARTED)
        await finish(live, "alone")
        await until("alone", BEGUN, STARTED, ENDED)
        await live.pod("urgent", gpu=8, priorityClassName="high")
        await until("study", BEGUN, STARTED, EVICTED)  # nothing makes its pods again
        await until("urgent", BEGUN, STARTED)
        await live.delete("urgent")
        await until("urgent", BEGUN, STARTED, ENDED)
        await live.api.delete(volcano_podgroup.KIND.resource.path(NAMESPACE, "study"))
        await until("study", BEGUN, STARTED, EVICTED, ENDED)
        await live.eventually(lambda: ["alone"] == [key.partition("/")[2] for key in heard.lives.there])

    async def main() -> None:
        async with connected(kubeconfig) as live:
            await live.crds(OUR_CRDS)
            await live.nodes(1, gpu=8)
            await live.priority("high", 1000)
            async with scheduling(live) as scheduler:
                await story(live, Heard(scheduler))

    asyncio.run(main())


def test_what_happens_before_the_database_answers_is_recorded_later(kubeconfig: Path, tmp_path: Path) -> None:
    """Accounts of jobs that are still there, and the runs of those that are not."""
    folder = tmp_path / "history"
    folder.write_text("not a folder")

    async def main() -> None:
        history = History(f"{folder}/h.db", refresh=0.05)
        history.start()
        async with connected(kubeconfig) as live:
            await live.crds(OUR_CRDS)
            await live.nodes(1, gpu=8)
            async with scheduling(live, history=history) as scheduler:
                await live.gang("study", 2, gpu=2)
                await live.pod("alone", gpu=1)
                await live.until(bound("study", 2))
                await live.until(lambda pods: all(p.phase == "Running" for p in pods))
                await finish(live, "alone")
                await live.eventually(lambda: _has_finished(scheduler, "alone"), "Maar has seen its end")
                assert "" != history.problem
                folder.unlink()
                store = Store(read_address(f"{folder}/h.db"), write=False)
                await live.eventually(lambda: store.open() and len(list(store.events())) == 2, "both events")
                events, runs = store.events(), store.runs()
                store.close()
                assert [("study", "submitted"), ("study", "started")] == [(e.name, e.kind) for e in events]
                assert [("alone", "completed")] == [(run.name, run.how) for run in runs]
        await history.close()

    asyncio.run(main())


def _has_finished(scheduler: Scheduler, pod: str) -> bool:
    return any(t.key.endswith(f"/{pod}") and t.status.name == "SUCCEEDED" for t in scheduler.cache.latest.tasks.tasks)
