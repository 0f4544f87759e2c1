"""The eviction subresource: a deletion that disruption budgets may refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from maar.embedded.objects.deletion import delete
from maar.embedded.objects.errors import ApiError, Obj, forbidden, too_many_requests
from maar.embedded.objects.kinds import BUDGETS, PODS
from maar.embedded.objects.metadata import now
from maar.embedded.objects.pods import set_condition
from maar.embedded.objects.store import Item, Key
from maar.kube.read.selectors import selector
from maar.kube.wire.base import LabelSelector
from maar.model.selectors import Selector

if TYPE_CHECKING:
    from maar.embedded.objects.api import Api

REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
RETRY_AFTER = 10
"""Seconds until a client may retry while a budget is being computed, as in the real server."""


def evict(api: Api, namespace: str, name: str, eviction: Obj, *, dry_run: bool = False) -> None:
    """Delete a pod if its disruption budget allows it."""
    options = eviction.get("deleteOptions") or {}
    dry_run = dry_run or bool(options.get("dryRun"))
    key = (namespace, name)
    item = api.get(PODS, *key)
    budget = None if _ignores_budgets(item.obj) else _budget(api, item.obj)
    if budget is not None:
        delete(api, PODS, key, options, dry_run=True)  # check the preconditions before charging the budget
        _charge(api, budget, name, dry_run=dry_run)
    if not dry_run and not item.obj["metadata"].get("deletionTimestamp"):
        delete(api, PODS, key, options, dry_run=True)
        _mark_disrupted(api, key, item)
        if (options.get("preconditions") or {}).get("resourceVersion"):
            marked = api.get(PODS, *key).obj["metadata"]["resourceVersion"]  # the mark is part of this eviction
            options = {**options, "preconditions": {**options["preconditions"], "resourceVersion": marked}}
    delete(api, PODS, key, options, dry_run=dry_run)


def _ignores_budgets(pod: Obj) -> bool:
    """Whether budgets do not apply, because the pod does not run or is already being deleted."""
    return bool(pod["metadata"].get("deletionTimestamp")) or pod["status"].get("phase") != "Running"


def _budget(api: Api, pod: Obj) -> Key | None:
    labels = pod["metadata"].get("labels") or {}
    namespace = pod["metadata"]["namespace"]
    found = [
        key
        for key, item in sorted(api.store.table(BUDGETS).items.items())
        if key[0] == namespace and budget_selector(item.obj).matches(labels)
    ]
    if len(found) > 1:
        message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise ApiError(500, "InternalError", message)
    if not found or _unhealthy_goes(api.store.table(BUDGETS).items[found[0]].obj, pod):
        return None
    return found[0]


def budget_selector(budget: Obj) -> Selector:
    """The selector for the pods that a budget covers."""
    wire = (budget.get("spec") or {}).get("selector")
    return selector(None if wire is None else msgspec.convert(wire, LabelSelector))


def is_ready(pod: Obj) -> bool:
    """Whether a budget counts the pod as healthy."""
    conditions = pod["status"].get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _unhealthy_goes(budget: Obj, pod: Obj) -> bool:
    """Whether a pod that is not ready may go: enough others are healthy, or the budget always allows it."""
    if is_ready(pod):
        return False
    status = budget.get("status") or {}
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    desired = status.get("desiredHealthy") or 0
    return desired > 0 and (status.get("currentHealthy") or 0) >= desired


def _charge(api: Api, key: Key, pod: str, *, dry_run: bool) -> None:
    """Take one disruption from the budget, or refuse."""
    item = api.store.table(BUDGETS).items[key]
    status, name = item.obj.get("status") or {}, key[1]
    if (status.get("observedGeneration") or 0) < item.obj["metadata"]["generation"]:
        raise _refused(f"The disruption budget {name} is still being processed by the server.", RETRY_AFTER)
    allowed = status.get("disruptionsAllowed") or 0
    if allowed < 0:
        raise forbidden("policy", "poddisruptionbudgets", name, "pdb disruptions allowed is negative")
    if allowed == 0:
        desired, current = status.get("desiredHealthy") or 0, status.get("currentHealthy") or 0
        raise _refused(f"The disruption budget {name} needs {desired} healthy pods and has {current} currently", 0)
    if not dry_run:
        budget = item.copy()
        changed = budget["status"]
        changed["disruptionsAllowed"] = allowed - 1
        changed["disruptedPods"] = {**(changed.get("disruptedPods") or {}), pod: now()}
        api.store.write(BUDGETS, key, budget)


def _refused(why: str, retry_after: int) -> ApiError:
    return too_many_requests(REFUSED, retry_after, [{"reason": "DisruptionBudget", "message": why}])


def _mark_disrupted(api: Api, key: Key, item: Item) -> None:
    pod = item.copy()
    why = "Eviction API: evicting"
    set_condition(pod["status"], "DisruptionTarget", "True", "EvictionByEvictionAPI", why)
    api.store.write(PODS, key, pod)
