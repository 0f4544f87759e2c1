"""Definitions of the kinds of others, for tests without their operators."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.support.live import CRDS, Live

from maar.kube.wire.api_resources import Resource

SERVED_AFTER = 2.0
"""Seconds after which a server serves a changed definition."""


def crd(resource: Resource[Any]) -> dict[str, Any]:
    """A CRD that accepts any spec."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"plural": resource.plural, "singular": resource.kind.lower(), "kind": resource.kind}
    version = {
        **{"name": resource.version, "served": True, "storage": True, "subresources": {"status": {}}},
        "schema": {"openAPIV3Schema": anything},
    }
    spec = {"group": resource.group, "scope": "Namespaced", "names": names, "versions": [version]}
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return {**head, "metadata": {"name": f"{resource.plural}.{resource.group}"}, "spec": spec}


async def serve(cluster: Live, *resources: Resource[Any]) -> None:
    """Define these kinds, and wait until the server serves them."""
    for resource in resources:
        wanted = crd(resource)
        await cluster.create(CRDS, wanted)
        await _with_status(cluster, wanted)
        await cluster.eventually(lambda r=resource: _serves(cluster, r), f"{resource} is served")  # type: ignore[misc]


async def _with_status(cluster: Live, wanted: dict[str, Any]) -> None:
    """Another test of the same server may have left a definition without statuses: replace it."""
    path = f"{CRDS}/{wanted['metadata']['name']}"
    there = json.loads(await cluster.api.get(path))
    if all("status" in version.get("subresources", {}) for version in there["spec"]["versions"]):
        return
    await cluster.api.patch(path, {"spec": wanted["spec"]}, "merge")
    await asyncio.sleep(SERVED_AFTER)


async def _serves(cluster: Live, resource: Resource[Any]) -> bool:
    try:
        await cluster.api.get(resource.path())
    except Exception:  # noqa: BLE001 not served yet
        return False
    return True
