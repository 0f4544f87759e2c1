"""A gang of a batch Job, with the Job controller of Kubernetes."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.support.live import NAMESPACE, OUR_CRDS, connected, scheduling
from tests.support.new_kinds import template, thing
from tests.support.real.cluster import RealCluster

JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"


def test_a_job_goes_on_although_pods_that_have_succeeded_are_deleted(real_cluster: RealCluster) -> None:
    """The controller does not create them again, so the gang cannot have all its pods any more."""
    real_cluster.start_controller_manager(("job-controller",))
    notes = {"maar.dev/gang": "true"}
    pods = {**template(restartPolicy="Never"), "metadata": {"annotations": notes}}
    spec = {"parallelism": 2, "completions": 2, "template": pods}
    job = thing("batch/v1", "Job", "train", spec, annotations=notes)
    job["metadata"].pop("uid")

    async def story() -> None:
        async with connected(real_cluster.kubeconfig) as live:
            await live.crds(OUR_CRDS)
            await live.nodes(1, gpu=8)
            async with scheduling(live):
                await live.create(JOBS, job)
                first = await live.until(lambda seen: len(seen) == 2 and all(pod.node for pod in seen), "both start")
                await live.pod_status(first[0].name, phase="Succeeded")

                async def counted() -> bool:
                    status: dict[str, Any] = (await live.get(f"{JOBS}/train"))["status"]
                    return status.get("succeeded") == 1

                await live.eventually(counted, "the Job counts it")
                for pod in first:
                    await live.delete(pod.name)
                before = {pod.name for pod in first}
                await live.until(
                    lambda seen: any(pod.node and pod.name not in before for pod in seen),
                    "the other pod is created again, and starts alone",
                )

    asyncio.run(story())
