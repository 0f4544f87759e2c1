"""The real control plane, on which all other real tests depend."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.patience import wait_until
from tests.support.real.api import Refused
from tests.support.real.cluster import UPSTREAM_GANGS, RealCluster
from tests.support.real.parts import CHECKOUT
from tests.support.real.processes import StartFailed


def node(name: str, **allocatable: str) -> dict[str, Any]:
    room = {"cpu": "8", "memory": "32Gi", "pods": "110", **allocatable}
    ready = {"type": "Ready", "status": "True"}
    status = {"allocatable": room, "capacity": room, "conditions": [ready]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"schedulerName": "maar", "containers": [container], **spec},
    }


def widgets() -> dict[str, Any]:
    """A custom resource."""
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.test.maar"},
        "spec": {"group": "test.maar", "scope": "Namespaced", "names": names, "versions": [version]},
    }


def phase(cluster: RealCluster, name: str) -> object:
    return cluster.get("v1", "Pod", name)["status"]["phase"]


def ready(cluster: RealCluster, name: str) -> object:
    conditions = cluster.get("v1", "Node", name)["status"].get("conditions", [])
    return next((condition["status"] for condition in conditions if condition["type"] == "Ready"), None)


def names(things: list[Any]) -> list[str]:
    return sorted(thing["metadata"]["name"] for thing in things)


def test_the_server_reports_its_version(real_cluster: RealCluster) -> None:
    version = real_cluster.request("GET", "/version")
    assert ("v1.36.3", "1", "36") == (version["gitVersion"], version["major"], version["minor"])


def test_nodes_and_pods_are_created_and_listed(real_cluster: RealCluster) -> None:
    created = real_cluster.apply([node("a"), pod("x"), node("b", **{"nvidia.com/gpu": "8"})])
    assert ["a", "x", "b"] == [thing["metadata"]["name"] for thing in created]
    nodes = real_cluster.objects("v1", "Node")
    assert ["a", "b"] == names(nodes)
    assert "8" == nodes[1]["status"]["allocatable"]["nvidia.com/gpu"]
    assert [] == [taint for thing in nodes for taint in thing["spec"].get("taints", [])]
    assert ["x"] == names(real_cluster.objects("v1", "Pod", fieldSelector="spec.nodeName="))


def test_an_object_that_is_applied_again_is_changed(real_cluster: RealCluster) -> None:
    real_cluster.apply([node("a")])
    real_cluster.apply([{**node("a"), "metadata": {"name": "a", "labels": {"zone": "north"}}}])
    assert ["a"] == names(real_cluster.objects("v1", "Node", labelSelector="zone=north"))


def test_a_kind_is_served_once_its_crd_is_applied(real_cluster: RealCluster) -> None:
    widget = {"apiVersion": "test.maar/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "made"}}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "made"}}
    real_cluster.apply([widget, widgets(), namespace])
    assert ["w"] == names(real_cluster.objects("test.maar/v1", "Widget"))
    real_cluster.clear()
    assert [] == real_cluster.objects("test.maar/v1", "Widget")


def test_a_cleared_cluster_is_empty(real_cluster: RealCluster) -> None:
    held = {**pod("held"), "metadata": {"name": "held", "finalizers": ["test.maar/held"]}}
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 9}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "claim"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    real_cluster.apply([node("a"), held, pod("bound"), urgent, claim])
    real_cluster.bind("bound", "a")
    real_cluster.clear()
    kinds = ["Node", "Pod", "PersistentVolumeClaim"]
    assert {kind: [] for kind in kinds} == {kind: real_cluster.objects("v1", kind) for kind in kinds}
    classes = real_cluster.objects("scheduling.k8s.io/v1", "PriorityClass")
    assert ["system-cluster-critical", "system-node-critical"] == names(classes)


def test_a_pod_is_bound_by_the_binding_subresource(real_cluster: RealCluster) -> None:
    real_cluster.apply([node("a"), pod("x")])
    real_cluster.bind("x", "a")
    bound = real_cluster.get("v1", "Pod", "x")
    assert "a" == bound["spec"]["nodeName"]
    assert "Pending" == bound["status"]["phase"]
    with pytest.raises(Refused) as refused:
        real_cluster.bind("x", "b")
    assert (409, "Conflict") == (refused.value.status, refused.value.reason)


def test_kwok_runs_bound_pods_and_removes_deleted_pods(real_cluster: RealCluster) -> None:
    real_cluster.apply([node("a"), pod("bound"), pod("waiting")])
    real_cluster.start_kwok()
    real_cluster.bind("bound", "a")
    wait_until(lambda: phase(real_cluster, "bound") == "Running", "the bound pod runs")
    assert "Pending" == phase(real_cluster, "waiting")
    real_cluster.delete(pod("bound"))
    wait_until(lambda: names(real_cluster.objects("v1", "Pod")) == ["waiting"], "the deleted pod is gone")


def test_kwok_makes_new_nodes_ready_and_leaves_broken_ones_alone(real_cluster: RealCluster) -> None:
    real_cluster.start_kwok()
    broken = node("broken")
    broken["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    new = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "new"}}
    real_cluster.apply([broken])
    real_cluster.apply([new])
    wait_until(lambda: ready(real_cluster, "new") == "True", "the new node is Ready")
    assert "Unknown" == ready(real_cluster, "broken")


def test_objects_outlive_the_api_server(real_cluster: RealCluster) -> None:
    real_cluster.apply([node("a"), pod("x")])
    before = real_cluster.get("v1", "Pod", "x")
    real_cluster.kill_api_server()
    with pytest.raises(ConnectionRefusedError):
        real_cluster.request("GET", "/readyz")
    real_cluster.restart_api_server()
    assert before == real_cluster.get("v1", "Pod", "x")


def test_a_user_has_no_rights_until_they_are_granted(real_cluster: RealCluster) -> None:
    token = real_cluster.token_of("maar")
    with pytest.raises(Refused, match='User "maar" cannot list resource "pods"') as refused:
        real_cluster.request("GET", "/api/v1/pods", token=token)
    assert 403 == refused.value.status
    api = "rbac.authorization.k8s.io"
    role = {"kind": "ClusterRole", "name": "pod-reader", "apiGroup": api}
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
    metadata = {"name": "pod-reader"}
    subject = {"kind": "Group", "name": "schedulers", "apiGroup": api}
    real_cluster.apply(
        [
            {"apiVersion": f"{api}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": [rule]},
            {
                "apiVersion": f"{api}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": metadata,
                "roleRef": role,
                "subjects": [subject],
            },
        ]
    )

    def may_list() -> bool:
        try:
            real_cluster.request("GET", "/api/v1/pods", token=token)
        except Refused:
            return False
        return True

    wait_until(may_list, "the role is granted")


def test_upstream_pod_groups_are_served_behind_their_gates(
    real_cluster: RealCluster, new_cluster: Callable[..., RealCluster]
) -> None:
    api = "scheduling.k8s.io/v1alpha2"
    assert not real_cluster.serves(api, "PodGroup")
    cluster = new_cluster(gates=UPSTREAM_GANGS, runtime_config=[f"{api}=true"])
    group = {
        "apiVersion": api,
        "kind": "PodGroup",
        "metadata": {"name": "gang"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    member = pod("x", schedulingGroup={"podGroupName": "gang"})
    cluster.apply([group, member])
    assert {"podGroupName": "gang"} == cluster.get("v1", "Pod", "x")["spec"]["schedulingGroup"]
    cluster.delete(member, gracePeriodSeconds=0)
    cluster.delete(group)
    assert ["gang"] == names(cluster.objects(api, "PodGroup")), "the finalizer waits for the controller manager"
    cluster.start_controller_manager()
    wait_until(lambda: cluster.objects(api, "PodGroup") == [], "the controller manager removes the group")


def test_a_server_that_cannot_start_shows_its_log(real_parts: None) -> None:
    with pytest.raises(StartFailed, match=r"(?s)kube-apiserver ended: code 1.*unknown flag: --no-such-flag"):
        RealCluster(flags=["--no-such-flag"]).start()


def test_a_cluster_starts_again_after_it_was_stopped(real_parts: None) -> None:
    cluster = RealCluster()
    for _ in range(2):
        with cluster:
            cluster.apply([node("a")])
            folder = cluster.folder
        assert not folder.exists()


KILLED = """
import os, signal, sys
from tests.support.real.cluster import RealCluster
cluster = RealCluster().start()
print(cluster.folder, *(cluster.processes.pid(name) for name in ("etcd", "kube-apiserver")), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_no_process_outlives_a_killed_program(real_parts: None) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
    folder, *pids = done.stdout.split()
    assert -9 == done.returncode
    wait_until(lambda: not any(lives(int(pid)) for pid in pids), "the processes are gone")
    wait_until(lambda: not Path(folder).exists(), "the folder is gone")


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
