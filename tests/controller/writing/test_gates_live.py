"""The gate of Volcano's queue admission, live: on the embedded server and on a real one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.live import GPU, NAMESPACE, Live, bound, observing, scheduling, tell, where

from maar.controller.writing.gates import without_gate
from maar.kube.client.errors import ApiError, Invalid
from maar.kube.wire.api_resources import PODS
from maar.model.tasks import QUEUE_GATE

OTHER = "example.com/wait"


def gates(*names: str) -> dict[str, Any]:
    return {"schedulingGates": [{"name": name} for name in names]}


async def gates_of(cluster: Live) -> dict[str, list[str]]:
    pods = (await cluster.get(PODS.path(NAMESPACE)))["items"]
    found = {pod["metadata"]["name"]: pod["spec"].get("schedulingGates", []) for pod in pods}
    return {name: [gate["name"] for gate in of] for name, of in found.items() if of}


def test_gate_goes_when_the_queue_admits_the_gang_and_other_gates_stay(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        await cluster.queue("small", capability={GPU: "2"})
        async with scheduling(cluster) as maar:
            await cluster.gang("old", 2, gpu=1, group={"queue": "small"})
            await cluster.until(bound("old", 2))
            await cluster.gang("new", 2, gpu=1, group={"queue": "small"}, **gates(QUEUE_GATE))
            await cluster.gang("both", 1, gpu=1, **gates(QUEUE_GATE, OTHER))
            await cluster.gang("free", 1, gpu=1, **gates(QUEUE_GATE))
            await cluster.until(bound("free", 1))
            closed = {"new-0": [QUEUE_GATE], "new-1": [QUEUE_GATE], "both-0": [QUEUE_GATE, OTHER]}
            assert closed == await gates_of(cluster)
            for name in ("old-0", "old-1"):
                await cluster.delete(name)
            await cluster.until(bound("new", 2))
            assert {"both-0": [QUEUE_GATE, OTHER]} == await gates_of(cluster)
            assert "" == where(await cluster.pods())["both-0"]
            assert not {what for what, n in maar.outbox.counts.items() if n and what.startswith("failed")}

    tell(kubeconfig, story, nodes=1)


def test_patch_removes_the_gate_only_if_it_is_the_only_one_of_that_pod(kubeconfig: Path) -> None:
    """The server checks it: nothing is lost if the pod is not as the decision saw it."""

    async def story(cluster: Live) -> None:
        await cluster.pod("one", **gates(QUEUE_GATE))
        await cluster.pod("two", **gates(OTHER, QUEUE_GATE))
        uids = {pod.name: pod.uid for pod in await cluster.pods()}
        wrong = [("two", uids["two"]), ("one", uids["two"])]
        for name, uid in wrong:
            patch = without_gate(PODS.path(NAMESPACE, name), uid)
            with pytest.raises(ApiError) as refused:
                await cluster.api.patch(patch.path, patch.body, patch.kind)
            assert isinstance(refused.value, Invalid), refused.value
        assert {"one": [QUEUE_GATE], "two": [OTHER, QUEUE_GATE]} == await gates_of(cluster)
        patch = without_gate(PODS.path(NAMESPACE, "one"), uids["one"])
        await cluster.api.patch(patch.path, patch.body, patch.kind)
        assert {"two": [OTHER, QUEUE_GATE]} == await gates_of(cluster)

    tell(kubeconfig, story, nodes=0)


def test_shadow_mode_leaves_the_gate(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        decided: list[str] = []
        async with observing(cluster) as maar:
            maar.loop.on_cycle.append(lambda cycle: decided.extend(u.task for u in cycle.plan.ungate))
            await cluster.pod("one", **gates(QUEUE_GATE))
            await cluster.eventually(lambda: decided, "the gate would be removed")
            assert {"one": [QUEUE_GATE]} == await gates_of(cluster)

    tell(kubeconfig, story, nodes=1)
