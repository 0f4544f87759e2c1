"""Fail-over with requests of the old leader still on their way: none of them takes effect after the successor decided.

A proxy holds the binds, evictions and resizes of the old leader back, until its successor has decided otherwise. No
random moment would hit that window. Also: a foreign client that changes all waiting pods all the time.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.elastic_story import CONFIG
from tests.support.faults.witness import Wrong, watching
from tests.support.holding import HoldingProxy
from tests.support.live import NAMESPACE, Live, bound, connected
from tests.support.real.cluster import RealCluster
from tests.support.scheduler import Child

from maar.kube.client.errors import ApiError
from maar.kube.kinds import batchjob
from maar.kube.wire.api_resources import LEASES, PODS
from maar.kube.write.fence import CONDITION

LEASE = ("--lease-duration", "3", "--history", "none")
JOB = batchjob.KIND.resource.path(NAMESPACE, "grows")
GPUS = 8
Start = Callable[..., Child]


@pytest.fixture
def start(real_cluster: RealCluster, tmp_path: Path) -> Iterator[Start]:
    """Starts schedulers, which end with the test."""
    children: list[Child] = []
    config = tmp_path / "maar.yaml"
    config.write_text(CONFIG)

    def begin(kubeconfig: Path = real_cluster.kubeconfig, *options: str) -> Child:
        log = tmp_path / f"maar-{len(children)}.log"
        children.append(Child(kubeconfig, log, "--config", str(config), *LEASE, *options))
        return children[-1]

    yield begin
    for child in children:
        child.end()
        assert not child.says("Traceback"), child.log.read_text()


async def nodes(live: Live, zone: str, count: int, first: int) -> None:
    await live.nodes(count, gpu=GPUS, first=first, labels={"zone": zone})


async def gang(live: Live, name: str, zone: str, size: int = 2, **spec: Any) -> None:
    await live.gang(name, size, gpu=GPUS, nodeSelector={"zone": zone}, **spec)


async def remove(live: Live, name: str, size: int = 2) -> None:
    for i in range(size):
        await live.delete(f"{name}-{i}")


async def elastic_job(live: Live) -> None:
    """A Job with one worker on its node and room for another, and no controller that would write to it."""
    limits = {"limits": {"nvidia.com/gpu": str(GPUS)}}
    container = {"name": "c", "image": "train", "resources": limits}
    here = {"schedulerName": "maar", "nodeSelector": {"zone": "resize"}}
    spec = {"containers": [container], "restartPolicy": "Never", **here}
    bounds = {"maar.dev/min-workers": "1", "maar.dev/max-workers": "2"}
    metadata = {"name": "grows", "namespace": NAMESPACE, "annotations": bounds}
    template = {"metadata": {"labels": {"job": "grows"}}, "spec": spec}
    job = {"parallelism": 1, "completions": 9, "template": template}
    await live.create(
        batchjob.KIND.resource.path(NAMESPACE),
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job},
    )
    uid = (await live.get(JOB))["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "grows", "uid": uid, "controller": True}
    labels = {"job-name": "grows", "batch.kubernetes.io/job-name": "grows"}
    worker = {"ownerReferences": [owner], "labels": labels}
    await live.pod("grows-0", gpu=GPUS, nodeSelector={"zone": "resize"}, metadata=worker)


async def size(live: Live) -> int:
    return int((await live.get(JOB))["spec"]["parallelism"])


async def leads(live: Live, child: Child) -> bool:
    try:
        lease = await live.get(LEASES.path(NAMESPACE, "maar"))
    except ApiError:
        return False
    return str(lease["spec"].get("holderIdentity") or "").endswith(f"_{child.pid}")


def is_dangerous(method: str, path: str) -> bool:
    return path.endswith(("/binding", "/eviction")) or (method == "PATCH" and path == JOB)


def play(cluster: RealCluster, story: Callable[[Live], Awaitable[None]]) -> None:
    async def run() -> None:
        async with connected(cluster.kubeconfig) as live, watching(cluster) as seen:
            await story(live)
            await seen.caught_up()
        seen.witness.check(but=[Wrong.LOST])  # the stories delete pods

    asyncio.run(run())


def test_held_requests_of_the_old_leader_do_nothing_once_its_successor_has_decided(
    real_cluster: RealCluster, start: Start, tmp_path: Path
) -> None:
    async def story(live: Live) -> None:
        async with HoldingProxy(real_cluster.server, real_cluster.ca) as proxy:
            for number, (zone, count) in enumerate((("bind", 2), ("evict", 2), ("resize", 2))):
                await nodes(live, zone, count, first=10 * number)
            await live.priority("high", 1000)
            old = start(proxy.kubeconfig(tmp_path / "kubeconfig", real_cluster.token))
            await live.eventually(lambda: leads(live, old), "the old leader leads")
            successor = start()
            # The clusters are full. `waits` has its reason, so the successor has nothing to write to it.
            await gang(live, "full", "bind")
            await live.until(bound("full", 2))
            await gang(live, "waits", "bind")
            await gang(live, "victim", "evict")
            await gang(live, "blocks", "resize", 1)
            await live.until(bound("blocks", 1))
            await elastic_job(live)
            await live.until(
                lambda ps: all(p.node or p.message for p in ps) and len(ps) == 8, "all have a node or wait"
            )
            await live.eventually(lambda: successor.says("standing by"))
            # Something happens everywhere, and the old leader decides, but its requests go nowhere.
            proxy.holds = is_dangerous
            await remove(live, "full")
            await gang(live, "high", "evict", priorityClassName="high")
            await remove(live, "blocks", 1)
            await live.eventually(
                lambda: proxy.held == {"binding": 2, "eviction": 2, "grows": 1}, "the requests are on their way"
            )
            old.end()
            # Meanwhile everything is different: another gang is first, the preemptor is gone, the room is taken.
            await remove(live, "high")
            await gang(live, "first", "bind", priorityClassName="high")
            await gang(live, "room", "resize", 1, priorityClassName="high")
            await live.eventually(lambda: leads(live, successor), "the successor leads")
            await live.until(lambda ps: bound("first", 2)(ps) and bound("room", 1)(ps), "the successor has decided")

            statuses = await proxy.let_through()
            assert [409] * 5 == sorted(statuses)
            pods = {p.name: p for p in await live.pods()}
            assert {"first-0", "first-1", "victim-0", "victim-1", "room-0", "grows-0"} == {
                name for name, pod in pods.items() if pod.node and not pod.leaving
            }
            assert {1} == set(Counter(p.node for p in pods.values() if p.node).values())
            assert 1 == await size(live)
            assert successor.says("epoch 2: fencing 5 objects")
            fenced = (await live.get(PODS.path(NAMESPACE, "waits-0")))["status"]["conditions"]
            assert ["epoch 2"] == [c["message"].partition(",")[0] for c in fenced if c["type"] == CONDITION]

    play(real_cluster, story)


def test_all_gangs_start_while_a_foreign_client_changes_all_waiting_pods(
    real_cluster: RealCluster, start: Start
) -> None:
    async def story(live: Live) -> None:
        child = start()
        await live.eventually(lambda: leads(live, child), "Maar leads")
        changes = 0

        async def change(name: str, number: int) -> None:
            nonlocal changes
            note = {"metadata": {"annotations": {"example.com/number": str(number)}}}
            try:
                await live.api.patch(PODS.path(NAMESPACE, name), note)
                changes += 1
            except ApiError:
                return

        async def change_all() -> None:
            number = 0
            while True:
                number += 1
                waiting = [p.name for p in await live.pods() if not p.node]
                await asyncio.gather(asyncio.sleep(0.2), *(change(name, number) for name in waiting))

        changing = asyncio.create_task(change_all())
        try:
            await asyncio.gather(*(live.gang(f"g{i}", 4, gpu=GPUS // 4) for i in range(20)))
            await live.eventually(lambda: changes > 80, "all pods are changed, again and again")
            await live.nodes(20, gpu=GPUS)
            pods = await live.until(lambda ps: sum(bool(p.node) for p in ps) == 80, "all gangs run")
        finally:
            changing.cancel()
            await asyncio.gather(changing, return_exceptions=True)
        assert {4} == set(Counter(p.node for p in pods).values())

    play(real_cluster, story)
