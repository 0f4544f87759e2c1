"""KubeRay, LeaderWorkerSet, JobSet and Trainer: from the JSON of objects and pods to gangs, and to requests."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.new_kinds import (
    INDEX,
    Json,
    batch_job,
    group_pod,
    in_group,
    job_set,
    job_set_pods,
    leader_worker_set,
    owned,
    pod,
    pod_group,
    ray_cluster,
    ray_job,
    ray_pod,
    replicated,
    train_job,
    worker_group,
)
from tests.support.objects import decoded, from_scratch

from maar.kube.kinds import index, role
from maar.kube.kinds.elastic import Kept, write_kept
from maar.kube.kinds.kind import COMPLETED, FAILED, JobKind, Request, WantedState
from maar.kube.kinds.leaderworkerset import FIRST
from maar.kube.picture.picture import Picture
from maar.model.jobs import Job
from maar.model.snapshot import Cluster

MAAR = frozenset({"maar"})
NOW = 1000.0
BOUNDS = {"annotations": {"maar.dev/min-workers": "1", "maar.dev/max-workers": "4"}}
INITIALIZERS = ("data", "model")


def read(*items: Json) -> Cluster:
    return from_scratch(items, MAAR, NOW)


def gangs(*items: Json) -> dict[str, tuple[int, set[str]]]:
    """The minimum and the pods of each job, without the namespace."""
    cluster = read(*items)
    found: dict[str, tuple[int, set[str]]] = {
        job.key.partition("/")[2]: (job.min_member, set()) for job in cluster.jobs
    }
    for task in cluster.tasks:
        found[task.job.partition("/")[2]][1].add(task.key.partition("/")[2])
    return found


def job(name: str, *items: Json) -> Job:
    (found,) = (job for job in read(*items).jobs if job.key == f"default/{name}")
    return found


def numbered(*pods: Json) -> list[tuple[str, int]]:
    """The role and the index of each pod."""
    items = [decoded(item)[1] for item in pods if item["kind"] == "Pod"]
    return [(role(item), index(item)) for item in items]


def ended(item: Json) -> str | None:
    kind, made = decoded(item)
    assert isinstance(kind, JobKind)
    end = kind.end_of(made)
    return None if end is None else end.how


def body_of(request: Request) -> Any:
    return request.body


def written(item: Json, *, size: int | None = None, suspended: bool = False, made: Json | None = None) -> Request:
    """The request that gives an object another state."""
    kind, owner = decoded(item)
    assert isinstance(kind, JobKind)
    assert kind.write is not None
    was = kind.elastic(owner, None if made is None else decoded(made)[1], MAAR)
    assert was is not None
    wanted = WantedState(was.size if size is None else size, suspended, Kept(requested=2, running=True))
    (request,) = kind.write(owner, kind.resource, was, wanted)
    return request


# -- RayCluster


def test_a_ray_clusters_head_and_workers_are_one_gang() -> None:
    cluster = ray_cluster(worker_group("a", 2), worker_group("b", 1, numOfHosts=2))
    pods = [ray_pod(cluster, "head"), ray_pod(cluster, "a-worker-x7k2p", "a"), ray_pod(cluster, "b-worker-9mmzz", "b")]
    assert {"ray": (5, {p["metadata"]["name"] for p in pods})} == gangs(cluster, *pods)
    assert [("headgroup", 0), ("a", 0), ("b", 0)] == numbered(*pods)


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        pytest.param({"replicas": 5, "maxReplicas": 3}, 3, id="too-many"),
        pytest.param({"replicas": 1, "minReplicas": 2}, 2, id="too-few"),
        pytest.param({"replicas": 1, "minReplicas": 4, "maxReplicas": 3}, 3, id="the-larger-bound-wins"),
        pytest.param({"replicas": 2, "numOfHosts": 4}, 8, id="hosts"),
        pytest.param({"replicas": 2, "numOfHosts": 0}, 2, id="no-hosts-are-one"),
        pytest.param({"replicas": 2, "suspend": True}, 0, id="suspended"),
        pytest.param({"replicas": 0}, 0, id="none"),
    ],
)
def test_a_worker_group_counts_as_its_operator_counts_it(group: Json, expected: int) -> None:
    cluster = ray_cluster({**worker_group("a", 0), **group})
    assert {"ray": (1 + expected, {"ray-head"})} == gangs(cluster, ray_pod(cluster, "head"))


def test_an_autoscaled_ray_cluster_needs_what_it_has_at_least() -> None:
    group = worker_group("a", 5, minReplicas=2, maxReplicas=9, numOfHosts=2)
    cluster = ray_cluster(group, enableInTreeAutoscaling=True, metadata=BOUNDS)
    assert {"ray": (5, {"ray-head"})} == gangs(cluster, ray_pod(cluster, "head"))
    assert job("ray", cluster, ray_pod(cluster, "head")).elastic is None


def test_the_pod_that_cleans_up_after_a_ray_cluster_is_alone() -> None:
    cluster = ray_cluster(worker_group("a", 1))
    cleanup = batch_job("ray-redis-cleanup", cluster)
    labels = {"ray.io/cluster": "ray", "ray.io/node-type": "redis-cleanup"}
    assert {"clean": (1, {"clean"})} == gangs(cluster, cleanup, pod("clean", cleanup, labels))


def test_a_ray_cluster_with_both_annotations_is_elastic() -> None:
    made = job("ray", ray_cluster(worker_group("a", 2), metadata=BOUNDS))
    assert made.elastic is not None
    assert (1, 4, 2, "a") == (made.elastic.min, made.elastic.max, made.elastic.size, made.elastic.role)
    assert (2, {"a": 1, "headgroup": 1}) == (made.min_member, made.role_min)


@pytest.mark.parametrize(
    "cluster",
    [
        pytest.param(ray_cluster(worker_group("a", 2, minReplicas=1, maxReplicas=4)), id="bounds-of-its-group-only"),
        pytest.param(
            ray_cluster(worker_group("a", 2), metadata={"annotations": {"maar.dev/min-workers": "1"}}),
            id="one-annotation-only",
        ),
        pytest.param(ray_cluster(worker_group("a", 2), worker_group("b", 1), metadata=BOUNDS), id="two-groups"),
        pytest.param(ray_cluster(metadata=BOUNDS), id="no-group"),
        pytest.param(ray_cluster(worker_group("a", 2, numOfHosts=2), metadata=BOUNDS), id="several-hosts"),
        pytest.param(ray_cluster(worker_group("a", 2), metadata=BOUNDS, enableInTreeAutoscaling=True), id="autoscaled"),
        pytest.param(
            ray_cluster(worker_group("a", 2), metadata=BOUNDS, managedBy="kueue.x-k8s.io/multikueue"), id="elsewhere"
        ),
    ],
)
def test_no_other_ray_cluster_is_elastic(cluster: Json) -> None:
    assert job("ray", cluster, ray_pod(cluster, "head")).elastic is None


def test_the_bounds_of_a_worker_group_limit_what_maar_writes() -> None:
    cluster = ray_cluster(worker_group("a", 2, minReplicas=2, maxReplicas=3), metadata=BOUNDS)
    elastic = job("ray", cluster).elastic
    assert elastic is not None
    assert (2, 3) == (elastic.min, elastic.max)
    narrow = ray_cluster(worker_group("a", 0, maxReplicas=0), metadata=BOUNDS)
    assert (
        "spec.workerGroupSpecs[0].maxReplicas: expected at least the minimum of 1, got `0`" == job("ray", narrow).broken
    )


def test_a_ray_cluster_is_resized_by_a_json_patch_of_its_only_group() -> None:
    cluster = ray_cluster(worker_group("a", 2), metadata={**BOUNDS, "uid": "u", "resourceVersion": "7"})
    request = written(cluster, size=3)
    assert ("json", "/apis/ray.io/v1/namespaces/default/rayclusters/ray") == (request.patch, request.path)
    assert [
        {"op": "test", "path": "/metadata/uid", "value": "u"},
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "add", "path": "/spec/workerGroupSpecs/0/replicas", "value": 3},
        {
            "op": "add",
            "path": "/metadata/annotations/maar.dev~1elastic",
            "value": write_kept(Kept(requested=2, running=True)),
        },
    ] == request.body


def test_a_ray_cluster_is_resumed_by_writing_false() -> None:
    cluster = ray_cluster(worker_group("a", 2), suspend=True)
    made = job("ray", cluster)
    assert made.elastic is not None
    assert made.elastic.suspended
    assert (3, 2, 2) == (made.min_member, made.elastic.min, made.elastic.max)
    body: Any = written(cluster, suspended=False).body
    assert {"op": "add", "path": "/spec/suspend", "value": False} in body
    running = ray_cluster(worker_group("a", 2), metadata=BOUNDS)
    body = written(running, suspended=True).body
    assert {"op": "add", "path": "/spec/suspend", "value": True} in body


def test_a_suspended_ray_cluster_without_workers_is_its_head() -> None:
    elastic = job("ray", ray_cluster(worker_group("a", 0), suspend=True)).elastic
    assert elastic is not None
    assert ("headgroup", 1, ()) == (elastic.role, elastic.size, elastic.beside)


def test_a_ray_cluster_that_its_owner_suspended_is_left_alone() -> None:
    cluster = ray_cluster(worker_group("a", 2), suspend=True)
    assert () == read({**cluster, "status": {"stateTransitionTimes": {"ready": "2026-01-01T00:00:00Z"}}}).jobs


# -- RayJob


def nested(**spec: Any) -> tuple[Json, Json]:
    """A RayJob and its RayCluster, which inherits the annotations."""
    outer = ray_job(worker_group("a", 2), metadata=BOUNDS, **spec)
    return outer, ray_cluster(worker_group("a", 2), name="job-x2v5l", metadata={**BOUNDS, **owned(outer)})


def test_a_ray_jobs_cluster_is_its_gang_and_the_submitter_is_alone() -> None:
    outer, cluster = nested()
    submits = batch_job("job", outer)
    submitter = pod("job-submitter", submits, {"batch.kubernetes.io/job-name": "job"})
    pods = [ray_pod(cluster, "head"), ray_pod(cluster, "a-worker-b", "a"), submitter]
    expected = {"job": (3, {"job-x2v5l-head", "job-x2v5l-a-worker-b"}), "job-submitter": (1, {"job-submitter"})}
    assert expected == gangs(outer, cluster, submits, *pods)


def test_neither_a_running_ray_job_nor_its_cluster_is_elastic() -> None:
    outer, cluster = nested(shutdownAfterJobFinishes=True)
    assert [None] == [job.elastic for job in read(outer, cluster, ray_pod(cluster, "head")).jobs]


def test_an_inner_object_is_not_ours_to_write_while_its_owner_has_not_been_seen() -> None:
    _, cluster = nested()
    assert [("default/job-x2v5l", None)] == [(j.key, j.elastic) for j in read(cluster, ray_pod(cluster, "head")).jobs]


def test_a_ray_job_in_the_cluster_of_another_has_no_gang() -> None:
    cluster = ray_cluster(worker_group("a", 1))
    outer = ray_job(clusterSelector={"ray.io/cluster": "ray"}, rayClusterSpec=None, suspend=True)
    submits = batch_job("job", outer)
    found = gangs(outer, cluster, submits, pod("submitter", submits, {}), ray_pod(cluster, "head"))
    assert {"ray": (2, {"ray-head"}), "submitter": (1, {"submitter"})} == found


def test_a_ray_job_is_resumed_only_if_it_survives_being_suspended() -> None:
    assert () == read(ray_job(worker_group("a", 2), suspend=True)).jobs
    safe = ray_job(worker_group("a", 2), suspend=True, shutdownAfterJobFinishes=True, metadata=BOUNDS)
    made = job("job", safe)
    assert made.elastic is not None
    assert (3, 2, 2) == (made.min_member, made.elastic.min, made.elastic.max)
    request = written(safe, suspended=False)
    assert ("merge", {"suspend": False}) == (request.patch, body_of(request)["spec"])


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}, COMPLETED),
        ({"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"}, FAILED),
        ({"jobDeploymentStatus": "Failed"}, FAILED),
        ({"jobDeploymentStatus": "ValidationFailed"}, FAILED),
        ({"jobDeploymentStatus": "Retrying", "jobStatus": "FAILED"}, None),
        ({}, None),
    ],
)
def test_how_a_ray_job_ends(status: Json, expected: str | None) -> None:
    assert expected == ended({**ray_job(worker_group("a", 1)), "status": status})


def test_kuberays_pod_group_is_the_gang_and_the_submitter_is_surplus() -> None:
    outer, cluster = nested()
    submits, annotations = batch_job("job", outer), in_group("ray-job-pg")
    pods = [
        ray_pod(cluster, "head", annotations=annotations),
        pod("submitter", submits, {}, annotations={**annotations, "volcano.sh/task-spec": "submittergroup"}),
    ]
    found = gangs(outer, cluster, submits, pod_group("ray-job-pg", 3, outer), *pods)
    assert {"ray-job-pg": (3, {"job-x2v5l-head", "submitter"})} == found


def test_kuberays_pod_group_stands_for_an_elastic_ray_cluster() -> None:
    cluster = ray_cluster(worker_group("a", 4), metadata=BOUNDS)
    made = job("ray-ray-pg", cluster, pod_group("ray-ray-pg", 5, cluster))
    assert made.elastic is not None
    assert (2, 4) == (made.min_member, made.elastic.size)


# -- LeaderWorkerSet


def test_each_group_of_a_leader_worker_set_is_a_gang() -> None:
    pods = [group_pod(g, i) for g in range(2) for i in range(3)]
    expected = {f"serve-{g}": (3, {f"serve-{g}", f"serve-{g}-1", f"serve-{g}-2"}) for g in range(2)}
    assert expected == gangs(leader_worker_set(2, 3), *pods)
    assert [("leader", 0), ("worker", 1), ("worker", 2)] == numbered(*pods[:3])


@pytest.mark.parametrize(
    "leads",
    [
        {"startupPolicy": "LeaderReady"},
        {"metadata": {"annotations": {"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"}}},
    ],
    ids=["leader-ready", "exclusive"],
)
def test_a_leader_that_goes_first_is_a_gang_and_its_workers_are_another(leads: Json) -> None:
    pods = [group_pod(0, i) for i in range(3)]
    expected = {"serve-0": (1, {"serve-0"}), "serve-0-workers": (2, {"serve-0-1", "serve-0-2"})}
    assert expected == gangs(leader_worker_set(1, 3, **leads), *pods)


def test_the_groups_that_an_update_adds_are_gangs_too() -> None:
    surge = {"rolloutStrategy": {"rollingUpdateConfiguration": {"maxSurge": "50%"}}}
    assert {"serve-1": (3, {"serve-1"})} == gangs(leader_worker_set(1, 3, **surge), group_pod(1, 0))


def test_a_leader_worker_set_gets_notes_and_is_never_resized() -> None:
    kind, item = decoded(leader_worker_set(1, 3, metadata=BOUNDS))
    assert isinstance(kind, JobKind)
    assert (None, None, None) == (kind.elastic(item, None, MAAR), kind.end(item), kind.write)


MANY_GROUPS = 2_000_000_000


def test_a_leader_worker_set_of_very_many_groups_states_few_gangs_at_once() -> None:
    kind, item = decoded(leader_worker_set(MANY_GROUPS, 3, startupPolicy="LeaderReady"))
    assert isinstance(kind, JobKind)
    assert 2 * FIRST == sum(1 for _ in kind.gangs(item))


@pytest.mark.parametrize("group", [FIRST - 1, FIRST, MANY_GROUPS - 1])
def test_a_group_of_very_many_is_a_gang_while_it_has_pods(group: int) -> None:
    pods = [group_pod(group, i) for i in range(2)]
    assert {f"serve-{group}": (3, {f"serve-{group}", f"serve-{group}-1"})} == gangs(
        leader_worker_set(MANY_GROUPS, 3), *pods
    )
    expected = {f"serve-{group}": (1, {f"serve-{group}"}), f"serve-{group}-workers": (2, {f"serve-{group}-1"})}
    assert expected == gangs(leader_worker_set(MANY_GROUPS, 3, startupPolicy="LeaderReady"), *pods)


def test_a_group_that_there_is_not_is_as_large_as_its_pods() -> None:
    assert {"serve-40": (1, {"serve-40"})} == gangs(leader_worker_set(40, 3), group_pod(40, 0))


def test_a_change_of_a_leader_worker_set_reaches_groups_that_are_not_kept() -> None:
    picture = Picture(MAAR, settling=None)
    for item in (leader_worker_set(100, 3), *(group_pod(g, i) for g in (1, 50) for i in range(3))):
        picture.put(*decoded(item))
    assert {"default/serve-1": 3, "default/serve-50": 3} == minimums(picture)
    picture.put(*decoded(leader_worker_set(100, 2)))
    assert {"default/serve-1": 2, "default/serve-50": 2} == minimums(picture)
    picture.put(*decoded(leader_worker_set(50, 4)))
    assert {"default/serve-1": 4, "default/serve-50": 3} == minimums(picture)


def test_a_pod_group_of_a_leader_worker_set_is_passed_over_for_groups_that_are_not_kept() -> None:
    made = leader_worker_set(100, 3)
    pods = [{**p, "metadata": {**p["metadata"], "annotations": in_group("serve")}} for p in [group_pod(50, 0)]]
    items = [pod_group("serve", 300, made), made, *pods]
    assert {"serve-50": (3, {"serve-50"})} == gangs(*items)
    picture = Picture(MAAR, settling=None)
    for item in reversed(items):
        picture.put(*decoded(item))
        picture.read_short()
        picture.take(NOW)
    assert {"default/serve-50": 3} == minimums(picture, everything=True)


def minimums(picture: Picture, everything: bool = False) -> dict[str, int]:
    """The minimum of each job that changed, or of each."""
    update = picture.take(NOW)
    if everything:
        return {job.key: job.min_member for job in picture.cluster(update.around).jobs}
    return {key: made[0].min_member for key, made in update.changed.items() if made is not None}


# -- JobSet


def test_replicated_jobs_that_start_together_are_one_gang_with_numbered_pods() -> None:
    made = job_set(replicated("driver"), replicated("workers", 2, 3))
    items = [*job_set_pods(made, "driver"), *job_set_pods(made, "workers")]
    pods = [item for item in items if item["kind"] == "Pod"]
    assert {"set": (7, {p["metadata"]["name"] for p in pods})} == gangs(made, *items)
    assert [("driver", 0)] == numbered(*pods[:1])
    assert {("workers", i) for i in range(6)} == set(numbered(*pods[1:]))


@pytest.mark.parametrize(
    "made",
    [
        job_set(*map(replicated, INITIALIZERS), replicated("node", 1, 2, *INITIALIZERS)),
        job_set(replicated("model"), replicated("node", 1, 2), startupPolicy={"startupPolicyOrder": "InOrder"}),
    ],
    ids=["dependsOn", "InOrder"],
)
def test_a_replicated_job_that_waits_is_a_gang_of_its_own(made: Json) -> None:
    first = [job["name"] for job in made["spec"]["replicatedJobs"] if job["name"] != "node"]
    pods = [p for role in (*first, "node") for p in job_set_pods(made, role)]
    expected = {"set": (len(first), {f"set-{r}-0-0" for r in first}), "set-node": (2, {"set-node-0-0", "set-node-0-1"})}
    assert expected == gangs(made, *pods)


@pytest.mark.parametrize("where", ["set", "job"])
def test_with_exclusive_placement_the_first_pod_of_each_job_goes_first(where: str) -> None:
    notes = {"annotations": {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}}
    on_job = {"metadata": notes} if where == "job" else {}
    made = job_set(replicated("w", 2, 3, **on_job), metadata=notes if where == "set" else {})
    leaders, followers = {"set-w-0-0", "set-w-1-0"}, {f"set-w-{i}-{k}" for i in (0, 1) for k in (1, 2)}
    assert {"set": (2, leaders), "set-w-followers": (4, followers)} == gangs(made, *job_set_pods(made, "w"))
    notes["annotations"]["alpha.jobset.sigs.k8s.io/node-selector"] = "true"
    assert {"set": (6, leaders | followers)} == gangs(made, *job_set_pods(made, "w"))


def test_a_suspended_job_set_waits_as_a_whole_and_keeps_its_size() -> None:
    made = job_set(replicated("driver"), replicated("workers", 2, 2), suspend=True, metadata=BOUNDS)
    found = job("set", made)
    assert found.elastic is not None
    assert (5, 4, 4, "workers") == (found.min_member, found.elastic.min, found.elastic.max, found.elastic.role)
    assert {"suspend": False} == body_of(written(made, suspended=False))["spec"]


def test_a_job_set_that_is_resumed_goes_on_with_the_part_that_has_not_completed() -> None:
    jobs = (replicated("data"), replicated("node", 1, 2, "data"))
    status = {"replicatedJobsStatus": [{"name": "data", "succeeded": 1}, {"name": "node", "suspended": 1}]}
    made = job_set(*jobs, suspend=True, status=status)
    assert ["default/set-node"] == [job.key for job in read(made).jobs]
    elastic = job("set-node", made).elastic
    assert elastic is not None
    assert (2, True) == (elastic.size, elastic.suspended)
    assert (
        ()
        == read(
            {**made, "status": {"replicatedJobsStatus": [{"name": n, "succeeded": 1} for n in ("data", "node")]}}
        ).jobs
    )


def test_a_job_set_of_another_controller_is_left_alone() -> None:
    assert () == read(job_set(replicated("w"), suspend=True, managedBy="kueue.x-k8s.io/multikueue")).jobs


# -- TrainJob


def trained(*jobs: Json, **spec: Any) -> tuple[Json, Json]:
    """A TrainJob and the JobSet that it made."""
    outer = train_job(metadata={"annotations": {"maar.dev/max-runtime": "1h"}}, **spec)
    return outer, job_set(*jobs, metadata=owned(outer), suspend=spec.get("suspend", False))


def test_a_train_jobs_gangs_are_those_of_its_job_set() -> None:
    outer, inner = trained(*map(replicated, INITIALIZERS), replicated("node", 1, 2, *INITIALIZERS))
    pods = [p for role in (*INITIALIZERS, "node") for p in job_set_pods(inner, role)]
    nodes = {"set-node-0-0", "set-node-0-1"}
    assert {"set": (2, {"set-data-0-0", "set-model-0-0"}), "set-node": (2, nodes)} == gangs(outer, inner, *pods)
    cluster = read(outer, inner, *pods)
    assert {"uid-TrainJob-set"} == {job.uid for job in cluster.jobs}
    assert {3600.0} == {job.promise for job in cluster.jobs if job.promise is not None}


def test_a_suspended_train_job_is_resumed_by_itself_only() -> None:
    outer, inner = trained(replicated("node", 1, 4), suspend=True)
    found = job("set", outer, inner)
    assert found.elastic is not None
    assert (4, "node", True) == (found.min_member, found.elastic.role, found.elastic.suspended)
    picture = Picture(MAAR, settling=None)
    for item in (outer, inner):
        picture.put(*decoded(item))
    picture.take(NOW)
    elastic = picture.elastic_job("default/set")
    assert elastic is not None
    assert ("TrainJob", "uid-TrainJob-set") == (str(elastic.kind), elastic.item.metadata.uid)
    request = written(outer, suspended=False, made=inner)
    assert "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs/set" == request.path
    assert {"suspend": False} == body_of(request)["spec"]


def test_whether_a_train_job_is_suspended_is_known_before_it_has_a_job_set() -> None:
    outer, _ = trained(suspend=True)
    kind, item = decoded(outer)
    assert isinstance(kind, JobKind)
    assert kind.is_suspended(item)
    assert () == read(outer).jobs


def test_a_train_job_that_goes_leaves_its_job_set_to_itself() -> None:
    outer, inner = trained(replicated("node", 1, 2), suspend=False)
    pods = list(job_set_pods(inner, "node"))
    picture = Picture(MAAR, settling=None)
    for item in (outer, inner, *pods):
        picture.put(*decoded(item))
    picture.take(NOW)
    kind, made = decoded(outer)
    picture.drop(kind, kind.key_of(made))
    cluster = picture.cluster(picture.take(NOW).around)
    assert ["uid-JobSet-set"] == [job.uid for job in cluster.jobs]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"type": "Complete", "status": "True"}, COMPLETED),
        ({"type": "Failed", "status": "True", "reason": "JobFailed"}, FAILED),
        ({"type": "Failed", "status": "True", "reason": "TrainingRuntimeNotSupported"}, None),
        ({"type": "Complete", "status": "False"}, None),
        ({"type": "Suspended", "status": "True"}, None),
    ],
)
def test_how_a_train_job_ends(condition: Json, expected: str | None) -> None:
    assert expected == ended({**train_job(), "status": {"conditions": [condition]}})


def test_trainers_pod_group_of_a_job_in_parts_is_passed_over() -> None:
    """It counts pods that cannot exist yet: its minimum would never be reached."""
    outer, inner = trained(replicated("data"), replicated("node", 1, 2, "data"))
    group, notes = pod_group("set", 3, outer), {"annotations": in_group("set")}
    data, nodes = list(job_set_pods(inner, "data", **notes)), list(job_set_pods(inner, "node", **notes))
    assert {"set": (1, {"set-data-0-0"})} == gangs(outer, inner, group, *data)
    assert {"set-node": (2, {"set-node-0-0", "set-node-0-1"})} == gangs(outer, inner, group, *nodes)


def test_trainers_pod_group_of_a_job_in_one_part_is_the_gang() -> None:
    outer, inner = trained(replicated("node", 1, 2))
    pods = list(job_set_pods(inner, "node", annotations=in_group("set")))
    cluster = read(outer, inner, pod_group("set", 2, outer), *pods)
    assert [("default/set", "uid-PodGroup-set", 2)] == [(job.key, job.uid, job.min_member) for job in cluster.jobs]


def test_pods_of_a_plain_job_keep_their_completion_index() -> None:
    plain = batch_job("plain", train_job(name="other"))
    assert [("", 7)] == numbered(pod("plain-7-abcde", plain, {INDEX: "7"}))
