"""A tenant who changes her running pods as fast as she can, on a real API server: they are evicted as all others."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.live import NAMESPACE, Live, bound, connected
from tests.support.real.cluster import RealCluster
from tests.support.scheduler import Child

from maar.kube.client.errors import ApiError
from maar.kube.wire.api_resources import LEASES, PODS

GANG = 8


@pytest.mark.parametrize("tenants", ["trusted", "untrusted"])
def test_a_tenant_who_changes_her_pods_all_the_time_does_not_keep_them(
    real_cluster: RealCluster, tmp_path: Path, tenants: str
) -> None:
    default = Path(__file__).parents[2] / "src" / "maar" / "default.yaml"
    config = tmp_path / "maar.yaml"
    config.write_text(default.read_text().replace("tenants: trusted", f"tenants: {tenants}"))
    assert f"tenants: {tenants}" in config.read_text()
    changes = 0

    async def change(live: Live, pod: str) -> None:
        """One client for each pod: the next change follows the answer to the last one."""
        nonlocal changes
        while True:
            changes += 1
            note = {"metadata": {"annotations": {"example.com/number": str(changes)}}}
            try:
                await live.api.patch(PODS.path(NAMESPACE, pod), note)
            except ApiError:
                return  # it is gone

    async def story() -> None:
        async with connected(real_cluster.kubeconfig) as live:
            await live.nodes(GANG // 2, gpu=8)
            await live.priority("high", 1000)
            await live.gang("hers", GANG, gpu=4)
            await live.until(bound("hers", GANG))
            changing = [asyncio.create_task(change(live, f"hers-{i}")) for i in range(GANG)]
            try:
                await live.eventually(lambda: changes > 5 * GANG, "she changes her pods all the time")
                await live.gang("mine", GANG // 2, gpu=8, priorityClassName="high")
                await live.until(bound("mine", GANG // 2), "the important gang runs")
                await asyncio.gather(*changing)
            finally:
                for task in changing:
                    task.cancel()
                await asyncio.gather(*changing, return_exceptions=True)
            assert not [pod.name for pod in await live.pods() if pod.group == "hers" and not pod.leaving]
            await live.eventually(lambda: _is_settled(live), "nothing is left on the Lease")

    real_cluster.start_kwok()
    child = Child(real_cluster.kubeconfig, tmp_path / "maar.log", "--config", str(config), "--history", "none")
    try:
        asyncio.run(story())
    finally:
        child.end()
    assert not child.says("Traceback"), child.log.read_text()


async def _is_settled(live: Live) -> bool:
    notes = (await live.get(LEASES.path(NAMESPACE, "maar")))["metadata"]["annotations"]
    return not {"maar.dev/intents", "maar.dev/evictions"} & notes.keys()
