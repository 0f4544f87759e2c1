"""Live reading equals reading from scratch: any adds, updates and deletes, in any order across watches, give a cluster
that is equal in every field to what a fresh picture makes of the final objects."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.objects import Json, decoded, from_scratch

from maar.kube.kinds import JOB_KINDS, KINDS, kind_named
from maar.kube.picture.picture import Picture
from maar.model.snapshot import Cluster, Snapshot

NOW = 1000.0
MAAR = frozenset({"maar"})
OLD, NEW = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
HELD, STOPPED = {"maar.dev/hold": "true"}, {"maar.dev/hold": "stop"}
BOUNDS = {"maar.dev/min-workers": "1", "maar.dev/max-workers": "3"}


def thing(api: str, kind: str, name: str, namespace: str = "ns", **more: Any) -> Json:
    metadata = {"name": name, "namespace": namespace, "uid": f"{kind}-{name}", "creationTimestamp": OLD}
    known = kind_named(api, kind)
    assert known is not None
    if not known.resource.namespaced:
        del metadata["namespace"]
    return {"apiVersion": api, "kind": kind, "metadata": {**metadata, **more.pop("metadata", {})}, **more}


def owned(api: str, kind: str, name: str, uid: str = "") -> Json:
    return {"ownerReferences": [{"apiVersion": api, "kind": kind, "name": name, "uid": uid or f"{kind}-{name}"}]}


def controlled(api: str, kind: str, name: str) -> Json:
    (reference,) = owned(api, kind, name)["ownerReferences"]
    return {"ownerReferences": [{**reference, "controller": True}]}


def pod(name: str, image: str = "train:1", scheduler: str = "maar", **more: Any) -> Json:
    container = {"name": "c", "image": image, "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}}}
    spec = {"containers": [container], "schedulerName": scheduler, **more.pop("spec", {})}
    return thing("v1", "Pod", name, spec=spec, **more)


def template(**spec: Any) -> Json:
    return {"spec": {"schedulerName": "maar", "containers": [{"name": "c", "image": "train:1"}], **spec}}


def node(name: str, *images: str, **more: Any) -> Json:
    listed = [{"names": [image], "sizeBytes": 10} for image in images]
    return thing("v1", "Node", name, status={"allocatable": {"cpu": "8"}, "images": listed}, **more)


def claim(name: str, volume: str = "") -> Json:
    spec = {"accessModes": ["ReadWriteOncePod"], "storageClassName": "local", "volumeName": volume}
    status = {"phase": "Bound" if volume else "Pending"}
    done = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}} if volume else {}
    return thing("v1", "PersistentVolumeClaim", name, spec=spec, status=status, metadata=done)


def volume(name: str, to: str = "") -> Json:
    where = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}]}]
    reference = {"claimRef": {"namespace": "ns", "name": to, "uid": f"PersistentVolumeClaim-{to}"}} if to else {}
    affinity = {"required": {"nodeSelectorTerms": where}}
    spec = {"capacity": {"storage": "1Gi"}, "storageClassName": "local", "nodeAffinity": affinity, **reference}
    return thing("v1", "PersistentVolume", name, spec=spec, status={"phase": "Bound" if to else "Available"})


def kubeflow(kind: str, field: str, name: str, size: int, annotations: Json | None = None, **policy: Any) -> Json:
    roles = {"Worker": {"replicas": size, "template": template()}, "Master": {"replicas": 1, "template": template()}}
    metadata = {"annotations": annotations or {}}
    return thing("kubeflow.org/v1", kind, name, metadata=metadata, spec={field: roles, "runPolicy": policy})


def jobset(
    name: str, *, order: str = "", after: bool = False, suspend: bool = False, done: bool = False, **metadata: Any
) -> Json:
    workers = {"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 1, "template": template()}}}
    driver = {"name": "d", "replicas": 1, "template": {"spec": {"template": template()}}}
    if after:
        driver["dependsOn"] = [{"name": "w", "status": "Ready"}]
    spec = {"replicatedJobs": [workers, driver], "startupPolicy": {"startupPolicyOrder": order}, "suspend": suspend}
    status = {"replicatedJobsStatus": [{"name": "w", "succeeded": 2}]} if done else {}
    return thing("jobset.x-k8s.io/v1alpha2", "JobSet", name, metadata=metadata, spec=spec, status=status)


def of_jobset(name: str, index: int, role: str, **more: Any) -> Json:
    labels = {"jobset.sigs.k8s.io/jobset-name": name, "jobset.sigs.k8s.io/replicatedjob-name": role}
    labels |= {"jobset.sigs.k8s.io/job-index": str(index), "jobset.sigs.k8s.io/replicatedjob-replicas": "2"}
    labels |= {"batch.kubernetes.io/job-completion-index": "0"}
    return pod(f"{name}-{index}", metadata={"labels": labels, **more})


def ray(kind: str, name: str, replicas: int, metadata: Json | None = None, **spec: Any) -> Json:
    group = {"groupName": "g", "replicas": replicas, "template": template()}
    cluster = {"headGroupSpec": {"template": template()}, "workerGroupSpecs": [group]}
    of = {**cluster, **spec} if kind == "RayCluster" else {"rayClusterSpec": cluster, **spec}
    return thing("ray.io/v1", kind, name, metadata=metadata or {}, spec=of)


def of_ray(name: str, group: str, annotations: Json | None = None, **more: Any) -> Json:
    labels = {"ray.io/node-type": "head" if group == "headgroup" else "worker", "ray.io/group": group}
    about = {"labels": labels, "annotations": annotations or {}, **owned("ray.io/v1", "RayCluster", "r-1")}
    return pod(name, metadata=about, **more)


def leader_worker_set(replicas: int, size: int, policy: str = "LeaderCreated", **annotations: str) -> Json:
    spec = {"replicas": replicas, "leaderWorkerTemplate": {"size": size}, "startupPolicy": policy}
    return thing(
        "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "l", metadata={"annotations": annotations}, spec=spec
    )


def of_leader_worker_set(group: int, index: int, **more: Any) -> Json:
    prefix = "leaderworkerset.sigs.k8s.io"
    labels = {f"{prefix}/name": "l", f"{prefix}/group-index": str(group), f"{prefix}/worker-index": str(index)}
    return pod(f"l-{group}-{index}", metadata={"labels": labels}, **more)


def train_job(annotations: Json | None = None, **spec: Any) -> Json:
    notes = {"maar.dev/max-runtime": "1h", **(annotations or {})}
    return thing("trainer.kubeflow.org/v1alpha1", "TrainJob", "s", metadata={"annotations": notes}, spec=spec)


def batch(name: str, annotations: Json | None = None, parallelism: int = 2, **metadata: Any) -> Json:
    about = {"annotations": annotations or {}, **metadata}
    return thing("batch/v1", "Job", name, metadata=about, spec={"parallelism": parallelism, "template": template()})


def volcano_group(name: str, minimum: int, phase: str = "Inqueue", **metadata: Any) -> Json:
    spec = {"minMember": minimum}
    return thing(
        "scheduling.volcano.sh/v1beta1", "PodGroup", name, metadata=metadata, spec=spec, status={"phase": phase}
    )


GROUP = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
REPELS = {
    "topologyKey": "zone",
    "labelSelector": {"matchLabels": {"app": "x"}},
    "namespaceSelector": {"matchLabels": {"team": "a"}},
}
APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [REPELS]}}
POLICIES: list[Json] = [{"gang": {"minCount": 2}}, {"basic": {}}, {"gang": {"minCount": 4}}]
LABELLED = {"labels": {"training.kubeflow.org/job-name": "t", "training.kubeflow.org/replica-type": "worker"}}
IN_TRAIN_JOB = owned("trainer.kubeflow.org/v1alpha1", "TrainJob", "s")
IN_RAY_GROUP = {"scheduling.k8s.io/group-name": "ray-r-pg"}
PYTORCH = ("PyTorchJob", "pytorchReplicaSpecs", "t")

VERSIONS: list[list[Json]] = [
    [node("n1", "train:1"), node("n1"), node("n1", "other:1", metadata={"annotations": {"maar.dev/locked-for": "x"}})],
    [node("n2"), node("n2", "train:1", "other:1"), node("n2", metadata={"labels": {"pool": "a"}})],
    [thing("v1", "Namespace", "ns"), thing("v1", "Namespace", "ns", metadata={"labels": {"team": "a"}})],
    [
        thing("scheduling.k8s.io/v1", "PriorityClass", "high", value=10),
        thing("scheduling.k8s.io/v1", "PriorityClass", "high", value=20, preemptionPolicy="Never"),
    ],
    [thing("v1", "ResourceQuota", "q", spec={"hard": {"volcano.sh/namespace.weight": w}}) for w in ("2", "x", "3")],
    [
        thing("scheduling.volcano.sh/v1beta1", "Queue", "default", spec={"weight": 2}),
        thing("scheduling.volcano.sh/v1beta1", "Queue", "default", spec={"weight": 0}),
    ],
    [
        thing("policy/v1", "PodDisruptionBudget", "b", spec={"minAvailable": value, "selector": {"matchLabels": match}})
        for value, match in ((1, {}), ("50%", {"app": "x"}), ("many", {}))
    ],
    [
        thing("maar.dev/v1alpha1", "ShardMap", "maar", spec={"shards": shards, "slots": [0] * 256, "nodes": {"n1": 0}})
        for shards in (1, 2)
    ],
    [
        thing("maar.dev/v1alpha1", "Shard", "shard-0", spec={"wants": wants}, status={"holder": "a", "epoch": 1})
        for wants in ([], [{"job": "default/g", "uid": "u", "nodes": ["n1"]}])
    ],
    [
        thing("topology.volcano.sh/v1alpha1", "HyperNode", "h", spec={"tier": tier, "members": [
            {"type": "Node", "selector": {"regexMatch": {"pattern": pattern}}}]})
        for tier, pattern in ((1, "n.*"), (2, "n1"))
    ],
    [
        thing("storage.k8s.io/v1", "StorageClass", "local", provisioner="kubernetes.io/no-provisioner",
              volumeBindingMode="WaitForFirstConsumer"),
        thing("storage.k8s.io/v1", "StorageClass", "local", provisioner="csi.example"),
        thing("storage.k8s.io/v1", "StorageClass", "local", provisioner="csi.example",
              volumeBindingMode="WaitForFirstConsumer"),
    ],
    [
        thing("storage.k8s.io/v1", "CSIDriver", "csi.example", spec={"storageCapacity": tells})
        for tells in (True, False)
    ],
    [
        thing("storage.k8s.io/v1", "CSIStorageCapacity", "c", storageClassName="local", nodeTopology={}, **stated)
        for stated in ({"capacity": "1Gi"}, {"capacity": "9Gi"}, {"capacity": "9Gi", "maximumVolumeSize": "1"})
    ],
    [claim("c"), claim("c", "v1")],
    [volume("v1"), volume("v1", "c")],
    [volume("v2")],
    [
        thing("storage.k8s.io/v1", "CSINode", "n1", spec={"drivers": [{"name": "csi.example", **count}]})
        for count in ({}, {"allocatable": {"count": 3}})
    ],
    [
        thing("v1", "ConfigMap", "maar-state", data={"maar": text})
        for text in ('{"elect":{"job":"ns/g","since":5}}', '{"resized":{"default":7}}', "{}")
    ],
    # PodGroups of each API, and pods that name them, one, several or none.
    [volcano_group("g", 2), volcano_group("g", 3, "Pending"), volcano_group("g", -1),
     volcano_group("g", 2, annotations={"volcano.sh/sla-waiting-time": "5s"}),
     volcano_group("g", 2, annotations=HELD)],
    [
        thing("scheduling.k8s.io/v1beta1", "PodGroup", "g", spec={"schedulingPolicy": policy})
        for policy in POLICIES
    ],
    [thing("scheduling.x-k8s.io/v1alpha1", "PodGroup", "g", spec={"minMember": n}) for n in (1, 2)],
    [pod("g-0", metadata=GROUP), pod("g-0", metadata=GROUP, spec={"priorityClassName": "high"}),
     pod("g-0", metadata=GROUP, scheduler="other"), pod("g-0", scheduler="other", spec={"nodeName": "n1"})],
    [pod("g-1", metadata=GROUP), pod("g-1", metadata=GROUP, spec={"nodeName": "n1"}, status={"phase": "Running"}),
     pod("g-1", metadata=GROUP, spec={"nodeName": "n1"}, status={"phase": "Failed"})],
    [pod("g-2", spec={"schedulingGroup": {"podGroupName": "g"}}), pod("g-2", metadata={**GROUP, "labels": {
        "scheduling.x-k8s.io/pod-group": "g"}})],
    [pod("g", metadata={"labels": {"scheduling.x-k8s.io/pod-group": "g"}}), pod("g")],
    [pod("p-0", metadata={"annotations": {"pod_group": "p"}}),
     pod("p-0", metadata={"annotations": {"pod_group": "p", "pod_group_size": "2"}})],
    [pod("p-1", metadata={"annotations": {"pod_group": "p"}}), pod("p-1", image="other:1"),
     pod("p-1", metadata={"annotations": {"pod_group": "p", **HELD}})],
    # Pods on their own.
    [pod("a", metadata={"labels": {"app": "x"}}), pod("a", spec={"affinity": APART}),
     pod("a", metadata={"deletionTimestamp": NEW}),
     pod("a", spec={"nodeName": "n1"}, metadata={"deletionTimestamp": NEW})],
    [thing("v1", "Service", "s", spec={"selector": {"app": "x"}}), thing("v1", "Service", "s", spec={}),
     thing("v1", "Service", "s", spec={"selector": {"app": "x", "tier": "web"}})],
    [pod("w-0", metadata={"labels": {"app": "x", "tier": "web"}}),
     pod("w-0", metadata={"labels": {"app": "x"}, **controlled("apps/v1", "ReplicaSet", "w")}),
     pod("w-0", metadata={**controlled("apps/v1", "ReplicaSet", "w")}, spec={"nodeName": "n1"})],
    # Pods that cannot be read: they wait, or close their node.
    [pod("u", spec={"overhead": {"cpu": "lots"}}), pod("u", spec={"nodeName": "n1", "overhead": {"cpu": "lots"}}),
     pod("u", spec={"nodeName": "n2"}),
     pod("u", scheduler="other", spec={"nodeName": "n2", "overhead": {"cpu": "9" * 5000}})],
    [pod("b", spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}),
     pod("b", spec={"nodeName": "n2"})],
    [pod("e", spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}),
     pod("e", spec={"schedulingGates": [{"name": "kueue"}]})],
    # Jobs that own pods: rigid, elastic, suspended; with and without a PodGroup; two kinds of one name.
    [kubeflow(*PYTORCH, 2), kubeflow(*PYTORCH, 2, BOUNDS), kubeflow(*PYTORCH, 3, BOUNDS, suspend=True),
     kubeflow(*PYTORCH, 2, HELD), kubeflow(*PYTORCH, 2, STOPPED)],
    [kubeflow("TFJob", "tfReplicaSpecs", "t", 1), kubeflow("TFJob", "tfReplicaSpecs", "t", 2, suspend=True)],
    [volcano_group("t", 2, **owned("kubeflow.org/v1", "PyTorchJob", "t")), volcano_group("t", 1)],
    [pod("t-0", metadata={**LABELLED, "annotations": {"scheduling.k8s.io/group-name": "t"}}),
     pod("t-0", metadata=LABELLED)],
    [pod("t-1", metadata={**LABELLED, **owned("kubeflow.org/v1", "PyTorchJob", "t")}),
     pod("t-1", metadata={**LABELLED, **owned("kubeflow.org/v1", "TFJob", "t")})],
    [batch("j"), batch("j", {"maar.dev/gang": "true"}), batch("j", HELD), batch("j", STOPPED),
     batch("j", {}, 1, **owned("jobset.x-k8s.io/v1alpha2", "JobSet", "s"))],
    [pod("j-0", metadata=owned("batch/v1", "Job", "j")),
     pod("j-0", metadata={**owned("batch/v1", "Job", "j"), "annotations": {"maar.dev/gang": "true"}})],
    [pod("j-1", metadata=owned("batch/v1", "Job", "j")), pod("j-1", metadata=owned("batch/v1", "Job", "j", "another"))],
    [jobset("alone"), jobset("alone", after=True), jobset("alone", order="InOrder"), jobset("alone", suspend=True)],
    [of_jobset("alone", 0, "w")],
    [of_jobset("alone", 1, "w"), of_jobset("alone", 1, "d")],
    [of_jobset("s", 0, "w"), of_jobset("s", 0, "w", annotations={"scheduling.k8s.io/group-name": "s"})],
    [of_jobset("s", 1, "w"), of_jobset("s", 1, "d"),
     of_jobset("s", 1, "d", annotations={"scheduling.k8s.io/group-name": "s"})],
    # Jobs inside of jobs: a TrainJob with its JobSet, its Job and its PodGroup; a RayJob with its RayCluster.
    [train_job(), train_job(suspend=True), train_job(HELD), train_job(managedBy="kueue.x-k8s.io/multikueue")],
    [jobset("s", after=True, **IN_TRAIN_JOB), jobset("s", **IN_TRAIN_JOB), jobset("s", suspend=True, **IN_TRAIN_JOB),
     jobset("s", after=True, suspend=True, done=True, **IN_TRAIN_JOB)],
    [volcano_group("s", 4, **IN_TRAIN_JOB), volcano_group("s", 2), volcano_group("s", 4, "Pending", **IN_TRAIN_JOB)],
    [batch("s-w-0", **owned("jobset.x-k8s.io/v1alpha2", "JobSet", "s"))],
    [pod("s-w-x", metadata=owned("batch/v1", "Job", "s-w-0")), pod("s-w-x", scheduler="other", metadata={
        **owned("batch/v1", "Job", "s-w-0"), "annotations": {"scheduling.k8s.io/group-name": "s"}})],
    [ray("RayJob", "r", 2), ray("RayJob", "r", 2, suspend=True, shutdownAfterJobFinishes=True),
     ray("RayJob", "r", 1, clusterSelector={"ray.io/cluster": "r-1"})],
    [ray("RayCluster", "r-1", 2, owned("ray.io/v1", "RayJob", "r")),
     ray("RayCluster", "r-1", 2, {"annotations": BOUNDS}),
     ray("RayCluster", "r-1", 2, {"annotations": BOUNDS, **owned("ray.io/v1", "RayJob", "r")}),
     ray("RayCluster", "r-1", 1, suspend=True)],
    [volcano_group("ray-r-pg", 3, **owned("ray.io/v1", "RayCluster", "r-1")),
     volcano_group("ray-r-pg", 3, **owned("ray.io/v1", "RayJob", "r"))],
    [of_ray("r-1-head", "headgroup"), of_ray("r-1-head", "headgroup", IN_RAY_GROUP)],
    [of_ray("r-1-g-worker-a", "g"), of_ray("r-1-g-worker-a", "g", IN_RAY_GROUP)],
    [batch("r", **owned("ray.io/v1", "RayJob", "r")), batch("r", **owned("ray.io/v1", "RayCluster", "r-1"))],
    [pod("r-x", metadata=owned("batch/v1", "Job", "r")), pod("r-x", metadata={
        **owned("batch/v1", "Job", "r"), "annotations": IN_RAY_GROUP})],
    [leader_worker_set(2, 2), leader_worker_set(1, 2, "LeaderReady"), leader_worker_set(2, 1)],
    [of_leader_worker_set(0, 0)],
    [of_leader_worker_set(0, 1)],
    [of_leader_worker_set(1, 0), of_leader_worker_set(1, 0, spec={"nodeName": "n1"})],
    [{"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest", "metadata": {"name": "train-1"}}],
    [
        thing("metrics.k8s.io/v1beta1", "NodeMetrics", "n1", timestamp=NEW, usage=usage)
        for usage in ({"cpu": "1500000000n", "memory": "1Gi"}, {"cpu": "-1"}, {"memory": "2Gi"})
    ],
]  # fmt: skip


def normal(cluster: Cluster) -> Json:
    """Every field, with lists sorted: what there is comes in any order."""
    return {
        name: sorted(value, key=repr) if isinstance(value, tuple) else value
        for name, value in msgspec.structs.asdict(cluster).items()
    }


def differing(live: Cluster, scratch: Cluster) -> Json:
    one, other = normal(live), normal(scratch)
    return {name: (one[name], other[name]) for name in one if one[name] != other[name]}


MOVES = st.lists(
    st.tuples(st.integers(0, len(VERSIONS) - 1), st.integers(0, 5), st.booleans()), min_size=1, max_size=120
)


@settings(max_examples=300)
@given(MOVES)
def test_safety_live_reading_equals_reading_from_scratch(moves: list[tuple[int, int, bool]]) -> None:
    """A version of 5 deletes the object; a true third value runs a cycle after the move."""
    picture, there = Picture(MAAR, settling=None), dict[int, Json]()
    snapshot: Snapshot | None = None
    for place, version, cycle in moves:
        versions = VERSIONS[place]
        if version == 5:
            there.pop(place, None)
            kind, item = decoded(versions[0])
            picture.drop(kind, kind.key_of(item))
        else:
            there[place] = versions[version % len(versions)]
            picture.put(*decoded(there[place]))
        if cycle:
            update = picture.take(NOW)
            following = None if snapshot is None or update.rebuild else snapshot.after(update.around, update.changed)
            snapshot = following or Snapshot(picture.cluster(update.around))
    picture.read_short()
    live = picture.cluster(picture.take(NOW).around)
    assert {} == differing(live, from_scratch(there.values(), MAAR, NOW))


def test_every_kind_is_among_the_objects() -> None:
    seen = {decoded(versions[0])[0] for versions in VERSIONS}
    like_pytorch = {kind for kind in JOB_KINDS if kind.resource.group == "kubeflow.org"}
    assert {str(kind) for kind in KINDS} - {str(kind) for kind in seen | like_pytorch} == set()


def test_versions_are_of_one_object() -> None:
    for versions in VERSIONS:
        assert 1 == len({(v["kind"], v["metadata"]["name"]) for v in versions}), versions[0]["metadata"]["name"]
