"""Definitions of the kinds of others, for tests without their operators."""

from __future__ import annotations

from typing import Any

from tests.support.live import CRDS, Live

from maar.kube.wire.api_resources import Resource


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
        await cluster.create(CRDS, crd(resource))
        await cluster.eventually(lambda r=resource: _serves(cluster, r), f"{resource} is served")  # type: ignore[misc]


async def _serves(cluster: Live, resource: Resource[Any]) -> bool:
    try:
        await cluster.api.get(resource.path())
    except Exception:
        return False
    return True
