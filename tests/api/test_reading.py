"""Get and list: selectors, pages, versions, tables, discovery."""

import pytest
from tests.api.conftest import Client, new_map, new_node, new_pod

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def names(listed: dict[str, list[dict[str, dict[str, str]]]]) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


def test_a_list_has_a_version_and_its_items_no_kind(api: Client, maps: str) -> None:
    made = api.post(maps, new_map("a"))
    listed = api.get(maps)
    assert ("ConfigMapList", "v1") == (listed["kind"], listed["apiVersion"])
    assert int(listed["metadata"]["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])
    assert not {"kind", "apiVersion"} & set(listed["items"][0])
    assert ("ConfigMap", "v1") == (made["kind"], made["apiVersion"])


def test_lists_are_in_the_order_of_names(api: Client, maps: str) -> None:
    for name in ("b", "a", "c"):
        api.post(maps, new_map(name))
    assert ["a", "b", "c"] == names(api.get(maps))


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("app=web", ["a"]),
        ("app==web,tier=1", ["a"]),
        ("app!=web", ["b", "c"]),
        ("app", ["a", "b"]),
        ("!app", ["c"]),
        ("app in (web,db)", ["a", "b"]),
        ("app notin (web)", ["b", "c"]),
        ("tier>1", ["b"]),
        ("app=web,tier=2", []),
        ("", ["a", "b", "c"]),
    ],
)
def test_label_selectors(api: Client, maps: str, selector: str, expected: list[str]) -> None:
    api.post(maps, new_map("a", labels={"app": "web", "tier": "1"}))
    api.post(maps, new_map("b", labels={"app": "db", "tier": "2"}))
    api.post(maps, new_map("c"))
    assert expected == names(api.get(maps, labelSelector=selector))


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("spec.nodeName=n1", ["a"]),
        ("spec.nodeName=", ["b"]),
        ("spec.nodeName!=n1", ["b"]),
        ("metadata.name=b", ["b"]),
        ("status.phase=Pending", ["a", "b"]),
        ("status.phase=Pending,metadata.name==a", ["a"]),
        ("spec.schedulerName=maar", ["b"]),
        ("status.phase!=Pending", []),
    ],
)
def test_field_selectors(api: Client, pods: str, selector: str, expected: list[str]) -> None:
    api.post(pods, new_pod("a", nodeName="n1"))
    api.post(pods, new_pod("b", schedulerName="maar"))
    assert expected == names(api.get(pods, fieldSelector=selector))


def test_a_namespace_is_a_selection(api: Client, maps: str, namespace: str) -> None:
    api.post(maps, new_map("a"))
    assert ["a"] == names(api.get("/api/v1/configmaps", fieldSelector=f"metadata.namespace={namespace}"))


def test_invalid_selectors_are_refused(api: Client, pods: str) -> None:
    assert "BadRequest" == api.ask("GET", pods, labelSelector="a in b").reason
    assert "BadRequest" == api.ask("GET", pods, fieldSelector="spec.containers=x").reason


def test_pages_show_one_version_whatever_happens_between_them(api: Client, maps: str) -> None:
    for name in ("a", "b", "c", "d", "e"):
        api.post(maps, new_map(name))
    first = api.get(maps, limit=2)
    assert ["a", "b"] == names(first)
    assert 3 == first["metadata"]["remainingItemCount"]
    api.delete(f"{maps}/d")
    api.post(maps, new_map("bb"))
    second = api.get(maps, limit=2, **{"continue": first["metadata"]["continue"]})
    assert ["c", "d"] == names(second)
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]
    last = api.get(maps, limit=2, **{"continue": second["metadata"]["continue"]})
    assert ["e"] == names(last)
    assert "continue" not in last["metadata"]


def test_a_list_at_an_exact_version(api: Client, maps: str) -> None:
    api.post(maps, new_map("a"))
    then = api.get(maps)["metadata"]["resourceVersion"]
    api.post(maps, new_map("b"))
    past = api.get(maps, resourceVersion=then, resourceVersionMatch="Exact")
    assert ["a"] == names(past)
    assert ["a", "b"] == names(api.get(maps, resourceVersion=then, resourceVersionMatch="NotOlderThan"))


def test_a_broken_continue_token_is_refused(api: Client, maps: str) -> None:
    assert "BadRequest" == api.ask("GET", maps, limit=1, **{"continue": "nonsense"}).reason


def test_missing_objects_and_paths(api: Client, pods: str) -> None:
    answer = api.ask("GET", f"{pods}/missing")
    assert (404, "NotFound") == (answer.code, answer.reason)
    assert 'pods "missing" not found' == answer.body["message"]
    assert {"name": "missing", "kind": "pods"} == answer.body["details"]
    assert 404 == api.ask("GET", "/apis/no.such.group/v1/things").code
    assert 404 == api.ask("GET", "/api/v1/nothings").code
    assert [] == api.get("/api/v1/namespaces/no-such-namespace/pods")["items"]


def test_tables_for_kubectl(api: Client, pods: str) -> None:
    api.post(pods, new_pod("a", nodeName="n1"))
    table = api.get(pods, accept=TABLE)
    assert ("Table", "meta.k8s.io/v1") == (table["kind"], table["apiVersion"])
    columns = [column["name"] for column in table["columnDefinitions"]]
    assert ["Name", "Ready", "Status", "Restarts", "Age", "IP", "Node", "Nominated Node", "Readiness Gates"] == columns
    row = table["rows"][0]
    assert ["a", "0/1", "Pending"] == row["cells"][:3]
    assert "n1" == row["cells"][6]
    assert "PartialObjectMetadata" == row["object"]["kind"]


def test_tables_of_nodes(api: Client, namespace: str) -> None:
    api.post("/api/v1/nodes", new_node(namespace))
    table = api.get(f"/api/v1/nodes/{namespace}", accept=TABLE)
    assert ["Name", "Status", "Roles", "Age", "Version"] == [c["name"] for c in table["columnDefinitions"]][:5]
    assert [namespace, "Unknown", "<none>"] == table["rows"][0]["cells"][:3]


def test_discovery(api: Client) -> None:
    assert ["v1"] == api.get("/api")["versions"]
    groups = {group["name"]: group for group in api.get("/apis")["groups"]}
    wanted = {"apps", "batch", "policy", "scheduling.k8s.io", "coordination.k8s.io", "events.k8s.io", "storage.k8s.io"}
    assert wanted <= set(groups)
    assert "policy/v1" == groups["policy"]["preferredVersion"]["groupVersion"]
    assert "policy" == api.get("/apis/policy")["name"]
    core = {line["name"]: line for line in api.get("/api/v1")["resources"]}
    assert {"pods/binding", "pods/eviction", "pods/status", "nodes/status"} <= set(core)
    assert core["pods"]["namespaced"]
    assert not core["nodes"]["namespaced"]
    assert ["po"] == core["pods"]["shortNames"]
    assert {"list", "watch", "patch", "deletecollection"} <= set(core["pods"]["verbs"])
    eviction = core["pods/eviction"]
    assert ("policy", "v1", "Eviction") == (eviction["group"], eviction["version"], eviction["kind"])


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/livez"])
def test_health(api: Client, path: str) -> None:
    assert (200, "ok") == tuple(api.ask("GET", path))


def test_the_version(api: Client) -> None:
    assert ("1", "36") == (api.get("/version")["major"], api.get("/version")["minor"])


def test_a_wrong_token_is_refused(api: Client) -> None:
    async def asked() -> int:
        async with api.session.get("/api/v1/nodes", headers={"Authorization": "Bearer wrong"}) as response:
            return response.status

    assert 401 == api.runner.run(asked())


def test_both_apis_for_events_show_the_same_event(api: Client, namespace: str) -> None:
    about = {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": namespace}
    event = {
        "metadata": {"name": "p.1"},
        "regarding": about,
        "eventTime": "2026-11-01T00:00:00.000000Z",
        "reason": "Scheduled",
        "action": "Binding",
        "note": "it fits",
        "type": "Normal",
        "reportingController": "maar.dev/scheduler",
        "reportingInstance": "maar-0",
    }
    api.post(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", event)
    core = f"/api/v1/namespaces/{namespace}/events"
    found = api.get(core, fieldSelector="involvedObject.name=p,reason=Scheduled")["items"]
    assert ["it fits"] == [e["message"] for e in found]
    assert "maar.dev/scheduler" == found[0]["reportingComponent"]
    assert about == found[0]["involvedObject"]
    back = api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events/p.1")
    assert ("it fits", about) == (back["note"], back["regarding"])
