"""What Kubernetes' role `edit` lets a tenant write, on a real API server: column *who* of docs/security-inputs.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.patience import wait_until
from tests.support.real.api import Refused
from tests.support.real.cluster import RealCluster

from maar.kube.wire.api_resources import PODS

TENANT, TEAM, OTHER = "tenant", "team", "other"
RBAC = "rbac.authorization.k8s.io"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

HERS = [
    ("", "pods"),
    ("", "configmaps"),
    ("", "persistentvolumeclaims"),
    ("apps", "daemonsets"),
    ("batch", "jobs"),
    ("policy", "poddisruptionbudgets"),
]
"""What she may write in her own namespace."""
NOT_HERS = [
    ("", "pods/status"),
    ("", "pods/binding"),
    ("", "pods/resize"),
    ("", "nodes"),
    ("", "nodes/status"),
    ("", "namespaces"),
    ("", "resourcequotas"),
    ("", "persistentvolumes"),
    ("batch", "jobs/status"),
    ("policy", "poddisruptionbudgets/status"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("scheduling.volcano.sh", "queues"),
    ("scheduling.volcano.sh", "queues/status"),
    ("storage.k8s.io", "storageclasses"),
    ("topology.volcano.sh", "hypernodes"),
    ("autoscaling.x-k8s.io", "provisioningrequests"),
]
"""What she may write nowhere."""


def test_what_a_tenant_may_write_and_what_is_admitted_from_her(new_cluster: Callable[..., RealCluster]) -> None:
    cluster = tenants(new_cluster)
    refuse_what_is_not_hers(cluster)
    admit_what_proves_nothing(cluster)


def tenants(new_cluster: Callable[..., RealCluster]) -> RealCluster:
    """A cluster with two namespaces, in one of which a tenant has the role `edit`."""
    made = new_cluster(users={TENANT: []})
    made.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in (TEAM, OTHER)])
    # No controller fills the aggregated roles here, so their parts are granted.
    made.apply([_granted(role) for role in ("system:aggregate-to-edit", "system:aggregate-to-view")])
    wait_until(lambda: may(made, "", "pods"), "the role is granted")
    return made


def _granted(role: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": role.rpartition(":")[2], "namespace": TEAM},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": TENANT}],
    }


def may(cluster: RealCluster, group: str, resource: str, namespace: str = TEAM) -> bool:
    """Whether the tenant may create, change or delete it."""
    name, _, sub = resource.partition("/")
    answers = []
    for verb in ("create", "update", "patch", "delete"):
        asked = {"namespace": namespace, "group": group, "resource": name, "subresource": sub, "verb": verb}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": asked},
        }
        answers.append(cluster.request("POST", REVIEWS, body, token=cluster.token_of(TENANT))["status"]["allowed"])
    return any(answers)


def refuse_what_is_not_hers(cluster: RealCluster) -> None:
    assert HERS == [what for what in HERS if may(cluster, *what)]
    assert [] == [what for what in NOT_HERS if may(cluster, *what)]
    assert [] == [what for what in (*HERS, *NOT_HERS) if may(cluster, *what, OTHER)], "nothing in other namespaces"


def admit_what_proves_nothing(cluster: RealCluster) -> None:
    """So none of it proves anything, and docs/security-inputs.md has a row for each."""
    token = cluster.token_of(TENANT)
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "none", "uid": "none", "controller": True}
    unknown = {"apiVersion": "batch/v1", "kind": "Job", "name": "x@owner", "uid": "none", "controller": True}
    digits = "9" * 5000
    limits = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1m"}, "limits": {"cpu": digits}}}
    by_node = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "none", "controller": True}
    mirror = {"kubernetes.io/config.mirror": "x"}
    forged: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "node-name": ({}, {"nodeName": "n1"}),
        "scheduler-name": ({}, {"schedulerName": "anything"}),
        "daemonset": ({"ownerReferences": [owner]}, {"nodeName": "n1"}),
        "mirror": ({"ownerReferences": [by_node], "annotations": mirror}, {"nodeName": "n1"}),
        "priority-class": ({}, {"priorityClassName": "system-node-critical"}),
        "limits": ({}, {"nodeName": "n1", "containers": [limits]}),
        "group-name": ({"annotations": {"scheduling.k8s.io/group-name": "../x@owner/" + "x" * 200_000}}, {}),
        "owner-name": ({"ownerReferences": [unknown]}, {}),
        "grace": ({"finalizers": ["team.example/never"]}, {"terminationGracePeriodSeconds": 10**9}),
    }
    for name, (metadata, spec) in forged.items():
        container = {"name": "c", "image": "i", "resources": {"requests": {"memory": "1Ei"}}}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, **metadata},
            "spec": {"containers": [container], **spec},
            "status": {"nominatedNodeName": "n1", "phase": "Running"},
        }
        made = cluster.request("POST", PODS.path(TEAM), body, token=token)
        assert "nominatedNodeName" not in made["status"], "a status is dropped at creation"
        assert "Pending" == made["status"]["phase"]
    assert digits == cluster.get("v1", "Pod", "limits", TEAM)["spec"]["containers"][0]["resources"]["limits"]["cpu"]
    assert 2_000_001_000 == cluster.get("v1", "Pod", "priority-class", TEAM)["spec"]["priority"]
    patch, path = {"metadata": {"annotations": {"kubernetes.io/config.mirror": "y"}}}, PODS.path(TEAM, "node-name")
    with pytest.raises(Refused) as refused:
        cluster.request("PATCH", path, patch, token=token, content_type="application/merge-patch+json")
    assert 422 == refused.value.status, "the annotation of a mirror pod cannot be added later"
    spec = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never", "priority": 2_000_000_000}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "template"},
        "spec": {"template": {"spec": spec}},
    }
    cluster.request("POST", f"/apis/batch/v1/namespaces/{TEAM}/jobs", job, token=token)
    plain = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "number"}, "spec": spec}
    with pytest.raises(Refused) as refused:
        cluster.request("POST", PODS.path(TEAM), plain, token=token)
    assert 403 == refused.value.status, "a number counts in a pod, where it is checked, and not in a template"
