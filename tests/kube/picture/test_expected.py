"""Jobs in manifests that have no pods: planned as if their controllers had created them, or skipped with a reason."""

from typing import Any

import pytest
import yaml

from maar.kube.kinds import JOB_KINDS
from maar.kube.picture.manifests import Manifests, read
from maar.kube.wire.errors import ManifestError
from maar.model.tasks import Status

POD = {"spec": {"schedulerName": "maar", "containers": [{"name": "a", "resources": {"limits": {"cpu": 1}}}]}}


def job(api_version: str, kind: str, spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "j", "uid": "u1"}, "spec": spec, **more}


def pods(**roles: int) -> dict[str, Any]:
    return {role: {"replicas": count, "template": POD} for role, count in roles.items()}


def replicated(name: str, replicas: int, size: int, **more: Any) -> dict[str, Any]:
    spec = {"parallelism": size, "completions": size, "template": POD}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **more}


def ray(workers: int) -> dict[str, Any]:
    group = {"groupName": "g", "replicas": workers, "template": POD}
    return {"headGroupSpec": {"template": POD}, "workerGroupSpecs": [group]}


KUBEFLOW = {
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
}
TWO_WORKERS = {"j-worker-0": "ns/j", "j-worker-1": "ns/j"}

CASES: list[tuple[dict[str, Any], dict[str, str]]] = [
    *((job("kubeflow.org/v1", kind, {field: pods(Worker=2)}), TWO_WORKERS) for kind, field in KUBEFLOW.items()),
    (
        job("kubeflow.org/v1", "MPIJob", {"mpiReplicaSpecs": pods(Launcher=1, Worker=2)}),
        {"j-launcher": "ns/j", **TWO_WORKERS},
    ),
    (
        job("kubeflow.org/v2beta1", "MPIJob", {"mpiReplicaSpecs": pods(Launcher=1, Worker=2)}),
        {"j-launcher-0": "ns/j", **TWO_WORKERS},
    ),
    (
        job(
            "kubeflow.org/v2beta1",
            "MPIJob",
            {"launcherCreationPolicy": "WaitForWorkersReady", "mpiReplicaSpecs": pods(Launcher=1, Worker=2)},
        ),
        TWO_WORKERS,
    ),
    (
        job("batch.volcano.sh/v1alpha1", "Job", {"tasks": [{"name": "t", "replicas": 2, "template": POD}]}),
        {"j-t-0": "ns/j", "j-t-1": "ns/j"},
    ),
    (
        job("ray.io/v1", "RayJob", {"rayClusterSpec": ray(2)}),
        {"j-cluster-head": "ns/j", "j-cluster-g-worker-0": "ns/j", "j-cluster-g-worker-1": "ns/j"},
    ),
    (job("ray.io/v1", "RayCluster", ray(1)), {"j-head": "ns/j", "j-g-worker-0": "ns/j"}),
    (
        job("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"replicas": 2, "leaderWorkerTemplate": {"size": 2}}),
        {"j-0": "ns/j-0", "j-0-1": "ns/j-0", "j-1": "ns/j-1", "j-1-1": "ns/j-1"},
    ),
    (
        job(
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            {"startupPolicy": "LeaderReady", "leaderWorkerTemplate": {"size": 3}},
        ),
        {"j-0": "ns/j-0"},
    ),
    (
        job("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [replicated("w", 2, 2)]}),
        {"j-w-0-0": "ns/j", "j-w-0-1": "ns/j", "j-w-1-0": "ns/j", "j-w-1-1": "ns/j"},
    ),
    (
        job(
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            {"replicatedJobs": [replicated("a", 1, 1), replicated("b", 1, 1, dependsOn=[{"name": "a"}])]},
        ),
        {"j-a-0-0": "ns/j"},
    ),
    (job("batch/v1", "Job", {"parallelism": 2, "template": POD}), {"j-0": "ns/j-0", "j-1": "ns/j-1"}),
    (
        job("batch/v1", "Job", {"parallelism": 3, "completions": 4, "template": POD}, status={"succeeded": 3}),
        {"j-0": "ns/j-0"},
    ),
]


def planned(*documents: dict[str, Any], names: frozenset[str] | None = None, tmp: Any) -> Manifests:
    file = tmp / "objects.yaml"
    for document in documents:
        document["metadata"].setdefault("namespace", "ns")
    file.write_text(yaml.safe_dump_all(documents))
    return read([str(file)], names)


@pytest.mark.parametrize(("document", "expected"), CASES, ids=lambda case: case.get("kind", ""))
def test_pods_are_those_of_the_controller(document: dict[str, Any], expected: dict[str, str], tmp_path: Any) -> None:
    found = planned(document, tmp=tmp_path)
    assert expected == {task.key.removeprefix("ns/"): task.job for task in found.cluster.tasks}
    assert {Status.PENDING} == {task.status for task in found.cluster.tasks}
    assert ({"ns/j": len(expected)}, ()) == (found.expected, found.skipped)


def test_every_kind_creates_something_or_says_why_not() -> None:
    there = {(document["apiVersion"].partition("/")[0], document["kind"]) for document, _ in CASES}
    rest = [kind for kind in JOB_KINDS if kind.resource.group_kind not in there]
    assert ["TrainJob"] == [str(kind) for kind in rest]


def test_a_gang_by_its_owner_is_one(tmp_path: Any) -> None:
    found = planned(job("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": pods(Worker=3)}), tmp=tmp_path)
    (gang,) = found.cluster.jobs
    assert ("ns/j", 3) == (gang.key, gang.min_member)


def test_pods_enter_the_group_of_their_job(tmp_path: Any) -> None:
    spec = {"minAvailable": 2, "tasks": [{"name": "t", "replicas": 2, "template": POD}]}
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "u1"}
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "ownerReferences": [owner]},
        "spec": {"minMember": 2},
    }
    found = planned(job("batch.volcano.sh/v1alpha1", "Job", spec), group, tmp=tmp_path)
    assert {"ns/g"} == {task.job for task in found.cluster.tasks}


OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u1", "controller": True}
THERE = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "ownerReferences": [OWNER]},
    "spec": POD["spec"],
}


def test_a_job_that_has_pods_gets_no_more(tmp_path: Any) -> None:
    found = planned(job("batch/v1", "Job", {"parallelism": 2, "template": POD}), dict(THERE), tmp=tmp_path)
    assert (["ns/p"], {}, ()) == ([task.key for task in found.cluster.tasks], found.expected, found.skipped)


def test_a_job_inside_another_counts_once(tmp_path: Any) -> None:
    """Pods of a JobSet name it by label, and the Job between by reference: neither lacks pods."""
    jobset = job("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [replicated("w", 1, 1)]})
    inner = job("batch/v1", "Job", {"parallelism": 1, "template": POD})
    above = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "j", "uid": "u1"}
    inner["metadata"] = {"name": "j-w-0", "uid": "u2", "ownerReferences": [above]}
    labels = {"jobset.sigs.k8s.io/jobset-name": "j", "jobset.sigs.k8s.io/replicatedjob-name": "w"}
    pod = {
        **THERE,
        "metadata": {"name": "p", "labels": labels, "ownerReferences": [{**OWNER, "name": "j-w-0", "uid": "u2"}]},
    }
    found = planned(jobset, inner, pod, tmp=tmp_path)
    assert (["ns/p"], {}) == ([task.key for task in found.cluster.tasks], found.expected)
    pod["metadata"] = {"name": "other"}
    found = planned(jobset, inner, pod, tmp=tmp_path)
    assert ["ns/j-w-0-0", "ns/other"] == sorted(task.key for task in found.cluster.tasks)


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (
            job("trainer.kubeflow.org/v1alpha1", "TrainJob", {}),
            "its JobSet is not in the input, and Maar does not read the training runtime behind it",
        ),
        (job("batch/v1", "Job", {"parallelism": 0, "template": POD}), "it asks for no pods"),
        (job("batch/v1", "Job", {"parallelism": 2**31 - 1, "template": POD}), "it asks for more than 10000 pods"),
        (
            job("batch/v1", "Job", {"parallelism": 2, "template": POD}, status={"active": 2}),
            "its status counts live pods that are not in the input: 2",
        ),
        (
            job(
                "kubeflow.org/v1",
                "PyTorchJob",
                {"runPolicy": {"suspend": True}, "pytorchReplicaSpecs": pods(Worker=2)},
                status={"conditions": [{"type": "Running", "status": "False"}]},
            ),
            "it is suspended, and its owner resumes it",
        ),
        (
            job("ray.io/v1", "RayJob", {"clusterSelector": {"ray.io/cluster": "c"}}),
            "it uses an existing RayCluster (`clusterSelector`)",
        ),
        (
            job("jobset.x-k8s.io/v1alpha2", "JobSet", {"managedBy": "me", "replicatedJobs": [replicated("w", 1, 1)]}),
            "spec.managedBy: another controller creates its pods: `me`",
        ),
        (
            job("batch/v1", "Job", {"template": {"spec": {"schedulerName": "else"}}}),
            "its pods name another scheduler: `else`",
        ),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_a_job_that_cannot_be_planned_says_why(document: dict[str, Any], why: str, tmp_path: Any) -> None:
    found = planned(document, names=frozenset({"maar"}), tmp=tmp_path)
    assert ([(document["kind"], "ns/j", why)], {}) == (
        [(s.kind, s.job, s.why) for s in found.skipped],
        found.expected,
    )
    assert () == found.cluster.tasks


def test_ended_jobs_are_not_planned(tmp_path: Any) -> None:
    done = {"conditions": [{"type": "Complete", "status": "True"}]}
    found = planned(job("batch/v1", "Job", {"template": POD}, status=done), tmp=tmp_path)
    assert ((), {}, ()) == (found.cluster.tasks, found.expected, found.skipped)


def test_a_name_that_is_taken(tmp_path: Any) -> None:
    taken = {**THERE, "metadata": {"name": "j-0"}}
    found = planned(job("batch/v1", "Job", {"template": POD}), taken, tmp=tmp_path)
    assert ["another pod has the name of one of its pods: `ns/j-0`"] == [s.why for s in found.skipped]


def test_a_template_that_cannot_be_read_says_where(tmp_path: Any) -> None:
    bad = {"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": "many"}}}]}}
    with pytest.raises(ManifestError, match=r"objects.yaml: document 1: template.spec.containers\[0\].*`many`"):
        planned(job("batch/v1", "Job", {"template": bad}), tmp=tmp_path)


def test_elastic_jobs_are_planned_without_pods(tmp_path: Any) -> None:
    spec = {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 2}, "pytorchReplicaSpecs": pods(Worker=2)}
    found = planned(job("kubeflow.org/v1", "PyTorchJob", spec), tmp=tmp_path)
    assert (["ns/j"], (), {}, ()) == (
        [j.key for j in found.cluster.jobs if j.elastic is not None],
        found.cluster.tasks,
        found.expected,
        found.skipped,
    )
