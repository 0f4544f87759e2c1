"""Our CRDs of PodGroup and Queue (deploy/crds) on both servers."""

import pytest
from tests.api.conftest import MERGE, Client

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture
def groups(namespace: str) -> str:
    return f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups"


def test_a_pod_group_as_operators_write_it(api: Client, groups: str) -> None:
    spec = {
        "minMember": 3,
        "minTaskMember": {"worker": 2},
        "minResources": {"cpu": "3", "nvidia.com/gpu": 3},
        "networkTopology": {"highestTierAllowed": 1},
    }
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}
    made = api.post(groups, group, fieldValidation="Strict")
    assert ("default", "hard") == (made["spec"]["queue"], made["spec"]["networkTopology"]["mode"])
    assert {"cpu": "3", "nvidia.com/gpu": 3} == made["spec"]["minResources"]


def test_the_status_of_a_pod_group_is_written_on_the_object(api: Client, groups: str) -> None:
    api.post(groups, {"metadata": {"name": "g"}, "spec": {"minMember": 1}} | _typed("PodGroup"))
    condition = {"type": "Scheduled", "status": "True", "reason": "tasks in gang are ready", "transitionID": "1"}
    status = {"phase": "Running", "running": 1, "conditions": [condition]}
    assert status == api.patch(f"{groups}/g", {"status": status})["status"]
    assert 404 == api.ask("PATCH", f"{groups}/g/status", {"status": status}, MERGE).code
    row = api.get(f"{groups}/g", accept=TABLE)["rows"][0]["cells"]
    assert ["g", "Running", 1, 1] == row[:4]


def test_an_invalid_minimum_is_left_to_the_scheduler(api: Client, groups: str) -> None:
    made = api.post(groups, {"metadata": {"name": "g"}, "spec": {"minMember": -1}} | _typed("PodGroup"))
    assert -1 == made["spec"]["minMember"]
    bad = {"metadata": {"name": "h"}, "spec": {"minResources": {"cpu": "many"}}} | _typed("PodGroup")
    assert "Invalid" == api.ask("POST", groups, bad).reason


def test_a_queue(api: Client, namespace: str) -> None:
    spec = {"capability": {"cpu": "10"}, "guarantee": {"resource": {"cpu": 1}}, "parent": "root"}
    made = api.post(
        QUEUES, {"metadata": {"name": namespace}, "spec": spec, "status": {"state": "Closed"}} | _typed("Queue")
    )
    assert (1, True) == (made["spec"]["weight"], made["spec"]["reclaimable"])
    assert {"state": "Open"} == made["status"], "the default, not what was sent"
    status = {"state": "Open", "allocated": {"cpu": "2"}}
    assert status == api.patch(f"{QUEUES}/{namespace}/status", {"status": status})["status"]
    answer = api.ask("PATCH", f"{QUEUES}/{namespace}", {"spec": {"weight": 0}}, MERGE)
    assert (422, "Invalid") == (answer.code, answer.reason)


def _typed(kind: str) -> dict[str, str]:
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": kind}
