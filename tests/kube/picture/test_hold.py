"""`maar.dev/hold` on the object that an owner submitted, of every kind that makes gangs; read change by change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.kube.picture.test_elastic import pod as worker
from tests.kube.picture.test_elastic import pod_group, train
from tests.support import new_kinds as made
from tests.support.objects import Json, decoded

from maar.decide import decide
from maar.kube.kinds import KINDS
from maar.kube.kinds.kind import JobKind, PodGroupKind
from maar.kube.picture.picture import Picture
from maar.model.jobs import Job, OnHold
from maar.model.snapshot import Snapshot
from maar.testing.scenario import configured

NOW = 1000.0
MAAR = frozenset({"maar"})
CONFIG = configured("""
actions: "enqueue, allocate, resize"
tiers: [{plugins: [{name: gang}, {name: predicates}]}]
""")
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "64", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "64"}},
}


def with_hold(item: Json, value: str | None) -> Json:
    notes = {k: v for k, v in item["metadata"].get("annotations", {}).items() if k != "maar.dev/hold"}
    notes |= {} if value is None else {"maar.dev/hold": value}
    return {**item, "metadata": {**item["metadata"], "annotations": notes}}


def thing(api: str, kind: str, spec: Json, **metadata: Any) -> Json:
    return made.thing(api, kind, "t", spec, **metadata)


def kubeflow(kind: str, field: str, version: str = "kubeflow.org/v1") -> Json:
    return thing(version, kind, {field: {"Worker": {"replicas": 1, "template": made.template()}}})


def owned_pod(owner: Json, **more: Any) -> Json:
    return made.pod("t-0", owner, more.pop("labels", {}), **more)


def job_with_pod(owner: Json, labels: Mapping[str, str] | None = None) -> list[Json]:
    return [owner, owned_pod(owner, labels=dict(labels or {}))]


BATCH = thing("batch/v1", "Job", {"parallelism": 1, "template": made.template()})
VOLCANO_GROUP = thing("scheduling.volcano.sh/v1beta1", "PodGroup", {"minMember": 1})
PLUGINS_GROUP = thing("scheduling.x-k8s.io/v1alpha1", "PodGroup", {"minMember": 1})
UPSTREAM_GROUP = thing("scheduling.k8s.io/v1beta1", "PodGroup", {"schedulingPolicy": {"gang": {"minCount": 1}}})
IN_GROUP = {"annotations": {"scheduling.k8s.io/group-name": "t"}}


def bare_pod(labels: Json | None = None, annotations: Json | None = None, **spec: Any) -> Json:
    metadata = {"labels": labels or {}, "annotations": annotations or {}}
    return made.thing("v1", "Pod", "t-0", {**made.template()["spec"], **spec}, **metadata)


JOB_SET = made.job_set(made.replicated("w"), name="t")
TRAIN_JOB = thing("trainer.kubeflow.org/v1alpha1", "TrainJob", {})
INNER_SET = {**JOB_SET, "metadata": {**JOB_SET["metadata"], **made.owned(TRAIN_JOB)}}
RAY_JOB = made.ray_job(made.worker_group("g", 1), name="t")
RAY_CLUSTER = made.ray_cluster(made.worker_group("g", 1), name="t")
INNER_RAY = {**RAY_CLUSTER, "metadata": {**RAY_CLUSTER["metadata"], **made.owned(RAY_JOB)}}
LWS = made.leader_worker_set(1, 1)
VOLCANO_JOB = thing(
    "batch.volcano.sh/v1alpha1",
    "Job",
    {"minAvailable": 1, "schedulerName": "maar", "tasks": [{"name": "w", "replicas": 1, "template": made.template()}]},
)

SCENES: dict[str, list[Json]] = {
    "PodGroup of Volcano": [VOLCANO_GROUP, bare_pod(annotations=IN_GROUP["annotations"])],
    "PodGroup of Kubernetes": [UPSTREAM_GROUP, bare_pod(schedulingGroup={"podGroupName": "t"})],
    "PodGroup of scheduler-plugins": [PLUGINS_GROUP, bare_pod({"scheduling.x-k8s.io/pod-group": "t"})],
    "pods that are a group": [bare_pod(annotations={"pod_group": "t"})],
    "a pod": [bare_pod()],
    "Job": job_with_pod({**BATCH, "metadata": {**BATCH["metadata"], "annotations": {"maar.dev/gang": "true"}}}),
    "Job whose pods are alone": job_with_pod(BATCH),
    **{
        kind: job_with_pod(kubeflow(kind, field, version))
        for kind, field, version in (
            ("PyTorchJob", "pytorchReplicaSpecs", "kubeflow.org/v1"),
            ("TFJob", "tfReplicaSpecs", "kubeflow.org/v1"),
            ("MPIJob", "mpiReplicaSpecs", "kubeflow.org/v1"),
            ("MPIJob", "mpiReplicaSpecs", "kubeflow.org/v2beta1"),
            ("XGBoostJob", "xgbReplicaSpecs", "kubeflow.org/v1"),
            ("PaddleJob", "paddleReplicaSpecs", "kubeflow.org/v1"),
            ("JAXJob", "jaxReplicaSpecs", "kubeflow.org/v1"),
        )
    },
    "Job of Volcano": job_with_pod(VOLCANO_JOB),
    "JobSet": [JOB_SET, *made.job_set_pods(JOB_SET, "w")],
    "TrainJob": [TRAIN_JOB, INNER_SET, *made.job_set_pods(INNER_SET, "w")],
    "RayCluster": [RAY_CLUSTER, made.ray_pod(RAY_CLUSTER, "head"), made.ray_pod(RAY_CLUSTER, "g-worker-0", "g")],
    "RayJob": [RAY_JOB, INNER_RAY, made.ray_pod(INNER_RAY, "head"), made.ray_pod(INNER_RAY, "g-worker-0", "g")],
    "LeaderWorkerSet": [LWS, made.group_pod(0, 0)],
}


def jobs(picture: Picture) -> list[Job]:
    return list(picture.cluster(picture.take(NOW).around).jobs)


def codes(picture: Picture) -> set[str]:
    plan = decide(Snapshot(picture.cluster(picture.take(NOW).around)), CONFIG, NOW)
    return {reason.code for wait in plan.waiting for reason in wait.reasons}


def shown(items: list[Json]) -> Picture:
    picture = Picture(MAAR, settling=None)
    for item in [NODE, *items]:
        picture.put(*decoded(item))
    picture.read_short()
    return picture


def test_every_kind_that_makes_gangs_is_here() -> None:
    first = {decoded(items[0])[0] for items in SCENES.values()}
    assert {k.resource.plural for k in KINDS if isinstance(k, (JobKind, PodGroupKind))} - {
        k.resource.plural for k in first
    } == set()


@pytest.mark.parametrize("scene", SCENES)
def test_the_object_that_was_submitted_is_held_and_released(scene: str) -> None:
    picture, item = shown(SCENES[scene]), SCENES[scene][0]
    assert {OnHold.NO} == {job.on_hold for job in jobs(picture)}
    assert "Held" not in codes(picture)
    for value, means in (("true", OnHold.START), ("stop", OnHold.STOP), ("false", OnHold.NO), ("true", OnHold.START)):
        assert picture.put(*decoded(with_hold(item, value))), "a decision depends on it"
        assert {means} == {job.on_hold for job in jobs(picture)}
        assert (means is not OnHold.NO) == ("Held" in codes(picture))
    picture.put(*decoded(with_hold(item, None)))
    assert {OnHold.NO} == {job.on_hold for job in jobs(picture)}


@pytest.mark.parametrize("scene", ["PodGroup of Volcano", "PyTorchJob", "Job whose pods are alone", "a pod"])
def test_another_value_is_a_reason(scene: str) -> None:
    items = SCENES[scene]
    (job,) = jobs(shown([with_hold(items[0], "please"), *items[1:]]))
    assert "`maar.dev/hold`: expected `true`, `stop` or `false`, got `please`" == job.broken
    assert OnHold.NO is job.on_hold


@pytest.mark.parametrize("elastic", [True, False])
def test_the_podgroup_of_a_held_job_is_held_whatever_it_says_itself(elastic: bool) -> None:
    """Operators copy annotations to what they create, and leave them there when the owner removes hers."""
    job = train(annotations={"maar.dev/hold": "true"})
    if not elastic:
        del job["spec"]["elasticPolicy"]
    group = with_hold(pod_group(), "true")
    picture = shown([job, group, worker(0, grouped=True), worker(1, grouped=True)])
    assert {OnHold.START} == {j.on_hold for j in jobs(picture)}
    picture.put(*decoded(with_hold(job, None)))
    assert {OnHold.NO} == {j.on_hold for j in jobs(picture)}, "what the operator copied does not count"
    picture.put(*decoded(with_hold(job, "true")))
    picture.drop(*next((kind, kind.key_of(item)) for kind, item in [decoded(worker(0))]))
    picture.drop(*next((kind, kind.key_of(item)) for kind, item in [decoded(worker(1))]))
    assert {OnHold.START} == {j.on_hold for j in jobs(picture)}, "also without pods"


def test_stop_lets_maar_suspend_a_job_that_was_created_running() -> None:
    """Its kind can be suspended; afterwards Maar remembers that it may resume it."""
    job = train(annotations={"maar.dev/hold": "stop"})
    del job["spec"]["elasticPolicy"]
    running = [worker(i, nodeName="n1") | {"status": {"phase": "Running"}} for i in range(2)]
    picture = shown([job, *running])
    plan = decide(Snapshot(picture.cluster(picture.take(NOW).around)), CONFIG, NOW)
    assert ["ns/t"] == [s.job for s in plan.suspend]
    picture.put(*decoded(with_hold(job, "true")))
    plan = decide(Snapshot(picture.cluster(picture.take(NOW).around)), CONFIG, NOW)
    assert () == plan.suspend
