"""ProvisioningRequests on a real API server with Cluster Autoscaler's own CRD, and a simulated autoscaler."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.autoscaler import REQUESTS, Autoscaler, autoscaling
from tests.support.live import NAMESPACE, Live, bound, connected, scheduling
from tests.support.real.cluster import RealCluster
from tests.support.real.parts import available, folders

from maar.config.file import default_text
from maar.kube.wire.api_resources import POD_TEMPLATES, PODS

Json = dict[str, Any]
Story = Callable[[Live, Autoscaler], Awaitable[None]]


@pytest.fixture(scope="module")
def served(real: RealCluster) -> RealCluster:
    if not (found := available("autoscaler")):
        if os.environ.get("MAAR_REAL"):
            pytest.fail(found.why_not)
        pytest.skip(found.why_not)
    real.apply_files(sorted(folders()["autoscaler"].glob("*.yaml")))
    return real


@pytest.fixture
def cluster(served: RealCluster) -> Iterator[RealCluster]:
    yield served
    served.clear()


def tell(
    cluster: RealCluster, folder: Path, answer: Callable[[Json], str], story: Story, name: str = "check-capacity"
) -> None:
    """Tell a story on one node with 8 GPUs, with Maar and an autoscaler at work."""
    config = folder / "maar.yaml"
    config.write_text(f"{default_text()}\nautoscaling: {{provisioning-class: {name}}}\n")

    async def told() -> None:
        async with connected(cluster.kubeconfig) as play:
            await play.nodes(1, gpu=8)
            async with autoscaling(play, answer) as autoscaler, scheduling(play, config=config):
                await story(play, autoscaler)

    asyncio.run(told())


async def requests(play: Live) -> list[Json]:
    found: list[Json] = (await play.get(REQUESTS.path(NAMESPACE)))["items"]
    return found


def test_a_gang_gets_all_its_nodes_by_one_request_and_none_is_bought_twice(
    cluster: RealCluster, tmp_path: Path
) -> None:
    async def story(play: Live, autoscaler: Autoscaler) -> None:
        await play.gang("train", 4, gpu=8)
        await play.until(bound("train", 4), "the gang starts on new nodes")
        assert (4, 0, set()) == (
            autoscaler.bought_for_requests,
            autoscaler.bought_for_pods,
            autoscaler.unprotected,
        )
        (name,) = autoscaler.answers
        for pod in (await play.get(PODS.path(NAMESPACE)))["items"]:
            notes = pod["metadata"]["annotations"]
            assert name == notes["autoscaling.x-k8s.io/consume-provisioning-request"]
            kind = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
            assert kind == notes["autoscaling.x-k8s.io/provisioning-class-name"]

        async def withdrawn() -> bool:
            templates = (await play.get(POD_TEMPLATES.path(NAMESPACE)))["items"]
            return not await requests(play) and not templates

        await play.eventually(withdrawn, "the request and its templates are withdrawn")

    tell(cluster, tmp_path, lambda request: "Provisioned", story, "best-effort-atomic-scale-up")


@pytest.mark.parametrize("condition", ["BookingExpired", "CapacityRevoked"])
def test_a_request_whose_nodes_are_gone_is_made_again(cluster: RealCluster, tmp_path: Path, condition: str) -> None:
    def answer(request: Json) -> str:
        return "Provisioned" if request["metadata"]["name"].endswith("-2") else condition

    async def story(play: Live, autoscaler: Autoscaler) -> None:
        await play.gang("train", 2, gpu=8)
        await play.until(bound("train", 2), "the gang starts after the second request")
        assert [condition, "Provisioned"] == list(autoscaler.answers.values())
        assert 0 == autoscaler.bought_for_pods

    tell(cluster, tmp_path, answer, story)


def test_the_owner_learns_that_nodes_cannot_be_had(cluster: RealCluster, tmp_path: Path) -> None:
    async def story(play: Live, autoscaler: Autoscaler) -> None:
        await play.gang("train", 2, gpu=8)

        async def told() -> bool:
            events = (await play.get(f"/api/v1/namespaces/{NAMESPACE}/events"))["items"]
            return any(e["reason"] == "Failed" and "as told" in e["message"] for e in events)

        await play.eventually(told, "an event says that the autoscaler failed")
        assert (["Failed"], 0) == (list(autoscaler.answers.values()), autoscaler.bought_for_pods)

    tell(cluster, tmp_path, lambda request: "Failed", story)


def test_a_gang_that_waits_for_its_queue_asks_for_no_nodes(cluster: RealCluster, tmp_path: Path) -> None:
    async def story(play: Live, autoscaler: Autoscaler) -> None:
        await play.queue("small", capability={"nvidia.com/gpu": "4"})
        await play.gang("train", 2, gpu=4, group={"queue": "small"})

        async def told() -> bool:
            pods = (await play.get(PODS.path(NAMESPACE)))["items"]
            conditions = [c for pod in pods for c in pod.get("status", {}).get("conditions") or ()]
            return len(pods) == 2 and {"QueueLimit"} == {c.get("reason") for c in conditions}

        await play.eventually(told, "the pods say that they wait for their queue")
        assert ({}, 0, []) == (autoscaler.answers, autoscaler.bought_for_pods, await requests(play))

    tell(cluster, tmp_path, lambda request: "Provisioned", story)
