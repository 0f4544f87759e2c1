"""Single claims: which claims a pod uses, and the state of each.

The words are those of Kubernetes: a claim is *bound* when the volume controller has finished, and *selected* when a
scheduler has named the node for which its volume is made. What a claim means for a pod is in `volumes`.
"""

from __future__ import annotations

from maar.kube.wire.base import Quantities
from maar.kube.wire.pods import Pod, PodVolume
from maar.kube.wire.volumes import PersistentVolumeClaim
from maar.model.resources import QuantityError, units

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
"""An annotation of volumes: a controller set the claim, so it may be removed again."""
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
ONE_POD = "ReadWriteOncePod"


def claims_of(pod: Pod) -> dict[str, PodVolume]:
    """The claims of a pod by key, each with the pod's volume that uses it."""
    found = {}
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            found[f"{pod.namespace}/{volume.persistent_volume_claim.claim_name}"] = volume
        elif volume.ephemeral is not None:
            found[f"{pod.namespace}/{pod.name}-{volume.name}"] = volume
    return found


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether the claim has its volume for good."""
    completed = BIND_COMPLETED in claim.metadata.annotations or claim.status.phase == "Bound"
    return completed and bool(claim.spec.volume_name)


def class_of(claim: PersistentVolumeClaim) -> str:
    """The storage class of a claim; empty if it has none."""
    return claim.metadata.annotations.get(BETA_CLASS) or claim.spec.storage_class_name or ""


def selected_node(claim: PersistentVolumeClaim) -> str:
    """The node for which the volume of a claim is made."""
    return claim.metadata.annotations.get(SELECTED_NODE, "")


def contested(claim: PersistentVolumeClaim) -> str:
    """The name of the room of a claim for one pod only that several pods want."""
    return f"claim {claim.key}"


def storage(quantities: Quantities) -> int | None:
    """The storage in bytes; `None` if it is not a quantity."""
    try:
        return units("storage", quantities.get("storage", 0), up=True)
    except QuantityError:
        return None


def problem(pod: Pod, key: str, volume: PodVolume, claim: PersistentVolumeClaim | None) -> str:
    """Why a pod cannot use a claim; empty if it can."""
    name = key.partition("/")[2]
    if claim is None:
        return f"claim `{name}` " + ("is not created yet" if volume.ephemeral is not None else "does not exist")
    if claim.metadata.deletion_timestamp is not None:
        return f"claim `{name}` is being deleted"
    if claim.status.phase == "Lost":
        return f"claim `{name}` has lost its volume `{claim.spec.volume_name}`"
    if volume.ephemeral is not None and not _is_made_for(pod, claim):
        return f"claim `{name}` was not made for this pod, whose volume `{volume.name}` needs one of that name"
    if storage(claim.spec.resources.requests) is None:
        asked = claim.spec.resources.requests["storage"]
        return f"claim `{name}`: spec.resources.requests.storage: not a quantity: `{asked}`"
    return ""


def _is_made_for(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    mine = (pod.name, pod.metadata.uid)
    return any(o.kind == "Pod" and (o.name, o.uid) == mine for o in claim.metadata.owner_references)
