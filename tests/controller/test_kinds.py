"""CRDs that are created and deleted while Maar runs, on the embedded server and on a real one."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.support.live import CRDS as PATH
from tests.support.live import Live, Seen, bound, connected, scheduling

from maar.controller.settings.settings import Settings
from maar.kube.client.errors import NotFound
from maar.kube.kinds import volcano_podgroup
from maar.kube.kinds.cluster import QUEUES as QUEUE_KIND
from maar.kube.wire.api_resources import QUEUES

CRDS = Path(__file__).parents[2] / "deploy" / "crds"
OFTEN = Settings(discover_again=0.2)
NAMES = ("podgroups.scheduling.volcano.sh", "queues.scheduling.volcano.sh", "shardmaps.maar.dev", "shards.maar.dev")


async def is_there(cluster: Live, path: str) -> bool:
    try:
        await cluster.api.get(path)
    except NotFound:
        return False
    return True


async def take_away(cluster: Live) -> None:
    """Delete all CRDs of deploy/crds, and with them all PodGroups and Queues."""
    for name in NAMES:
        if await is_there(cluster, f"{PATH}/{name}"):
            await cluster.api.delete(f"{PATH}/{name}")

    async def all_gone() -> bool:
        return not any([await is_there(cluster, f"{PATH}/{name}") for name in NAMES])

    await cluster.eventually(all_gone, "the CRDs are deleted")


def placed(pods: list[Seen]) -> dict[str, str]:
    return {p.uid: p.node for p in pods if p.node}


def test_crds_come_go_and_come_again_and_nothing_else_stops(kubeconfig: Path) -> None:
    async def story() -> None:
        async with connected(kubeconfig) as cluster:
            await take_away(cluster)
            await cluster.nodes(2, gpu=8)
            async with scheduling(cluster, OFTEN) as scheduler:
                kinds = set(scheduler.informers)
                assert set() == {volcano_podgroup.KIND.resource, QUEUES} & kinds
                # 1. Create the CRDs.
                await cluster.crds(CRDS)
                await cluster.gang("before", 2, gpu=4)
                before = placed(await cluster.until(bound("before", 2), "a kind that was created later is watched"))
                await cluster.eventually(lambda: cluster.get(QUEUES.path(name="default")), "the default queue")
                # 2. Delete them.
                await take_away(cluster)
                await cluster.eventually(lambda: kinds == set(scheduler.informers), "their informers end")
                picture = scheduler.picture.objects
                assert ({}, {}) == (picture.of(volcano_podgroup.KIND), picture.of(QUEUE_KIND))
                assert "" == scheduler.not_ready()
                await cluster.pod("alone", gpu=4)
                during = placed(await cluster.until(lambda ps: len(placed(ps)) == 3, "a single pod starts meanwhile"))
                assert before.items() <= during.items(), "running pods continue"
                # 3. Create them again.
                await cluster.crds(CRDS)
                await cluster.gang("after", 1, gpu=4)
                await cluster.until(bound("after", 1), "a kind that was created again is watched")
                await cluster.eventually(lambda: cluster.get(QUEUES.path(name="default")), "the default queue")
                assert during.items() <= placed(await cluster.pods()).items()

    asyncio.run(story())


def test_families_that_are_switched_off_are_left_alone(kubeconfig: Path) -> None:
    """Maar may have no rights on them: it must become ready all the same."""

    async def story() -> None:
        async with connected(kubeconfig) as cluster:
            await cluster.crds(CRDS)
            await cluster.nodes(1, gpu=8)
            async with scheduling(cluster, Settings(without=frozenset({"jobs", "shards"}))) as scheduler:
                await cluster.gang("train", 2, gpu=4)
                await cluster.until(bound("train", 2), "everything else is there")
                watched = {kind.family for kind in scheduler.picture.served}
                assert not {"jobs", "shards"} & watched
                assert "" == scheduler.not_ready()

    asyncio.run(story())
