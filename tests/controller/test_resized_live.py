"""Pods that are resized in place, over a socket: a kubelet changes only their status, and Maar follows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.support.live import Live, connected, scheduling

IN_VAIN = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible", "message": "the node is too small"}]


def live(kubeconfig: Path, story: Callable[[Live], Awaitable[None]]) -> None:
    """Play a story on one node of 8 CPUs."""

    async def tell() -> None:
        async with connected(kubeconfig) as cluster:
            await cluster.crds(Path(__file__).parents[2] / "deploy" / "crds")
            await cluster.nodes(1, cpu=8)
            await story(cluster)

    asyncio.run(tell())


def gives(cpu: int) -> list[dict[str, Any]]:
    """What a kubelet reports of a container to which it has given this number of CPUs."""
    amount = {"cpu": str(cpu)}
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    more = {"ready": True, "restartCount": 0, "image": "train", "imageID": "", "state": state}
    return [{"name": "c", "allocatedResources": amount, "resources": {"requests": amount}, **more}]


async def started(cluster: Live, name: str, cpu: int) -> None:
    """A pod that its kubelet has started."""
    await cluster.pod(name, cpu=str(cpu))
    await cluster.until(lambda ps: any(p.name == name and p.phase == "Running" for p in ps), f"{name} runs")


async def waiting(cluster: Live, name: str) -> None:
    pods = await cluster.until(lambda ps: any(p.name == name and p.message for p in ps), f"{name} has a reason")
    assert {""} == {p.node for p in pods if p.name == name}


async def bound(cluster: Live, name: str) -> None:
    await cluster.until(lambda ps: any(p.name == name and p.node for p in ps), f"{name} is bound")


def test_the_room_of_a_pod_that_shrinks_is_used(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        async with scheduling(cluster):
            await started(cluster, "a", 2)
            await cluster.pod_status("a", containerStatuses=gives(6))
            await cluster.pod("b", cpu="4")
            await waiting(cluster, "b")
            await cluster.pod_status("a", containerStatuses=gives(2))
            await bound(cluster, "b")

    live(kubeconfig, story)


def test_the_room_of_a_pod_that_has_grown_is_taken(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        async with scheduling(cluster):
            await started(cluster, "a", 3)
            await cluster.pod_status("a", containerStatuses=gives(7))
            await cluster.pod("b", cpu="4")
            await waiting(cluster, "b")
            await cluster.delete("b")
            await cluster.pod("c", cpu="1")
            await bound(cluster, "c")

    live(kubeconfig, story)


def test_an_infeasible_resize_takes_only_what_the_pod_has(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        async with scheduling(cluster):
            await cluster.node_status("n0", allocatable={"cpu": "64"})
            await started(cluster, "a", 64)
            await cluster.pod_status("a", containerStatuses=gives(4))
            await cluster.node_status("n0", allocatable={"cpu": "8"})
            await cluster.pod("b", cpu="4")
            await waiting(cluster, "b")
            # Only a condition changes.
            await cluster.pod_status("a", conditions=IN_VAIN)
            await bound(cluster, "b")

    live(kubeconfig, story)
