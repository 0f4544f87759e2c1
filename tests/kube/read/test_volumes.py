"""How claims, volumes, classes and limits of drivers affect pods."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.support.objects import decoded, from_scratch

from maar.config.file import default_config
from maar.decide import decide
from maar.kube.kinds import AnyKind
from maar.kube.picture.assumed import Assumed
from maar.kube.picture.picture import Picture
from maar.model.reasons import in_one_line
from maar.model.selectors import NodeTerm, Requirement
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status, Task
from maar.model.volumes import VolumeNeed, VolumeRoom
from maar.registry import catalog

NOW = 1000.0
ZONE = "topology.kubernetes.io/zone"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
SELECTED = "volume.kubernetes.io/selected-node"
DRIVER = "ebs.csi.aws.com"
NEVER = "never on today's nodes: they {}: add or label nodes, or change what it selects"
Json = dict[str, Any]


def thing(kind: str, name: str, api: str = "v1", **more: Any) -> Json:
    metadata = {"name": name, **more.pop("metadata", {})}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **more}


def node(name: str, **labels: str) -> Json:
    return thing("Node", name, metadata={"labels": labels}, status={"allocatable": {"cpu": "8"}})


def pod(name: str, *claims: str, node: str = "", **more: Any) -> Json:
    volumes = [{"name": f"v-{c}", "persistentVolumeClaim": {"claimName": c}} for c in claims]
    metadata = {"namespace": "ns", "uid": f"uid-{name}", **more.pop("metadata", {})}
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    status = more.pop("status", {})
    spec = {"containers": [container], "schedulerName": "maar", "volumes": volumes, "nodeName": node, **more}
    return thing("Pod", name, metadata=metadata, spec=spec, status=status)


def claim(name: str, of: str = "disk", *, size: str = "1Gi", to: str = "", phase: str = "", **more: Any) -> Json:
    """A claim; bound if it has a volume."""
    metadata = {"namespace": "ns", "uid": f"uid-{name}", **more.pop("metadata", {})}
    spec = {
        "storageClassName": of,
        "volumeName": to,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        **more,
    }
    status = {"phase": phase or ("Bound" if to else "Pending")}
    return thing("PersistentVolumeClaim", name, metadata=metadata, spec=spec, status=status)


def volume(name: str, of: str = "disk", *, size: str = "1Gi", claim: str = "", csi: str = DRIVER, **more: Any) -> Json:
    """A volume; free if it has no claim. `zone` and `host` limit the nodes that can access it."""
    spec: Json = {"storageClassName": of, "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"]}
    for key, value in ((ZONE, more.pop("zone", "")), (HOST, more.pop("host", ""))):
        if value:
            term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    if csi:
        spec["csi"] = {"driver": csi, "volumeHandle": name}
    if claim:
        spec["claimRef"] = {"namespace": "ns", "name": claim, "uid": f"uid-{claim}"}
    metadata = more.pop("metadata", {})
    status = {"phase": "Bound" if claim else "Available"}
    return thing("PersistentVolume", name, metadata=metadata, spec={**spec, **more}, status=status)


def storage_class(name: str = "disk", *, waits: bool = True, provisioner: str = DRIVER, **more: Any) -> Json:
    mode = "WaitForFirstConsumer" if waits else "Immediate"
    body = {"provisioner": provisioner, "volumeBindingMode": mode, **more}
    return thing("StorageClass", name, "storage.k8s.io/v1", **body)


LOCAL = storage_class("local", provisioner="kubernetes.io/no-provisioner")


def csi_node(name: str, limit: int | None, driver: str = DRIVER) -> Json:
    allocatable = {} if limit is None else {"allocatable": {"count": limit}}
    drivers = [{"name": driver, "nodeID": name, **allocatable}]
    return thing("CSINode", name, "storage.k8s.io/v1", spec={"drivers": drivers})


def read(*items: Json) -> Cluster:
    return from_scratch(items, frozenset({"maar"}), NOW)


def task(cluster: Cluster, name: str = "p") -> Task:
    return next(t for t in cluster.tasks if t.key == f"ns/{name}")


def decided(*items: Json) -> dict[str, str]:
    """The nodes of the pods that are placed, and the reasons of the waiting jobs."""
    plan = decide(Snapshot(read(*items)), default_config(catalog()), NOW)
    why = {wait.job: in_one_line(wait.reasons) for wait in plan.waiting}
    return {**why, **{bind.task: bind.node for bind in plan.bind}}


# -- pods that are held back


@pytest.mark.parametrize(
    ("items", "why"),
    [
        ([], "claim `c` does not exist"),
        ([claim("c", metadata={"deletionTimestamp": "2030-01-01T00:00:00Z"})], "claim `c` is being deleted"),
        ([claim("c", to="v", phase="Lost")], "claim `c` has lost its volume `v`"),
        ([claim("c", to="v")], "volume `v` of claim `c` does not exist"),
        ([claim("c"), storage_class(waits=False)], "claim `c` (storage class `disk`) is not bound to a volume yet"),
        ([claim("c")], "claim `c` (storage class `disk`) is not bound to a volume yet"),
        ([claim("c", of="")], "claim `c` is not bound to a volume yet"),
        (
            [claim("c", to="v", phase="Pending"), storage_class()],
            "claim `c` (storage class `disk`) is not bound to a volume yet",
        ),
        (
            [claim("c", size="much"), storage_class()],
            "claim `c`: spec.resources.requests.storage: not a quantity: `much`",
        ),
    ],
)
def test_a_pod_without_a_usable_claim_is_held_back_with_the_reason(items: list[Json], why: str) -> None:
    held = task(read(node("n"), pod("p", "c"), *items))
    assert (Status.BLOCKED, why) == (held.status, held.blocked)
    said = decided(node("n"), pod("p", "c"), pod("free"), *items)
    assert {"ns/p": f"pod `ns/p` is held back: {why}", "ns/free": "n"} == said


def test_an_ephemeral_volume_has_a_claim_of_its_own() -> None:
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]
    it = pod("p", volumes=volumes)
    assert "claim `p-scratch` is not created yet" == task(read(it)).blocked
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}
    mine = claim("p-scratch", metadata={"ownerReferences": [owner]})
    assert Status.PENDING is task(read(it, mine, storage_class())).status
    others = claim("p-scratch", metadata={"ownerReferences": [{**owner, "uid": "of its predecessor"}]})
    why = "claim `p-scratch` was not made for this pod, whose volume `scratch` needs one of that name"
    assert why == task(read(it, others, storage_class())).blocked


def test_a_claim_for_one_pod_is_for_one_pod() -> None:
    alone = claim("c", to="v", accessModes=["ReadWriteOncePod"])
    rest = [node("n"), alone, volume("v", claim="c")]
    at: Json = {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}
    later: Json = {"metadata": {"creationTimestamp": "2026-01-01T00:00:01Z"}}
    taken = "0/1 nodes fit: 1 are closed to it by claim `c`, which is for one pod only: `ns/{}` has it"
    both = pod("a", "c", **later), pod("b", "c", **at)
    assert {"ns/a": taken.format("b"), "ns/b": "n"} == decided(*both, *rest), "the older pod gets the claim"
    running = pod("a", "c", **later, node="n"), pod("b", "c", **at)
    assert {"ns/b": taken.format("a")} == decided(*running, *rest), "the pod with a node has the claim"
    done = pod("a", "c", node="n", status={"phase": "Succeeded"}), pod("b", "c")
    assert {"ns/b": "n"} == decided(*done, *rest)
    assert ((), ()) == (read(*done, *rest).rooms, task(read(*done, *rest), "b").shape.volume_needs)


@pytest.mark.parametrize("scheduler", ["maar", "other"])
def test_a_claim_for_one_pod_is_taken_from_a_pod_of_lower_priority(scheduler: str) -> None:
    """Which runs elsewhere: its node need not have room. A pod of another scheduler keeps its claim."""
    claims = [claim("c", to="v", accessModes=["ReadWriteOncePod"]), volume("v", claim="c")]
    holder = pod("low", "c", node="full", priority=1, schedulerName=scheduler)
    world = read(node("full"), node("n"), *claims, holder, pod("p", "c", priority=9))
    made = decide(Snapshot(world), default_config(catalog()), NOW)
    assert ["ns/low"] * (scheduler == "maar") == [e.task for e in made.evict]
    assert ["ns/p"] * (scheduler == "maar") == [n.task for n in made.nominate]


def test_pods_without_claims_have_nothing_to_do_with_it() -> None:
    plain = task(read(node("n"), pod("p", volumes=[{"name": "tmp", "emptyDir": {}}]), csi_node("n", 0)))
    assert ((), (), Status.PENDING) == (plain.shape.volume_terms, plain.shape.volume_needs, plain.status)
    assert task(read(pod("q")), "q").shape == plain.shape


# -- nodes for pods


def test_a_bound_volume_holds_its_pod_where_it_can_be_reached() -> None:
    nodes = [node("n1", **{ZONE: "a"}), node("n2", **{ZONE: "b"}), node("n3")]
    bound = [pod("p", "c"), claim("c", to="v"), volume("v", claim="c", zone="b")]
    cluster = read(*nodes, *bound)
    terms = ((NodeTerm((Requirement(ZONE, "In", ("b",)),)),),)
    assert (terms, None) == (task(cluster).shape.volume_terms, task(cluster).shape.node_terms)
    assert {"ns/p": "n2"} == decided(*nodes, *bound)
    assert {"ns/p": NEVER.format("cannot reach its volume at `b`")} == decided(nodes[0], nodes[2], *bound)


@pytest.mark.parametrize(
    ("label", "value", "fits"),
    [
        (ZONE, "a", {"new-a", "old-a", "silent"}),
        (OLD_ZONE, "a", {"new-a", "old-a", "silent"}),
        (OLD_ZONE, "a__b", {"new-a", "old-a", "new-b", "silent"}),
        ("topology.kubernetes.io/region", "r", {"silent"}),
    ],
)
def test_zones_on_volumes_of_old(label: str, value: str, fits: set[str]) -> None:
    nodes = {
        "new-a": node("new-a", **{ZONE: "a"}),
        "old-a": node("old-a", **{OLD_ZONE: "a"}),
        "new-b": node("new-b", **{ZONE: "b"}),
        "silent": node("silent"),
    }
    bound = [pod("p", "c"), claim("c", to="v"), volume("v", claim="c", metadata={"labels": {label: value}})]
    assert fits == {name for name, one in nodes.items() if decided(one, *bound) == {"ns/p": name}}


def test_zones_on_volumes_of_old_are_said() -> None:
    bound = [pod("p", "c"), claim("c", to="v"), volume("v", claim="c", metadata={"labels": {OLD_ZONE: "b__c"}})]
    said = decided(node("n", **{ZONE: "a"}), *bound)
    assert {"ns/p": NEVER.format("cannot reach its volume at `b`, `c`")} == said


def test_several_volumes_must_all_be_reached() -> None:
    nodes = [node("n1", **{ZONE: "a"}), node("n2", **{ZONE: "b"})]
    both = [claim("c", to="v"), volume("v", claim="c", zone="a"), claim("d", to="w"), volume("w", claim="d", zone="b")]
    why = NEVER.format("cannot reach its volume at `a`, cannot reach its volume at `b`")
    assert {"ns/p": why} == decided(*nodes, *both, pod("p", "c", "d"))


def test_a_claim_that_waits_for_its_pod_goes_where_its_class_allows() -> None:
    allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": ["b", "c"]}]}]
    rest = [pod("p", "c"), claim("c"), storage_class(allowedTopologies=allowed)]
    nodes = [node("n1", **{ZONE: "a"}), node("n2", **{ZONE: "b"})]
    assert {"ns/p": "n2"} == decided(*nodes, *rest)
    assert {"ns/p": NEVER.format("cannot reach its volume at `b`, `c`")} == decided(nodes[0], *rest)


def test_the_old_way_to_name_a_class() -> None:
    old = claim("c", of="", metadata={"annotations": {"volume.beta.kubernetes.io/storage-class": "disk"}})
    assert Status.PENDING is task(read(pod("p", "c"), old, storage_class())).status


def test_a_selected_node_is_kept_for_its_pod() -> None:
    handed = claim("c", metadata={"annotations": {SELECTED: "n2"}})
    rest = [pod("p", "c", status={"nominatedNodeName": "n2"}), handed, storage_class()]
    it = task(read(node("n1"), node("n2"), *rest))
    assert (Status.NOMINATED, "n2") == (it.status, it.node)
    assert {"ns/p": "n2"} == decided(node("n1"), node("n2"), *rest)
    gone = task(read(node("n1"), *rest))
    assert (Status.PENDING, "", ()) == (gone.status, gone.node, gone.shape.volume_terms), "the node was removed"
    for forged in (pod("p", "c"), pod("p", "c", status={"nominatedNodeName": "n1"})):
        it = task(read(node("n1"), node("n2"), forged, *rest[1:]))
        assert Status.PENDING is it.status, "the annotation of a claim is its owner's"
        assert {"ns/p": "n2"} == decided(node("n1"), node("n2"), forged, *rest[1:])
    bound = claim("c", to="v", metadata={"annotations": {SELECTED: "n2"}})
    assert Status.PENDING is task(read(node("n2"), pod("p", "c"), bound, volume("v", claim="c"))).status


# -- limits of drivers


def test_a_drivers_limit_counts_what_is_there_and_what_will_be() -> None:
    """Node `n` can have three volumes: a running pod has one, a pending pod needs two."""
    limits = [node("n"), csi_node("n", 3), storage_class()]
    runs = [pod("r", "r", node="n"), claim("r", to="vr"), volume("vr", claim="r")]
    two = [pod("p", "a", "b"), claim("a"), claim("b", to="vb"), volume("vb", claim="b")]
    cluster = read(*limits, *runs, *two)
    assert (VolumeRoom(DRIVER, "NodeVolumeLimits", f"at their volume limit of {DRIVER}", {"n": 3}),) == cluster.rooms
    assert (VolumeNeed(DRIVER, DRIVER, 2),) == task(cluster).shape.volume_needs
    assert (VolumeNeed(DRIVER, DRIVER, 1),) == task(cluster, "r").shape.volume_needs
    assert {"ns/p": "n"} == decided(*limits, *runs, *two)
    full = [pod("s", "s", node="n"), claim("s", to="vs"), volume("vs", claim="s")]
    said = decided(*limits, *runs, *two, *full)
    assert {"ns/p": f"0/1 nodes fit: 1 at their volume limit of {DRIVER}"} == said
    assert {"ns/p": "m"} == decided(node("m"), *limits, *runs, *two, *full), "no CSINode, no limit"


def test_a_volume_that_pods_share_counts_once_on_a_node() -> None:
    """Node `n` can have two volumes: the shared one and one more."""
    limits = [node("n"), csi_node("n", 2), storage_class(), claim("s", to="vs"), volume("vs", claim="s")]
    three = [pod(name, "s") for name in ("a", "b", "c")]
    assert {f"ns/{name}": "n" for name in "abc"} == decided(*limits, *three)
    assert {(VolumeNeed(DRIVER, DRIVER, 0, ("ns/s",)),)} == {t.shape.volume_needs for t in read(*limits, *three).tasks}
    own = [claim("x"), claim("y"), pod("x", "s", "x"), pod("y", "s", "y", node="n")]
    at_limit = f"0/1 nodes fit: 1 at their volume limit of {DRIVER}"
    assert {"ns/a": "n", "ns/x": at_limit} == decided(*limits, three[0], *own), "the pod `y` has the volume `y`"
    assert (VolumeNeed(DRIVER, DRIVER, 1, ("ns/s",)),) == task(read(*limits, *own), "x").shape.volume_needs
    alone = task(read(*limits, three[0]), "a")
    assert (VolumeNeed(DRIVER, DRIVER, 1),) == alone.shape.volume_needs, "a volume of one pod needs no name"


def test_pods_learn_that_they_share_a_volume() -> None:
    picture = Picture()
    for item in (node("n"), csi_node("n", 2), claim("s", to="vs"), volume("vs", claim="s"), pod("a", "s")):
        picture.put(*decoded(item))
    picture.take(NOW)
    picture.put(*decoded(pod("b", "s")))
    assert {"ns/a", "ns/b"} == picture.take(NOW).changed.keys()
    picture.put(*decoded(pod("c", "s")))
    assert {"ns/c"} == picture.take(NOW).changed.keys()


@pytest.mark.parametrize("limit", [csi_node("n", None), csi_node("n", 0, "other.driver")])
def test_without_a_number_there_is_no_limit(limit: Json) -> None:
    rest = [node("n"), pod("p", "c"), claim("c", to="v")]
    assert {"ns/p": "n"} == decided(*rest, volume("v", claim="c"), limit)
    in_tree = volume("v", claim="c", csi="", awsElasticBlockStore={"volumeID": "x"})
    assert {"ns/p": "n"} == decided(*rest, in_tree, csi_node("n", 0))


def test_volumes_are_not_resources() -> None:
    """A pod with nothing but a volume is best-effort, and no queue has a share of volumes."""
    small = pod("p", "c", containers=[{"name": "c"}])
    cluster = read(node("n"), small, claim("c"), storage_class(), csi_node("n", 1))
    assert task(cluster).shape.best_effort
    assert not any("volume" in name for name in Snapshot(cluster).axes.names)


def capacity(name: str, *, size: Any, largest: Any = None, of: str = "disk", **labels: str) -> Json:
    stated = {"capacity": size, "maximumVolumeSize": largest, "storageClassName": of}
    topology = {} if labels.pop("nowhere", None) else {"nodeTopology": {"matchLabels": labels}}
    metadata = {"namespace": "drivers"}
    body = {key: value for key, value in stated.items() if value is not None}
    return thing("CSIStorageCapacity", name, "storage.k8s.io/v1", metadata=metadata, **body, **topology)


def driver(*, tells: bool = True) -> Json:
    return thing("CSIDriver", DRIVER, "storage.k8s.io/v1", spec={"storageCapacity": tells})


IN_A, IN_B = node("a", rack="1"), node("b", rack="2")
WANTS = [pod("p", "c"), claim("c", size="5Gi"), storage_class()]
TOO_LITTLE = "0/2 nodes fit: 2 have too little free storage of class `disk`"


@pytest.mark.parametrize(
    ("stated", "where"),
    [
        ([], TOO_LITTLE),
        ([capacity("x", size="4Gi", rack="1"), capacity("y", size="5Gi", rack="2")], "b"),
        ([capacity("x", size="9Gi", largest="4Gi", rack="1"), capacity("y", size="5Gi", rack="2")], "b"),
        ([capacity("y", size=None, largest="5Gi", rack="2")], "b"),
        ([capacity("x", size="9Gi", of="other", rack="1")], TOO_LITTLE),
        ([capacity("x", size="9Gi", nowhere="yes")], TOO_LITTLE),
        ([capacity("x", size="much", rack="1")], TOO_LITTLE),
        ([capacity("x", size=None, rack="1")], TOO_LITTLE),
        ([capacity("x", size="9Gi", **{HOST: "b"})], "b"),
        ([capacity("x", size="1Gi", rack="2"), capacity("y", size="9Gi", rack="2")], "b"),
    ],
)
def test_a_volume_is_made_where_the_driver_has_storage_left(stated: list[Json], where: str) -> None:
    assert {"ns/p": where} == decided(IN_A, IN_B, *WANTS, *stated, driver())
    assert {"ns/p": "a"} == decided(IN_A, IN_B, *WANTS, *stated, driver(tells=False)), "the driver does not tell"
    assert {"ns/p": "a"} == decided(IN_A, IN_B, *WANTS, *stated), "there is no such driver"


def test_storage_left_concerns_only_claims_whose_volume_is_still_to_be_made() -> None:
    full = [IN_A, IN_B, storage_class(), driver(), pod("p", "c")]
    assert {"ns/p": "a"} == decided(*full, claim("c", to="v", size="5Gi"), volume("v", claim="c"))
    chosen = claim("c", size="5Gi", metadata={"annotations": {SELECTED: "b"}})
    assert {"ns/p": "b"} == decided(*full, chosen), "the driver has the request, and may have reserved the storage"
    local = claim("c", "local", size="5Gi")
    assert {"ns/p": "a"} == decided(*full, local, LOCAL, volume("v", "local", size="5Gi", csi=""))


def test_storage_left_is_counted_for_the_pods_of_one_cycle() -> None:
    pods = [pod(f"p{i}", f"c{i}") for i in range(4)]
    claims = [claim(f"c{i}", size="5Gi") for i in range(4)]
    stated = [capacity("x", size="11Gi", rack="1"), capacity("y", size="6Gi", rack="2")]
    said = decided(IN_A, IN_B, *pods, *claims, *stated, storage_class(), driver())
    assert ["a", "a", "b", TOO_LITTLE] == sorted(said.values(), key=lambda where: (len(where), where))


def test_local_volumes_serve_one_pod_each() -> None:
    nodes = [node("n1", **{HOST: "n1"}), node("n2", **{HOST: "n2"})]
    disks = [
        volume("small", "local", host="n1", csi=""),
        volume("a", "local", host="n1", size="10Gi", csi=""),
        volume("b", "local", host="n2", size="10Gi", csi=""),
        volume("others", "local", host="n2", size="10Gi", csi="", claim="x"),
        volume("elsewhere", "remote", host="n2", size="10Gi", csi=""),
    ]
    claims = [claim(f"c{i}", "local", size="5Gi") for i in range(3)]
    pods = [pod(f"p{i}", f"c{i}") for i in range(3)]
    (room,) = read(*nodes, *disks, *claims, *pods, LOCAL).rooms
    assert ({"n1": 1, "n2": 1}, 0, 2) == (room.nodes, room.others, room.total)
    said = decided(*nodes, *disks, *claims, *pods, LOCAL)
    assert {"n1", "n2"} == {said["ns/p0"], said["ns/p1"]}
    assert "0/2 nodes fit: 2 have no free volume of class `local` that fits" == said["ns/p2"]


@pytest.mark.parametrize(
    "unfit",
    [
        volume("v", "local", csi="", size="1Gi"),
        volume("v", "local", csi="", size="?"),
        volume("v", "local", csi="", size="9Gi", accessModes=["ReadOnlyMany"]),
        volume("v", "local", csi="", size="9Gi", volumeMode="Block"),
        {**volume("v", "local", csi="", size="9Gi"), "status": {"phase": "Released"}},
        volume("v", "local", csi="", size="9Gi", metadata={"labels": {"media": "disk"}}),
        volume("v", "local", csi="", size="9Gi", claim="other"),
    ],
)
def test_a_free_volume_must_do(unfit: Json) -> None:
    wants = claim("c", "local", size="5Gi", selector={"matchLabels": {"media": "flash"}})
    fit = volume("fit", "local", csi="", size="5Gi", metadata={"labels": {"media": "flash"}})
    assert {"ns/p": "n"} == decided(node("n"), pod("p", "c"), wants, LOCAL, fit)
    if unfit["metadata"].get("labels") is None:
        unfit = {**unfit, "metadata": {"name": "v", "labels": {"media": "flash"}}}
    said = decided(node("n"), pod("p", "c"), wants, LOCAL, unfit)
    assert "0/1 nodes fit: 1 have no free volume of class `local` that fits" == said["ns/p"]


def test_a_volume_that_all_nodes_reach_is_still_one() -> None:
    """A gang of two pods finds one volume: neither pod starts."""
    grouped = {"annotations": {"pod_group": "g", "pod_group_size": "2"}}
    gang = [pod(f"p{i}", f"c{i}", metadata=grouped) for i in range(2)]
    rest = [node("n1"), node("n2"), LOCAL, *gang, *(claim(f"c{i}", "local") for i in range(2))]
    one, two = (volume(name, "local", csi="") for name in ("one", "two"))
    assert {"ns/p0", "ns/p1"} <= decided(*rest, one, two).keys()
    said = decided(*rest, one)
    assert ["ns/g"] == list(said)
    assert "needs 2 pods together, there is room for 1" in said["ns/g"]


def test_a_volume_that_was_given_to_the_claim_is_where_the_pod_goes() -> None:
    nodes = [node("n1", **{HOST: "n1"}), node("n2", **{HOST: "n2"})]
    given = volume("v", "local", host="n2", csi="", claim="c")
    cluster = read(*nodes, LOCAL, given, claim("c", "local"), pod("p", "c"))
    assert ((), Status.PENDING) == (task(cluster).shape.volume_needs, task(cluster).status)
    assert {"ns/p": "n2"} == decided(*nodes, LOCAL, given, claim("c", "local"), pod("p", "c"))
    predecessors = {**given, "spec": {**given["spec"], "claimRef": {"namespace": "ns", "name": "c", "uid": "another"}}}
    said = decided(*nodes, LOCAL, predecessors, claim("c", "local"), pod("p", "c"))
    assert "0/2 nodes fit: 2 have no free volume of class `local` that fits" == said["ns/p"]


# -- the live picture


SCENE: list[Json] = [
    node("n1", **{ZONE: "a", HOST: "n1"}),
    node("n2", **{ZONE: "b", HOST: "n2"}),
    csi_node("n1", 2),
    csi_node("n2", 1, "other"),
    storage_class(),
    LOCAL,
    claim("bound", to="v"),
    volume("v", claim="bound", zone="a"),
    claim("waits"),
    {**claim("waits"), "metadata": {**claim("waits")["metadata"], "annotations": {SELECTED: "n2"}}},
    claim("own", to="w", accessModes=["ReadWriteOncePod"]),
    volume("w", claim="own"),
    claim("disk", "local", size="2Gi"),
    volume("l1", "local", host="n1", size="3Gi", csi=""),
    volume("l2", "local", host="n2", size="3Gi", csi=""),
    volume("l2", "local", host="n2", size="3Gi", csi="", claim="disk"),
    pod("a", "bound"),
    pod("b", "waits", "bound"),
    pod("c", "own"),
    pod("d", "own"),
    pod("d", "own", node="n1"),
    pod("e", "disk"),
    pod("f", "nowhere"),
    pod("g"),
]


def comparable(cluster: Cluster) -> dict[str, Any]:
    return {
        "tasks": sorted(cluster.tasks, key=lambda t: t.key),
        "rooms": cluster.rooms,
        "nodes": sorted(cluster.nodes, key=lambda n: n.name),
    }


@pytest.mark.parametrize("seed", range(30))
def test_in_any_order_only_what_changed_is_read_and_the_same_comes_of_it(seed: int) -> None:
    rng = random.Random(seed)
    picture = Picture(frozenset({"maar"}))
    there: dict[tuple[AnyKind, str], Json] = {}
    for step in range(80):
        item = rng.choice(SCENE)
        kind, made = decoded(item)
        key = kind.key_of(made)
        if rng.random() < 0.3:
            there.pop((kind, key), None)
            picture.drop(kind, key)
        else:
            there[kind, key] = item
            picture.put(kind, made)
        if step % 3 == 0:
            update = picture.take(NOW)
            assert comparable(read(*there.values())) == comparable(picture.cluster(update.around))


def test_only_the_pods_of_a_claim_are_read_again() -> None:
    picture = Picture()
    for item in SCENE:
        picture.put(*decoded(item))
    picture.take(NOW)
    assert picture.put(*decoded(claim("bound", to="v", metadata={"labels": {"x": "y"}})))
    assert {"ns/a", "ns/b"} == picture.take(NOW).changed.keys()
    assert not picture.put(*decoded(claim("of nobody"))), "no pod uses the claim: no reason to decide"
    assert picture.put(*decoded(volume("v", claim="bound", zone="b")))
    assert {"ns/a", "ns/b"} == picture.take(NOW).changed.keys()
    assert picture.put(*decoded(csi_node("n1", 5)))
    update = picture.take(NOW)
    assert ({}, False) == (update.changed, update.rebuild), "limits are not part of pods or nodes"
    assert {"n1": 5} == next(room.nodes for room in update.around.rooms if room.name == DRIVER)


def test_a_pod_with_an_assumed_node_has_the_claim() -> None:
    picture = Picture()
    alone = claim("c", to="v", accessModes=["ReadWriteOncePod"])
    for item in (node("n"), alone, volume("v", claim="c"), pod("z", "c")):
        picture.put(*decoded(item))
    picture.take(NOW)
    picture.assumed.assume("ns/z", Assumed("uid-z", Status.BOUND, "n"))
    picture.put(*decoded(pod("a", "c")))
    cluster = picture.cluster(picture.take(NOW).around)
    (room,) = cluster.rooms
    assert room.words.endswith("`ns/z` has it")
    assert {room.name} == {need.room for need in task(cluster, "a").shape.volume_needs}
    assert task(cluster, "a").shape.volume_needs == task(cluster, "z").shape.volume_needs
