"""API resources: the path of each kind and its struct; the resources that are not job kinds.

`maar.kube.kinds` has the resources of kinds that make gangs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from maar.kube.wire import cluster as wire
from maar.kube.wire import shards as wire_shards
from maar.kube.wire import volumes as wire_volumes
from maar.kube.wire.base import Object
from maar.kube.wire.pods import Pod
from maar.kube.wire.provisioning import ProvisioningRequest

T_co = TypeVar("T_co", bound=Object, covariant=True)


class Plain(Object, frozen=True):
    """An object of which only the metadata is used."""


@dataclass(frozen=True)
class Resource(Generic[T_co]):
    """A kind of object in one version of its API group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    struct: type[T_co]

    @property
    def api_version(self) -> str:
        """`v1`, `scheduling.volcano.sh/v1beta1`"""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_kind(self) -> tuple[str, str]:
        return self.group, self.kind

    @property
    def root(self) -> str:
        """The path of its API version: `/api/v1`, `/apis/policy/v1`"""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str | None = None, name: str | None = None, sub: str | None = None) -> str:
        """The path of all objects, of all objects in a namespace, of one object, or of a subresource of one object."""
        parts = [self.root]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name is not None:
            if self.namespaced and not namespace:
                raise ValueError(f"the path of an object of `{self}` needs a namespace: `{name}`")
            parts.append(name)
        if sub is not None:
            parts.append(sub)
        return "/".join(parts)

    def document(self, metadata: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
        """An object of this resource, as JSON."""
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata, **fields}

    def __str__(self) -> str:
        """`pods`, `queues.scheduling.volcano.sh`: as in kubectl"""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def api_group(api_version: str) -> str:
    """The group of an apiVersion; the core group is empty."""
    return api_version.rpartition("/")[0]


NODES = Resource("", "v1", "nodes", "Node", False, wire.Node)
NODE_METRICS = Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", False, wire.NodeMetrics)
CUSTOM_METRICS = "custom.metrics.k8s.io"
NODE_CPU_USAGE, NODE_MEMORY_USAGE = "node_cpu_usage_avg", "node_memory_usage_avg"
"""The group of metrics by name, and the names that Volcano's guide gives to the load of nodes."""
PODS = Resource("", "v1", "pods", "Pod", True, Pod)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", False, wire.Namespace)
SERVICES = Resource("", "v1", "services", "Service", True, wire.Service)
QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota", True, wire.ResourceQuota)
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, wire_volumes.PersistentVolumeClaim)
VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", False, wire_volumes.PersistentVolume)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", True, wire.ConfigMap)
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", False, wire_volumes.StorageClass)
CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", False, wire_volumes.CsiNode)
CSI_DRIVERS = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", False, wire_volumes.CsiDriver)
CSI_CAPACITIES = Resource(
    "storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", True, wire_volumes.CsiStorageCapacity
)
EVENTS = Resource("events.k8s.io", "v1", "events", "Event", True, Plain)
"""Maar only writes events. The core group, which `kubectl describe` and dashboards read, serves the same ones."""
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", True, Plain)
TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False, Plain)
"""Not stored: creating one asks the server about a token."""
SELF_REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False, Plain)
"""Not stored: creating one asks the server who asks."""
ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False, Plain)
"""Not stored: creating one asks the server what a user may do."""
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, wire.PriorityClass)
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, wire.PodDisruptionBudget)

QUEUES = Resource("scheduling.volcano.sh", "v1beta1", "queues", "Queue", False, wire.Queue)
HYPERNODES = Resource("topology.volcano.sh", "v1alpha1", "hypernodes", "HyperNode", False, wire.HyperNode)

SHARD_MAPS = Resource("maar.dev", "v1alpha1", "shardmaps", "ShardMap", False, wire_shards.ShardMap)
SHARDS = Resource("maar.dev", "v1alpha1", "shards", "Shard", False, wire_shards.Shard)
"""Maar's own kinds, for several schedulers on one cluster."""

PROVISIONING_REQUESTS, PROVISIONING_REQUESTS_V1BETA1 = (
    Resource("autoscaling.x-k8s.io", version, "provisioningrequests", "ProvisioningRequest", True, ProvisioningRequest)
    for version in ("v1", "v1beta1")
)
POD_TEMPLATES = Resource("", "v1", "podtemplates", "PodTemplate", True, Plain)
"""Maar only writes them, for ProvisioningRequests."""
