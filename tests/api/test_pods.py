"""Pods: defaults, allowed changes, binding, eviction."""

from typing import Any

import pytest
from tests.api.conftest import MERGE, STRATEGIC, Client, new_pod

Obj = dict[str, Any]


def binding(name: str, node: str = "n1", **metadata: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def eviction(name: str, **options: Any) -> Obj:
    body: Obj = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return {**body, "deleteOptions": options} if options else body


def condition(pod: Obj, type: str) -> Obj:
    found: Obj = next((c for c in pod["status"].get("conditions") or [] if c["type"] == type), {})
    return found


def test_the_defaults_of_a_new_pod(api: Client, pods: str) -> None:
    pod = api.post(pods, new_pod("a"))
    spec = pod["spec"]
    assert ("Always", "default-scheduler", 30) == (
        spec["restartPolicy"],
        spec["schedulerName"],
        spec["terminationGracePeriodSeconds"],
    )
    assert (0, "PreemptLowerPriority") == (spec["priority"], spec["preemptionPolicy"])
    tolerated = {t["key"]: t["tolerationSeconds"] for t in spec["tolerations"]}
    assert {"node.kubernetes.io/not-ready": 300, "node.kubernetes.io/unreachable": 300} == tolerated
    assert ("Pending", "Burstable") == (pod["status"]["phase"], pod["status"]["qosClass"])
    assert 1 == pod["metadata"]["generation"]


def test_requests_default_to_limits(api: Client, pods: str) -> None:
    pod = new_pod("a")
    pod["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"}}
    made = api.post(pods, pod)
    assert {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"} == made["spec"]["containers"][0]["resources"][
        "requests"
    ]
    assert "Guaranteed" == made["status"]["qosClass"]


def test_a_priority_class_becomes_a_number(api: Client, pods: str, namespace: str) -> None:
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    api.post(classes, {"metadata": {"name": namespace}, "value": 7, "preemptionPolicy": "Never"})
    spec = api.post(pods, new_pod("a", priorityClassName=namespace))["spec"]
    assert (7, "Never") == (spec["priority"], spec["preemptionPolicy"])
    answer = api.ask("POST", pods, new_pod("b", priorityClassName="no-such-class"))
    assert (403, "Forbidden") == (answer.code, answer.reason)
    assert "Forbidden" == api.ask("POST", pods, new_pod("b", priority=3)).reason


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": []}, "spec.containers"),
        ({"containers": [{"name": "a"}]}, "spec.containers[0].image"),
        ({"containers": [{"image": "a"}]}, "spec.containers[0].name"),
        (
            {"containers": [{"name": "a", "image": "a", "resources": {"requests": {"cpu": "-1"}}}]},
            "spec.containers[0].resources.requests[cpu]",
        ),
        (
            {"containers": [{"name": "a", "image": "a", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]},
            "spec.containers[0].resources.limits",
        ),
    ],
)
def test_pods_that_are_refused(api: Client, pods: str, spec: Obj, field: str) -> None:
    answer = api.ask("POST", pods, {"metadata": {"name": "a"}, "spec": spec})
    assert (422, "Invalid") == (answer.code, answer.reason)
    assert field in [cause["field"] for cause in answer.body["details"]["causes"]]


@pytest.mark.parametrize("change", [{"nodeName": "n2"}, {"schedulerName": "x"}, {"nodeSelector": {"a": "b"}}])
def test_the_spec_of_a_pod_is_immutable(api: Client, pods: str, change: Obj) -> None:
    api.post(pods, new_pod("a", nodeName="n1"))
    answer = api.ask("PATCH", f"{pods}/a", {"spec": change}, MERGE)
    assert (422, "Invalid") == (answer.code, answer.reason)


def test_a_gated_pod_may_narrow_where_it_runs(api: Client, pods: str) -> None:
    api.post(pods, new_pod("a", schedulingGates=[{"name": "example.com/wait"}]))
    assert "Conflict" == api.ask("POST", f"{pods}/a/binding", binding("a")).reason
    changed = api.patch(f"{pods}/a", {"spec": {"nodeSelector": {"zone": "1"}}})
    assert {"zone": "1"} == changed["spec"]["nodeSelector"]
    assert "schedulingGates" not in api.patch(f"{pods}/a", {"spec": {"schedulingGates": None}})["spec"]
    assert "Invalid" == api.ask("PATCH", f"{pods}/a", {"spec": {"nodeSelector": {"zone": "2"}}}, MERGE).reason


def test_a_pod_can_be_bound_once(api: Client, pods: str) -> None:
    made = api.post(pods, new_pod("a"))
    answer = api.ask("POST", f"{pods}/a/binding", binding("a", annotations={"maar.dev/why": "room"}))
    assert (201, "Success") == (answer.code, answer.body["status"])
    pod = api.get(f"{pods}/a")
    assert "n1" == pod["spec"]["nodeName"]
    assert {"maar.dev/why": "room"} == pod["metadata"]["annotations"]
    assert "True" == condition(pod, "PodScheduled")["status"]
    assert int(pod["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    for node in ("n1", "n2"):
        again = api.ask("POST", f"{pods}/a/binding", binding("a", node))
        assert (409, "Conflict") == (again.code, again.reason)
        assert 'already assigned to node "n1"' in again.body["message"]


def test_a_binding_of_another_pod_with_the_same_name_is_a_conflict(api: Client, pods: str) -> None:
    first = api.post(pods, new_pod("a"))
    api.delete(f"{pods}/a")
    second = api.post(pods, new_pod("a"))
    answer = api.ask("POST", f"{pods}/a/binding", binding("a", uid=first["metadata"]["uid"]))
    assert (409, "Conflict") == (answer.code, answer.reason)
    assert "nodeName" not in api.get(f"{pods}/a")["spec"]
    api.post(f"{pods}/a/binding", binding("a", uid=second["metadata"]["uid"]))


def test_bindings_that_are_refused(api: Client, pods: str) -> None:
    assert "NotFound" == api.ask("POST", f"{pods}/missing/binding", binding("missing")).reason
    api.post(pods, new_pod("a", finalizers=["example.com/hold"]))
    api.delete(f"{pods}/a")
    answer = api.ask("POST", f"{pods}/a/binding", binding("a"))
    assert (409, "Conflict") == (answer.code, answer.reason)
    api.patch(f"{pods}/a", {"metadata": {"finalizers": None}})


def test_a_binding_the_older_way(api: Client, pods: str, namespace: str) -> None:
    api.post(pods, new_pod("a"))
    api.post(f"/api/v1/namespaces/{namespace}/bindings", binding("a"))
    assert "n1" == api.get(f"{pods}/a")["spec"]["nodeName"]


def test_a_binding_clears_the_nomination(api: Client, pods: str) -> None:
    api.post(pods, new_pod("a"))
    nominated = api.patch(f"{pods}/a/status", {"status": {"nominatedNodeName": "n9"}})
    assert "n9" == nominated["status"]["nominatedNodeName"]
    api.post(f"{pods}/a/binding", binding("a"))
    assert "nominatedNodeName" not in api.get(f"{pods}/a")["status"]


def running(api: Client, pods: str, name: str, **labels: str) -> Obj:
    """A pod that runs and is ready."""
    api.post(pods, new_pod(name, labels=labels, nodeName="n1"))
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return api.patch(f"{pods}/{name}/status", {"status": status})


def budget(api: Client, namespace: str, allowed: int) -> str:
    """Create a budget over `app=web` with this many allowed disruptions, as the controller writes it."""
    budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    api.post(budgets, {"metadata": {"name": "b"}, "spec": spec})
    counts = {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
    api.patch(f"{budgets}/b/status", {"status": {**counts, "observedGeneration": 1}})
    return f"{budgets}/b"


def test_an_eviction_is_a_deletion_with_a_reason(api: Client, pods: str) -> None:
    running(api, pods, "a")
    answer = api.ask("POST", f"{pods}/a/eviction", eviction("a"))
    assert (201, "Success") == (answer.code, answer.body["status"])
    pod = api.get(f"{pods}/a")
    assert 30 == pod["metadata"]["deletionGracePeriodSeconds"]
    assert "EvictionByEvictionAPI" == condition(pod, "DisruptionTarget")["reason"]
    assert 201 == api.ask("POST", f"{pods}/a/eviction", eviction("a")).code


def test_an_eviction_with_options(api: Client, pods: str) -> None:
    pod = running(api, pods, "a")
    wrong = api.ask("POST", f"{pods}/a/eviction", eviction("a", preconditions={"uid": "another"}))
    assert (409, "Conflict") == (wrong.code, wrong.reason)
    api.post(f"{pods}/a/eviction", eviction("a", dryRun=["All"]))
    assert "deletionTimestamp" not in api.get(f"{pods}/a")["metadata"]
    options = {"preconditions": {"uid": pod["metadata"]["uid"]}, "gracePeriodSeconds": 5}
    api.post(f"{pods}/a/eviction", eviction("a", **options))
    assert 5 == api.get(f"{pods}/a")["metadata"]["deletionGracePeriodSeconds"]
    assert "NotFound" == api.ask("POST", f"{pods}/missing/eviction", eviction("missing")).reason


def test_a_budget_refuses_an_eviction(api: Client, pods: str, namespace: str) -> None:
    running(api, pods, "a", app="web")
    running(api, pods, "b", app="web")
    path = budget(api, namespace, allowed=1)
    api.post(f"{pods}/a/eviction", eviction("a"))
    charged = api.get(path)["status"]
    assert (0, ["a"]) == (charged["disruptionsAllowed"], list(charged["disruptedPods"]))
    answer = api.ask("POST", f"{pods}/b/eviction", eviction("b"))
    assert (429, "TooManyRequests") == (answer.code, answer.reason)
    cause = answer.body["details"]["causes"][0]
    assert "DisruptionBudget" == cause["reason"]
    assert "The disruption budget b needs 1 healthy pods and has 1 currently" == cause["message"]
    assert "deletionTimestamp" not in api.get(f"{pods}/b")["metadata"]


def test_a_budget_that_is_not_counted_yet_refuses_too(api: Client, pods: str, namespace: str) -> None:
    running(api, pods, "a", app="web")
    path = budget(api, namespace, allowed=1)
    api.patch(path, {"spec": {"minAvailable": 0}})
    answer = api.ask("POST", f"{pods}/a/eviction", eviction("a"))
    assert (429, "TooManyRequests") == (answer.code, answer.reason)
    assert 10 == answer.body["details"]["retryAfterSeconds"]


def test_budgets_do_not_protect_pods_that_do_not_run(api: Client, pods: str, namespace: str) -> None:
    api.post(pods, new_pod("waits", labels={"app": "web"}))
    budget(api, namespace, allowed=0)
    api.post(f"{pods}/waits/eviction", eviction("waits"))
    assert api.gone(f"{pods}/waits")


def test_a_pod_under_two_budgets_cannot_be_evicted(api: Client, pods: str, namespace: str) -> None:
    running(api, pods, "a", app="web")
    budget(api, namespace, allowed=1)
    second = {"metadata": {"name": "c"}, "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}}
    api.post(f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets", second)
    assert 500 == api.ask("POST", f"{pods}/a/eviction", eviction("a")).code


def test_a_bind_for_another_version_is_refused(api: Client, pods: str) -> None:
    old = api.post(pods, new_pod("a"))["metadata"]["resourceVersion"]
    now = api.patch(f"{pods}/a", {"metadata": {"annotations": {"x": "1"}}}, MERGE)["metadata"]
    answer = api.ask("POST", f"{pods}/a/binding", binding("a", uid=now["uid"], resourceVersion=old))
    assert (409, "Conflict") == (answer.code, answer.body["reason"])
    assert f"Precondition failed: ResourceVersion in precondition: {old}" in answer.body["message"].replace("\n", "")
    assert "nodeName" not in api.get(f"{pods}/a")["spec"]
    api.post(f"{pods}/a/binding", binding("a", uid=now["uid"], resourceVersion=now["resourceVersion"]))
    assert "n1" == api.get(f"{pods}/a")["spec"]["nodeName"]


def test_an_eviction_for_another_version_is_refused(api: Client, pods: str) -> None:
    old = api.post(pods, new_pod("a", nodeName="n1", terminationGracePeriodSeconds=5))["metadata"]["resourceVersion"]
    fence = {"status": {"conditions": [{"type": "maar.dev/Fenced", "status": "True", "message": "epoch 1"}]}}
    now = api.patch(f"{pods}/a/status", fence, STRATEGIC)["metadata"]["resourceVersion"]
    assert old != now
    answer = api.ask("POST", f"{pods}/a/eviction", eviction("a", preconditions={"resourceVersion": old}))
    assert (409, "Conflict") == (answer.code, answer.body["reason"])
    assert now == api.get(f"{pods}/a")["metadata"]["resourceVersion"], "a refused eviction changes nothing"
    api.post(f"{pods}/a/eviction", eviction("a", preconditions={"resourceVersion": now}))
    assert "deletionTimestamp" in api.get(f"{pods}/a")["metadata"]


def test_the_same_condition_with_another_message_moves_the_version(api: Client, pods: str) -> None:
    """A patch that changes nothing does not."""
    api.post(pods, new_pod("a"))

    def version(message: str) -> str:
        condition = {"type": "maar.dev/Fenced", "status": "True", "message": message}
        answer = api.patch(f"{pods}/a/status", {"status": {"conditions": [condition]}}, STRATEGIC)
        return str(answer["metadata"]["resourceVersion"])

    first = version("epoch 1")
    assert first == version("epoch 1") != version("epoch 2")
