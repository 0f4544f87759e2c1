"""The upstream PodGroup, as 1.36 serves it with its feature gates on."""

from typing import Any

import pytest
from tests.api.conftest import MERGE, Client, new_pod

BESIDE = "upstream"

Obj = dict[str, Any]


@pytest.fixture
def groups(namespace: str) -> str:
    return f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{namespace}/podgroups"


def new_group(name: str, **spec: Any) -> Obj:
    return {"metadata": {"name": name}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, **spec}}


def test_the_stored_form_of_a_group(api: Client, groups: str) -> None:
    sent = new_group("g", priority=5, schedulingConstraints={"topology": [{"key": "rack"}]})
    made = api.post(groups, sent)
    assert {"gang": {"minCount": 2}} == made["spec"]["schedulingPolicy"]
    assert "Pod" == made["spec"]["disruptionMode"]
    assert not {"priority", "schedulingConstraints"} & set(made["spec"])
    assert ["scheduling.k8s.io/podgroup-protection"] == made["metadata"]["finalizers"]
    assert "generation" not in made["metadata"]
    basic = api.post(groups, new_group("h", schedulingPolicy={"basic": {}}))
    assert {"basic": {}} == basic["spec"]["schedulingPolicy"]


@pytest.mark.parametrize("policy", [{}, {"gang": {"minCount": 0}}, {"gang": {"minCount": 1}, "basic": {}}])
def test_groups_that_are_refused(api: Client, groups: str, policy: Obj) -> None:
    answer = api.ask("POST", groups, new_group("g", schedulingPolicy=policy))
    assert (422, "Invalid") == (answer.code, answer.reason)


def test_a_policy_is_immutable(api: Client, groups: str) -> None:
    api.post(groups, new_group("g"))
    answer = api.ask("PATCH", f"{groups}/g", {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}, MERGE)
    assert (422, "Invalid") == (answer.code, answer.reason)


def test_its_status_is_a_subresource(api: Client, groups: str) -> None:
    api.post(groups, new_group("g"))
    time = "2026-11-01T00:00:00Z"
    condition = {"type": "PodGroupScheduled", "status": "True", "reason": "Scheduled", "message": "all of it"}
    status = {"conditions": [{**condition, "lastTransitionTime": time}]}
    assert status == api.patch(f"{groups}/g/status", {"status": status})["status"]
    assert status == api.patch(f"{groups}/g", {"status": {"conditions": None}})["status"]


def test_a_group_is_kept_while_pods_use_it(api: Client, groups: str, pods: str) -> None:
    api.post(groups, new_group("g"))
    made = api.post(pods, new_pod("p", schedulingGroup={"podGroupName": "g"}))
    assert {"podGroupName": "g"} == made["spec"]["schedulingGroup"]
    marked = api.delete(f"{groups}/g")
    assert ["scheduling.k8s.io/podgroup-protection"] == marked["metadata"]["finalizers"]
    api.delete(f"{pods}/p")
    api.until(f"{groups}/g", lambda obj: obj["kind"] == "Status")


def test_an_unused_group_is_deleted(api: Client, groups: str) -> None:
    api.post(groups, new_group("g"))
    api.delete(f"{groups}/g")
    api.until(f"{groups}/g", lambda obj: obj["kind"] == "Status")
