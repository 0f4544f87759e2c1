"""What volumes mean for a pod: where it can run, which volume limits it uses, and what it must wait for.

    claim                                            the pod
    missing, being deleted or lost                   waits, with the reason
    for one pod only, and another pod has it         waits for it; if it may, it preempts that pod
    bound                                            runs where the volume can be reached
    not bound, immediate binding                     waits until the volume controller has bound the claim
    not bound, WaitForFirstConsumer                  runs where the volume may be created and the driver has storage
                                                     left, or where a free volume is; there it waits for the
                                                     volume before it is bound
    the same, and a node is selected                 runs on that node; its room is kept if the pod is nominated to it

`maar.controller.writing.hand_over` waits for volumes. A pod with a node only counts against the limits of its drivers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable

import msgspec

from maar.kube.read.storage.claims import claims_of, class_of, contested, is_bound, problem, selected_node
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
    takes = [*_attached(storage, claims), *_contested(storage, claims)]
    if pod.spec.node_name or pod.finished:
        return Needs(takes=tuple(sorted(takes)))
    for key, volume in uses.items():
        why = problem(pod, key, volume, storage.claim(key)) or _why_not(storage, storage.claim(key))
        if why:
            return Needs(blocked=why)
    unbound = [claim for claim in claims if not is_bound(claim)]
    selected = [selected_node(claim) for claim in unbound if selected_node(claim) in nodes]
    ways = {way for claim in claims for way in _ways(storage, claim, nodes)}
    takes += _of_free(storage, unbound)
    provisions = Counter(want.room for claim in unbound if (want := storage.to_provision(claim)) is not None)
    takes += (VolumeNeed(room, room, count) for room, count in provisions.items())
    return Needs("", selected[0] if selected else "", tuple(sorted(ways)), tuple(sorted(takes)))


def _driver(storage: Storage, claim: PersistentVolumeClaim) -> str:
    """The driver whose limits the volume of a claim counts against."""
    if is_bound(claim):
        volume = storage.volume(claim.spec.volume_name)
        return volume.spec.csi.driver if volume is not None and volume.spec.csi is not None else ""
    found = storage.class_of(claim)
    return "" if found is None else found.provisioner


def _attached(storage: Storage, claims: list[PersistentVolumeClaim]) -> Iterable[VolumeNeed]:
    """What a pod takes of the limits of its drivers."""
    counts: Counter[str] = Counter()
    shared: dict[str, list[str]] = {}
    for claim in claims:
        driver = _driver(storage, claim)
        if driver in storage.limits and storage.is_shared(claim.key):
            shared.setdefault(driver, []).append(claim.key)
        elif driver in storage.limits:
            counts[driver] += 1
    for driver in sorted({*counts, *shared}):
        yield VolumeNeed(driver, driver, counts[driver], tuple(sorted(shared.get(driver, ()))))


def _contested(storage: Storage, claims: list[PersistentVolumeClaim]) -> Iterable[VolumeNeed]:
    """The claims for one pod only that other pods want too."""
    for claim in claims:
        if storage.is_contested(claim):
            yield VolumeNeed(room := contested(claim), room, 1)


def _why_not(storage: Storage, claim: PersistentVolumeClaim | None) -> str:
    """Why a pod must wait for an existing claim."""
    assert claim is not None
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
