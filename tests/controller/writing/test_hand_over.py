"""Hand-overs of claims step by step: what watches show goes in, writes, binds and failures come out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.support import provisioner as wire
from tests.support.objects import decoded

from maar.controller.writing.hand_over import GRUDGE, LOOK_AGAIN, PATIENCE, HandOvers
from maar.kube.client.errors import Conflict, Forbidden, Unreachable
from maar.kube.kinds import cluster
from maar.kube.picture.assumed import Assumed
from maar.kube.picture.picture import Picture
from maar.kube.write.executor import Done, Failed, Outcome, Patch
from maar.model.selectors import NodeTerm, Requirement
from maar.model.tasks import Status

NOW = 1000.0
CLAIM = "/api/v1/namespaces/default/persistentvolumeclaims/"
VOLUME = "/api/v1/persistentvolumes/"
DONE = Done()
CONFLICT = Failed(Conflict("another client was faster"))
UNKNOWN = Failed(Unreachable("cut"), final=False)
FORBIDDEN = Failed(Forbidden("grant `patch`"))


class Scene:
    """A picture with two nodes in two zones, and hand-overs; the test answers their writes."""

    def __init__(self) -> None:
        self.picture = Picture()
        self.writes: list[tuple[Patch, Callable[[Outcome], None]]] = []
        self.bound: list[tuple[str, str]] = []
        self.failed: list[tuple[str, str]] = []
        self.left: list[str] = []
        self.triggered = 0
        self.hand_overs = HandOvers(self.picture, self._write, self._bind, self._fail, self.left.append, self._trigger)
        for name, zone in (("n1", "a"), ("n2", "b")):
            labels = {wire.ZONE: zone, "kubernetes.io/hostname": name}
            self.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
        self.put(wire.storage_class())
        self.put(wire.storage_class("local", provisioner="kubernetes.io/no-provisioner"))

    def _write(self, patch: Patch, done: Callable[[Outcome], None]) -> None:
        self.writes.append((patch, done))

    def _bind(self, pod: str, uid: str, node: str) -> None:
        self.bound.append((pod, node))

    def _fail(self, pod: str, why: str) -> None:
        self.failed.append((pod, why))
        self.picture.assumed.forget(pod)

    def _trigger(self) -> None:
        self.triggered += 1

    def put(self, item: dict[str, Any], version: int = 1) -> None:
        """A watch shows an object."""
        item = {
            **item,
            "metadata": {"uid": item["metadata"]["name"], **item["metadata"], "resourceVersion": str(version)},
        }
        self.picture.put(*decoded(item))

    def decide(self, pod: str, node: str, *claims: str) -> None:
        """A pod with claims is given a node."""
        head = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod, "namespace": "default"}}
        self.put({**head, "spec": {"containers": [], **wire.using(*claims)}})
        self.picture.take(NOW)
        self.picture.assumed.assume(f"default/{pod}", Assumed(pod, Status.BOUND, node))
        self.hand_overs.begin(f"default/{pod}", pod, node, NOW)
        self.hand_overs.go_on(NOW)

    def show(self, item: dict[str, Any], version: int, at: float = NOW) -> None:
        """A watch shows an object, and a cycle runs."""
        self.put(item, version)
        self.picture.take(at)
        self.hand_overs.go_on(at)

    @property
    def asked(self) -> list[tuple[str, Any]]:
        return [(patch.path, patch.body) for patch, _ in self.writes]


def selected(name: str, node: str) -> dict[str, Any]:
    claim = wire.claim(name)
    return {**claim, "metadata": {**claim["metadata"], "annotations": {"volume.kubernetes.io/selected-node": node}}}


def bound(name: str, to: str, of: str = "disk") -> dict[str, Any]:
    claim = wire.claim(name, of)
    return {**claim, "spec": {**claim["spec"], "volumeName": to}, "status": {"phase": "Bound"}}


def given(volume: dict[str, Any], claim: str) -> dict[str, Any]:
    reference = {"claimRef": {"namespace": "default", "name": claim, "uid": claim}}
    return {**volume, "spec": {**volume["spec"], **reference}, "status": {"phase": "Bound"}}


def free(name: str, host: str, size: str = "1Gi") -> dict[str, Any]:
    return {**wire.volume(name, "local", host=host, size=size), "status": {"phase": "Available"}}


def test_a_deleted_pod_does_not_wait() -> None:
    scene = Scene()
    left = scene.left
    scene.put(wire.claim("c"))
    scene.decide("p", "n1", "c")
    assert [] == left
    scene.picture.drop(cluster.PODS, "default/p")
    scene.hand_overs.go_on(NOW)
    assert (["default/p"], [], []) == (left, scene.bound, scene.failed)


def test_a_pod_with_all_volumes_is_bound_at_once() -> None:
    scene = Scene()
    scene.put(bound("c", "v"))
    scene.put(given(wire.volume("v", zone="a"), "c"))
    scene.decide("p", "n1", "c")
    assert ([("default/p", "n1")], [], None) == (scene.bound, scene.asked, scene.hand_overs.due(NOW))


def test_a_claim_is_handed_over_once_and_waited_for() -> None:
    scene = Scene()
    scene.put(wire.claim("c"), 7)
    scene.decide("p", "n1", "c")
    metadata = {"resourceVersion": "7", "annotations": {"volume.kubernetes.io/selected-node": "n1"}}
    assert [(f"{CLAIM}c", {"metadata": metadata})] == scene.asked
    scene.hand_overs.go_on(NOW)
    scene.writes[0][1](DONE)
    scene.hand_overs.go_on(NOW)
    scene.show(selected("c", "n1"), 8)
    assert (1, [], []) == (len(scene.asked), scene.bound, scene.failed)
    scene.show(bound("c", "v"), 9)
    assert [] == scene.bound, "no watch has shown its volume"
    scene.show(given(wire.volume("v", zone="a"), "c"), 1)
    assert ([("default/p", "n1")], 1) == (scene.bound, len(scene.asked))


def test_a_pod_with_several_claims_waits_for_all_of_them() -> None:
    scene = Scene()
    scene.put(wire.claim("c"))
    scene.put(wire.claim("d"))
    scene.decide("p", "n1", "c", "d")
    assert [f"{CLAIM}c", f"{CLAIM}d"] == [path for path, _ in scene.asked]
    for name in ("c", "d"):
        assert [] == scene.bound
        scene.put(given(wire.volume(f"v{name}"), name))
        scene.show(bound(name, f"v{name}"), 2)
    assert [("default/p", "n1")] == scene.bound


def test_a_claim_that_loses_its_node_was_refused() -> None:
    scene = Scene()
    scene.put(wire.claim("c"), 7)
    scene.decide("p", "n1", "c")
    scene.writes[0][1](DONE)
    scene.show(wire.claim("c"), 9)
    assert [("default/p", "no volume could be provisioned for claim `c` on `n1`")] == scene.failed
    changed = scene.picture.take(NOW).changed["default/p"]
    assert changed is not None
    not_there = NodeTerm(fields=(Requirement("metadata.name", "NotIn", ("n1",)),))
    assert (Status.PENDING, ((not_there,),)) == (changed[1][0].status, changed[1][0].shape.volume_terms)
    assert NOW + GRUDGE == scene.hand_overs.due(NOW)
    scene.hand_overs.go_on(NOW + GRUDGE)
    again = scene.picture.take(NOW).changed["default/p"]
    assert again is not None
    assert () == again[1][0].shape.volume_terms, "after a while the node is tried again"
    assert (1, None) == (scene.triggered, scene.hand_overs.due(NOW))


def test_what_others_wrote_meanwhile_is_respected() -> None:
    scene = Scene()
    scene.put(wire.claim("c"), 7)
    scene.decide("p", "n1", "c")
    scene.writes[0][1](CONFLICT)
    scene.hand_overs.go_on(NOW)
    assert (1, NOW + LOOK_AGAIN) == (len(scene.asked), scene.hand_overs.due(NOW)), "no watch has shown their write yet"
    scene.show(wire.claim("c"), 8)
    assert "8" == scene.asked[1][1]["metadata"]["resourceVersion"]
    assert [] == scene.failed


def test_a_write_with_an_unknown_result_is_tried_again() -> None:
    scene = Scene()
    scene.put(wire.claim("c"), 7)
    scene.decide("p", "n1", "c")
    scene.writes[0][1](UNKNOWN)
    scene.hand_overs.go_on(NOW)
    assert scene.asked[0] == scene.asked[1]
    scene.writes[1][1](CONFLICT)
    scene.show(selected("c", "n1"), 8)
    assert (2, []) == (len(scene.asked), scene.failed), "the first write had succeeded"


def test_a_refused_write_is_reported() -> None:
    scene = Scene()
    scene.put(wire.claim("c"))
    scene.decide("p", "n1", "c")
    scene.writes[0][1](FORBIDDEN)
    scene.hand_overs.go_on(NOW)
    assert [("default/p", "claim `c`: grant `patch`")] == scene.failed


def test_patience_ends() -> None:
    scene = Scene()
    scene.put(selected("c", "n1"))
    scene.decide("p", "n1", "c")
    assert NOW + PATIENCE == scene.hand_overs.due(NOW)
    scene.hand_overs.go_on(NOW + PATIENCE - 1)
    assert [] == scene.failed
    scene.hand_overs.go_on(NOW + PATIENCE)
    assert [("default/p", "no volume on `n1` within 600 s for its claims: `c`")] == scene.failed
    assert [] == scene.asked, "the claim was already handed over"


def test_a_volume_elsewhere_is_not_bound_to() -> None:
    scene = Scene()
    scene.put(selected("c", "n1"))
    scene.decide("p", "n1", "c")
    scene.put(given(wire.volume("v", zone="b"), "c"))
    scene.show(bound("c", "v"), 2)
    assert [("default/p", "volume `v` of claim `c` cannot be reached from `n1`")] == scene.failed
    assert [] == scene.bound


@pytest.mark.parametrize(("zone", "both"), [("", True), ("a", False)])
def test_pods_that_share_a_claim_wait_for_the_same_volume(zone: str, both: bool) -> None:
    scene = Scene()
    scene.put(wire.claim("c"))
    scene.decide("p", "n1", "c")
    scene.decide("q", "n2", "c")
    assert 1 == len(scene.asked)
    scene.writes[0][1](DONE)
    scene.show(selected("c", "n1"), 2)
    scene.put(given(wire.volume("v", zone=zone), "c"))
    scene.show(bound("c", "v"), 3)
    assert [("default/p", "n1"), ("default/q", "n2")][: 2 if both else 1] == scene.bound
    assert (not both) == (["default/q"] == [pod for pod, _ in scene.failed])


def test_free_volumes_are_given_the_smallest_first_and_none_twice() -> None:
    scene = Scene()
    for volume in (free("large", "n1", "9Gi"), free("small", "n1", "2Gi"), free("other", "n2", "2Gi")):
        scene.put(volume, 3)
    for name in ("c", "d", "e"):
        scene.put(wire.claim(name, "local", size="2Gi"), 7)
    scene.decide("p", "n1", "c", "d")
    reference = {
        **{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default"},
        **{"name": "c", "uid": "c", "resourceVersion": "7"},
    }
    noted = {"resourceVersion": "3", "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}
    assert (f"{VOLUME}small", {"metadata": noted, "spec": {"claimRef": reference}}) == scene.asked[0]
    assert f"{VOLUME}large" == scene.asked[1][0]
    scene.decide("q", "n1", "e")
    assert [("default/q", "no free volume for claim `e` is left on `n1`")] == scene.failed
    for (_, done), name, disk in zip(scene.writes, ("c", "d"), ("small", "large"), strict=True):
        done(DONE)
        scene.show(given(free(disk, "n1", "9Gi"), name), 4)
        assert [] == scene.bound
        scene.show(bound(name, disk, "local"), 8)
    assert ([("default/p", "n1")], 2) == (scene.bound, len(scene.asked))


def test_a_volume_that_another_client_took_is_replaced() -> None:
    scene = Scene()
    scene.put(free("small", "n1"), 3)
    scene.put(free("large", "n1", "9Gi"), 3)
    scene.put(wire.claim("c", "local"))
    scene.decide("p", "n1", "c")
    scene.writes[0][1](CONFLICT)
    scene.show(given(free("small", "n1"), "another"), 4)
    assert [f"{VOLUME}small", f"{VOLUME}large"] == [path for path, _ in scene.asked]
    assert [] == scene.failed


@pytest.mark.parametrize("what", ["evicted", "deleted", "bound by another"])
def test_a_pod_that_must_not_be_bound_any_more_is_dropped(what: str) -> None:
    scene = Scene()
    scene.put(wire.claim("c"))
    scene.decide("p", "n1", "c")
    if what == "evicted":
        scene.picture.assumed.assume("default/p", Assumed("p", Status.RELEASING, "n1"))
    elif what == "deleted":
        scene.picture.drop(cluster.PODS, "default/p")
    else:
        scene.picture.assumed.forget("default/p")
    scene.put(given(wire.volume("v"), "c"))
    scene.show(bound("c", "v"), 2)
    assert ([], [], None) == (scene.bound, scene.failed, scene.hand_overs.due(NOW))


def test_a_deleted_node_or_claim_ends_the_hand_over() -> None:
    scene = Scene()
    for pod, node, claim in (("p", "n1", "c"), ("q", "n2", "d")):
        scene.put(wire.claim(claim))
        scene.decide(pod, node, claim)
    scene.picture.drop(cluster.NODES, "n1")
    scene.picture.drop(cluster.CLAIMS, "default/d")
    scene.hand_overs.go_on(NOW)
    assert [("default/p", "node `n1` is gone"), ("default/q", "claim `d` is gone")] == scene.failed
