"""Metrics of processes that share a cluster as shards: each shard, queue, node and waiting job is reported once."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.live import OUR_CRDS, Live, connected, scheduling

from maar.controller.main import Options, share
from maar.controller.scheduler import Scheduler
from maar.controller.settings.config_file import ConfigFile
from maar.embedded.server import EmbeddedServer
from maar.kube.write.intents import Intents
from maar.kube.write.shards import create_map
from maar.shards.map import ShardMap
from maar.web.actor_metrics import metrics_of
from maar.web.metrics import Metrics

OWNERS = ShardMap.new(2)
RED, BLUE = (next(f"team-{i}" for i in range(99) if OWNERS.shard_of(f"team-{i}") == shard) for shard in (0, 1))
OPTIONS = Options(shards=2, lease_seconds=3)


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    server = EmbeddedServer()
    server.start()
    yield server.kubeconfig(tmp_path / "kubeconfig")
    server.stop()


@contextlib.asynccontextmanager
async def sharing(cluster: Live) -> AsyncIterator[tuple[Scheduler, Metrics]]:
    """One process that shares the cluster, as `maar run --shards 2` starts it."""
    intents = Intents(64, 128, True)
    scheduler = Scheduler(cluster.api, OPTIONS.settings, ConfigFile(None), intents=intents)
    await scheduler.sync()
    metrics = metrics_of(scheduler, scheduler)
    work = asyncio.create_task(share(cluster.api, scheduler, intents, OPTIONS))
    try:
        yield scheduler, metrics
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await scheduler.close()


def scraped(metrics: Metrics) -> Counter[tuple[str, ...]]:
    """The name of each metric with its labels, to its value."""
    families = text_string_to_metric_families(metrics.text().decode())
    samples = (sample for family in families for sample in family.samples)
    return Counter({(sample.name, *sample.labels.values()): int(sample.value) for sample in samples})


def shards_of(scheduler: Scheduler) -> frozenset[int]:
    return frozenset() if scheduler.shards is None else scheduler.shards.holding.shards


def test_a_sum_over_the_processes_counts_everything_once(kubeconfig: Path) -> None:
    async def story() -> None:
        async with connected(kubeconfig) as cluster:
            await cluster.crds(OUR_CRDS)
            await cluster.nodes(4, gpu=4)
            for name in (RED, BLUE):
                await cluster.queue(name)
            await create_map(cluster.api, OWNERS)
            await cluster.gang("runs", 2, gpu=4, group={"queue": RED})
            await cluster.gang("large", 9, gpu=4, group={"queue": RED})
            await cluster.gang("huge", 9, gpu=4, group={"queue": BLUE})
            async with sharing(cluster) as (one, first), sharing(cluster) as (other, second):

                async def one_each() -> bool:
                    return {frozenset({0}), frozenset({1})} == {shards_of(one), shards_of(other)}

                await cluster.eventually(one_each, "each holds one shard")

                async def reported() -> bool:
                    all_ = scraped(first) + scraped(second)
                    waiting = sum(count for key, count in all_.items() if key[0] == "maar_waiting_jobs")
                    return (2, 8) == (waiting, all_["maar_queue_allocated", RED, "nvidia.com/gpu"])

                await cluster.eventually(reported, "one gang runs, and two wait")
                parts = (scraped(first), scraped(second))
                assert not one.not_ready()
                assert not other.not_ready()
            both = parts[0] + parts[1]
            for name in ("maar_shard_held", "maar_shard_waiting_jobs"):
                assert {"0": 1, "1": 1} == {key[1]: count for key, count in both.items() if key[0] == name}
            nodes = {key[1]: count for key, count in both.items() if key[0] == "maar_shard_nodes"}
            assert 4 == sum(nodes.values())
            for one_, two in (("0", "1"), ("1", "0")):
                assert both["maar_shard_nodes_lent", one_] == both["maar_shard_nodes_borrowed", two]
            assert 16 == both["maar_pool_gpus", "default"]
            assert both["maar_shard_epoch", "0"] >= 1
            assert [2, 2] == [part["maar_shards",] for part in parts]
            assert both["maar_shard_take_overs_total", "0"] >= 1
            queues = [{key[1] for key in part if key[0] == "maar_queue_share"} for part in parts]
            assert queues[0].isdisjoint(queues[1])
            assert {RED, BLUE} <= queues[0] | queues[1]
            assert 2 == both["maar_binds_total",]

    asyncio.run(story())


def test_one_maar_has_no_metrics_of_shards(kubeconfig: Path) -> None:
    async def story() -> None:
        async with connected(kubeconfig) as cluster, scheduling(cluster) as scheduler:
            assert b"maar_shard" not in metrics_of(scheduler, scheduler).text()

    asyncio.run(story())
