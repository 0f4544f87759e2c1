"""A client for live tests: creates objects as users do, over a socket, on the embedded server or a real one.

async with connected(kubeconfig) as cluster, scheduling(cluster):
    await cluster.nodes(4, gpu=8)
    await cluster.gang("train", 4, gpu=8)
    await cluster.until(lambda pods: all(p.node for p in pods))
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import yaml
from tests.support.patience import until, words_of

from maar.controller.observer import Observer
from maar.controller.scheduler import Scheduler
from maar.controller.settings.config_file import ConfigFile
from maar.controller.settings.settings import Settings
from maar.kube.client.access import load_access
from maar.kube.client.api import Api
from maar.kube.client.errors import AlreadyExists, NotFound
from maar.kube.kinds import KINDS, volcano_podgroup
from maar.kube.wire.api_resources import EVENTS, LEASES, NODES, PODS, PRIORITY_CLASSES, QUEUES

NAMESPACE = "default"
GPU = "nvidia.com/gpu"
OUR_CRDS = Path(__file__).parents[2] / "deploy" / "crds"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
EVENTS_PATH = f"/api/v1/namespaces/{NAMESPACE}/events"
"""Where `kubectl describe` reads events."""


class Seen(msgspec.Struct, frozen=True):
    """A pod as the API server stores it."""

    name: str
    uid: str
    node: str
    phase: str
    group: str
    leaving: bool
    nominated: str
    message: str
    """Why the pod waits, from its PodScheduled condition."""
    reason: str
    """The same for programs."""


class Live:
    """A client of one cluster."""

    def __init__(self, api: Api) -> None:
        self.api = api

    async def create(self, path: str, obj: Mapping[str, Any]) -> None:
        """Create an object, unless it exists already."""
        try:
            await self.api.create(path, dict(obj))
        except AlreadyExists:
            return

    async def versions(self) -> dict[str, str]:
        """The resourceVersion of every object that Maar reads or could write, by kind and name."""
        found: dict[str, str] = {}
        for resource in {*(r for kind in KINDS for r in (kind.resource, *kind.older)), EVENTS, LEASES}:
            try:
                listed = await self.get(resource.path())
            except NotFound:
                continue
            for item in listed["items"]:
                metadata = item["metadata"]
                if metadata.get("namespace") != "kube-system":  # the API server's own lease
                    name = f"{resource}/{metadata.get('namespace', '')}/{metadata['name']}"
                    found[name] = metadata["resourceVersion"]
        return found

    async def crds(self, folder: Path) -> None:
        """Create all CRDs of a folder, and wait until the server serves them."""
        made = [d for f in sorted(folder.glob("*.yaml")) for d in yaml.safe_load_all(f.read_text()) if d]
        for crd in made:
            await self.create(CRDS, crd)
        for crd in made:
            spec = crd["spec"]
            path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
            await self.eventually(lambda p=path: self._serves(p), f"{path} is served")  # type: ignore[misc]

    async def _serves(self, path: str) -> bool:
        try:
            await self.api.get(path)
        except Exception:  # noqa: BLE001 not served yet
            return False
        return True

    async def nodes(self, count: int, *, gpu: int = 0, cpu: int = 32, first: int = 0, **metadata: Any) -> None:
        """Create nodes `n0`, `n1` and so on."""
        has = {"cpu": str(cpu), "memory": "256Gi", "ephemeral-storage": "500Gi", "pods": "110"}
        has |= {GPU: str(gpu)} if gpu else {}
        status = {
            "allocatable": has,
            "capacity": has,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}],
        }
        for i in range(first, first + count):
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{i}", **metadata}, "status": status}
            await self.create(NODES.path(), node)

    async def priority(self, name: str, value: int) -> None:
        head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        await self.create(PRIORITY_CLASSES.path(), {**head, "value": value})

    async def queue(self, name: str, **spec: Any) -> None:
        """Create a Volcano Queue."""
        head = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": name}}
        await self.create(QUEUES.path(), {**head, "spec": {"weight": 1, **spec}})

    async def group(
        self, name: str, minimum: int, *, annotations: Mapping[str, str] | None = None, **spec: Any
    ) -> None:
        """Create a Volcano PodGroup."""
        head = {"apiVersion": volcano_podgroup.KIND.resource.api_version, "kind": "PodGroup"}
        metadata = {"name": name, "namespace": NAMESPACE, "annotations": dict(annotations or {})}
        body = {**head, "metadata": metadata, "spec": {"minMember": minimum, **spec}}
        await self.create(volcano_podgroup.KIND.resource.path(NAMESPACE), body)

    async def pod(
        self,
        name: str,
        *,
        gpu: int = 0,
        cpu: str = "100m",
        metadata: Mapping[str, Any] | None = None,
        **spec: Any,
    ) -> None:
        """Create a pod that Maar schedules."""
        resources: dict[str, Any] = {"requests": {"cpu": cpu}} | ({"limits": {GPU: str(gpu)}} if gpu else {})
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": NAMESPACE, **dict(metadata or {})},
            "spec": {
                "schedulerName": "maar",
                "containers": [{"name": "c", "image": "train", "resources": resources}],
                "terminationGracePeriodSeconds": 0,
                **spec,
            },
        }
        await self.api.create(PODS.path(NAMESPACE), body)

    async def gang(
        self, name: str, size: int, *, minimum: int | None = None, group: Mapping[str, Any] | None = None, **pod: Any
    ) -> None:
        """Create a PodGroup and its pods, `name-0` and so on, of one priority class."""
        same = {name: pod[name] for name in ("priorityClassName",) if name in pod}
        await self.group(name, size if minimum is None else minimum, **{**same, **dict(group or {})})
        metadata = {"annotations": {"scheduling.k8s.io/group-name": name}}
        for i in range(size):
            await self.pod(f"{name}-{i}", metadata=metadata, **pod)

    async def pods(self) -> list[Seen]:
        """All pods of the namespace."""
        listed = msgspec.json.decode(await self.api.get(PODS.path(NAMESPACE)))
        return [_seen(item) for item in listed["items"]]

    async def get(self, path: str) -> dict[str, Any]:
        """Read an object."""
        found: dict[str, Any] = msgspec.json.decode(await self.api.get(path))
        return found

    async def delete(self, name: str) -> None:
        """Delete a pod."""
        await self.api.delete(PODS.path(NAMESPACE, name))

    async def pod_status(self, name: str, **status: Any) -> None:
        """Write parts of the status of a pod, as its kubelet does."""
        await self.api.patch(PODS.path(NAMESPACE, name, "status"), {"status": status}, "merge")

    async def node_status(self, name: str, **status: Any) -> None:
        """Write parts of the status of a node, as its kubelet does."""
        await self.api.patch(NODES.path(name=name, sub="status"), {"status": status}, "merge")

    async def let_go(self, name: str) -> None:
        """Remove the finalizers of a pod."""
        await self.api.patch(PODS.path(NAMESPACE, name), {"metadata": {"finalizers": None}}, "merge")

    async def until(self, holds: Callable[[list[Seen]], bool], what: str = "") -> list[Seen]:
        """Wait until a condition on the pods is true."""
        seen: list[Seen] = []

        async def check() -> bool:
            nonlocal seen
            seen = await self.pods()
            return holds(seen)

        try:
            await self.eventually(check, what or words_of(holds))
        except TimeoutError as late:
            raise AssertionError(f"{late}: {seen}") from None
        return seen

    async def eventually(self, check: Callable[[], Any], what: str = "") -> None:
        """Wait until a check, which may be a coroutine function, returns true. What is not found is not there yet."""

        async def holds() -> Any:
            with contextlib.suppress(NotFound):
                found = check()
                return await found if asyncio.iscoroutine(found) else found

        await until(holds, what or words_of(check))


def _seen(item: dict[str, Any]) -> Seen:
    meta, spec, status = item["metadata"], item["spec"], item.get("status", {})
    conditions = [c for c in status.get("conditions") or () if c["type"] == "PodScheduled"]
    return Seen(
        name=meta["name"],
        uid=meta["uid"],
        node=spec.get("nodeName", ""),
        phase=status.get("phase", ""),
        group=meta.get("annotations", {}).get("scheduling.k8s.io/group-name", ""),
        leaving="deletionTimestamp" in meta,
        nominated=status.get("nominatedNodeName", ""),
        message=conditions[0].get("message", "") if conditions else "",
        reason=conditions[0].get("reason", "") if conditions else "",
    )


def where(pods: list[Seen]) -> dict[str, str]:
    """The node of each pod, by name; empty if the pod has none."""
    return {p.name: p.node for p in pods}


def bound(group: str, count: int) -> Callable[[list[Seen]], bool]:
    """A condition: this many pods of a gang have a node and are not terminating."""
    return lambda pods: sum(p.group == group and bool(p.node) and not p.leaving for p in pods) == count


@asynccontextmanager
async def connected(kubeconfig: str | Path) -> AsyncIterator[Live]:
    """A client of the cluster in a kubeconfig."""
    api = await Api.open(load_access(str(kubeconfig)))
    try:
        yield Live(api)
    finally:
        await api.close()


def tell(kubeconfig: Path, story: Callable[[Live], Awaitable[None]], *, nodes: int = 2, gpu: int = 8) -> None:
    """Run a story on a cluster with our CRDs and some nodes."""

    async def run() -> None:
        async with connected(kubeconfig) as cluster:
            await cluster.crds(OUR_CRDS)
            await cluster.nodes(nodes, gpu=gpu)
            await story(cluster)

    asyncio.run(run())


@asynccontextmanager
async def scheduling(
    cluster: Live, settings: Settings | None = None, config: Path | None = None, **more: Any
) -> AsyncIterator[Scheduler]:
    """Run Maar's scheduler on the cluster."""
    scheduler = Scheduler(cluster.api, settings or Settings(), ConfigFile(config), **more)
    async with _deciding(scheduler, scheduler.lead):
        yield scheduler


@asynccontextmanager
async def observing(cluster: Live, settings: Settings | None = None) -> AsyncIterator[Observer]:
    """Watch the cluster and decide about it, as shadow mode does."""
    observer = Observer(cluster.api, settings or Settings(), ConfigFile(None))
    async with _deciding(observer, observer.observe):
        yield observer


@asynccontextmanager
async def _deciding(observer: Observer, decide: Callable[[], Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    await observer.sync()
    deciding = asyncio.create_task(decide())
    try:
        yield
    finally:
        deciding.cancel()
        ended = await asyncio.gather(deciding, return_exceptions=True)
        await observer.close()
        if isinstance(ended[0], Exception):
            raise ended[0]
