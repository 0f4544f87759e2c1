"""What volumes mean for a pod: where it can run, which volume limits it uses, and what it must wait for.

    claim                                            the pod
    missing, being deleted, lost, or another pod's   waits, with the reason
    bound                                            runs where the volume can be reached
    not bound, immediate binding                     waits until the volume controller has bound the claim
    not bound, WaitForFirstConsumer                  runs where the volume may be created, or where a free volume is;
                                                     there it waits for the volume before it is bound
    the same, and a node is selected                 runs on that node; its room is kept if the pod is nominated to it

`maar.controller.writing.hand_over` waits for volumes. A pod with a node only counts against the limits of its drivers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable

import msgspec

from maar.kube.read.storage.claims import ONE_POD, claims_of, class_of, is_bound, problem, selected_node
from maar.kube.read.storage.free_volumes import wanted
from maar.kube.read.storage.reach import Ways, class_ways, none_of, only, volume_ways
from maar.kube.read.storage.state import Storage
from maar.kube.wire.pods import Pod
from maar.kube.wire.volumes import PersistentVolumeClaim
from maar.model.volumes import VolumeNeed

WAITS = "WaitForFirstConsumer"


class Needs(msgspec.Struct, frozen=True):
    """What the volumes of one pod mean for it."""

    blocked: str = ""
    node: str = ""
    """The node that was selected for its volumes."""
    ways: tuple[Ways, ...] = ()
    """Where the volumes can be reached: one term of each must hold."""
    takes: tuple[VolumeNeed, ...] = ()


def needs(storage: Storage, pod: Pod, nodes: Container[str]) -> Needs | None:
    """What the volumes of a pod mean for it; `None` if it has no claims."""
    uses = claims_of(pod)
    if not uses:
        return None
    claims = [claim for key in uses if (claim := storage.claim(key)) is not None]
    drivers = Counter(driver for claim in claims if (driver := _driver(storage, claim)) in storage.limits)
    takes = [VolumeNeed(driver, driver, count) for driver, count in drivers.items()]
    if pod.spec.node_name or pod.finished:
        return Needs(takes=tuple(sorted(takes)))
    for key, volume in uses.items():
        why = problem(pod, key, volume, storage.claim(key)) or _why_not(storage, pod, storage.claim(key))
        if why:
            return Needs(blocked=why)
    unbound = [claim for claim in claims if not is_bound(claim)]
    selected = [selected_node(claim) for claim in unbound if selected_node(claim) in nodes]
    ways = {way for claim in claims for way in _ways(storage, claim, nodes)}
    takes += _of_free(storage, unbound)
    return Needs("", selected[0] if selected else "", tuple(sorted(ways)), tuple(sorted(takes)))


def _driver(storage: Storage, claim: PersistentVolumeClaim) -> str:
    """The driver whose limits the volume of a claim counts against."""
    if is_bound(claim):
        volume = storage.volume(claim.spec.volume_name)
        return volume.spec.csi.driver if volume is not None and volume.spec.csi is not None else ""
    found = storage.class_of(claim)
    return "" if found is None else found.provisioner


def _why_not(storage: Storage, pod: Pod, claim: PersistentVolumeClaim | None) -> str:
    """Why the pod must wait for an existing claim."""
    assert claim is not None
    if ONE_POD in claim.spec.access_modes and (other := storage.first_user(claim.key)) != pod.key:
        return f"claim `{claim.name}` is for one pod only, and `{other}` has it"
    if is_bound(claim):
        name = claim.spec.volume_name
        return "" if storage.volume(name) is not None else f"volume `{name}` of claim `{claim.name}` does not exist"
    found = storage.class_of(claim)
    if found is not None and found.volume_binding_mode == WAITS and not claim.spec.volume_name:
        return ""
    of = f" (storage class `{class_of(claim)}`)" if class_of(claim) else ""
    return f"claim `{claim.name}`{of} is not bound to a volume yet"


def _ways(storage: Storage, claim: PersistentVolumeClaim, nodes: Container[str]) -> Iterable[Ways]:
    volume = storage.volume_of(claim)
    if volume is not None:
        yield from volume_ways(volume)
        return
    found = storage.class_of(claim)
    assert found is not None, "a pod whose claim has no class waits"
    yield from class_ways(found)
    if selected_node(claim) in nodes:
        yield only(selected_node(claim))
    if claim.key in storage.refused:
        yield none_of(storage.refused[claim.key])


def _of_free(storage: Storage, unbound: list[PersistentVolumeClaim]) -> list[VolumeNeed]:
    """What a pod takes of the free volumes: one for each claim that has none yet."""
    static = [c for c in unbound if storage.is_static(c) and storage.free.given_to(c) is None]
    kinds = [wanted(claim) for claim in static]
    pools = Counter(kind.pool for kind in kinds)
    return [VolumeNeed(kind.room, kind.pool, pools[kind.pool]) for kind in dict.fromkeys(kinds)]
