"""The kinds that the server serves: a table of built-in kinds. Custom kinds join while the server runs.

Each kind shows one table of objects (`maar.embedded.objects.store`). Two kinds may share a table: the versions of a
custom resource do, and so do the two APIs for events.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from maar.embedded.objects.errors import Obj
from maar.embedded.objects.event_versions import from_core_event, to_core_event

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Scale:
    """Field paths of the wanted and the current number of replicas."""

    wanted: tuple[str, ...] = ("spec", "replicas")
    current: tuple[str, ...] = ("status", "replicas")


@dataclass(frozen=True, slots=True)
class Column:
    """A column that `kubectl get` shows."""

    name: str
    type: str
    path: str
    """A JSON path that starts with a dot."""
    wide: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One kind of object in one version of its API group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    status: bool = False
    """Whether status is written only through the status subresource."""
    scale: Scale | None = None
    generation: bool = False
    """Whether changes of the spec increase `metadata.generation`."""
    unconditional: bool = True
    """Whether an update may omit the resourceVersion."""
    create_on_update: bool = False
    returns_deleted: bool = False
    """Whether a deletion returns the deleted object instead of a Status."""
    fields: tuple[str, ...] = ()
    """Fields that field selectors may use, beside `metadata.name` and `metadata.namespace`."""
    store: tuple[str, str] | None = None
    """Group and plural of the table, if the kind uses the table of another kind."""
    to_store: Callable[[Obj], Obj] | None = None
    from_store: Callable[[Obj], Obj] | None = None
    custom: bool = False
    schema: Obj = field(default_factory=dict)
    columns: tuple[Column, ...] = ()
    list_kind: str = ""
    singular: str = ""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def path(self) -> str:
        """The URL path of its group and version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def table(self) -> tuple[str, str]:
        """Group and plural of the table that holds its objects."""
        return self.store or (self.group, self.plural)

    @property
    def prefix(self) -> bytes:
        """The JSON before the stored bytes of an object: objects are stored without kind and apiVersion."""
        return f'{{"kind":"{self.kind}","apiVersion":"{self.api_version}",'.encode()

    def subresources(self) -> list[tuple[str, str, str, str]]:
        """Name, group, version and kind of each subresource."""
        found = []
        if self.status:
            found.append(("status", self.group, self.version, self.kind))
        if self.scale:
            found.append(("scale", "autoscaling", "v1", "Scale"))
        if self.table == ("", "pods"):
            found += [("binding", "", "v1", "Binding"), ("eviction", "policy", "v1", "Eviction")]
        if self.table == ("", "serviceaccounts"):
            found.append(("token", "authentication.k8s.io", "v1", "TokenRequest"))
        if self.table == ("", "namespaces"):
            found.append(("finalize", "", "v1", "Namespace"))
        return found


POD_FIELDS = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)
EVENT_FIELDS = (
    *(f"involvedObject.{x}" for x in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion")),
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
)


def _core(plural: str, kind: str, *short: str, **more: Any) -> Kind:
    return Kind("", "v1", plural, kind, short=short, **more)


def _apps(plural: str, kind: str, *short: str, scale: bool = True) -> Kind:
    return Kind(
        "apps",
        "v1",
        plural,
        kind,
        short=short,
        categories=("all",),
        status=True,
        generation=True,
        scale=Scale() if scale else None,
    )


BUILT_IN: tuple[Kind, ...] = (
    _core(
        "pods", "Pod", "po", categories=("all",), status=True, generation=True, returns_deleted=True, fields=POD_FIELDS
    ),
    _core("nodes", "Node", "no", namespaced=False, status=True, fields=("spec.unschedulable",)),
    _core("namespaces", "Namespace", "ns", namespaced=False, status=True, fields=("status.phase",)),
    _core("events", "Event", "ev", create_on_update=True, fields=EVENT_FIELDS),
    _core("configmaps", "ConfigMap", "cm"),
    _core("secrets", "Secret", fields=("type",)),
    _core("services", "Service", "svc", categories=("all",), status=True, returns_deleted=True, create_on_update=True),
    _core("serviceaccounts", "ServiceAccount", "sa", returns_deleted=True),
    _core("persistentvolumes", "PersistentVolume", "pv", namespaced=False, status=True, returns_deleted=True),
    _core("persistentvolumeclaims", "PersistentVolumeClaim", "pvc", status=True, returns_deleted=True),
    _core("resourcequotas", "ResourceQuota", "quota", status=True, returns_deleted=True),
    _core("podtemplates", "PodTemplate", returns_deleted=True),
    _core("limitranges", "LimitRange", "limits", returns_deleted=True),
    _core("endpoints", "Endpoints", "ep", create_on_update=True),
    Kind(
        "events.k8s.io",
        "v1",
        "events",
        "Event",
        short=("ev",),
        create_on_update=True,
        fields=("regarding.kind", "regarding.namespace", "regarding.name", "regarding.uid", "reason", "type"),
        store=("", "events"),
        to_store=to_core_event,
        from_store=from_core_event,
    ),
    Kind("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False, short=("pc",)),
    Kind("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", status=True, unconditional=False),
    Kind(
        "policy",
        "v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        short=("pdb",),
        status=True,
        generation=True,
        unconditional=False,
    ),
    Kind("coordination.k8s.io", "v1", "leases", "Lease", unconditional=False, create_on_update=True),
    Kind("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False, short=("sc",)),
    Kind("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False, unconditional=False),
    Kind("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False, generation=True, unconditional=False),
    Kind("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", unconditional=False),
    Kind("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False, status=True),
    Kind(
        "batch", "v1", "jobs", "Job", categories=("all",), status=True, generation=True, fields=("status.successful",)
    ),
    _apps("deployments", "Deployment", "deploy"),
    _apps("replicasets", "ReplicaSet", "rs"),
    _apps("statefulsets", "StatefulSet", "sts"),
    _apps("daemonsets", "DaemonSet", "ds", scale=False),
    Kind(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        namespaced=False,
        short=("crd", "crds"),
        categories=("api-extensions",),
        status=True,
        generation=True,
        unconditional=False,
    ),
)
"""The kinds of every server. A real server has the upstream PodGroup only with its feature gates on."""

PODS, NODES, NAMESPACES, EVENTS = BUILT_IN[:4]


def built_in(group: str, plural: str) -> Kind:
    return next(kind for kind in BUILT_IN if (kind.group, kind.plural) == (group, plural))


SERVICE_ACCOUNTS = built_in("", "serviceaccounts")
PRIORITY_CLASSES = built_in("scheduling.k8s.io", "priorityclasses")
UPSTREAM_GROUPS = built_in("scheduling.k8s.io", "podgroups")
BUDGETS = built_in("policy", "poddisruptionbudgets")
JOBS = built_in("batch", "jobs")
CRDS = built_in("apiextensions.k8s.io", "customresourcedefinitions")
