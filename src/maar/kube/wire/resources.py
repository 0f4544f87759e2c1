"""The one table of what Maar asks an API server for: where each kind is served and what its objects decode into.

`maar.kube.client.discovery` finds out which of them a server serves; informers, the executor and the writers of leases
and events take their paths from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from maar.kube.wire import cluster as wire
from maar.kube.wire import groups as wire_groups
from maar.kube.wire import volumes as wire_volumes
from maar.kube.wire.base import Object
from maar.kube.wire.pods import Pod

T_co = TypeVar("T_co", bound=Object, covariant=True)


class Plain(Object, frozen=True):
    """An object of which only the metadata matters."""


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
    def root(self) -> str:
        """Where its version is served: `/api/v1`, `/apis/policy/v1`"""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str | None = None, name: str | None = None, sub: str | None = None) -> str:
        """The path of all objects, of those of a namespace, of one, or of a subresource of one."""
        parts = [self.root]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name is not None:
            if self.namespaced and not namespace:
                raise ValueError(f"a path to one of `{self}` needs its namespace: `{name}`")
            parts.append(name)
        if sub is not None:
            parts.append(sub)
        return "/".join(parts)

    def __str__(self) -> str:
        """`pods`, `queues.scheduling.volcano.sh`: as kubectl writes it"""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def api_group(api_version: str) -> str:
    """The group of an apiVersion; the core group is empty."""
    return api_version.rpartition("/")[0]


NODES = Resource("", "v1", "nodes", "Node", False, wire.Node)
PODS = Resource("", "v1", "pods", "Pod", True, Pod)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", False, wire.Namespace)
QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota", True, wire.ResourceQuota)
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, wire_volumes.PersistentVolumeClaim)
VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", False, wire_volumes.PersistentVolume)
EVENTS = Resource("", "v1", "events", "Event", True, Plain)
"""Written only. Those of the core group, which `kubectl describe` and every dashboard read."""
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", False, wire_volumes.StorageClass)
CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", False, wire_volumes.CsiNode)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", True, Plain)
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, wire.PriorityClass)
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, wire.PodDisruptionBudget)

UPSTREAM = "scheduling.k8s.io"
UPSTREAM_GROUPS_BETA = Resource(UPSTREAM, "v1beta1", "podgroups", "PodGroup", True, wire_groups.UpstreamGroup)
UPSTREAM_GROUPS = Resource(UPSTREAM, "v1alpha2", "podgroups", "PodGroup", True, wire_groups.UpstreamGroup)
VOLCANO = "scheduling.volcano.sh"
VOLCANO_GROUPS = Resource(VOLCANO, "v1beta1", "podgroups", "PodGroup", True, wire_groups.VolcanoGroup)
QUEUES = Resource(VOLCANO, "v1beta1", "queues", "Queue", False, wire.Queue)
PLUGINS_GROUPS = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", True, wire_groups.PluginsGroup)
HYPERNODES = Resource("topology.volcano.sh", "v1alpha1", "hypernodes", "HyperNode", False, wire.HyperNode)

BATCH_JOBS = Resource("batch", "v1", "jobs", "Job", True, wire_groups.BatchJob)
VOLCANO_JOBS = Resource("batch.volcano.sh", "v1alpha1", "jobs", "Job", True, wire_groups.VolcanoJob)
JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", True, wire_groups.JobSet)
VOLCANO_COMMANDS = Resource("bus.volcano.sh", "v1alpha1", "commands", "Command", True, Plain)
"""Written only: how a Volcano Job is paused."""
KUBEFLOW_JOBS = tuple(
    Resource("kubeflow.org", "v1", f"{kind.lower()}s", kind, True, wire_groups.KubeflowJob)
    for kind in ("PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob")
)
MPI_JOBS_V2 = Resource("kubeflow.org", "v2beta1", "mpijobs", "MPIJob", True, wire_groups.KubeflowJob)
"""Of the MPI operator; the training operator serves the same name in v1."""

RESOURCES: tuple[Resource[Object], ...] = (
    NODES,
    PODS,
    NAMESPACES,
    QUOTAS,
    CLAIMS,
    VOLUMES,
    EVENTS,
    STORAGE_CLASSES,
    CSI_NODES,
    LEASES,
    PRIORITY_CLASSES,
    BUDGETS,
    UPSTREAM_GROUPS_BETA,
    UPSTREAM_GROUPS,
    VOLCANO_GROUPS,
    QUEUES,
    PLUGINS_GROUPS,
    HYPERNODES,
    BATCH_JOBS,
    VOLCANO_JOBS,
    JOB_SETS,
    VOLCANO_COMMANDS,
    *KUBEFLOW_JOBS,
    MPI_JOBS_V2,
)
"""All of them; of a kind in several versions the newest comes first."""
