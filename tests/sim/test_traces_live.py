"""A trace from a recording of the real scheduler on the embedded server."""

from __future__ import annotations

from pathlib import Path

from tests.support.live import NAMESPACE, Live, bound, scheduling, tell

from maar.cli.support.trace_file import load_trace
from maar.controller.record import read_recording
from maar.embedded.parts.kubelets import Kubelets
from maar.embedded.server import EmbeddedServer
from maar.kube.kinds import volcano_podgroup


def test_what_ran_on_a_cluster_can_be_played_again(tmp_path: Path) -> None:
    path = tmp_path / "live.rec"

    async def story(cluster: Live) -> None:
        async with scheduling(cluster, record=path):
            await cluster.gang("first", 2, gpu=8)
            await cluster.until(bound("first", 2))
            await cluster.gang("second", 1, gpu=4)
            await cluster.gang("huge", 9, gpu=8)
            await cluster.until(lambda pods: all(pod.message for pod in pods if pod.group != "first"), "others wait")
            await end(cluster, "first", 2)
            await cluster.until(bound("second", 1))
            await end(cluster, "second", 1)
            await cluster.gang("last", 1, gpu=1)
            await cluster.until(bound("last", 1), "a cycle has seen that the others are gone")

    server = EmbeddedServer(parts=[Kubelets()])
    server.start()
    try:
        tell(server.kubeconfig(tmp_path / "kubeconfig"), story)
    finally:
        server.stop()
    moments = [cycle.now for cycle in read_recording(path)]
    jobs = {job.name: job for job in load_trace(str(path)).jobs}
    assert "default/huge" not in jobs
    first, second = jobs["default/first"], jobs["default/second"]
    assert (16, 2, 8) == (first.gpus, first.workers, first.gpus_per_worker)
    assert (4, 1, 4) == (second.gpus, second.workers, second.gpus_per_worker)
    assert moments[0] <= first.submit <= second.submit
    assert 0 < first.duration <= moments[-1] - first.submit
    assert 0 < second.duration <= moments[-1] - second.submit


async def end(cluster: Live, name: str, count: int) -> None:
    """A job ends, and its owner deletes it."""
    await cluster.api.delete(volcano_podgroup.KIND.resource.path(NAMESPACE, name))
    for i in range(count):
        await cluster.delete(f"{name}-{i}")
    await cluster.until(lambda pods: all(pod.group != name for pod in pods), f"{name} is gone")
