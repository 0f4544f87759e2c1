"""Defaulting, admission and validation for each kind.

The verbs (`maar.embedded.objects.api`) call these rules on their own copy of an object before they store it. Only rules
that a scheduler or its users notice are here. Other fields are stored unchecked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from maar.embedded.objects.errors import Cause, Obj, forbidden, invalid_value, not_allowed, required
from maar.embedded.objects.kinds import BUILT_IN, NAMESPACES, PRIORITY_CLASSES, UPSTREAM_GROUPS
from maar.embedded.objects.metadata import now
from maar.embedded.objects.pods import change_pod, check_pod, check_pod_change, new_pod
from maar.kube.kinds.batchjob import labels_of

if TYPE_CHECKING:
    from maar.embedded.objects.api import Api

PROTECTION = "scheduling.k8s.io/podgroup-protection"
"""The finalizer of upstream PodGroups. `maar.embedded.parts.upstream` removes it."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one kind. Each rule may change the object that it gets."""

    new: Callable[[Api, Obj], None] | None = None
    check: Callable[[Obj], list[Cause]] | None = None
    changed: Callable[[Obj, Obj], None] | None = None
    """Takes the new object, then the old one."""
    check_change: Callable[[Obj, Obj], list[Cause]] | None = None


def no_status(api: Api, obj: Obj) -> None:
    obj["status"] = {}


def new_node(api: Api, node: Obj) -> None:
    """Allocatable defaults to capacity."""
    node.setdefault("spec", {})
    status = node.setdefault("status", {})
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = status["capacity"]


def new_namespace(api: Api, namespace: Obj) -> None:
    """A new namespace is active, has its name as a label, and can be removed only when it is empty."""
    namespace["spec"] = {"finalizers": ["kubernetes"]}
    namespace["status"] = {"phase": "Active"}
    namespace["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = namespace["metadata"]["name"]


def new_claim(api: Api, claim: Obj) -> None:
    claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
    claim["status"] = {"phase": "Pending"}


def new_volume(api: Api, volume: Obj) -> None:
    volume.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
    volume["spec"].setdefault("persistentVolumeReclaimPolicy", "Retain")
    volume["status"] = {"phase": "Pending"}


def new_priority_class(api: Api, obj: Obj) -> None:
    """Preemption is the default. Only one class may be the global default."""
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")
    obj.setdefault("value", 0)
    if obj.get("globalDefault"):
        for item in api.store.table(PRIORITY_CLASSES).items.values():
            if item.obj.get("globalDefault"):
                name = obj["metadata"].get("name", "")
                why = f"PriorityClass {item.obj['metadata']['name']} is already marked as default"
                raise forbidden("scheduling.k8s.io", "priorityclasses", name, why)


def check_priority_change(new: Obj, old: Obj) -> list[Cause]:
    """The value of a priority class is immutable."""
    if new.get("value", 0) != old.get("value", 0):
        return [not_allowed("value", "may not be changed in an update.")]
    return []


def new_upstream_group(api: Api, group: Obj) -> None:
    """A PodGroup as 1.36 stores it with its other feature gates off, with the finalizer that protects it."""
    group["status"] = {}
    spec = group.setdefault("spec", {})
    for gated in ("priority", "priorityClassName", "schedulingConstraints"):
        spec.pop(gated, None)
    spec.setdefault("disruptionMode", "Pod")
    finalizers = group["metadata"].setdefault("finalizers", [])
    if PROTECTION not in finalizers:
        finalizers.append(PROTECTION)


def check_upstream_group(group: Obj) -> list[Cause]:
    """A group has exactly one policy, and a gang has a minimum of at least one."""
    policy = group["spec"].get("schedulingPolicy") or {}
    if ("basic" in policy) == ("gang" in policy):
        return [invalid_value("spec.schedulingPolicy", "", "must specify one of: `basic`, `gang`")]
    if "gang" in policy and not (policy["gang"] or {}).get("minCount"):
        return [required("spec.schedulingPolicy.gang.minCount")]
    return []


def check_upstream_change(new: Obj, old: Obj) -> list[Cause]:
    """The scheduling policy is immutable."""
    if (new.get("spec") or {}).get("schedulingPolicy") != old["spec"].get("schedulingPolicy"):
        return [invalid_value("spec.schedulingPolicy", "", "field is immutable")]
    return []


def check_budget(budget: Obj) -> list[Cause]:
    """A budget has at most one of its two limits."""
    spec = budget.get("spec") or {}
    if "minAvailable" in spec and "maxUnavailable" in spec:
        return [invalid_value("spec", "", "minAvailable and maxUnavailable cannot be both set")]
    return []


def new_job(api: Api, job: Obj) -> None:
    """A job runs one pod once by default. Its pods carry its uid as a label."""
    job["status"] = {}
    spec = job.setdefault("spec", {})
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    for name, value in (("parallelism", 1), ("backoffLimit", 6), ("suspend", False), ("completionMode", "NonIndexed")):
        spec.setdefault(name, value)
    uid = job["metadata"]["uid"]
    labels = labels_of(job["metadata"]["name"], uid)
    spec.setdefault("selector", {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}})
    template = spec.setdefault("template", {})
    metadata = template.setdefault("metadata", {})
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}


def check_job(job: Obj) -> list[Cause]:
    """The pods of a job must be able to end."""
    policy = (job["spec"]["template"].get("spec") or {}).get("restartPolicy", "Always")
    if policy not in ("OnFailure", "Never"):
        message = f'Unsupported value: "{policy}": supported values: "OnFailure", "Never"'
        return [Cause("spec.template.spec.restartPolicy", "FieldValueNotSupported", message)]
    return []


def new_event(api: Api, event: Obj) -> None:
    """Every event has `involvedObject`, which `kubectl get events` shows."""
    event.setdefault("involvedObject", {})


def new_lease(api: Api, lease: Obj) -> None:
    lease.setdefault("spec", {})


def check_crd(crd: Obj) -> list[Cause]:
    """The name follows from plural and group, and every version has a schema."""
    spec = crd.get("spec") or {}
    names, group = spec.get("names") or {}, spec.get("group") or ""
    causes = []
    wanted = f"{names.get('plural', '')}.{group}"
    if crd["metadata"].get("name") != wanted:
        causes.append(
            invalid_value("metadata.name", crd["metadata"].get("name"), 'must be spec.names.plural+"."+spec.group')
        )
    if not names.get("kind"):
        causes.append(required("spec.names.kind"))
    if spec.get("scope") not in ("Namespaced", "Cluster"):
        causes.append(required("spec.scope"))
    for i, version in enumerate(spec.get("versions") or []):
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            causes.append(required(f"spec.versions[{i}].schema.openAPIV3Schema", "schemas are required"))
    if sum(bool(v.get("storage")) for v in spec.get("versions") or []) != 1:
        causes.append(invalid_value("spec.versions", "", "must have exactly one version marked as storage version"))
    return causes


def new_crd(api: Api, crd: Obj) -> None:
    """A definition is served at once. A real server takes a moment."""
    spec = crd.setdefault("spec", {})
    names = spec.setdefault("names", {})
    if names.get("kind"):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", names["kind"] + "List")
    spec.setdefault("conversion", {"strategy": "None"})
    conditions = [
        {"type": type, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now()}
        for type, reason, message in (
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        )
    ]
    stored = [version["name"] for version in spec.get("versions") or [] if version.get("storage")]
    crd["status"] = {"conditions": conditions, "acceptedNames": names, "storedVersions": stored}


RULES: dict[tuple[str, str], Rules] = {
    ("", "pods"): Rules(new_pod, check_pod, change_pod, check_pod_change),
    ("", "nodes"): Rules(new_node),
    NAMESPACES.table: Rules(new_namespace),
    ("", "events"): Rules(new_event),
    ("", "services"): Rules(no_status),
    ("", "resourcequotas"): Rules(no_status),
    ("", "persistentvolumes"): Rules(new_volume),
    ("", "persistentvolumeclaims"): Rules(new_claim),
    ("scheduling.k8s.io", "priorityclasses"): Rules(new_priority_class, check_change=check_priority_change),
    UPSTREAM_GROUPS.table: Rules(new_upstream_group, check_upstream_group, check_change=check_upstream_change),
    ("policy", "poddisruptionbudgets"): Rules(no_status, check_budget),
    ("coordination.k8s.io", "leases"): Rules(new_lease),
    ("batch", "jobs"): Rules(new_job, check_job),
    **{kind.table: Rules(no_status) for kind in BUILT_IN if kind.group == "apps"},
    ("apiextensions.k8s.io", "customresourcedefinitions"): Rules(new_crd, check_crd),
}
"""Rules by table. A kind that is not here has no rules of its own."""

NONE = Rules()
