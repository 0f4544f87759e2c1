"""Custom resources: discovery, schemas, and objects with and without subresources."""

from typing import Any

import pytest
from tests.api.conftest import MERGE, STRATEGIC, Client, define, new_crd

Obj = dict[str, Any]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def thing(name: str = "a", **spec: Any) -> Obj:
    return {"metadata": {"name": name}, "spec": {"size": 1, **spec}}


def group_of(path: str) -> str:
    return path.split("/")[2]


def typed(path: str, body: Obj) -> Obj:
    return {"apiVersion": f"{group_of(path)}/v1", "kind": "Thing", **body}


def test_a_definition_is_served(api: Client, things: str) -> None:
    crd = api.get(f"{CRDS}/things.{group_of(things)}")
    assert {"Established": "True", "NamesAccepted": "True"} == {
        c["type"]: c["status"] for c in crd["status"]["conditions"] if c["type"] in ("Established", "NamesAccepted")
    }
    assert ("thing", "ThingList") == (crd["spec"]["names"]["singular"], crd["spec"]["names"]["listKind"])
    assert ["v1"] == crd["status"]["storedVersions"]
    group = group_of(things)
    assert group in [g["name"] for g in api.get("/apis")["groups"]]
    resources = {line["name"]: line for line in api.get(f"/apis/{group}/v1")["resources"]}
    assert {"things", "things/status", "things/scale"} == set(resources)
    assert ["th"] == resources["things"]["shortNames"]
    api.post(things, typed(things, thing()))
    listed = api.get(things)
    assert ("ThingList", f"{group}/v1") == (listed["kind"], listed["apiVersion"])
    assert "Thing" == listed["items"][0]["kind"]


def test_an_unknown_field_is_removed(api: Client, things: str) -> None:
    sent = typed(things, thing(unknown=1, free={"any": 1}, parts=[{"n": 1, "m": 2}], tags={"k": "v"}))
    made = api.post(things, {**sent, "other": 1})
    assert {"size": 1, "color": "red", "free": {"any": 1}, "parts": [{"n": 1}], "tags": {"k": "v"}} == made["spec"]
    assert "other" not in made
    answer = api.ask("POST", things, {**sent, "metadata": {"name": "b"}}, fieldValidation="Strict")
    assert (400, "BadRequest") == (answer.code, answer.reason)
    assert 'unknown field "spec.unknown"' in answer.body["message"]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"size": "three"}, "spec.size"),
        ({"size": -1}, "spec.size"),
        ({"color": "green"}, "spec.color"),
        ({"parts": [{"n": "x"}]}, "spec.parts[0].n"),
        ({"tags": {"k": 1}}, "spec.tags.k"),
    ],
)
def test_the_schema_is_enforced(api: Client, things: str, spec: Obj, field: str) -> None:
    answer = api.ask("POST", things, typed(things, thing(**spec)))
    assert (422, "Invalid") == (answer.code, answer.reason)
    assert field in [cause["field"] for cause in answer.body["details"]["causes"]]


def test_a_required_field(api: Client, things: str) -> None:
    answer = api.ask("POST", things, typed(things, {"metadata": {"name": "a"}, "spec": {}}))
    assert (422, "Invalid") == (answer.code, answer.reason)
    cause = answer.body["details"]["causes"][0]
    assert ("FieldValueRequired", "spec.size") == (cause["reason"], cause["field"])


def test_a_status_subresource(api: Client, things: str) -> None:
    made = api.post(things, {**typed(things, thing()), "status": {"phase": "Done"}})
    assert "status" not in made
    assert 1 == made["metadata"]["generation"]
    patched = api.patch(f"{things}/a", {"status": {"phase": "Done"}})
    assert "status" not in patched
    sent = {"status": {"phase": "Done"}, "spec": {"size": 9}, "metadata": {"labels": {"x": "y"}}}
    status = api.patch(f"{things}/a/status", sent)
    assert ("Done", 1, 1) == (status["status"]["phase"], status["spec"]["size"], status["metadata"]["generation"])
    assert "labels" not in status["metadata"]
    assert 2 == api.patch(f"{things}/a", {"spec": {"size": 2}})["metadata"]["generation"]
    assert "Done" == api.get(f"{things}/a")["status"]["phase"]


def test_without_a_status_subresource_status_is_a_field(api: Client, plain_things: str) -> None:
    """As in Volcano's PodGroup, where clients write the status on the object itself."""
    made = api.post(plain_things, {**typed(plain_things, thing()), "status": {"phase": "Pending"}})
    assert "Pending" == made["status"]["phase"]
    patched = api.patch(f"{plain_things}/a", {"status": {"phase": "Inqueue"}})
    assert ("Inqueue", 2) == (patched["status"]["phase"], patched["metadata"]["generation"])
    assert 404 == api.ask("PATCH", f"{plain_things}/a/status", {"status": {"phase": "Running"}}, MERGE).code
    assert 404 == api.ask("GET", f"{plain_things}/a/scale").code


def test_a_scale_subresource(api: Client, things: str) -> None:
    api.post(things, typed(things, thing(size=3)))
    assert 3 == api.get(f"{things}/a/scale")["spec"]["replicas"]
    assert 4 == api.patch(f"{things}/a/scale", {"spec": {"replicas": 4}})["spec"]["replicas"]
    assert 4 == api.get(f"{things}/a")["spec"]["size"]


def test_an_update_needs_a_version(api: Client, things: str) -> None:
    made = api.post(things, typed(things, thing()))
    answer = api.ask("PUT", f"{things}/a", typed(things, thing(size=2)))
    assert (422, "Invalid") == (answer.code, answer.reason)
    made["spec"]["size"] = 2
    assert 2 == api.put(f"{things}/a", made)["spec"]["size"]


def test_strategic_patches_are_refused(api: Client, things: str) -> None:
    api.post(things, typed(things, thing()))
    assert 415 == api.ask("PATCH", f"{things}/a", {"spec": {"size": 2}}, STRATEGIC).code


def test_lists_are_replaced_by_a_merge_patch(api: Client, things: str) -> None:
    api.post(things, typed(things, thing(parts=[{"n": 1}, {"n": 2}])))
    assert [{"n": 3}] == api.patch(f"{things}/a", {"spec": {"parts": [{"n": 3}]}})["spec"]["parts"]


def test_columns_for_kubectl(api: Client, namespace: str) -> None:
    group = f"columns.{namespace}.example.com"
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase", "priority": 1},
    ]
    define(api, new_crd(group, additionalPrinterColumns=columns))
    path = f"/apis/{group}/v1/namespaces/{namespace}/things"
    api.post(path, typed(path, thing(size=5)))
    table = api.get(path, accept=TABLE)
    assert [("Name", 0), ("Size", 0), ("Age", 0), ("Phase", 1)] == [
        (c["name"], c["priority"]) for c in table["columnDefinitions"]
    ]
    cells = table["rows"][0]["cells"]
    assert ("a", 5) == (cells[0], cells[1])


def test_two_versions_are_one_object(api: Client, namespace: str) -> None:
    group = f"two.{namespace}.example.com"
    crd = new_crd(group)
    old = {**crd["spec"]["versions"][0], "name": "v1beta1", "storage": False}
    crd["spec"]["versions"].append(old)
    define(api, crd)
    path = f"/apis/{group}/v1/namespaces/{namespace}/things"
    api.post(path, typed(path, thing()))
    older = path.replace("/v1/", "/v1beta1/")
    api.until(older, lambda listed: listed.get("items"))
    assert f"{group}/v1beta1" == api.get(f"{older}/a")["apiVersion"]
    api.delete(f"{older}/a")
    assert api.gone(f"{path}/a")


def test_a_deleted_definition_takes_its_objects_with_it(api: Client, things: str) -> None:
    api.post(things, typed(things, thing()))
    api.delete(f"{CRDS}/things.{group_of(things)}")
    api.until(f"{CRDS}/things.{group_of(things)}", lambda obj: obj["kind"] == "Status")
    assert 404 == api.ask("GET", f"{things}/a").code


def test_definitions_that_are_refused(api: Client, namespace: str) -> None:
    crd = new_crd(f"x.{namespace}.example.com")
    crd["metadata"]["name"] = "wrong.example.com"
    assert "Invalid" == api.ask("POST", CRDS, crd).reason
    crd = new_crd(f"x.{namespace}.example.com", schema={})
    assert "Invalid" == api.ask("POST", CRDS, crd).reason


def test_a_watch_ends_with_its_definition(api: Client, things: str) -> None:
    api.post(things, typed(things, thing()))
    version = api.get(things)["metadata"]["resourceVersion"]
    with api.watch(things, resourceVersion=version) as stream:
        api.delete(f"{CRDS}/things.{group_of(things)}")
        types = []
        while (event := stream.next()) is not None:
            types.append(event["type"])
    # A real server marks the definition as terminating, then deletes its objects.
    assert "DELETED" == types[-1]
