"""The event on a gang reports its binds once, after all of them have ended."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.support.live import EVENTS_PATH, NAMESPACE, Live, bound, connected, scheduling

from maar.controller.writing.batches import Batches

CRDS = Path(__file__).parents[3] / "deploy" / "crds"


def test_a_batch_is_reported_once_all_of_it_has_ended() -> None:
    reported: list[str] = []
    batches = Batches(lambda batch: reported.append(f"{batch.job}: {batch}"))
    batches.begin("a", {"a0": "n1", "a1": "n1", "a2": "n2"}, had=0)
    batches.begin("b", {"b0": "n1"}, had=1)
    batches.begin("c", {"c0": "n1"}, had=0)
    batches.begin("ml/alone", {"ml/alone": "n2"}, had=0)
    batches.ended("a0", given=True)
    batches.ended("a1", given=False)
    assert [] == reported
    batches.ended("b0", given=True)
    batches.ended("a2", given=True)
    batches.ended("c0", given=False)
    batches.ended("ml/alone", given=True)
    batches.ended("unknown", given=True)
    one, two = "bound 1 pod of the gang", "bound 2 pods of the gang"
    alone = "ml/alone: Successfully assigned ml/alone to n2"
    assert [f"b: {one}; 1 bound before", f"a: {two}", alone] == reported


async def scheduled(cluster: Live, name: str) -> list[str]:
    events = (await cluster.get(EVENTS_PATH))["items"]
    mine = [e for e in events if (e["reason"], e["involvedObject"]["name"]) == ("Scheduled", name)]
    return [e["message"] for e in mine]


def test_a_gang_that_another_maar_began_is_reported(kubeconfig: Path) -> None:
    async def story() -> None:
        async with connected(kubeconfig) as cluster:
            await cluster.crds(CRDS)
            await cluster.nodes(2, gpu=8)
            await cluster.gang("begun", 4, gpu=2)
            for pod in [p for p in await cluster.pods() if p.name in ("begun-0", "begun-1")]:
                await cluster.api.bind(NAMESPACE, pod.name, pod.uid, "n0")
            async with scheduling(cluster):
                await cluster.gang("new", 3, gpu=2)
                await cluster.until(lambda ps: bound("begun", 4)(ps) and bound("new", 3)(ps))
                for name in ("begun", "new"):
                    await cluster.eventually(lambda n=name: scheduled(cluster, n), "its event")  # type: ignore[misc]
            assert ["bound 2 pods of the gang; 2 bound before"] == await scheduled(cluster, "begun")
            assert ["bound 3 pods of the gang"] == await scheduled(cluster, "new")

    asyncio.run(story())
