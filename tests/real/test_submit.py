"""The training service on a real API server with the real training operator: by the rights of its caller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.support.elastic_story import CONFIG
from tests.support.live import GPU, OUR_CRDS
from tests.support.patience import wait_until
from tests.support.real.cluster import RealCluster
from tests.support.real.parts import available
from tests.support.real.training_operator import start_training_operator
from tests.support.scheduler import Child

from maar.cli.main import main
from maar.config.file import default_text

OWNER, STRANGER, TEAM = "owner", "stranger", "team"
RBAC = "rbac.authorization.k8s.io"
JOB = ("kubeflow.org/v1", "PyTorchJob")
MANIFEST = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: train, namespace: team}
spec:
  elasticPolicy: {minReplicas: 1, maxReplicas: 4, rdzvBackend: c10d}
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      restartPolicy: OnFailure
      template:
        spec: {containers: [{name: pytorch, image: train, resources: {limits: {nvidia.com/gpu: 1}}}]}
"""


POOL = "maar.dev/accelerator"
POOLS = f"""
- name: a100
  nodes: {{{POOL}: a100}}
- name: h100
  nodes: {{{POOL}: h100}}
"""
GANG = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: wide, namespace: team}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 10
      restartPolicy: OnFailure
      template:
        spec: {containers: [{name: pytorch, image: train, resources: {limits: {nvidia.com/gpu: 8}}}]}
"""


@pytest.fixture
def cluster(real_parts: None, tmp_path: Path) -> Iterator[RealCluster]:
    """A cluster with one node, the training operator, Maar, and two users: one has rights in `team`, one has none."""
    with running(tmp_path, CONFIG, [node()]) as made:
        yield made


@pytest.fixture
def two_pools(real_parts: None, tmp_path: Path) -> Iterator[RealCluster]:
    """The same, with the demo's two pools of six nodes each."""
    nodes = [node(f"{pool}-{i}", {POOL: pool}) for pool in ("a100", "h100") for i in range(6)]
    with running(tmp_path, default_text() + POOLS.lstrip(), nodes) as made:
        yield made


@contextmanager
def running(tmp_path: Path, text: str, nodes: list[dict[str, Any]]) -> Iterator[RealCluster]:
    if not (found := available("training-operator")):
        pytest.skip(found.why_not)
    config = tmp_path / "maar.yaml"
    config.write_text(text)
    with RealCluster(users={OWNER: [], STRANGER: []}) as made:
        made.start_kwok()
        start_training_operator(made)
        made.apply_files(sorted(OUR_CRDS.glob("*.yaml")))
        # Last: the garbage collector looks for new kinds only every 30 seconds.
        made.start_controller_manager(("garbage-collector-controller",))
        made.apply([*rights(), *nodes])
        options = ["--config", str(config), "--no-leader-elect", "--history", "none"]
        child = Child(made.kubeconfig, tmp_path / "maar.log", *options)
        try:
            yield made
        finally:
            child.end()


def rights() -> list[dict[str, Any]]:
    rules = [
        {"apiGroups": ["kubeflow.org"], "resources": ["pytorchjobs"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
    ]
    about = {"name": "trains", "namespace": TEAM}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}},
        {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": about, "rules": rules},
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": about,
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "trains"},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": OWNER}],
        },
    ]


def node(name: str = "n0", labels: dict[str, str] | None = None) -> dict[str, Any]:
    has = {"cpu": "32", "memory": "256Gi", "pods": "110", GPU: "8"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    status = {"allocatable": has, "capacity": has, "conditions": [ready]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels or {}}, "status": status}


def maar(cluster: RealCluster, user: str, *arguments: str, given: str | None = None) -> Result:
    args = [*arguments, "--kubeconfig", str(cluster.kubeconfig_of(user))]
    return CliRunner().invoke(main, args, input=given, catch_exceptions=False)


def refused(cluster: RealCluster, *arguments: str, given: str | None = None) -> None:
    result = maar(cluster, STRANGER, *arguments, given=given)
    assert (3, "") == (result.exit_code, result.stdout)
    assert f"to `{STRANGER}`" in result.stderr, result.stderr


def done(cluster: RealCluster, *arguments: str, given: str | None = None) -> str:
    result = maar(cluster, OWNER, *arguments, given=given)
    assert 0 == result.exit_code, result.stderr
    return result.stdout


def workers(cluster: RealCluster) -> int:
    pods = cluster.objects("v1", "Pod", TEAM)
    return sum(bool(pod["spec"].get("nodeName")) and "deletionTimestamp" not in pod["metadata"] for pod in pods)


def jobs(cluster: RealCluster) -> list[Any]:
    return cluster.objects(*JOB, TEAM)


@pytest.mark.slow
def test_a_job_is_created_held_resized_and_cancelled_by_the_rights_of_its_caller(cluster: RealCluster) -> None:
    # 1. A caller without rights creates nothing.
    refused(cluster, "submit", "-f", "-", given=MANIFEST)
    assert [] == jobs(cluster)
    # 2. Its owner creates it, suspended; Maar resumes it, with all the workers that it can use.
    assert done(cluster, "submit", "-f", "-", given=MANIFEST).startswith("PyTorchJob team/train created\n")
    wait_until(lambda: workers(cluster) == 4, "its workers run")
    # 3. A caller without rights changes nothing.
    before = jobs(cluster)[0]["metadata"]["uid"]
    for command in (["hold"], ["release"], ["cancel"], ["set", "--max-workers", "1"]):
        refused(cluster, command[0], "team/train", *command[1:])
    assert (before, 4) == (jobs(cluster)[0]["metadata"]["uid"], workers(cluster))
    assert "maar.dev/hold" not in jobs(cluster)[0]["metadata"]["annotations"]
    # 4. Its owner, who may list only her namespace, sees it, and what she cannot see.
    listed = maar(cluster, OWNER, "jobs", "-n", TEAM)
    assert "team/train" in listed.stdout
    assert "you may not list nodes" in listed.stderr
    # 5. She resizes, stops, releases and cancels it.
    done(cluster, "set", "team/train", "--max-workers", "2")
    wait_until(lambda: workers(cluster) == 2, "it has two workers")
    done(cluster, "hold", "team/train", "--stop")
    wait_until(lambda: workers(cluster) == 0, "it is stopped")
    assert jobs(cluster)[0]["spec"]["runPolicy"]["suspend"]
    wait_until(lambda: "held by its owner" in done(cluster, "why", "team/train", "-n", TEAM), "its reason is told")
    done(cluster, "release", "team/train")
    wait_until(lambda: workers(cluster) == 2, "it runs again")
    assert "PyTorchJob team/train deleted\n" == done(cluster, "cancel", "team/train")
    wait_until(lambda: not jobs(cluster) and not workers(cluster), "it is gone with its pods")


@pytest.mark.slow
def test_a_gang_that_needs_two_pools_starts_when_it_is_submitted(two_pools: RealCluster) -> None:
    cluster = two_pools
    done(cluster, "submit", "-f", "-", given=GANG)
    wait_until(lambda: workers(cluster) == 10, "its ten workers have nodes of both pools")
    nodes = {pod["spec"]["nodeName"].partition("-")[0] for pod in cluster.objects("v1", "Pod", TEAM)}
    assert {"a100", "h100"} == nodes
    # Nothing pauses it: a second one waits, with the state and the reason of any gang.
    done(cluster, "submit", "-f", "-", given=GANG.replace("wide", "second"))
    wait_until(lambda: events(cluster, "second") == ["FailedScheduling"], "why it waits is told")
    assert (10, ["wide"]) == (workers(cluster), running_jobs(cluster))
    listed = maar(cluster, OWNER, "jobs", "-n", TEAM, "-s", "waiting").stdout
    assert "team/second" in listed
    assert "team/wide" not in listed


def events(cluster: RealCluster, job: str) -> list[str]:
    found = [event for event in cluster.objects("v1", "Event", TEAM) if event["involvedObject"]["kind"] == JOB[1]]
    mine = [e for e in found if e["involvedObject"]["name"] == job and e.get("reportingComponent")]
    return [e["reason"] for e in mine if e["reportingComponent"].startswith("maar")]


def running_jobs(cluster: RealCluster) -> list[str]:
    return [job["metadata"]["name"] for job in jobs(cluster) if not job["spec"]["runPolicy"].get("suspend")]
