"""Deletion: an object goes at once, after a grace period, or when its last finalizer is removed.

delete ──► pod on a node, grace > 0 ──► deletionTimestamp set ──► its kubelet deletes with grace 0 ──► gone
       ├─► finalizers left          ──► deletionTimestamp set ──► the last finalizer is removed    ──► gone
       └─► otherwise                ──────────────────────────────────────────────────────────────► gone
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from maar.embedded.objects.errors import Obj, conflict
from maar.embedded.objects.kinds import NAMESPACES, PODS, Kind
from maar.embedded.objects.metadata import now, unmet
from maar.embedded.objects.store import Item, Key

if TYPE_CHECKING:
    from maar.embedded.objects.api import Api

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
POLICIES = {"Foreground": FOREGROUND, "Orphan": ORPHAN}


class Deleted(NamedTuple):
    """The result of a deletion: the object, and whether it is gone."""

    item: Item
    gone: bool


def delete(api: Api, kind: Kind, key: Key, options: Obj, *, dry_run: bool = False) -> Deleted:
    """Delete an object as far as possible now."""
    item = api.get(kind, *key)
    if why := unmet(item.obj["metadata"], options.get("preconditions") or {}):
        raise conflict(kind.group, kind.plural, key[1], why)
    obj = item.obj
    metadata = obj["metadata"]
    finalizers = _finalizers(metadata.get("finalizers") or [], options)
    grace = _grace(kind, obj, options)
    if grace == 0 and not finalizers and not _spec_finalizers(kind, obj):
        return Deleted(item, True) if dry_run else Deleted(api.remove(kind, key), True)
    if metadata.get("deletionTimestamp"):
        shorter = kind is PODS and grace < (metadata.get("deletionGracePeriodSeconds") or 0)
        if not shorter and finalizers == (metadata.get("finalizers") or []):
            return Deleted(item, False)
    marked = _marked(kind, item, finalizers, grace)
    return Deleted(Item(marked, item.version) if dry_run else api.store.write(kind, key, marked), False)


def ready_to_go(kind: Kind, obj: Obj) -> bool:
    """Whether an object is marked for deletion and nothing keeps it."""
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers") or _spec_finalizers(kind, obj):
        return False
    return not metadata.get("deletionGracePeriodSeconds")


def _finalizers(present: list[str], options: Obj) -> list[str]:
    """The finalizers that follow from the propagation policy of a deletion."""
    policy = options.get("propagationPolicy")
    if policy is None and options.get("orphanDependents") is not None:
        policy = "Orphan" if options["orphanDependents"] else "Background"
    if policy is None:
        return present
    kept = [name for name in present if name not in POLICIES.values()]
    return [*kept, POLICIES[policy]] if policy in POLICIES else kept


def _grace(kind: Kind, obj: Obj, options: Obj) -> int:
    """Grace period in seconds. Only pods on a node have one."""
    if kind is not PODS or not obj["spec"].get("nodeName"):
        return 0
    if obj["status"].get("phase") in ("Succeeded", "Failed"):
        return 0
    asked = options.get("gracePeriodSeconds")
    seconds = int(obj["spec"].get("terminationGracePeriodSeconds") or 0) if asked is None else int(asked)
    return 1 if seconds < 0 else seconds


def _spec_finalizers(kind: Kind, obj: Obj) -> bool:
    return kind is NAMESPACES and bool((obj.get("spec") or {}).get("finalizers"))


def _marked(kind: Kind, item: Item, finalizers: list[str], grace: int) -> Obj:
    obj = item.copy()
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp") and metadata.get("generation"):
        metadata["generation"] += 1
    metadata["deletionTimestamp"] = now(grace)
    if kind is not NAMESPACES:
        metadata["deletionGracePeriodSeconds"] = grace
    metadata["finalizers"] = finalizers
    if not finalizers:
        del metadata["finalizers"]
    if kind is NAMESPACES:
        obj["status"] = {**obj["status"], "phase": "Terminating"}
    return obj
