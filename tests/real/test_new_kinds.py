"""The kinds of KubeRay, LeaderWorkerSet, JobSet and Kubeflow Trainer, on a real API server with their own CRDs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.real.api import Refused
from tests.support.real.cluster import RealCluster
from tests.support.real.parts import available, folders

PARTS = ("kuberay", "lws", "jobset", "trainer")
RAY = "ray.io/v1"
LWS = "leaderworkerset.x-k8s.io/v1"
JOBSET = "jobset.x-k8s.io/v1alpha2"
TRAINER = "trainer.kubeflow.org/v1alpha1"
INT32_MAX = 2147483647


@pytest.fixture(scope="module")
def served(real: RealCluster) -> RealCluster:
    """The real API server, with the CRDs of all new kinds."""
    if not (found := available(*PARTS)):
        if os.environ.get("MAAR_REAL"):
            pytest.fail(found.why_not)
        pytest.skip(found.why_not)
    homes = folders()
    real.apply_files(path for part in PARTS for path in sorted(homes[part].glob("*.yaml")))
    return real


@pytest.fixture
def cluster(served: RealCluster) -> Iterator[RealCluster]:
    yield served
    served.clear()


def template(**spec: Any) -> dict[str, Any]:
    """A pod template with one container."""
    return {"spec": {"containers": [{"name": "main", "image": "example.com/main:1"}], **spec}}


def ray_spec(**group: Any) -> dict[str, Any]:
    """A head and one group of workers."""
    workers = {"groupName": "workers", "template": template(), **group}
    return {"headGroupSpec": {"template": template()}, "workerGroupSpecs": [workers]}


def thing(api_version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "one"}, "spec": spec}


def replicated(name: str, **fields: Any) -> dict[str, Any]:
    """One of a JobSet's replicated jobs."""
    return {"name": name, "template": {"spec": {"template": template(restartPolicy="Never")}}, **fields}


def applied(cluster: RealCluster, api_version: str, kind: str, spec: dict[str, Any]) -> Any:
    """The spec of a new object as the server keeps it."""
    (kept,) = cluster.apply([thing(api_version, kind, spec)])
    return kept["spec"]


def test_a_worker_group_without_bounds_gets_bounds_that_say_nothing(cluster: RealCluster) -> None:
    (group,) = applied(cluster, RAY, "RayCluster", ray_spec())["workerGroupSpecs"]
    expected = {"replicas": 0, "minReplicas": 0, "maxReplicas": INT32_MAX, "numOfHosts": 1}
    assert expected == {name: group[name] for name in expected}


def test_a_ray_job_is_submitted_by_a_job_unless_it_says_otherwise(cluster: RealCluster) -> None:
    spec = applied(cluster, RAY, "RayJob", {"entrypoint": "python train.py", "rayClusterSpec": ray_spec(replicas=3)})
    assert ("K8sJobMode", 0) == (spec["submissionMode"], spec["backoffLimit"])
    (group,) = spec["rayClusterSpec"]["workerGroupSpecs"]
    assert (3, 0, INT32_MAX) == (group["replicas"], group["minReplicas"], group["maxReplicas"])


def test_a_leader_worker_set_is_one_group_of_one_pod_by_default(cluster: RealCluster) -> None:
    spec = applied(cluster, LWS, "LeaderWorkerSet", {"leaderWorkerTemplate": {"workerTemplate": template()}})
    size = spec["leaderWorkerTemplate"]["size"]
    assert (1, 1, "LeaderCreated") == (spec["replicas"], size, spec["startupPolicy"])


def test_a_job_set_keeps_what_its_jobs_wait_for(cluster: RealCluster) -> None:
    after = [{"name": "first", "status": "Complete"}]
    jobs = [replicated("first"), replicated("second", dependsOn=after)]
    spec = applied(cluster, JOBSET, "JobSet", {"replicatedJobs": jobs})
    assert [1, 1] == [job["replicas"] for job in spec["replicatedJobs"]]
    assert [None, after] == [job.get("dependsOn") for job in spec["replicatedJobs"]]


def test_a_job_set_waits_in_one_way_only(cluster: RealCluster) -> None:
    jobs = [replicated("first"), replicated("second", dependsOn=[{"name": "first", "status": "Ready"}])]
    in_order = {"replicatedJobs": jobs, "startupPolicy": {"startupPolicyOrder": "InOrder"}}
    with pytest.raises(Refused, match="DependsOn"):
        cluster.apply([thing(JOBSET, "JobSet", in_order)])


def test_a_train_job_names_a_runtime_of_the_cluster_by_default(cluster: RealCluster) -> None:
    spec = applied(cluster, TRAINER, "TrainJob", {"runtimeRef": {"name": "one"}, "trainer": {"numNodes": 4}})
    reference = {"apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime", "name": "one"}
    assert (reference, False) == (spec["runtimeRef"], spec["suspend"])


@pytest.mark.parametrize(
    ("api_version", "kind", "spec"),
    [
        pytest.param(RAY, "RayCluster", ray_spec(), id="RayCluster"),
        pytest.param(RAY, "RayJob", {"rayClusterSpec": ray_spec()}, id="RayJob"),
        pytest.param(JOBSET, "JobSet", {"replicatedJobs": [replicated("first")]}, id="JobSet"),
        pytest.param(TRAINER, "TrainJob", {"runtimeRef": {"name": "one"}}, id="TrainJob"),
    ],
)
def test_it_can_be_suspended_by_a_merge_patch(
    cluster: RealCluster, api_version: str, kind: str, spec: dict[str, Any]
) -> None:
    cluster.apply([thing(api_version, kind, spec)])
    path = f"/apis/{api_version}/namespaces/default/{kind.lower()}s/one"
    for suspend in (True, False):
        patch = {"spec": {"suspend": suspend}}
        cluster.request("PATCH", path, patch, content_type="application/merge-patch+json")
        assert suspend == cluster.get(api_version, kind, "one")["spec"]["suspend"]
