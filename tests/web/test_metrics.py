"""Metrics as a scraper reads them, from a live Maar on the embedded server with elastic jobs in two pools."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.elastic_story import CONFIG, Play, playing
from tests.support.live import NAMESPACE, OUR_CRDS, bound, connected, scheduling

from maar.embedded.parts.kubelets import Kubelets
from maar.embedded.parts.operators import TrainingOperator
from maar.embedded.server import EmbeddedServer
from maar.model.plan import Cause, Evict, Plan, Resize, Suspend, Target
from maar.web.actor_metrics import metrics_of
from maar.web.metrics import Metrics

POOLS = "- {name: a100, nodes: {gpu: a100}, algorithm: max-min, rate-limit: 0, minimum-time: 0, restart: 0}\n"
NOBODY_THERE = {
    "maar_elastic_workers{a100}": 0,
    "maar_elastic_planned_workers{a100}": 0,
    "maar_elastic_jobs{running,a100}": 0,
    "maar_elastic_jobs{waiting,a100}": 0,
    "maar_elastic_jobs_across_nodes{a100}": 0,
    "maar_pool_gpus{a100}": 4,
    "maar_pool_gpus_used{a100}": 0,
}


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    server = EmbeddedServer(parts=[Kubelets(start=0.01, stop=0.01), TrainingOperator()])
    server.start()
    yield server.kubeconfig(tmp_path / "kubeconfig")
    server.stop()


def scraped(metrics: Metrics) -> dict[str, float]:
    """The metrics of pools and elastic jobs: from `name{label,label}` to the value."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(metrics.text().decode()):
        for sample in family.samples:
            if "pool" in sample.labels:
                labels = ",".join(sample.labels[label] for label in ("state", "pool", "kind") if label in sample.labels)
                found[f"{sample.name}{{{labels}}}"] = sample.value
    return {name: value for name, value in found.items() if not name.partition("{")[0].endswith("_created")}


def test_pools_and_elastic_jobs_as_they_breathe(kubeconfig: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG + POOLS)

    async def story(play: Play) -> None:
        async with scheduling(play.live, config=config) as scheduler:
            metrics = metrics_of(scheduler, scheduler)
            await play.pytorch("a-wide", 2, 12)
            await play.settles("it has all that it can use")
            await play.live.eventually(lambda: scraped(metrics)["maar_elastic_jobs_across_nodes{default}"] == 1)
            await play.pytorch("b-next", 8, 8)
            await play.settles("it makes room")
            await play.pytorch("c-last", 10, 10)
            await play.live.eventually(lambda: scraped(metrics)["maar_elastic_jobs{waiting,default}"] == 1)
            await play.live.eventually(lambda: scraped(metrics)["maar_pool_gpus_used{default}"] == 16)
            found = scraped(metrics)
            assert found.pop("maar_elastic_jobs_across_nodes{default}") in (0, 1, 2)
            assert {
                "maar_resizes_total{default,resume}": 2,
                "maar_resizes_total{default,down}": 1,
                "maar_elastic_workers{default}": 16,
                "maar_elastic_planned_workers{default}": 16,
                "maar_elastic_jobs{running,default}": 2,
                "maar_elastic_jobs{waiting,default}": 1,
                "maar_pool_gpus{default}": 16,
                "maar_pool_gpus_used{default}": 16,
                **NOBODY_THERE,
            } == found
        moved = Evict(
            f"{NAMESPACE}/a-wide-worker-1", f"{NAMESPACE}/a-wide", "it then runs on fewer nodes", Cause.MIGRATED
        )
        preempted = Evict(f"{NAMESPACE}/b-next-worker-1", f"{NAMESPACE}/a-wide", "preempted")
        wide = Target(f"{NAMESPACE}/a-wide", 9, 9, pool="default")
        grown = Resize(f"{NAMESPACE}/a-wide", 8, 9)
        halted = Suspend(f"{NAMESPACE}/b-next")
        plan = Plan(evict=(moved, preempted), targets=(wide,), resize=(grown,), suspend=(halted,))
        metrics.on_cycle(scheduler.cache.publish(1, plan, 0.0))
        found = scraped(metrics)
        assert (1, 1, 1) == tuple(
            found[name]
            for name in (
                "maar_migrations_total{default}",
                "maar_resizes_total{default,up}",
                "maar_resizes_total{,suspend}",
            )
        )
        assert 9 == found["maar_elastic_workers{default}"]

    async def main() -> None:
        async with connected(kubeconfig) as live:
            await live.crds(OUR_CRDS)
            await live.nodes(1, gpu=4, first=9, labels={"gpu": "a100"})
            async with playing(live) as play:
                await play.add_nodes(2)
                await story(play)

    asyncio.run(main())


def test_invalid_objects_bugs_and_restarts(kubeconfig: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with connected(kubeconfig) as cluster:
            await cluster.crds(OUR_CRDS)
            await cluster.pod("odd", cpu="9" * 5000)
            await cluster.queue("odd", capability={"cpu": "9" * 5000})
            async with scheduling(cluster) as scheduler:
                metrics = metrics_of(scheduler, scheduler)
                problems = scheduler.picture.problems

                async def counted() -> bool:
                    return problems.counts() == {"Pod": 1, "Queue": 1}

                await cluster.eventually(counted, "both are counted")
                problems.bug("job", "ns/a", KeyError("x"))
                for _ in range(2):
                    lines = metrics.text().decode().splitlines()
                found = {line for line in lines if line.startswith(("maar_invalid", "maar_bugs_t", "maar_restarts_t"))}
                assert {
                    'maar_invalid_objects{kind="Pod"} 1.0',
                    'maar_invalid_objects{kind="Queue"} 1.0',
                    'maar_invalid_objects{kind="job"} 1.0',
                    "maar_bugs_total 1.0",
                    'maar_restarts_total{part="recording"} 0.0',
                    'maar_restarts_total{part="history"} 0.0',
                    'maar_restarts_total{part="load"} 0.0',
                } == found

    asyncio.run(story())


def test_waits_evictions_lost_work_and_writes(kubeconfig: Path) -> None:
    """What dashboards show, from a gang that starts, is preempted and starts again."""

    def values(metrics: Metrics, *names: str) -> dict[str, float]:
        lines = (line for line in metrics.text().decode().splitlines() if line.startswith(names))
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    async def story() -> None:
        async with connected(kubeconfig) as cluster:
            await cluster.crds(OUR_CRDS)
            await cluster.nodes(1, gpu=8)
            await cluster.priority("high", 1000)
            async with scheduling(cluster) as scheduler:
                metrics = metrics_of(scheduler, scheduler)
                await cluster.gang("low", 2, gpu=4)
                await cluster.until(lambda ps: bound("low", 2)(ps) and all(p.phase == "Running" for p in ps))
                waits = 'maar_job_wait_seconds_count{queue="default"}'
                await cluster.eventually(lambda: values(metrics, waits) == {waits: 1}, "its start is observed")
                assert {} == values(metrics, "maar_evictions_total", "maar_lost_gpu_seconds_total")
                await cluster.gang("urgent", 1, gpu=8, priorityClassName="high")
                await cluster.until(bound("urgent", 1), "it preempts the other")
                await cluster.eventually(lambda: values(metrics, waits) == {waits: 2}, "its start is observed too")
                labels = '{cause="preempted",queue="default"}'
                assert {f"maar_evictions_total{labels}": 2} == values(metrics, "maar_evictions_total")
                (lost,) = values(metrics, "maar_lost_gpu_seconds_total").values()
                assert 0 < lost < 8 * 60, "8 GPUs, for the seconds since the gang started"
                await cluster.delete("urgent-0")
                for name in ("low-0", "low-1"):
                    await cluster.pod(name, gpu=4, metadata={"annotations": {"scheduling.k8s.io/group-name": "low"}})
                await cluster.until(bound("low", 2), "the first starts again")
                assert {waits: 2} == values(metrics, waits), "its first start was observed before"
                await cluster.eventually(lambda: scheduler.executor.pending == 0, "all writes are done")
                found = values(metrics, "maar_writes_total")
                pods = {
                    resource: found[f'maar_writes_total{{resource="{resource}",result="done",verb="POST"}}']
                    for resource in ("pods/binding", "pods/eviction")
                }
                assert {"pods/binding": 5, "pods/eviction": 2} == pods
                assert {"maar_bind_delay_seconds_count": 5} == values(metrics, "maar_bind_delay_seconds_count")
                assert not any("low" in name or "urgent" in name for name in found), "names of objects are no labels"
                assert {'maar_queue_deserved{queue="default",resource="nvidia.com/gpu"}': 8} == values(
                    metrics, 'maar_queue_deserved{queue="default",resource="nvidia.com/gpu"}'
                )

    asyncio.run(story())
