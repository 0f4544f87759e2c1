"""Create, update, the four patch formats, status, scale: changes, preserved fields, and refusals."""

from typing import Any

import pytest
from tests.api.conftest import APPLY, JSON_PATCH, MERGE, STRATEGIC, Client, new_map, new_node, new_pod


def version(obj: dict[str, Any]) -> int:
    return int(obj["metadata"]["resourceVersion"])


def test_what_the_server_sets(api: Client, maps: str, namespace: str) -> None:
    sent = new_map("a", uid="mine", creationTimestamp="2001-01-01T00:00:00Z")
    metadata = api.post(maps, sent)["metadata"]
    assert namespace == metadata["namespace"]
    assert "mine" != metadata["uid"]
    assert "2001" < metadata["creationTimestamp"][:4]
    assert metadata["creationTimestamp"].endswith("Z")
    assert "generation" not in metadata


def test_versions_only_grow(api: Client, maps: str, pods: str) -> None:
    versions = [version(api.post(maps, new_map("a"))), version(api.post(pods, new_pod("p")))]
    versions += [version(api.patch(f"{maps}/a", {"data": {"x": "2"}}))]
    assert sorted(set(versions)) == versions


def test_names_are_generated_on_request(api: Client, maps: str) -> None:
    made = [api.post(maps, {"metadata": {"generateName": "job-"}})["metadata"] for _ in range(5)]
    assert 5 == len({metadata["name"] for metadata in made})
    assert all(m["name"].startswith("job-") and len(m["name"]) == len("job-") + 5 for m in made)
    assert "job-" == made[0]["generateName"]


def test_a_name_can_be_used_once(api: Client, maps: str) -> None:
    api.post(maps, new_map("a"))
    answer = api.ask("POST", maps, new_map("a"))
    assert (409, "AlreadyExists") == (answer.code, answer.reason)
    assert {"name": "a", "kind": "configmaps"} == answer.body["details"]


@pytest.mark.parametrize("name", ["Upper", "with space", "-start", "end-", "a" * 254, "under_score"])
def test_invalid_names_are_refused(api: Client, maps: str, name: str) -> None:
    answer = api.ask("POST", maps, new_map(name))
    assert (422, "Invalid") == (answer.code, answer.reason)
    assert "metadata.name" == answer.body["details"]["causes"][0]["field"]


def test_an_object_needs_a_name(api: Client, maps: str) -> None:
    answer = api.ask("POST", maps, {"metadata": {}})
    assert (422, "Invalid") == (answer.code, answer.reason)
    assert "name or generateName is required" in answer.body["message"]


def test_labels_are_checked(api: Client, maps: str) -> None:
    assert "Invalid" == api.ask("POST", maps, new_map("a", labels={"x": "not a label"})).reason
    assert "BadRequest" == api.ask("POST", maps, new_map("a", labels={"x": 1})).reason


def test_an_object_must_match_the_path(api: Client, maps: str, pods: str) -> None:
    assert "BadRequest" == api.ask("POST", maps, new_map("a", namespace="elsewhere")).reason
    assert "BadRequest" == api.ask("POST", maps, {**new_map("a"), "kind": "Secret", "apiVersion": "v1"}).reason
    assert "NotFound" == api.ask("POST", "/api/v1/namespaces/no-such/configmaps", new_map("a")).reason
    assert 400 == api.ask("POST", pods, "text").code
    api.post(maps, new_map("a"))
    assert "BadRequest" == api.ask("PUT", f"{maps}/a", new_map("b")).reason


def test_a_new_object_has_no_version_yet(api: Client, maps: str) -> None:
    assert 500 == api.ask("POST", maps, new_map("a", resourceVersion="1")).code


def test_methods_that_are_not_served(api: Client, maps: str) -> None:
    api.post(maps, new_map("a"))
    assert 405 == api.ask("POST", f"{maps}/a", new_map("a")).code
    assert 405 == api.ask("PUT", maps, new_map("a")).code


def test_an_update_of_an_old_version_is_a_conflict(api: Client, maps: str) -> None:
    old = api.post(maps, new_map("a"))
    new = api.put(f"{maps}/a", {**old, "data": {"x": "2"}})
    assert version(new) > version(old)
    answer = api.ask("PUT", f"{maps}/a", {**old, "data": {"x": "3"}})
    assert (409, "Conflict") == (answer.code, answer.reason)
    assert {"x": "2"} == api.get(f"{maps}/a")["data"]


def test_an_update_without_a_version_wins(api: Client, maps: str) -> None:
    made = api.post(maps, new_map("a"))
    api.patch(f"{maps}/a", {"data": {"x": "2"}})
    updated = api.put(f"{maps}/a", new_map("a"))
    assert {"x": "1"} == updated["data"]
    assert made["metadata"]["uid"] == updated["metadata"]["uid"]


def test_an_update_of_another_object_with_the_same_name_is_a_conflict(api: Client, maps: str) -> None:
    made = api.post(maps, new_map("a"))
    api.delete(f"{maps}/a")
    api.post(maps, new_map("a"))
    body = new_map("a", uid=made["metadata"]["uid"])
    assert (409, "Conflict") == (api.ask("PUT", f"{maps}/a", body).code, api.ask("PUT", f"{maps}/a", body).reason)


def test_a_missing_object_cannot_be_updated(api: Client, pods: str) -> None:
    assert "NotFound" == api.ask("PUT", f"{pods}/a", new_pod("a")).reason
    assert "NotFound" == api.ask("PATCH", f"{pods}/a", {"metadata": {"labels": {"x": "y"}}}, MERGE).reason


def test_a_lease_is_taken_by_version(api: Client, namespace: str) -> None:
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    lease = api.post(
        leases, {"metadata": {"name": "maar"}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}}
    )
    answer = api.ask("PUT", f"{leases}/maar", {"metadata": {"name": "maar"}, "spec": {"holderIdentity": "b"}})
    assert (422, "Invalid") == (answer.code, answer.reason)
    lease["spec"]["holderIdentity"] = "b"
    api.put(f"{leases}/maar", lease)
    assert "Conflict" == api.ask("PUT", f"{leases}/maar", lease).reason


def test_a_merge_patch(api: Client, maps: str) -> None:
    api.post(maps, {"metadata": {"name": "a", "labels": {"k": "v"}}, "data": {"x": "1", "y": "1"}})
    patch = {"metadata": {"labels": {"k": None, "l": "w"}}, "data": {"x": None, "z": "3"}}
    patched = api.patch(f"{maps}/a", patch)
    assert {"y": "1", "z": "3"} == patched["data"]
    assert {"l": "w"} == patched["metadata"]["labels"]


def test_a_patch_may_require_a_version(api: Client, maps: str) -> None:
    made = api.post(maps, new_map("a"))
    api.patch(f"{maps}/a", {"data": {"x": "2"}})
    patch = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {"x": "3"}}
    answer = api.ask("PATCH", f"{maps}/a", patch, MERGE)
    assert (409, "Conflict") == (answer.code, answer.reason)


def test_a_json_patch(api: Client, maps: str) -> None:
    api.post(maps, {"metadata": {"name": "a", "annotations": {"y/z": "1", "k": "v"}}, "data": {"x": "1"}})
    operations = [
        {"op": "test", "path": "/data/x", "value": "1"},
        {"op": "replace", "path": "/data/x", "value": "2"},
        {"op": "remove", "path": "/metadata/annotations/y~1z"},
        {"op": "add", "path": "/data/w", "value": "new"},
        {"op": "copy", "from": "/data/w", "path": "/data/copy"},
        {"op": "move", "from": "/data/w", "path": "/data/moved"},
    ]
    patched = api.patch(f"{maps}/a", operations, JSON_PATCH)
    assert {"x": "2", "copy": "new", "moved": "new"} == patched["data"]
    assert {"k": "v"} == patched["metadata"]["annotations"]


def test_a_json_patch_whose_test_fails_changes_nothing(api: Client, maps: str) -> None:
    made = api.post(maps, new_map("a"))
    for operations in (
        [{"op": "replace", "path": "/data/x", "value": "2"}, {"op": "test", "path": "/data/x", "value": "1"}],
        [{"op": "remove", "path": "/data/nothing"}],
    ):
        answer = api.ask("PATCH", f"{maps}/a", operations, JSON_PATCH)
        assert (422, "Invalid") == (answer.code, answer.reason)
    assert made == api.get(f"{maps}/a")


def test_a_json_patch_sets_a_missing_field_and_changes_lists(api: Client, maps: str) -> None:
    api.post(maps, {"metadata": {"name": "a", "finalizers": ["x.io/a", "x.io/b"]}, "data": {"x": "1"}})
    operations = [
        {"op": "replace", "path": "/data/missing", "value": "set"},
        {"op": "add", "path": "/metadata/finalizers/0", "value": "x.io/first"},
        {"op": "add", "path": "/metadata/finalizers/-", "value": "x.io/last"},
        {"op": "replace", "path": "/metadata/finalizers/1", "value": "x.io/c"},
        {"op": "remove", "path": "/metadata/finalizers/2"},
    ]
    patched = api.patch(f"{maps}/a", operations, JSON_PATCH)
    assert {"x": "1", "missing": "set"} == patched["data"]
    assert ["x.io/first", "x.io/c", "x.io/last"] == patched["metadata"]["finalizers"]
    api.patch(f"{maps}/a", {"metadata": {"finalizers": None}})


BAD_PATCHES: dict[str, tuple[Any, int]] = {
    "missing field": ([{"op": "remove", "path": "/data/missing"}], 422),
    "missing parent": ([{"op": "replace", "path": "/missing/x", "value": "1"}], 422),
    "below a value": ([{"op": "add", "path": "/data/x/y", "value": "1"}], 422),
    "past the end": ([{"op": "add", "path": "/metadata/finalizers/9", "value": "x.io/a"}], 422),
    "no index": ([{"op": "add", "path": "/metadata/finalizers/one", "value": "x.io/a"}], 422),
    "missing source": ([{"op": "move", "from": "/data/missing", "path": "/data/y"}], 422),
    "into itself": ([{"op": "move", "from": "/data", "path": "/data/y"}], 422),
    "unknown operation": ([{"op": "frob", "path": "/data/x"}], 422),
    "no operation": ([{"path": "/data/x"}], 422),
    "no path": ([{"op": "remove"}], 422),
    "the whole object": ([{"op": "replace", "path": "", "value": []}], 422),
    "not a list": ({"op": "remove", "path": "/data/x"}, 400),
    "not operations": (["remove"], 400),
}


@pytest.mark.parametrize("case", BAD_PATCHES)
def test_a_bad_json_patch_is_refused(api: Client, maps: str, case: str) -> None:
    made = api.post(maps, new_map("a", finalizers=["x.io/a"]))
    operations, code = BAD_PATCHES[case]
    answer = api.ask("PATCH", f"{maps}/a", operations, JSON_PATCH)
    assert (code, {400: "BadRequest", 422: "Invalid"}[code]) == (answer.code, answer.reason)
    assert made == api.get(f"{maps}/a")
    api.patch(f"{maps}/a", {"metadata": {"finalizers": None}})


def test_a_strategic_patch_merges_lists_by_name(api: Client, pods: str) -> None:
    pod = new_pod("a")
    pod["spec"]["containers"].append({"name": "side", "image": "side:1"})
    api.post(pods, pod)
    patch = {"spec": {"containers": [{"name": "side", "image": "side:2"}]}}
    containers = api.patch(f"{pods}/a", patch, STRATEGIC)["spec"]["containers"]
    assert [("main", "train:1"), ("side", "side:2")] == [(c["name"], c["image"]) for c in containers]


def test_a_strategic_patch_of_conditions(api: Client, pods: str) -> None:
    api.post(pods, new_pod("a"))
    for type, value in (("PodScheduled", "False"), ("Ready", "False"), ("PodScheduled", "True")):
        condition = {"type": type, "status": value, "reason": "Because"}
        patched = api.patch(f"{pods}/a/status", {"status": {"conditions": [condition]}}, STRATEGIC)
    conditions = {c["type"]: c["status"] for c in patched["status"]["conditions"]}
    assert {"PodScheduled": "True", "Ready": "False"} == conditions


def test_strategic_directives(api: Client, namespace: str) -> None:
    nodes = "/api/v1/nodes"
    api.post(nodes, new_node(namespace))
    path = f"{nodes}/{namespace}"
    api.patch(path, {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}, STRATEGIC)
    patched = api.patch(path, {"spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}}, STRATEGIC)
    assert ["b"] == [taint["key"] for taint in patched["spec"]["taints"]]
    patched = api.patch(path, {"spec": {"taints": None}}, STRATEGIC)
    assert "taints" not in patched["spec"]
    api.patch(path, {"metadata": {"labels": {"a": "b"}}})
    labels = {"metadata": {"labels": {"$patch": "replace", "only": "this"}}}
    assert {"only": "this"} == api.patch(path, labels, STRATEGIC)["metadata"]["labels"]


def test_apply_creates_and_merges(api: Client, maps: str) -> None:
    path, manager = f"{maps}/a", {"fieldManager": "test"}
    wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1", "y": "1"}}
    assert 201 == api.ask("PATCH", path, wanted, APPLY, **manager).code
    api.patch(path, {"data": {"other": "kept"}})
    again = api.patch(path, {**wanted, "data": {"x": "2"}}, APPLY, **manager)
    # The field that this manager no longer wants is removed. The field of another manager stays.
    assert {"x": "2", "other": "kept"} == again["data"]


@pytest.mark.parametrize("refused", [False, True], ids=["dry run", "refused"])
def test_apply_remembers_only_what_was_written(api: Client, maps: str, refused: bool) -> None:
    path, manager = f"{maps}/a", {"fieldManager": "test"}
    api.post(maps, new_map("a"))  # x=1, of another manager
    wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}}
    if refused:
        stale = {**wanted, "metadata": {"name": "a", "resourceVersion": "1"}}
        assert 409 == api.ask("PATCH", path, stale, APPLY, **manager).code
    else:
        api.patch(path, wanted, APPLY, **manager, dryRun="All")
    again = api.patch(path, {**wanted, "data": {"y": "2"}}, APPLY, **manager)
    assert {"x": "1", "y": "2"} == again["data"]


def test_apply_merges_lists_by_name(api: Client, pods: str) -> None:
    pod = new_pod("a", nodeName="n1")
    api.post(pods, pod)
    container = {"name": "main", "image": "train:2"}
    wanted = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [container]}}
    applied = api.patch(f"{pods}/a", wanted, APPLY, fieldManager="test", force="true")
    assert [("main", "train:2")] == [(c["name"], c["image"]) for c in applied["spec"]["containers"]]
    assert {"cpu": "1"} == applied["spec"]["containers"][0]["resources"]["requests"]


def test_apply_needs_a_manager(api: Client, maps: str) -> None:
    wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    assert api.ask("PATCH", f"{maps}/a", wanted, APPLY).code in (400, 422)


def test_an_unknown_patch_format_is_refused(api: Client, maps: str) -> None:
    api.post(maps, new_map("a"))
    answer = api.ask("PATCH", f"{maps}/a", {"data": {}}, "application/json")
    assert (415, "UnsupportedMediaType") == (answer.code, answer.reason)


def test_a_patch_cannot_rename(api: Client, maps: str) -> None:
    api.post(maps, new_map("a"))
    assert api.ask("PATCH", f"{maps}/a", {"metadata": {"name": "b"}}, MERGE).code in (400, 422)


def test_status_and_spec_do_not_mix(api: Client, pods: str) -> None:
    made = api.post(pods, {**new_pod("a"), "status": {"phase": "Running"}})
    assert "Pending" == made["status"]["phase"]
    sent = {"metadata": {"labels": {"x": "y"}}, "status": {"phase": "Running"}}
    assert "Pending" == api.patch(f"{pods}/a", sent)["status"]["phase"]
    sent = {"status": {"phase": "Running"}, "spec": {"schedulerName": "other"}}
    changed = api.patch(f"{pods}/a/status", sent)
    assert ("Running", "default-scheduler") == (changed["status"]["phase"], changed["spec"]["schedulerName"])
    changed["status"]["phase"] = "Succeeded"
    assert "Succeeded" == api.put(f"{pods}/a/status", changed)["status"]["phase"]
    assert "Succeeded" == api.get(f"{pods}/a/status")["status"]["phase"]


def test_a_new_node_keeps_its_status(api: Client, namespace: str) -> None:
    made = api.post("/api/v1/nodes", new_node(namespace))
    assert "8" == made["status"]["allocatable"]["nvidia.com/gpu"]
    path = f"/api/v1/nodes/{namespace}"
    patched = api.patch(f"{path}/status", {"status": {"allocatable": {"nvidia.com/gpu": "7"}}})
    assert ("7", "8") == tuple(patched["status"][x]["nvidia.com/gpu"] for x in ("allocatable", "capacity"))
    assert (
        "7"
        == api.patch(path, {"status": {"allocatable": {"nvidia.com/gpu": "1"}}})["status"]["allocatable"][
            "nvidia.com/gpu"
        ]
    )


def test_generation_counts_changes_of_the_spec(api: Client, namespace: str) -> None:
    budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    selector = {"matchLabels": {"a": "b"}}
    made = api.post(budgets, {"metadata": {"name": "x"}, "spec": {"minAvailable": 1, "selector": selector}})
    assert 1 == made["metadata"]["generation"]
    assert 1 == api.patch(f"{budgets}/x", {"metadata": {"labels": {"l": "1"}}})["metadata"]["generation"]
    assert 2 == api.patch(f"{budgets}/x", {"spec": {"minAvailable": 2}})["metadata"]["generation"]
    status = {"disruptionsAllowed": 1, "currentHealthy": 1, "desiredHealthy": 0, "expectedPods": 1}
    assert 2 == api.patch(f"{budgets}/x/status", {"status": status})["metadata"]["generation"]


def test_a_dry_run_succeeds_and_changes_nothing(api: Client, maps: str) -> None:
    made = api.post(maps, new_map("a"), dryRun="All")
    assert "a" == made["metadata"]["name"]
    assert made["metadata"]["uid"]
    assert api.gone(f"{maps}/a")
    api.post(maps, new_map("a"))
    assert {"x": "2"} == api.patch(f"{maps}/a", {"data": {"x": "2"}}, dryRun="All")["data"]
    api.delete(f"{maps}/a", dryRun="All")
    assert {"x": "1"} == api.get(f"{maps}/a")["data"]


def test_scale(api: Client, namespace: str) -> None:
    sets = f"/apis/apps/v1/namespaces/{namespace}/replicasets"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    api.post(sets, {"metadata": {"name": "r"}, "spec": spec})
    scale = api.get(f"{sets}/r/scale")
    assert ("Scale", "autoscaling/v1", 3) == (scale["kind"], scale["apiVersion"], scale["spec"]["replicas"])
    assert 5 == api.patch(f"{sets}/r/scale", {"spec": {"replicas": 5}})["spec"]["replicas"]
    scale = api.get(f"{sets}/r/scale")
    scale["spec"]["replicas"] = 2
    assert 2 == api.put(f"{sets}/r/scale", scale)["spec"]["replicas"]
    assert 2 == api.get(f"{sets}/r")["spec"]["replicas"]
    assert 409 == api.ask("PUT", f"{sets}/r/scale", scale | {"spec": {"replicas": 7}}).code, "of an earlier version"
    assert 9 == api.patch(f"{sets}/r/scale", {"spec": {"replicas": 9}}, dryRun="All")["spec"]["replicas"]
    assert 2 == api.get(f"{sets}/r")["spec"]["replicas"]


def test_a_priority_is_immutable(api: Client, namespace: str) -> None:
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    made = api.post(classes, {"metadata": {"name": namespace}, "value": 7})
    assert "PreemptLowerPriority" == made["preemptionPolicy"]
    answer = api.ask("PATCH", f"{classes}/{namespace}", {"value": 8}, MERGE)
    assert (422, "Invalid") == (answer.code, answer.reason)


def test_a_namespace_has_its_name_as_a_label(api: Client, namespace: str) -> None:
    found = api.get(f"/api/v1/namespaces/{namespace}")
    assert namespace == found["metadata"]["labels"]["kubernetes.io/metadata.name"]
    assert ("Active", ["kubernetes"]) == (found["status"]["phase"], found["spec"]["finalizers"])
