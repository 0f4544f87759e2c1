"""The rules for pods: defaults, priority, allowed changes, binding.

Most of a pod's spec is immutable, and a binding sets the node once. Eviction is in `maar.embedded.objects.evictions`,
deletion with a grace period in `maar.embedded.objects.deletion`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from maar.embedded.objects.errors import (
    Cause,
    Obj,
    bad_request,
    conflict,
    forbidden,
    invalid_value,
    not_allowed,
    required,
)
from maar.embedded.objects.kinds import PODS, PRIORITY_CLASSES
from maar.embedded.objects.metadata import now, unmet
from maar.embedded.objects.store import Item

if TYPE_CHECKING:
    from maar.embedded.objects.api import Api

GRACE = 30
"""Default termination grace period in seconds, as in Kubernetes."""

TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
TOLERATED_SECONDS = 300
"""Toleration time in seconds that admission adds to every pod that does not set one."""

SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}

CHANGEABLE = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "schedulingGates")
FIXED = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def new_pod(api: Api, pod: Obj) -> None:
    spec = pod.setdefault("spec", {})
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", GRACE)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("enableServiceLinks", True)
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        _default_container(container)
    _prioritise(api, pod)
    _tolerate(spec)
    pod["status"] = {"phase": "Pending", "qosClass": _quality(spec)}


def _default_container(container: Obj) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if "imagePullPolicy" not in container:
        tag = container.get("image", "").rpartition("/")[2].partition(":")[2]
        container["imagePullPolicy"] = "Always" if tag in ("", "latest") else "IfNotPresent"
    resources = container.setdefault("resources", {})
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")


def _prioritise(api: Api, pod: Obj) -> None:
    """Set the priority from the priority class, as the priority admission plugin does."""
    spec = pod["spec"]
    name = spec.get("priorityClassName") or ""
    classes = api.store.table(PRIORITY_CLASSES).items
    found: Item | None = None
    if name:
        found = classes.get(("", name))
        if found is None and name not in SYSTEM_PRIORITIES:
            why = f"no PriorityClass with name {name} was found"
            raise forbidden("", "pods", pod["metadata"].get("name", ""), why)
    else:
        found = next((item for item in classes.values() if item.obj.get("globalDefault")), None)
        if found is not None:
            spec["priorityClassName"] = found.obj["metadata"]["name"]
    value, policy = SYSTEM_PRIORITIES.get(name, 0), "PreemptLowerPriority"
    if found is not None:
        value, policy = found.obj.get("value", 0), found.obj.get("preemptionPolicy", policy)
    if spec.get("priority", value) != value:
        why = "the integer value of priority must not be provided in pod spec; priority admission controller computed "
        raise forbidden("", "pods", pod["metadata"].get("name", ""), f"{why}{value} from the given PriorityClass name")
    spec["priority"] = value
    spec.setdefault("preemptionPolicy", policy)


def _tolerate(spec: Obj) -> None:
    """Let the pod stay on a broken node for a limited time."""
    tolerations = spec.setdefault("tolerations", [])
    if tolerations is None:
        tolerations = spec["tolerations"] = []
    for key in TOLERATED:
        if not any(t.get("key", "") in ("", key) and t.get("effect", "") in ("", "NoExecute") for t in tolerations):
            wanted = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED_SECONDS}
            tolerations.append(wanted)


def _quality(spec: Obj) -> str:
    """The QoS class, computed from CPU and memory only."""
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    resources = [container.get("resources") or {} for container in containers]
    names = ("cpu", "memory")
    if not any((r.get(part) or {}).get(name) for r in resources for part in ("requests", "limits") for name in names):
        return "BestEffort"
    for r in resources:
        limits, requests = r.get("limits") or {}, r.get("requests") or {}
        if not all(limits.get(name) and requests.get(name) == limits.get(name) for name in names):
            return "Burstable"
    return "Guaranteed"


def check_pod(pod: Obj) -> list[Cause]:
    spec, causes = pod["spec"], []
    containers = spec.get("containers")
    if not containers:
        return [required("spec.containers")]
    for i, container in enumerate(containers):
        if not container.get("name"):
            causes.append(required(f"spec.containers[{i}].name"))
        if not container.get("image"):
            causes.append(required(f"spec.containers[{i}].image"))
        requests, limits = (container["resources"].get(x) or {} for x in ("requests", "limits"))
        for name in requests:
            if str(requests[name]).startswith("-"):
                field = f"spec.containers[{i}].resources.requests[{name}]"
                causes.append(invalid_value(field, requests[name], "must be greater than or equal to 0"))
            if "/" in name and name not in limits:
                field = f"spec.containers[{i}].resources.limits"
                causes.append(required(field, "Limit must be set for non overcommitable resources"))
    if spec.get("schedulingGates") and spec.get("nodeName"):
        causes.append(not_allowed("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return causes


def change_pod(new: Obj, old: Obj) -> None:
    """Set the defaults of containers again: an update sends the whole pod."""
    spec = new.get("spec") or {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        _default_container(container)


def check_pod_change(new: Obj, old: Obj) -> list[Cause]:
    """The errors in a change of a pod: most of the spec is immutable."""
    before, after = old["spec"], new.get("spec") or {}
    if before == after:
        return []
    if _fixed(before) != _fixed(after):
        gated = before.get("schedulingGates") and _fixed(before, gated=True) == _fixed(after, gated=True)
        if not gated:
            return [not_allowed("spec", FIXED)]
    kept = after.get("tolerations") or []
    if any(toleration not in kept for toleration in before.get("tolerations") or []):
        return [not_allowed("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")]
    gates = {gate["name"] for gate in before.get("schedulingGates") or []}
    if any(gate["name"] not in gates for gate in after.get("schedulingGates") or []):
        return [not_allowed("spec.schedulingGates", "only deletion is allowed, but found new scheduling gate")]
    return []


def _fixed(spec: Obj, gated: bool = False) -> Obj:
    """The immutable part of a spec. A pod with scheduling gates may still change its node selector and affinity."""
    free = (*CHANGEABLE, "nodeSelector", "affinity") if gated else CHANGEABLE
    fixed = {name: value for name, value in spec.items() if name not in free and value not in (None, [], {}, "")}
    for name in ("containers", "initContainers"):
        if name in fixed:
            fixed[name] = [{k: v for k, v in c.items() if k not in ("image", "imagePullPolicy")} for c in fixed[name]]
    return fixed


def bind(api: Api, namespace: str, name: str, binding: Obj, *, dry_run: bool = False) -> None:
    """Assign a pod to a node. A pod can be bound once."""
    target = binding.get("target") or {}
    node = target.get("name")
    if not node:
        raise bad_request("target.name: Required value")
    metadata = binding.get("metadata") or {}
    item = api.get(PODS, namespace, name)
    old = item.obj
    if why := unmet(old["metadata"], metadata):
        raise conflict("", "pods/binding", name, why)
    if old["metadata"].get("deletionTimestamp"):
        raise conflict("", "pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host")
    if old["spec"].get("nodeName"):
        raise conflict("", "pods/binding", name, f'pod {name} is already assigned to node "{old["spec"]["nodeName"]}"')
    if old["spec"].get("schedulingGates"):
        raise conflict("", "pods/binding", name, f"pod {name} has non-empty .spec.schedulingGates")
    if dry_run:
        return
    pod = item.copy()
    pod["spec"]["nodeName"] = node
    if metadata.get("annotations"):
        pod["metadata"]["annotations"] = {**(pod["metadata"].get("annotations") or {}), **metadata["annotations"]}
    status = pod["status"]
    status.pop("nominatedNodeName", None)
    set_condition(status, "PodScheduled", "True")
    api.store.write(PODS, (namespace, name), pod)


def set_condition(status: Obj, type: str, value: str, reason: str = "", message: str = "") -> None:
    """Set one condition in a status that the caller may change. The transition time changes only with the value."""
    conditions = status["conditions"] = list(status.get("conditions") or [])
    wanted: Obj = {"type": type, "status": value, "lastProbeTime": None, "lastTransitionTime": now()}
    wanted |= {k: v for k, v in (("reason", reason), ("message", message)) if v}
    for i, condition in enumerate(conditions):
        if condition["type"] == type:
            if condition["status"] == value:
                wanted["lastTransitionTime"] = condition.get("lastTransitionTime", wanted["lastTransitionTime"])
            conditions[i] = wanted
            return
    conditions.append(wanted)
