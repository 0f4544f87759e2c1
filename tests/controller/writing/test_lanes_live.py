"""A tenant with many pods that never fit, and an API server that answers none of their statuses: others go on."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.support.live import GPU, OUR_CRDS, Live, connected, scheduling

from maar.embedded.server import EmbeddedServer
from maar.kube.kinds.cluster import PODS as PODS_KIND
from maar.kube.wire.api_resources import PODS

SHARE = 16
"""Statuses in flight at once, with the default settings."""


async def hopeless(cluster: Live, namespace: str, count: int) -> None:
    """Pods that are larger than any node."""
    await cluster.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    for i in range(count):
        container = {"name": "c", "image": "train", "resources": {"limits": {GPU: "64"}}}
        spec = {"schedulerName": "maar", "containers": [container]}
        body = {"metadata": {"name": f"hopeless-{i}", "namespace": namespace}, "spec": spec}
        await cluster.api.create(PODS.path(namespace), {"apiVersion": "v1", "kind": "Pod", **body})


async def conditions(cluster: Live, namespace: str) -> int:
    """How many pods of a namespace say why they wait."""
    pods = (await cluster.get(PODS.path(namespace)))["items"]
    return sum(bool(pod["status"].get("conditions")) for pod in pods)


class Held:
    """The statuses of pods of some namespaces, which the server holds back."""

    def __init__(self, box: EmbeddedServer, *namespaces: str) -> None:
        self.paths: set[str] = set()
        self._namespaces = namespaces
        box.faults.holds = self

    def __call__(self, method: str, path: str) -> bool:
        if method == "PATCH" and path.endswith("/status") and path.split("/")[4] in self._namespaces:
            self.paths.add(path)
            return True
        return False


def test_binds_do_not_wait_for_the_statuses_of_another_tenant(box: EmbeddedServer, tmp_path: Path) -> None:
    async def story() -> None:
        async with connected(box.kubeconfig(tmp_path / "kubeconfig")) as cluster:
            await cluster.crds(OUR_CRDS)
            await cluster.nodes(1, gpu=8)
            await hopeless(cluster, "flood", 100)
            held = Held(box, "flood", "default")
            async with scheduling(cluster) as scheduler:
                await cluster.eventually(lambda: len(held.paths) >= SHARE, "the first statuses are on their way")
                await cluster.gang("train", 4, gpu=1)
                await cluster.until(lambda pods: all(pod.node for pod in pods), "the gang is bound")
                assert SHARE == len(held.paths), "none was answered, and no other one was sent"
                box.faults.clear()
                await cluster.eventually(lambda: scheduler.executor.pending == 0, "everything is written")
                assert 100 == await conditions(cluster, "flood")

    asyncio.run(story())


def test_a_tenant_does_not_delay_the_conditions_of_another_one(box: EmbeddedServer, tmp_path: Path) -> None:
    async def story() -> None:
        async with connected(box.kubeconfig(tmp_path / "kubeconfig")) as cluster:
            await cluster.crds(OUR_CRDS)
            await cluster.nodes(1, gpu=8)
            await hopeless(cluster, "flood", 200)
            held = Held(box, "flood", "mine")
            async with scheduling(cluster) as scheduler:
                await cluster.eventually(lambda: len(held.paths) >= SHARE, "the first statuses are on their way")
                await hopeless(cluster, "mine", 1)
                pods = scheduler.picture.objects.of(PODS_KIND)
                await cluster.eventually(
                    lambda: "mine/hopeless-0" in pods and scheduler.executor.may_have_written(pods["mine/hopeless-0"]),
                    "its condition is the next one of its namespace",
                )
                order: list[str] = []

                def note(method: str, path: str) -> bool:
                    if method == "PATCH" and path not in held.paths:
                        order.append(path.split("/")[4])
                    return False

                box.faults.holds = note
                await cluster.eventually(lambda: "mine" in order, "its condition is written")
                assert order[: order.index("mine")].count("flood") <= SHARE, "as many as are in flight, not all 200"

    asyncio.run(story())
