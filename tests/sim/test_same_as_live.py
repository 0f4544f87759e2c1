"""The simulator decides as the live scheduler does: the same small workload, event by event, on the embedded server.

The simulated run is the script: each arrival or end is repeated on the embedded server. There the real scheduler, over
a socket, must give the same workers on the same nodes before the next event. At the end, every job must also have had
the same sizes in the same order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.elastic_story import Play, playing
from tests.support.live import NAMESPACE, OUR_CRDS, connected, scheduling
from tests.support.patience import until

from maar.config.file import read_config
from maar.controller.settings.settings import Settings
from maar.embedded.parts.kubelets import Kubelets
from maar.embedded.parts.operators import TrainingOperator
from maar.embedded.server import EmbeddedServer
from maar.kube.kinds import volcano_podgroup
from maar.kube.wire.api_resources import PODS
from maar.model.tasks import Status
from maar.registry import catalog
from maar.sim.cluster import ClusterPlay as Simulated
from maar.sim.setting import Setting
from maar.sim.trace import Trace, TraceJob

CONFIG = """
actions: "enqueue, allocate, resize, preempt, reclaim"
tiers:
- plugins: [{name: priority}, {name: gang, arguments: {gang.eviction: whole}}]
- plugins:
  - {name: predicates}
  - {name: proportion}
  - name: binpack
    arguments: {binpack.cpu: 0, binpack.memory: 0, binpack.resources: nvidia.com/gpu}
pools:
- {name: default, algorithm: elastic-fifo, rate-limit: 0, minimum-time: 0, hysteresis: 0, restart: 0}
"""
GATHER = 0.3
"""Seconds: all parts of one event arrive within them, and events are further apart."""
NODES = 2
GPUS = 8


def elastic(name: str, submit: float, seconds: float, low: int, high: int, priority: int = 0) -> TraceJob:
    return TraceJob(name, submit, seconds, low, workers=low, min=low, max=high, priority=priority)


def rigid(name: str, submit: float, seconds: float, workers: int, gpus: int, priority: int = 0) -> TraceJob:
    return TraceJob(name, submit, seconds, workers * gpus, workers, gpus, min=workers, max=workers, priority=priority)


TRACE = Trace(
    (
        elastic("a", 0.0, 900.0, 2, 12),
        elastic("b", 10.0, 200.0, 2, 8),
        rigid("c", 20.0, 300.0, 2, 2, priority=5),
        elastic("d", 30.0, 400.0, 3, 6),
        rigid("e", 40.0, 100.0, 3, 4),
        elastic("f", 50.0, 50.0, 4, 16, priority=5),
        rigid("g", 400.0, 60.0, 2, 3, priority=5),
    ),
    "a small workload",
)
Places = dict[str, list[str]]
"""The nodes of the workers of each job, by index."""


def script() -> Iterator[tuple[float, list[str], list[str], Places, dict[str, list[int]]]]:
    """The arrivals and ends of each moment, the placement after it, and the decided sizes."""
    config = read_config(CONFIG, "same", catalog()).config
    play = Simulated(TRACE, config, Setting(NODES, GPUS, restart=0.0, patience=0.0))
    before: set[str] = set()
    while play.step():
        there = {key.partition("/")[2] for key in play.works}
        sizes: dict[str, list[int]] = {}
        now = play.plans[0][0]
        for _, plan in play.plans:
            changes = [*((r.job, r.after) for r in plan.resize), *((r.job, r.size) for r in plan.resume)]
            for key, size in (*changes, *((s.job, 0) for s in plan.suspend)):
                sizes.setdefault(key.partition("/")[2], []).append(size)
        places: Places = {}
        for job, tasks in play.virtual.jobs.values():
            bound = sorted((t for t in tasks if t.status is Status.BOUND), key=lambda t: t.index)
            places[job.key.partition("/")[2]] = [t.node.replace("node-", "n") for t in bound]
        yield now, sorted(there - before), sorted(before - there), places, sizes
        before = there


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    server = EmbeddedServer(parts=[Kubelets(start=0.01, stop=0.01), TrainingOperator()])
    server.start()
    yield server.kubeconfig(tmp_path / "kubeconfig")
    server.stop()


def test_the_same_decisions_for_each_event(kubeconfig: Path) -> None:
    moments = list(script())
    assert len(TRACE.jobs) == sum(len(arrived) for _, arrived, *_ in moments)
    assert len(TRACE.jobs) == sum(len(ended) for _, _, ended, *_ in moments)
    jobs = {job.name: job for job in TRACE.jobs}
    decided: dict[str, list[int]] = {}
    for *_, sizes in moments:
        for name, given in sizes.items():
            decided.setdefault(name, []).extend(given)

    async def told() -> None:
        file = kubeconfig.parent / "maar.yaml"
        file.write_text(CONFIG)
        async with connected(kubeconfig) as live:
            await live.crds(OUR_CRDS)
            async with playing(live) as play, scheduling(live, Settings(gather=GATHER), file):
                await play.add_nodes(NODES)
                for now, arrived, ended, places, _ in moments:
                    for name in ended:
                        await end(play, jobs[name])
                    for name in arrived:
                        await arrive(play, jobs[name])
                    await comes_to(play, places, f"{now:g} s: {arrived} came, {ended} went")
                assert decided == {name: sizes for name, sizes in play.witness.history().items() if sizes}

    asyncio.run(told())


async def arrive(play: Play, job: TraceJob) -> None:
    if job.elastic:
        await play.pytorch(job.name, job.min, job.max, priority=job.priority)
    else:
        await play.gang(job.name, job.workers, job.gpus_per_worker, job.priority)


async def end(play: Play, job: TraceJob) -> None:
    if job.elastic:
        await play.finish(job.name)
        return
    await play.live.api.delete(volcano_podgroup.KIND.resource.path(NAMESPACE, job.name))
    for i in range(job.workers):
        await play.live.api.delete(PODS.path(NAMESPACE, f"{job.name}-{i}"), grace=0)


async def comes_to(play: Play, expected: Places, what: str) -> None:
    """Whether the workers are on the nodes that the simulator chose."""

    async def seen() -> Places:
        places: Places = {name: [] for name in expected}
        for pod in sorted(await play.live.pods(), key=lambda p: int(p.name.rpartition("-")[2])):
            name = pod.name.partition("-")[0]
            if pod.node and not pod.leaving and pod.phase not in ("Succeeded", "Failed"):
                places.setdefault(name, []).append(pod.node)
        return places

    async def holds() -> bool:
        return await seen() == expected

    try:
        await until(holds, what)
    except TimeoutError as late:
        raise AssertionError(f"{late}: expected {expected}, got {await seen()}") from None
