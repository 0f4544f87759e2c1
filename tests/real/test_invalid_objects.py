"""Objects that a real API server accepts and Maar cannot read: each waits with a reason, and all others go on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.live import NAMESPACE, Live, bound, connected, scheduling, where
from tests.support.real.cluster import RealCluster

from maar.kube.kinds import plugins_podgroup
from maar.kube.kinds.kubeflow import pytorchjob
from maar.web.actor_metrics import metrics_of

CRDS = Path(__file__).parents[1] / "data" / "crds"
LONG = "9" * 5000


@pytest.fixture
def cluster(real_cluster: RealCluster) -> RealCluster:
    real_cluster.apply_files(sorted(CRDS.glob("*.yaml")))
    return real_cluster


async def spoil(live: Live) -> None:
    """One object of each kind with a quantity of 5,000 digits, one of them on a node."""
    await live.pod("odd", cpu=LONG)
    await live.pod("odd-on-n0", cpu=LONG, nodeName="n0", schedulerName="another")
    await live.group("odd", 1, minResources={"cpu": LONG})
    await live.pod("odd-0", metadata={"annotations": {"scheduling.k8s.io/group-name": "odd"}})
    group = plugins_podgroup.KIND.resource
    body = {
        "metadata": {"name": "odd", "namespace": NAMESPACE},
        "spec": {"minMember": 1, "minResources": {"cpu": LONG}},
    }
    await live.create(group.path(NAMESPACE), {"apiVersion": group.api_version, "kind": group.kind, **body})
    await live.queue("odd", capability={"cpu": LONG})
    quota = {"metadata": {"name": "odd"}, "spec": {"hard": {"volcano.sh/namespace.weight": LONG}}}
    await live.create(f"/api/v1/namespaces/{NAMESPACE}/resourcequotas", {"kind": "ResourceQuota", **quota})
    job = pytorchjob.KIND.resource
    container = {"name": "pytorch", "image": "train", "resources": {"requests": {"cpu": LONG}}}
    worker = {"replicas": 1, "template": {"spec": {"schedulerName": "maar", "containers": [container]}}}
    spec = {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 2}, "pytorchReplicaSpecs": {"Worker": worker}}
    body = {"metadata": {"name": "odd", "namespace": NAMESPACE}, "spec": spec}
    await live.create(job.path(NAMESPACE), {"apiVersion": job.api_version, "kind": job.kind, **body})


@pytest.mark.parametrize("before", [True, False], ids=["in the first list", "in a watch"])
def test_safety_quantities_of_5000_digits_stop_nothing(cluster: RealCluster, before: bool) -> None:
    async def story() -> None:
        async with connected(cluster.kubeconfig) as live:
            await live.nodes(2, gpu=8)
            if before:
                await spoil(live)
            async with scheduling(live) as scheduler:
                if not before:
                    await spoil(live)
                problems = scheduler.picture.problems

                async def counted() -> bool:
                    wanted = {"Pod": 2, "PodGroup": 2, "Queue": 1, "ResourceQuota": 1, "PyTorchJob": 1}
                    return {kind: problems.counts()[kind] for kind in wanted} == wanted

                await live.eventually(counted, "each is counted")
                await live.gang("fine", 4, gpu=1)
                pods = await live.until(bound("fine", 4), "everything else goes on")
                on = where(pods)
                assert {"n1"} == {on[f"fine-{i}"] for i in range(4)}, "n0 has a pod whose requests are unknown"
                assert ("", "") == (on["odd"], on["odd-0"])
                await live.until(lambda ps: all(p.message for p in ps if p.name in ("odd", "odd-0")), "they say why")
                assert ("", 0) == (scheduler.trouble, problems.bugs)
                assert b'maar_invalid_objects{kind="Pod"} 2.0' in metrics_of(scheduler, scheduler).text()

    asyncio.run(story())
