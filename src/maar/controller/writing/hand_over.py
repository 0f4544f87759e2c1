"""Pods whose claims have no volumes yet: what happens between the decision and the bind.

The pod has its node, and the cache assumes that it is bound, so that its room stays reserved. First its claims are
handed over to the volume controllers: each claim gets the node's name as an annotation or, for existing volumes, a
volume gets the claim's name. When watches show that all claims are bound to volumes that the node can reach, the pod is
bound. Pods do not wait for each other.

    decided ──► handed over ──► all claims bound ──► bind
                    └──► refused, unreachable, too late ──► forgotten, and not tried on that node again for a while

Every cycle compares this with what watches have shown. A write carries the resourceVersion that it is based on, so that
an object from a watch is known to be older or newer than the write. Only refusals and deadlines are kept in memory:
after a restart the annotation brings the pod back to its node, and its `nominatedNodeName` keeps the room.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from maar.kube.client.errors import Conflict
from maar.kube.kinds.cluster import PODS
from maar.kube.picture.assumed import Assumed
from maar.kube.picture.picture import Picture
from maar.kube.read.storage.claims import BOUND_BY_CONTROLLER, SELECTED_NODE, is_bound, selected_node
from maar.kube.read.storage.free_volumes import wanted
from maar.kube.read.storage.reach import reaches, volume_ways
from maar.kube.read.storage.state import Storage
from maar.kube.wire.api_resources import CLAIMS, VOLUMES
from maar.kube.wire.volumes import PersistentVolume, PersistentVolumeClaim
from maar.kube.write.executor import Failed, Outcome, Patch
from maar.model.nodes import Node
from maar.model.tasks import Status

PATIENCE = 600.0
"""Seconds that provisioning may take: the default of kube-scheduler's bindTimeoutSeconds."""
GRUDGE = 30.0
"""Seconds during which a claim is not tried again on a node that refused it; tuned by hand."""
LOOK_AGAIN = 0.5
"""Seconds after which a claim that another client has changed is checked again; tuned by hand."""

Write = Callable[[Patch, Callable[[Outcome], None]], None]


class CannotHave(Exception):
    """Why a pod cannot have its volumes on its node."""


@dataclass(slots=True)
class _Waiting:
    """A pod that has its node but not yet its volumes."""

    uid: str
    node: str
    until: float


@dataclass(slots=True)
class _Written:
    """The hand-over of one claim: the write and its result."""

    version: str
    """The version of the object before the write; while watches show it, they have not shown the result yet."""
    volume: str = ""
    """The existing volume that gets the claim's name, if any."""
    ended: bool = False
    stale: bool = False
    """Another client changed the object in the meantime: the write is tried again on the new version."""
    refused: str = ""


@dataclass(eq=False, slots=True)
class HandOvers:
    """All pods that wait for their volumes."""

    _picture: Picture
    _write: Write
    _bind: Callable[[str, str, str], None]
    _fail: Callable[[str, str], None]
    _left: Callable[[str], None]
    """Called for pods that no longer wait: deleted, evicted, or bound by another scheduler."""
    _trigger: Callable[[], None]
    _waiting: dict[str, _Waiting] = field(default_factory=dict)
    _written: dict[str, _Written] = field(default_factory=dict)
    _storage: Storage = field(init=False)

    def __post_init__(self) -> None:
        self._storage = self._picture.storage

    def concerns(self, pod: str) -> bool:
        return pod in self._storage.claims_of

    def nodes(self) -> set[str]:
        """The nodes of pods that wait for their volumes."""
        return {one.node for one in self._waiting.values()}

    def pods(self) -> frozenset[str]:
        return frozenset(self._waiting)

    def begin(self, pod: str, uid: str, node: str, now: float) -> list[str]:
        """A pod was given a node; returns its claims that have no volume yet."""
        self._waiting[pod] = _Waiting(uid, node, now + PATIENCE)
        claims = map(self._storage.claim, self._storage.claims_of[pod])
        return [claim.name for claim in claims if claim is not None and not is_bound(claim)]

    def go_on(self, now: float) -> None:
        """Send writes that are due, bind pods that have all volumes, and give up pods that cannot have them."""
        if pardoned := self._storage.pardon(now):
            self._picture.read_again(pardoned)
            self._trigger()
        for pod, one in list(self._waiting.items()):
            node = self._picture.node(one.node)
            if not self._is_assumed(pod, one):
                del self._waiting[pod]
                self._left(pod)
                continue
            try:
                if node is None:
                    raise CannotHave(f"node `{one.node}` is gone")
                missing = [claim for claim in self._storage.claims_of[pod] if not self._has(claim, node)]
                if missing and now >= one.until:
                    names = ", ".join(f"`{claim.partition('/')[2]}`" for claim in missing)
                    raise CannotHave(f"no volume on `{node.name}` within {PATIENCE:.0f} s for its claims: {names}")
            except CannotHave as why:
                self._give_up(pod, one, str(why), now)
            else:
                if not missing:
                    del self._waiting[pod]
                    self._bind(pod, one.uid, one.node)
        wanted_by = {claim for pod in self._waiting for claim in self._storage.claims_of.get(pod, ())}
        self._written = {claim: w for claim, w in self._written.items() if claim in wanted_by}

    def due(self, now: float) -> float | None:
        """When the next cycle is due because of time alone."""
        moments = [one.until for one in self._waiting.values()]
        moments += (until for nodes in self._storage.refused.values() for until in nodes.values())
        if any(written.stale for written in self._written.values()):
            moments.append(now + LOOK_AGAIN)
        return min(moments, default=None)

    def _is_assumed(self, pod: str, one: _Waiting) -> bool:
        """Whether the decision still holds: the pod exists, and was neither bound by another scheduler nor evicted."""
        exists = pod in self._storage.claims_of and pod in self._picture.objects.of(PODS)
        return exists and self._picture.assumed.get(pod) == Assumed(one.uid, Status.BOUND, one.node)

    def _give_up(self, pod: str, one: _Waiting, why: str, now: float) -> None:
        del self._waiting[pod]
        for key in self._storage.claims_of[pod]:
            claim = self._storage.claim(key)
            if claim is not None and not is_bound(claim):
                self._storage.refuse(key, one.node, now + GRUDGE)
        self._fail(pod, why)

    # -- one claim

    def _has(self, key: str, node: Node) -> bool:
        """Whether the claim has a volume that the node can reach; if not, starts the hand-over that is due."""
        claim = self._storage.claim(key)
        if claim is None or claim.metadata.deletion_timestamp is not None:
            raise CannotHave(f"claim `{key.partition('/')[2]}` is gone")
        volume = self._storage.volume_of(claim)
        if volume is not None and not reaches(volume_ways(volume), node):
            raise CannotHave(f"volume `{volume.name}` of claim `{claim.name}` cannot be reached from `{node.name}`")
        if is_bound(claim):
            return volume is not None
        if volume is None and self._may_write(claim, node):
            if self._storage.is_static(claim):
                self._give_volume(claim, node)
            else:
                self._select_node(claim, node)
        return False

    def _may_write(self, claim: PersistentVolumeClaim, node: Node) -> bool:
        """Whether to hand the claim over now: not while an earlier hand-over may still succeed."""
        if self._picture.node(selected_node(claim)) is not None:
            return False
        written = self._written.get(claim.key)
        if written is None:
            return True
        if written.refused:
            raise CannotHave(written.refused)
        seen: PersistentVolumeClaim | PersistentVolume | None = claim
        if written.volume:
            seen = self._storage.volume(written.volume)
        if not written.ended or (seen is not None and seen.metadata.resource_version == written.version):
            return False
        if not written.stale:
            raise CannotHave(f"no volume could be provisioned for claim `{claim.name}` on `{node.name}`")
        return True

    def _select_node(self, claim: PersistentVolumeClaim, node: Node) -> None:
        metadata = {"resourceVersion": claim.metadata.resource_version, "annotations": {SELECTED_NODE: node.name}}
        patch = Patch(CLAIMS.path(claim.namespace, claim.name), {"metadata": metadata})
        self._send(claim, patch, _Written(claim.metadata.resource_version))

    def _give_volume(self, claim: PersistentVolumeClaim, node: Node) -> None:
        taken = {written.volume for key, written in self._written.items() if key != claim.key}
        fitting = self._storage.free.fitting(wanted(claim))
        free = [v for v in fitting if v.name not in taken and reaches(volume_ways(v), node)]
        if not free:
            raise CannotHave(f"no free volume for claim `{claim.name}` is left on `{node.name}`")
        version = free[0].metadata.resource_version
        reference = {
            "apiVersion": "v1",
            "kind": CLAIMS.kind,
            "namespace": claim.namespace,
            "name": claim.name,
            "uid": claim.metadata.uid,
            "resourceVersion": claim.metadata.resource_version,
        }
        metadata = {"resourceVersion": version, "annotations": {BOUND_BY_CONTROLLER: "yes"}}
        patch = Patch(VOLUMES.path(name=free[0].name), {"metadata": metadata, "spec": {"claimRef": reference}})
        self._send(claim, patch, _Written(version, free[0].name))

    def _send(self, claim: PersistentVolumeClaim, patch: Patch, written: _Written) -> None:
        def done(outcome: Outcome) -> None:
            written.ended = True
            if isinstance(outcome, Failed):
                written.stale = isinstance(outcome.error, Conflict)
                if not outcome.final:
                    self._written.pop(claim.key, None)  # The result is unknown; the resourceVersion makes a retry safe.
                elif not written.stale:
                    written.refused = f"claim `{claim.name}`: {outcome.error}"
                self._trigger()

        self._written[claim.key] = written
        self._write(patch, done)
