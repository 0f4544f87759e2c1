"""Statuses of PodGroups and Queues, on the embedded server and on a real one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.support.live import NAMESPACE, Live, bound, connected, scheduling

from maar.kube.kinds import plugins_podgroup, volcano_podgroup
from maar.kube.wire.api_resources import PODS, QUEUES

CRDS = Path(__file__).parents[3] / "deploy" / "crds"
OWNER = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "owned", "uid": "1", "controller": True}
PLUGINS = Path(__file__).parents[2] / "data" / "crds"


def live(kubeconfig: Path, story: Callable[[Live], Awaitable[None]], crds: Path = CRDS) -> None:
    async def tell() -> None:
        async with connected(kubeconfig) as cluster:
            await cluster.crds(crds)
            await cluster.nodes(4, gpu=8)
            await story(cluster)

    asyncio.run(tell())


async def status_of(cluster: Live, path: str) -> dict[str, Any]:
    """The status without times and conditions."""
    status = (await cluster.get(path)).get("status") or {}
    return {name: value for name, value in status.items() if name in ("phase", "running", "succeeded", "failed")}


async def until_status(cluster: Live, path: str, **wanted: Any) -> None:
    async def holds() -> bool:
        return await status_of(cluster, path) == wanted

    try:
        await cluster.eventually(holds)
    except TimeoutError:
        assert wanted == await status_of(cluster, path)


async def end(cluster: Live, pod: str, phase: str) -> None:
    await cluster.api.patch(PODS.path(NAMESPACE, pod, "status"), {"status": {"phase": phase}})


def test_a_group_counts_its_pods(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        path = volcano_podgroup.KIND.resource.path(NAMESPACE, "train")
        async with scheduling(cluster):
            await cluster.gang("train", 4, minimum=3, gpu=2)
            await until_status(cluster, path, phase="Running", running=4)
            await end(cluster, "train-0", "Succeeded")
            await until_status(cluster, path, phase="Running", running=3, succeeded=1)
            await end(cluster, "train-1", "Failed")
            await until_status(cluster, path, phase="Running", running=2, succeeded=1, failed=1)
            await cluster.delete("train-1")
            await until_status(cluster, path, phase="Running", running=2, succeeded=1, failed=0)
            for pod in ("train-2", "train-3"):
                await end(cluster, pod, "Succeeded")
            await until_status(cluster, path, phase="Completed", running=0, succeeded=3, failed=0)

    live(kubeconfig, story)


def test_a_queue_shows_what_it_deserves_has_and_keeps_waiting(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        await cluster.queue("research", capability={"nvidia.com/gpu": "4"})
        async with scheduling(cluster):
            for name in ("first", "second"):
                await cluster.gang(name, 2, gpu=2, group={"queue": "research"})
            wanted = {"deserved": "4 nvidia.com/gpu", "used": "4 nvidia.com/gpu", "waiting": 1}

            async def shown() -> dict[str, Any]:
                status: dict[str, Any] = (await cluster.get(QUEUES.path(name="research"))).get("status") or {}
                return status

            async def holds() -> bool:
                return (await shown()).get("summary") == wanted

            await cluster.eventually(holds)
            assert "Open" == (await shown())["state"]

    live(kubeconfig, story)


def test_a_group_of_scheduler_plugins_counts_its_pods(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        head = {"apiVersion": plugins_podgroup.KIND.resource.api_version, "kind": "PodGroup"}
        group = {**head, "metadata": {"name": "study", "namespace": NAMESPACE}, "spec": {"minMember": 2}}
        path = plugins_podgroup.KIND.resource.path(NAMESPACE, "study")
        async with scheduling(cluster):
            await cluster.create(plugins_podgroup.KIND.resource.path(NAMESPACE), group)
            for i in range(2):
                metadata = {"labels": {"scheduling.x-k8s.io/pod-group": "study"}}
                await cluster.pod(f"study-{i}", gpu=1, metadata=metadata)
            await until_status(cluster, path, phase="Running", running=2)
            for i in range(2):
                await end(cluster, f"study-{i}", "Succeeded")
            await until_status(cluster, path, phase="Finished", running=0, succeeded=2)
            await cluster.api.delete(path)

    live(kubeconfig, story, PLUGINS)


def test_a_burst_writes_few_statuses_and_a_restart_none(kubeconfig: Path) -> None:
    """A PodGroup of Volcano has no status subresource: every write of its status increments the generation."""
    names = [f"g{i}" for i in range(8)]

    async def generations(cluster: Live) -> list[int]:
        groups = [await cluster.get(volcano_podgroup.KIND.resource.path(NAMESPACE, name)) for name in names]
        return [group["metadata"]["generation"] for group in groups]

    async def story(cluster: Live) -> None:
        async with scheduling(cluster):
            await asyncio.gather(*(cluster.gang(name, 4, gpu=1) for name in names))
            for name in names:
                await until_status(
                    cluster, volcano_podgroup.KIND.resource.path(NAMESPACE, name), phase="Running", running=4
                )
            written = await generations(cluster)
            # Running and counted; sometimes counted twice if pods start more than a second apart, or admitted before.
            assert max(written) <= 5
            assert sum(written) <= 3.5 * len(names)
        async with scheduling(cluster) as again:
            await cluster.pod("probe", gpu=8)
            await cluster.eventually(lambda: again.outbox.counts["done:Patch"] > 0, "a status is written")
            await cluster.eventually(lambda: again.executor.pending == 0, "everything is written")
            assert written == await generations(cluster)

    live(kubeconfig, story)


def test_an_admission_is_written_if_a_controller_may_wait_for_it(kubeconfig: Path) -> None:
    """Alone, for the controller that creates the pods; with the reason, if the pods exist and do not fit."""

    async def story(cluster: Live) -> None:
        head = {"apiVersion": volcano_podgroup.KIND.resource.api_version, "kind": "PodGroup"}
        async with scheduling(cluster):
            for name, owners in (("alone", []), ("owned", [OWNER])):
                metadata = {"name": name, "namespace": NAMESPACE, "ownerReferences": owners}
                group = {**head, "metadata": metadata, "spec": {"minMember": 2}}
                await cluster.create(volcano_podgroup.KIND.resource.path(NAMESPACE), group)
                await until_status(cluster, volcano_podgroup.KIND.resource.path(NAMESPACE, name), phase="Inqueue")
            await cluster.gang("huge", 5, gpu=8)
            await until_status(cluster, volcano_podgroup.KIND.resource.path(NAMESPACE, "huge"), phase="Inqueue")

    live(kubeconfig, story)


def test_a_queue_says_what_its_jobs_have(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        async def until_allocated(queue: str, **wanted: str) -> None:
            async def allocated() -> dict[str, str]:
                found = (await cluster.get(QUEUES.path(name=queue))).get("status") or {}
                has: dict[str, str] = found.get("allocated") or {}
                return {name.partition("/")[2] or name: amount for name, amount in has.items()}

            async def holds() -> bool:
                return await allocated() == wanted

            try:
                await cluster.eventually(holds)
            except TimeoutError:
                assert wanted == await allocated()

        await cluster.queue("research")
        await cluster.queue("vision", parent="research")
        async with scheduling(cluster):
            await cluster.gang("train", 3, gpu=2, cpu="1500m", group={"queue": "vision"})
            await cluster.until(bound("train", 3))
            for queue in ("vision", "research"):
                await until_allocated(queue, cpu="4500m", gpu="6", pods="3")
            await cluster.delete("train-2")
            await until_allocated("vision", cpu="3", gpu="4", pods="2")
        # The next Maar removes resources that no job has any more.
        for name in ("train-0", "train-1"):
            await cluster.delete(name)
        await cluster.until(lambda pods: not pods)
        async with scheduling(cluster):
            for queue in ("vision", "research", "default"):
                await until_allocated(queue)
        for queue in ("vision", "research"):
            await cluster.api.delete(QUEUES.path(name=queue))

    live(kubeconfig, story)
