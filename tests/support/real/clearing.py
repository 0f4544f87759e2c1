"""Deletes the objects of tests in a cluster that tests share."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlencode

from tests.support.real.api import Api, Object, Refused

# The kinds that `clear` deletes. Owners come first, or a controller would replace their pods.
CLEARED = (
    ("apps/v1", "Deployment"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("batch/v1", "Job"),
    ("v1", "Pod"),
    ("scheduling.k8s.io/v1alpha2", "PodGroup"),
    ("policy/v1", "PodDisruptionBudget"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "PersistentVolume"),
    ("storage.k8s.io/v1", "StorageClass"),
    ("storage.k8s.io/v1", "CSINode"),
    ("storage.k8s.io/v1", "CSIDriver"),
    ("storage.k8s.io/v1", "CSIStorageCapacity"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
    ("coordination.k8s.io/v1", "Lease"),
    ("v1", "Node"),
    ("v1", "Event"),
)
OWN = "/api/v1/namespaces/kube-system/configmaps/"
OURS = ("maar-state", "maar-configuration")  # what Maar remembers, and what it publishes
BUILT_IN = ("system-cluster-critical", "system-node-critical")  # priority classes


def clear(api: Api, crds: Iterable[Object]) -> None:
    """Delete all objects of `CLEARED` and of these CRDs without a grace period.

    Namespaces and RBAC objects stay: without the controller manager, no namespace can be removed.
    """
    kinds = [(api_version, kind) for api_version, kind in CLEARED if api.serves(api_version, kind)]
    for crd in crds:
        served = [version["name"] for version in crd["spec"]["versions"] if version["served"]]
        kinds.append((f"{crd['spec']['group']}/{served[0]}", crd["spec"]["names"]["kind"]))
    for api_version, kind in kinds:
        _clear(api, api_version, kind)
    for name in OURS:
        try:
            api.request("DELETE", f"{OWN}{name}")
        except Refused as refused:
            if refused.status != 404:
                raise


def _clear(api: Api, api_version: str, kind: str) -> None:
    found = [thing for thing in api.objects(api_version, kind) if not is_built_in(thing)]
    spare = urlencode({"fieldSelector": ",".join(f"metadata.name!={name}" for name in BUILT_IN)})
    for namespace in sorted({thing["metadata"].get("namespace", "") for thing in found}):
        path = api.collection(api_version, kind, namespace)
        api.request("DELETE", f"{path}?{spare}", {"gracePeriodSeconds": 0})
    for thing in api.objects(api_version, kind) if found else []:
        if not is_built_in(thing):  # kept by a finalizer whose controller may not run
            _let_go(api, {"apiVersion": api_version, "kind": kind, **thing})


def _let_go(api: Api, thing: Object) -> None:
    content_type = "application/merge-patch+json"
    patch = {"metadata": {"finalizers": None}}
    try:
        api.request("PATCH", api.path(thing), patch, content_type=content_type)
    except Refused as refused:
        if refused.status != 404:  # already gone
            raise


def is_built_in(thing: Object) -> bool:
    """Whether the API server created an object and would create it again."""
    metadata = thing["metadata"]
    return metadata["name"] in BUILT_IN or metadata.get("namespace") == "kube-system"
