"""In-place resizes on a real API server: asked for by the pod's resize subresource, reported by its kubelet."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.support.live import NAMESPACE, Live, connected, scheduling
from tests.support.real.cluster import RealCluster

from maar.kube.wire.api_resources import PODS

pytestmark = pytest.mark.real
CRDS = Path(__file__).parents[2] / "deploy" / "crds"


def reports(cpu: str) -> list[dict[str, Any]]:
    amount = {"cpu": cpu}
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    more = {"ready": True, "restartCount": 0, "image": "train", "imageID": "", "state": state}
    return [{"name": "c", "allocatedResources": amount, "resources": {"requests": amount}, **more}]


async def resize(cluster: Live, name: str, cpu: str) -> None:
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    path = PODS.path(NAMESPACE, name, "resize")
    await cluster.api.patch(path, {"spec": {"containers": containers}}, "strategic")


def test_a_resized_pod_takes_what_it_asks_for_or_has(real: RealCluster) -> None:
    async def story() -> None:
        async with connected(real.kubeconfig) as cluster:
            await cluster.crds(CRDS)
            await cluster.nodes(1, cpu=8)
            async with scheduling(cluster):
                await cluster.pod("a", cpu="6")
                await cluster.until(lambda ps: any(p.phase == "Running" for p in ps), "a runs")
                await cluster.pod_status("a", containerStatuses=reports("6"))
                # The owner asks for less: nothing is free before the kubelet has done it.
                await resize(cluster, "a", "2")
                await cluster.pod("b", cpu="4")
                pods = await cluster.until(lambda ps: any(p.message for p in ps), "b has a reason")
                assert {"a": "n0", "b": ""} == {p.name: p.node for p in pods}
                await cluster.pod_status("a", containerStatuses=reports("2"))
                await cluster.until(lambda ps: all(p.node for p in ps), "b is bound")
                # The owner asks for all of the node; the kubelet says that this never works.
                await cluster.pod("c", cpu="3")
                await cluster.until(lambda ps: any(p.name == "c" and p.message for p in ps), "c waits")
                await cluster.delete("b")
                await cluster.until(lambda ps: any(p.name == "c" and p.node for p in ps), "c is bound")
                await resize(cluster, "a", "8")
                await cluster.pod("d", cpu="3")
                pods = await cluster.until(lambda ps: any(p.name == "d" and p.message for p in ps), "d waits")
                assert "" == next(p.node for p in pods if p.name == "d")
                vain = {"type": "PodResizePending", "status": "True", "reason": "Infeasible", "message": "too much"}
                await cluster.pod_status("a", conditions=[vain])
                await cluster.until(lambda ps: any(p.name == "d" and p.node for p in ps), "d is bound")

    real.start_kwok()
    try:
        asyncio.run(story())
    finally:
        real.stop_kwok()
        real.clear()
        real.apply_files(sorted(CRDS.glob("*.yaml")))
