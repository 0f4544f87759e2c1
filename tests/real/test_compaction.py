"""etcd forgets old versions while Maar does not look: it reads everything again, and nothing is lost or decided twice.

The API server keeps recent changes in memory, so a compaction alone is not felt. It starts again here, as in an
upgrade, and then knows nothing of the versions that Maar's watches go on from.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

from tests.support.live import NAMESPACE, Live, bound, connected
from tests.support.real.api import Refused
from tests.support.real.cluster import RealCluster
from tests.support.scheduler import Child

from maar.kube.wire.api_resources import PODS


def _watch_from(cluster: RealCluster, version: str) -> str:
    """What the server says to a watch from this version."""
    try:
        path = f"/api/v1/pods?watch=true&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion={version}"
        return str(cluster.request("GET", path))
    except Refused as refused:
        return str(refused)
    except ValueError as several:  # lines of a stream that is open
        return f"open: {several}"


def test_what_etcd_has_forgotten_is_read_again(new_cluster: Callable[..., RealCluster], tmp_path: Path) -> None:
    cluster = new_cluster()
    cluster.start_kwok()
    maar = Child(cluster.kubeconfig, tmp_path / "maar.log", "--no-leader-elect", "--history", "none")

    async def story() -> None:
        async with connected(cluster.kubeconfig) as live:
            await live.nodes(2, gpu=8)
            await live.gang("first", 2, gpu=8)
            await live.until(bound("first", 2))
            known = (await live.get(PODS.path(NAMESPACE)))["metadata"]["resourceVersion"]
            os.kill(maar.pid, signal.SIGSTOP)
            try:
                await _changes(live)
                await asyncio.to_thread(_forget, cluster)
                refused = await asyncio.to_thread(_watch_from, cluster, known)
                assert "too old resource version" in refused, refused
            finally:
                os.kill(maar.pid, signal.SIGCONT)
            await live.until(bound("second", 1), "the room of a pod that it did not see go is used")
            pods = {pod.name: pod for pod in await live.pods()}
            assert (["n0", "n1"], "") == (
                sorted(pods[name].node for name in ("first-0", "second-0")),
                pods["third-0"].node,
            )
            # And while it looks: the compaction cuts no watch that is not behind.
            await live.delete("second-0")
            await asyncio.to_thread(cluster.compact)
            await live.until(bound("third", 1), "it goes on")

    try:
        asyncio.run(story())
        assert maar.lives
        assert not maar.says("Traceback")
    finally:
        maar.end()
        print(maar.log.read_text()[-3000:])


async def _changes(live: Live) -> None:
    """A pod goes, and two jobs come for its room."""
    await live.api.delete(PODS.path(NAMESPACE, "first-1"), grace=0)
    await live.until(lambda pods: len(pods) == 1, "it is gone")
    await live.gang("second", 1, gpu=8)
    await live.gang("third", 1, gpu=8)


def _forget(cluster: RealCluster) -> None:
    cluster.compact()
    cluster.restart_api_server()
