"""A simulation of the controllers that create and bind volumes. Neither the embedded nor a real API server has them.

A `Provisioner` is the volume controller and a storage driver in one. It watches claims. A claim with a selected node
gets a new volume in the zone of that node, or loses the annotation if the volume is refused. A claim with an assigned
volume is bound to it. `hold` pauses the provisioner.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from maar.kube.client.api import Api
from maar.kube.client.errors import AlreadyExists, NotFound
from maar.kube.client.informer import Changed, Delta, Informer, Removed, Replaced
from maar.kube.client.streams import Broken
from maar.kube.read.storage.claims import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    class_of,
    is_bound,
    selected_node,
)
from maar.kube.wire.api_resources import (
    CLAIMS,
    CSI_CAPACITIES,
    CSI_DRIVERS,
    CSI_NODES,
    NODES,
    STORAGE_CLASSES,
    VOLUMES,
)
from maar.kube.wire.volumes import PersistentVolume, PersistentVolumeClaim

ZONE = "topology.kubernetes.io/zone"
DRIVER = "disk.test.dev"
NAMESPACE = "default"


class Provisioner:
    """Creates and binds volumes while it runs."""

    def __init__(self, api: Api, refuses: Callable[[str, str], bool] = lambda claim, node: False) -> None:
        self._api = api
        self._refuses = refuses
        self.go = asyncio.Event()
        """While cleared, the provisioner only watches."""
        self.go.set()
        self.asked: list[tuple[str, str]] = []
        """Every claim with a selected node, and the node, in order."""
        self._claims: dict[str, PersistentVolumeClaim] = {}
        self._volumes: dict[str, PersistentVolume] = {}
        self._happened = asyncio.Event()

    def hold(self) -> None:
        """Pause until `go` is set again."""
        self.go.clear()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Provisioner]:
        """Run until the block ends."""
        claims = Informer(self._api, CLAIMS, self._take_claim)
        volumes = Informer(self._api, VOLUMES, self._take_volume)
        tasks = [asyncio.create_task(work) for work in (claims.run(), volumes.run(), self._work())]
        try:
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _take_claim(self, delta: Delta[PersistentVolumeClaim]) -> None:
        _take(self._claims, delta)
        self._happened.set()

    def _take_volume(self, delta: Delta[PersistentVolume]) -> None:
        _take(self._volumes, delta)
        self._happened.set()

    async def _work(self) -> None:
        while True:
            await self._happened.wait()
            await self.go.wait()
            self._happened.clear()
            for claim in list(self._claims.values()):
                if not is_bound(claim):
                    with contextlib.suppress(NotFound):
                        await self._serve(claim)

    async def _serve(self, claim: PersistentVolumeClaim) -> None:
        given = [v for v in self._volumes.values() if v.spec.claim_ref and v.spec.claim_ref.uid == claim.metadata.uid]
        node = selected_node(claim)
        if given:
            await bind(self._api, claim, given[0].name)
        elif node and self._refuses(claim.name, node):
            self.asked.append((claim.name, node))
            # Ignore the claim until a watch shows it without the annotation.
            del self._claims[claim.key]
            change = {"metadata": {"annotations": {SELECTED_NODE: None}}}
            await self._api.patch(CLAIMS.path(claim.namespace, claim.name), change)
        elif node:
            self.asked.append((claim.name, node))
            labels = (msgspec.json.decode(await self._api.get(NODES.path(name=node))))["metadata"].get("labels", {})
            name = f"pvc-{claim.metadata.uid}"
            made = volume(name, class_of(claim), zone=labels.get(ZONE, ""), claim=claim)
            with contextlib.suppress(AlreadyExists):
                await self._api.create(VOLUMES.path(), made)
            await bind(self._api, claim, name)


async def bind(api: Api, claim: PersistentVolumeClaim, name: str) -> None:
    """Bind a claim to a volume that names it, as the volume controller does."""
    path = CLAIMS.path(claim.namespace, claim.name)
    completed = {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"}
    await api.patch(VOLUMES.path(name=name, sub="status"), {"status": {"phase": "Bound"}})
    await api.patch(path, {"metadata": {"annotations": completed}, "spec": {"volumeName": name}})
    await api.patch(f"{path}/status", {"status": {"phase": "Bound"}})


def _take(known: dict[str, Any], delta: Delta[Any]) -> None:
    match delta:
        case Replaced(objects=objects):
            known.clear()
            known.update({item.key: item for item in objects if not isinstance(item, Broken)})
        case Changed(object=item):
            known[f"{item.namespace or 'default'}/{item.name}"] = item
        case Removed(namespace=namespace, name=name):
            known.pop(f"{namespace or 'default'}/{name}", None)


# -- objects


def storage_class(name: str = "disk", *, waits: bool = True, provisioner: str = DRIVER, **more: Any) -> dict[str, Any]:
    """A storage class. By default it binds volumes when the first pod is scheduled."""
    mode = "WaitForFirstConsumer" if waits else "Immediate"
    head = {"apiVersion": STORAGE_CLASSES.api_version, "kind": "StorageClass", "metadata": {"name": name}}
    return {**head, "provisioner": provisioner, "volumeBindingMode": mode, **more}


def claim(name: str, of: str = "disk", *, size: str = "1Gi", access: str = "ReadWriteOnce") -> dict[str, Any]:
    """An unbound claim."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"storageClassName": of, "accessModes": [access], "resources": {"requests": {"storage": size}}},
    }


def volume(
    name: str,
    of: str = "disk",
    *,
    zone: str = "",
    host: str = "",
    size: str = "1Gi",
    claim: PersistentVolumeClaim | None = None,
) -> dict[str, Any]:
    """A volume of the driver, optionally in a zone; or a local volume of a host."""
    spec: dict[str, Any] = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": of,
        **({"local": {"path": f"/mnt/{name}"}} if host else {"csi": {"driver": DRIVER, "volumeHandle": name}}),
    }
    for key, value in ((ZONE, zone), ("kubernetes.io/hostname", host)):
        if value:
            term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    if claim is not None:
        named = {"namespace": claim.namespace, "name": claim.name, "uid": claim.metadata.uid}
        spec["claimRef"] = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **named}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def csi_node(name: str, limit: int) -> dict[str, Any]:
    """A CSINode: how many volumes of the driver a node can hold."""
    driver = {"name": DRIVER, "nodeID": name, "topologyKeys": [ZONE], "allocatable": {"count": limit}}
    head = {"apiVersion": CSI_NODES.api_version, "kind": "CSINode", "metadata": {"name": name}}
    return {**head, "spec": {"drivers": [driver]}}


def csi_driver() -> dict[str, Any]:
    """The CSIDriver: it says how much storage is left."""
    head = {"apiVersion": CSI_DRIVERS.api_version, "kind": "CSIDriver", "metadata": {"name": DRIVER}}
    return {**head, "spec": {"storageCapacity": True}}


def csi_capacity(zone: str, capacity: str, of: str = "disk") -> dict[str, Any]:
    """A CSIStorageCapacity, named after its zone: how much storage of a class is left there."""
    metadata = {"name": zone, "namespace": NAMESPACE}
    head = {"apiVersion": CSI_CAPACITIES.api_version, "kind": "CSIStorageCapacity", "metadata": metadata}
    return {**head, "storageClassName": of, "nodeTopology": {"matchLabels": {ZONE: zone}}, "capacity": capacity}


def using(*claims: str) -> dict[str, Any]:
    """The part of a pod spec that uses these claims."""
    return {"volumes": [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims]}
