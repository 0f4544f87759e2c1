"""The chart on a real node: Maar runs from its image, under its own account and with its own rights."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.charts import NAMESPACE
from tests.support.node.chart import Installed, is_ready
from tests.support.node.node import RealNode

ACCOUNT = f"system:serviceaccount:{NAMESPACE}:maar"


def test_maar_runs_from_its_image_under_its_own_account(node: RealNode, installed: Installed, image: str) -> None:
    pods = node.pods(NAMESPACE)
    assert 3 == len(pods)  # two schedulers and maar web
    assert all(is_ready(pod) for pod in pods)
    assert {image} == {container["image"] for pod in pods for container in pod["spec"]["containers"]}
    assert {"maar", "maar-web"} == {pod["spec"]["serviceAccountName"] for pod in pods}
    assert {"default-scheduler"} == {pod["spec"]["schedulerName"] for pod in pods}
    assert installed.leader() in {pod["metadata"]["name"] for pod in installed.pods()}


def test_the_namespace_refuses_pods_that_are_not_restricted(node: RealNode, installed: Installed) -> None:
    """So Maar's own pods, which run there, are restricted."""
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "root", "namespace": NAMESPACE},
        "spec": {"containers": [{"name": "main", "image": "any"}]},
    }
    with pytest.raises(Exception, match="violates PodSecurity"):
        node.cluster.apply([pod])


@pytest.mark.parametrize(
    ("verb", "group", "resource", "subresource", "expected"),
    [
        ("create", "", "pods", "binding", True),
        ("create", "", "pods", "eviction", True),
        ("delete", "", "pods", "", False),
        ("create", "", "pods", "", False),
        ("list", "", "secrets", "", False),
        ("patch", "batch", "jobs", "", True),
        ("delete", "batch", "jobs", "", False),
    ],
)
def test_its_rights_are_those_that_it_needs(
    node: RealNode, installed: Installed, verb: str, group: str, resource: str, subresource: str, expected: bool
) -> None:
    what = {"verb": verb, "group": group, "resource": resource, "subresource": subresource, "namespace": "default"}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {"name": ""},
        "spec": {"user": ACCOUNT, "resourceAttributes": what},
    }
    answer = node.cluster.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    assert expected == answer["status"]["allowed"]


def test_helm_test_passes(installed: Installed) -> None:
    assert "Phase:          Succeeded" in installed.test()


def test_the_server_refuses_nothing_that_maar_asks_for(node: RealNode, installed: Installed) -> None:
    logs = {pod["metadata"]["name"]: node.log(NAMESPACE, pod["metadata"]["name"]) for pod in node.pods(NAMESPACE)}
    assert all(logs.values())
    assert {} == {name: log for name, log in logs.items() if "orbidden" in log}
