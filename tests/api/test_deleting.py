"""Deletion: immediate, with grace, with finalizers, with preconditions, of collections."""

import pytest
from tests.api.conftest import MERGE, Client, new_map, new_pod


def test_most_objects_go_at_once(api: Client, maps: str) -> None:
    made = api.post(maps, new_map("a"))
    answer = api.delete(f"{maps}/a")
    assert ("Status", "Success") == (answer["kind"], answer["status"])
    assert {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]} == answer["details"]
    assert api.gone(f"{maps}/a")
    assert "NotFound" == api.ask("DELETE", f"{maps}/a").reason


def test_a_pod_without_a_node_goes_at_once(api: Client, pods: str) -> None:
    api.post(pods, new_pod("a"))
    assert "Pod" == api.delete(f"{pods}/a")["kind"]
    assert api.gone(f"{pods}/a")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_goes_at_once(api: Client, pods: str, phase: str) -> None:
    api.post(pods, new_pod("a", nodeName="n1"))
    api.patch(f"{pods}/a/status", {"status": {"phase": phase}})
    api.delete(f"{pods}/a")
    assert api.gone(f"{pods}/a")


def test_a_pod_on_a_node_goes_with_grace(api: Client, pods: str) -> None:
    made = api.post(pods, new_pod("a", nodeName="n1"))
    marked = api.delete(f"{pods}/a")
    assert "Pod" == marked["kind"]
    assert 30 == marked["metadata"]["deletionGracePeriodSeconds"]
    assert marked["metadata"]["deletionTimestamp"] > made["metadata"]["creationTimestamp"]
    assert made["metadata"]["generation"] + 1 == marked["metadata"]["generation"]
    assert marked == api.delete(f"{pods}/a")  # a second deletion changes nothing
    shorter = api.delete(f"{pods}/a", {"gracePeriodSeconds": 5})
    assert 5 == shorter["metadata"]["deletionGracePeriodSeconds"]
    assert shorter["metadata"]["deletionTimestamp"] < marked["metadata"]["deletionTimestamp"]
    api.delete(f"{pods}/a", {"gracePeriodSeconds": 0})  # as the kubelet does
    assert api.gone(f"{pods}/a")


def test_a_deletion_may_set_the_grace_period(api: Client, pods: str) -> None:
    api.post(pods, new_pod("a", nodeName="n1", terminationGracePeriodSeconds=100))
    assert 100 == api.delete(f"{pods}/a")["metadata"]["deletionGracePeriodSeconds"]
    api.post(pods, new_pod("b", nodeName="n1", terminationGracePeriodSeconds=100))
    assert 7 == api.delete(f"{pods}/b", gracePeriodSeconds=7)["metadata"]["deletionGracePeriodSeconds"]


def test_finalizers_keep_an_object(api: Client, maps: str) -> None:
    api.post(maps, new_map("a", finalizers=["example.com/one", "example.com/two"]))
    marked = api.delete(f"{maps}/a")
    assert ("ConfigMap", 0) == (marked["kind"], marked["metadata"]["deletionGracePeriodSeconds"])
    assert marked["metadata"]["deletionTimestamp"]
    api.patch(f"{maps}/a", {"metadata": {"finalizers": ["example.com/two"]}})
    assert not api.gone(f"{maps}/a")
    refused = api.ask("PATCH", f"{maps}/a", {"metadata": {"finalizers": ["example.com/three"]}}, MERGE)
    assert (422, "Invalid") == (refused.code, refused.reason)
    api.patch(f"{maps}/a", {"metadata": {"finalizers": None}})
    assert api.gone(f"{maps}/a")


def test_a_pod_with_finalizers_goes_after_its_kubelet_and_finalizers(api: Client, pods: str) -> None:
    api.post(pods, new_pod("a", nodeName="n1", finalizers=["example.com/one"]))
    api.delete(f"{pods}/a")
    api.delete(f"{pods}/a", {"gracePeriodSeconds": 0})
    left = api.get(f"{pods}/a")["metadata"]
    assert 0 == left["deletionGracePeriodSeconds"]
    api.patch(f"{pods}/a", {"metadata": {"finalizers": None}})
    assert api.gone(f"{pods}/a")


def test_watchers_see_the_last_finalizer_go_as_a_deletion(api: Client, maps: str) -> None:
    made = api.post(maps, new_map("a", finalizers=["example.com/one"]))
    with api.watch(maps, resourceVersion=made["metadata"]["resourceVersion"]) as watch:
        api.delete(f"{maps}/a")
        api.patch(f"{maps}/a", {"metadata": {"finalizers": None}})
        marked, gone = watch.expect("MODIFIED", "DELETED")
    assert marked["metadata"]["deletionTimestamp"]
    assert "a" == gone["metadata"]["name"]


@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
def test_a_deletion_may_have_preconditions(api: Client, maps: str, field: str) -> None:
    made = api.post(maps, new_map("a"))
    api.patch(f"{maps}/a", {"data": {"x": "2"}})
    stale = "another" if field == "uid" else made["metadata"]["resourceVersion"]
    answer = api.ask("DELETE", f"{maps}/a", {"preconditions": {field: stale}})
    assert (409, "Conflict") == (answer.code, answer.reason)
    now = api.get(f"{maps}/a")["metadata"][field]
    api.delete(f"{maps}/a", {"preconditions": {field: now}})
    assert api.gone(f"{maps}/a")


def test_many_at_once(api: Client, maps: str) -> None:
    for name in ("a", "b", "c"):
        api.post(maps, new_map(name, labels={"all": "yes", "name": name}))
    answer = api.delete(maps, labelSelector="name in (a,b)")
    assert "ConfigMapList" == answer["kind"]
    assert ["c"] == [item["metadata"]["name"] for item in api.get(maps, labelSelector="all=yes")["items"]]


@pytest.mark.parametrize(("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")])
def test_what_happens_to_dependents_is_a_finalizer(api: Client, maps: str, policy: str, finalizer: str) -> None:
    api.post(maps, new_map("a"))
    marked = api.delete(f"{maps}/a", {"propagationPolicy": policy})
    assert [finalizer] == marked["metadata"]["finalizers"]
    api.patch(f"{maps}/a", {"metadata": {"finalizers": None}})
    assert api.gone(f"{maps}/a")


def test_a_terminating_namespace_refuses_new_objects(api: Client, namespace: str, maps: str) -> None:
    marked = api.delete(f"/api/v1/namespaces/{namespace}")
    assert "Terminating" == marked["status"]["phase"]
    answer = api.ask("POST", maps, new_map("a"))
    assert (403, "Forbidden") == (answer.code, answer.reason)
    assert "NamespaceTerminating" == answer.body["details"]["causes"][0]["reason"]
    marked["spec"]["finalizers"] = []
    api.put(f"/api/v1/namespaces/{namespace}/finalize", marked)
    assert api.gone(f"/api/v1/namespaces/{namespace}")
