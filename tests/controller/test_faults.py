"""A burst of gangs with faults on the embedded server: gangs that fit run whole, and no pod is bound twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.support.burst import PER_NODE, Burst, without_locks
from tests.support.faults.witness import Witness
from tests.support.faults.writes import Write
from tests.support.live import Live, connected, scheduling
from tests.support.patience import PATIENCE

from maar.controller.scheduler import Scheduler
from maar.controller.settings.config_file import ConfigFile
from maar.controller.settings.settings import Settings
from maar.controller.snapshots.cache import Cache
from maar.embedded.http.faults import all_binds
from maar.embedded.objects.store import Event
from maar.embedded.server import EmbeddedServer
from maar.kube.kinds import cluster as kinds
from maar.kube.picture.picture import Picture
from maar.kube.wire.api_resources import PODS, QUEUES

CRDS = Path(__file__).parents[2] / "deploy" / "crds"
SIZES = [2 + i % 4 for i in range(30)]
"""Sizes of the gangs."""
NODES = 22
"""Room for 88 pods of 104: some gangs must wait."""


def witness_of(server: EmbeddedServer) -> Witness:
    """A witness that sees every write directly, whatever happens to watches and responses."""
    witness = Witness()

    def see(table: tuple[str, str], event: Event) -> None:
        group, plural = table
        key = "/".join(part for part in event.key if part)
        after = None if event.type == "DELETED" else event.item.obj
        witness.take(Write(event.version, f"{group}/{plural}" if "." in group else plural, key, after))

    server.call(server.api.store.listeners.append, see)
    return witness


def burst(
    box: EmbeddedServer,
    folder: Path,
    trouble: Callable[[Live, Witness], Awaitable[None]] | None = None,
    *,
    felt: Callable[[Scheduler], int],
) -> None:
    """Create more gangs than fit, cause faults meanwhile, and check the result.

    `felt` counts the faults that reached the scheduler: without any, the test would show nothing.
    """

    async def story() -> None:
        async with connected(box.kubeconfig(folder / "kubeconfig")) as cluster:
            gangs = Burst(cluster, NODES)
            box.faults.fail_share, share = 0.0, box.faults.fail_share
            await cluster.crds(CRDS)
            await gangs.begin()
            box.faults.fail_share = share
            async with scheduling(cluster, config=without_locks(folder)) as scheduler:
                await asyncio.gather(gangs.create(SIZES), *([] if trouble is None else [trouble(cluster, witness)]))
                await gangs.until_settled(PATIENCE)
                assert felt(scheduler) > 0

    witness = witness_of(box)
    asyncio.run(story())
    witness.check()
    assert PER_NODE == witness.most
    assert 0 == witness.counts["removed"] + witness.counts["evicted"]


def retries(scheduler: Scheduler) -> int:
    return scheduler.executor.counts.retries


def watches(scheduler: Scheduler) -> int:
    """Watches of pods after the first."""
    return scheduler.informers[PODS].counts.watches - 1


def test_watches_are_cut_again_and_again(box: EmbeddedServer, tmp_path: Path) -> None:
    box.faults.cut_watches_every = 0.3
    burst(box, tmp_path, felt=watches)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_fifth_of_all_writes_fails(box: EmbeddedServer, tmp_path: Path, seed: int) -> None:
    box.faults.fail_share = 0.2
    box.faults.seed = seed
    burst(box, tmp_path, felt=retries)


def test_binds_happen_and_their_answers_get_lost(box: EmbeddedServer, tmp_path: Path) -> None:
    box.faults.drop_share = 0.3
    box.faults.drops = all_binds
    burst(box, tmp_path, felt=retries)


def test_the_server_restarts_in_the_middle(box: EmbeddedServer, tmp_path: Path) -> None:
    async def restart(cluster: Live, witness: Witness) -> None:
        await cluster.eventually(lambda: witness.nodes, "the first pods are bound")
        await asyncio.to_thread(box.call_restart, 0.5)

    burst(box, tmp_path, restart, felt=watches)


def test_maar_waits_for_a_server_that_starts_later(
    box: EmbeddedServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def come(cluster: Live) -> None:
        await cluster.eventually(lambda: "the API server does not answer yet" in caplog.text, "its absence is logged")
        box.faults.refuse = False

    async def story() -> None:
        async with connected(box.kubeconfig(tmp_path / "kubeconfig")) as cluster:
            await cluster.nodes(1)
            await cluster.pod("early")
            box.faults.refuse = True
            async with asyncio.TaskGroup() as group:
                group.create_task(come(cluster))
                async with scheduling(cluster):
                    await cluster.until(lambda pods: all(p.node for p in pods), "the pod has a node")

    asyncio.run(story())


def test_a_default_queue_that_cannot_be_created_blocks_nothing_and_is_created_later(
    box: EmbeddedServer, tmp_path: Path
) -> None:
    """As with an unavailable webhook of Volcano: the server answers this write with 500."""

    async def is_there(cluster: Live) -> bool:
        return "default" in {q["metadata"]["name"] for q in (await cluster.get(QUEUES.path()))["items"]}

    async def story() -> None:
        async with connected(box.kubeconfig(tmp_path / "kubeconfig")) as cluster:
            await cluster.crds(CRDS)
            await cluster.nodes(1, gpu=8)
            box.faults.fails = lambda method, path: method == "POST" and path.endswith("/queues")
            box.faults.fail_share, box.faults.fail_codes = 1.0, (500,)
            async with scheduling(cluster):
                await cluster.pod("alone", gpu=1)
                await cluster.until(lambda pods: all(p.node for p in pods), "it is scheduled")
                assert not await is_there(cluster)
                box.faults.clear()
                await cluster.eventually(lambda: is_there(cluster), "the default queue")

    asyncio.run(story())


def test_pods_that_come_before_the_object_that_owns_them_do_not_start_in_part(
    box: EmbeddedServer, tmp_path: Path
) -> None:
    """Watches are independent: until the object is seen, the number of its pods is unknown."""
    metadata = {"labels": {"training.kubeflow.org/job-name": "train"}}

    async def story() -> None:
        async with connected(box.kubeconfig(tmp_path / "kubeconfig")) as cluster:
            await cluster.nodes(1, gpu=8)
            async with scheduling(cluster) as scheduler:
                for i in range(2):
                    await cluster.pod(f"train-{i}", gpu=8, metadata=metadata)
                    seen = scheduler.picture.objects
                    await cluster.eventually(lambda: len(seen.of(kinds.PODS)) > i, "the pod is seen")  # noqa: B023
                pods = await cluster.until(
                    lambda ps: all("never on today's nodes" in p.message for p in ps), "both have reasons"
                )
                assert not any(p.node for p in pods)

    asyncio.run(story())


def test_a_pod_that_is_evicted_before_its_bind_is_seen_keeps_its_room(box: EmbeddedServer, tmp_path: Path) -> None:
    """Watches are late: the victim is bound and evicted by decisions that no watch has shown yet."""
    lag = 0.5

    async def story() -> None:
        async with connected(box.kubeconfig(tmp_path / "kubeconfig")) as cluster:
            await cluster.nodes(1, gpu=8)
            await cluster.priority("high", 1000)
            async with scheduling(cluster, config=without_locks(tmp_path)) as scheduler:
                box.faults.watch_lag = lag
                await cluster.pod("low", gpu=8)
                await asyncio.sleep(lag / 2)  # not to wait for anything: the two must be seen one after the other
                await cluster.pod("high", gpu=8, priorityClassName="high")
                await cluster.until(lambda pods: ["high"] == [p.name for p in pods if p.node], "high has the node")
                counts = scheduler.outbox.counts
                assert (1, 0) == (counts["done:Evict"], counts["failed:Evict"]), "its uid says which pod was meant"

    witness = witness_of(box)
    asyncio.run(story())
    witness.check()


@pytest.mark.slow
def test_all_of_it_at_once(box: EmbeddedServer, tmp_path: Path) -> None:
    async def restart(cluster: Live, witness: Witness) -> None:
        for _ in range(2):
            before = len(witness.nodes)
            await cluster.eventually(lambda: len(witness.nodes) > before, "more pods are bound")  # noqa: B023
            await asyncio.to_thread(box.call_restart, 0.2)

    box.faults.cut_watches_every = 0.3
    box.faults.fail_share = 0.2
    box.faults.drop_share = 0.2
    box.faults.drops = all_binds
    burst(box, tmp_path, restart, felt=lambda scheduler: min(retries(scheduler), watches(scheduler)))


def test_room_that_comes_while_a_decision_runs_is_not_missed() -> None:
    cache = Cache(Picture(frozenset({"maar"})))
    cache.snapshot(0.0)
    cache.wake_all()
    cache.let_rest(frozenset({"default/waits"}))
    assert not cache.has_resting
    cache.snapshot(1.0)
    cache.let_rest(frozenset({"default/waits"}))
    assert cache.has_resting


def test_a_failed_background_task_fails_the_health_check(
    box: EmbeddedServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Watching has stopped without a visible sign: `/healthz` fails, and the kubelet restarts Maar."""

    class Stumbles(ConfigFile):
        async def watch(self) -> None:
            raise RuntimeError("a mistake")

    async def story() -> None:
        async with connected(box.kubeconfig(tmp_path / "kubeconfig")) as cluster:
            whole = Scheduler(cluster.api, Settings(), ConfigFile(None))
            await whole.sync()
            assert "" == whole.trouble
            await whole.close()
            assert "" == whole.trouble, "a normal stop is not a failure"
            broken = Scheduler(cluster.api, Settings(), Stumbles(None))
            await broken.sync()
            await cluster.eventually(lambda: broken.trouble == "RuntimeError: a mistake")
            await broken.close()

    asyncio.run(story())
    assert ["a background task of the scheduler failed: RuntimeError: a mistake"] == [
        record.getMessage() for record in caplog.records if record.levelname == "ERROR"
    ]
