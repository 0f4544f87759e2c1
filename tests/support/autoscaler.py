"""A simulated autoscaler that follows the documented rules of Cluster Autoscaler, and counts the nodes that it buys.

It buys one node for each pod whose condition is `PodScheduled=False, reason=Unschedulable`, unless the pod has a
nominated node, or consumes a ProvisioningRequest. It answers each request in the way that the test chooses: by
nodes for all its pods (`Provisioned`), or by another condition.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from tests.support.live import NAMESPACE, Live

from maar.kube.client.errors import NotFound
from maar.kube.wire import annotations as known
from maar.kube.wire.api_resources import POD_TEMPLATES, PODS, PROVISIONING_REQUESTS_V1BETA1

REQUESTS = PROVISIONING_REQUESTS_V1BETA1
"""In the version of the CRD that the tests use."""
Json = dict[str, Any]


class Autoscaler:
    """Looks at the cluster again and again, like an autoscaler's loop."""

    def __init__(self, play: Live, answer: Callable[[Json], str], gpu: int) -> None:
        """`answer` returns the condition type that a request gets."""
        self._play = play
        self._answer = answer
        self._gpu = gpu
        self._next = 100
        self._for_pods: set[str] = set()
        self.bought_for_pods = 0
        self.bought_for_requests = 0
        self.answers: dict[str, str] = {}
        """The condition that each request got, by name."""
        self.unprotected: set[str] = set()
        """Pods that were once seen as `Unschedulable` without naming a request."""

    async def look(self) -> None:
        for request in (await self._play.get(REQUESTS.path(NAMESPACE)))["items"]:
            if request["metadata"]["name"] not in self.answers:
                await self._serve(request)
        for pod in (await self._play.get(PODS.path(NAMESPACE)))["items"]:
            if asks(pod) and pod["metadata"]["name"] not in self._for_pods:
                self._for_pods.add(pod["metadata"]["name"])
                self.unprotected.add(pod["metadata"]["name"])
                self.bought_for_pods += 1
                await self._buy(1)

    async def _serve(self, request: Json) -> None:
        name, pods = request["metadata"]["name"], 0
        for pod_set in request["spec"]["podSets"]:
            await self._play.get(POD_TEMPLATES.path(NAMESPACE, pod_set["podTemplateRef"]["name"]))
            pods += pod_set["count"]
        self.answers[name] = condition = self._answer(request)
        if condition == "Provisioned":
            self.bought_for_requests += pods
            await self._buy(pods)
        await self.say(name, condition)

    async def say(self, name: str, condition: str) -> None:
        """Add a condition to a request, beside those that it has."""
        path = REQUESTS.path(NAMESPACE, name)
        there = (await self._play.get(path)).get("status", {}).get("conditions", [])
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        said = {
            "type": condition,
            "status": "True",
            "reason": condition,
            "message": "as told",
            "lastTransitionTime": now,
        }
        await self._play.api.patch(f"{path}/status", {"status": {"conditions": [*there, said]}})

    async def _buy(self, count: int) -> None:
        await self._play.nodes(count, gpu=self._gpu, first=self._next)
        self._next += count


def asks(pod: Json) -> bool:
    """Whether an autoscaler adds a node for a pod."""
    status, notes = pod.get("status", {}), pod["metadata"].get("annotations", {})
    if pod["spec"].get("nodeName") or status.get("nominatedNodeName") or known.CONSUMES_REQUEST in notes:
        return False
    return any(
        (c["type"], c["status"], c.get("reason")) == ("PodScheduled", "False", "Unschedulable")
        for c in status.get("conditions") or ()
    )


@asynccontextmanager
async def autoscaling(play: Live, answer: Callable[[Json], str], *, gpu: int = 8) -> AsyncIterator[Autoscaler]:
    """An autoscaler at work."""
    autoscaler = Autoscaler(play, answer, gpu)

    async def run() -> None:
        while True:
            with contextlib.suppress(NotFound):  # withdrawn meanwhile
                await autoscaler.look()
            await asyncio.sleep(0.05)

    running = asyncio.create_task(run())
    try:
        yield autoscaler
    finally:
        running.cancel()
        ended = await asyncio.gather(running, return_exceptions=True)
        if isinstance(ended[0], Exception):
            raise ended[0]
