"""Watches: start, selection, bookmarks, error 410, end."""

from tests.api.conftest import Client, new_map, new_pod


def version(obj: dict[str, dict[str, str]]) -> int:
    return int(obj["metadata"]["resourceVersion"])


def test_a_watch_sees_every_change_in_order(api: Client, maps: str) -> None:
    start = api.get(maps)["metadata"]["resourceVersion"]
    with api.watch(maps, resourceVersion=start) as watch:
        made = api.post(maps, new_map("a"))
        changed = api.patch(f"{maps}/a", {"data": {"x": "2"}})
        api.delete(f"{maps}/a")
        added, modified, deleted = watch.expect("ADDED", "MODIFIED", "DELETED")
    assert made == added
    assert changed == modified
    assert version(deleted) > version(modified) > version(added) > int(start)
    assert {"x": "2"} == deleted["data"]


def test_a_watch_resumes_where_another_was_cut(api: Client, maps: str) -> None:
    first = api.post(maps, new_map("a"))
    api.post(maps, new_map("b"))
    api.delete(f"{maps}/a")
    with api.watch(maps, resourceVersion=version(first)) as watch:
        added, deleted = watch.expect("ADDED", "DELETED")
    assert ("b", "a") == (added["metadata"]["name"], deleted["metadata"]["name"])


def test_a_watch_without_a_version_begins_with_existing_objects(api: Client, maps: str) -> None:
    for name in ("a", "b"):
        api.post(maps, new_map(name))
    for start in ({}, {"resourceVersion": "0"}):
        with api.watch(maps, **start) as watch:
            assert ["a", "b"] == sorted(obj["metadata"]["name"] for obj in watch.expect("ADDED", "ADDED"))


def test_what_leaves_a_selection_is_deleted_for_its_watchers(api: Client, maps: str) -> None:
    start = api.get(maps)["metadata"]["resourceVersion"]
    with api.watch(maps, resourceVersion=start, labelSelector="in=yes") as watch:
        api.post(maps, new_map("a"))
        api.patch(f"{maps}/a", {"metadata": {"labels": {"in": "yes"}}})
        api.patch(f"{maps}/a", {"data": {"x": "2"}})
        left = api.patch(f"{maps}/a", {"metadata": {"labels": {"in": "no"}}})
        api.delete(f"{maps}/a")
        api.post(maps, new_map("end", labels={"in": "yes"}))
        added, modified, deleted, end = watch.expect("ADDED", "MODIFIED", "DELETED", "ADDED")
    assert "end" == end["metadata"]["name"]
    assert {"x": "2"} == modified["data"]
    assert {"in": "yes"} == added["metadata"]["labels"]
    # The object as it was while selected, at the version of the change that removed it from the selection.
    assert {"in": "yes"} == deleted["metadata"]["labels"]
    assert version(left) == version(deleted)


def test_a_watch_by_field(api: Client, pods: str) -> None:
    start = api.get(pods)["metadata"]["resourceVersion"]
    with api.watch(pods, resourceVersion=start, fieldSelector="spec.nodeName=") as watch:
        api.post(pods, new_pod("a"))
        binding = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}}
        api.post(f"{pods}/a/binding", binding)
        _, deleted = watch.expect("ADDED", "DELETED")
    assert "nodeName" not in deleted["spec"]


def test_a_watch_of_one_namespace_sees_no_other(api: Client, maps: str, namespace: str) -> None:
    start = api.get(maps)["metadata"]["resourceVersion"]
    with api.watch(maps, resourceVersion=start) as watch:
        api.post("/api/v1/namespaces/default/configmaps", new_map(namespace))
        api.post(maps, new_map("mine"))
        (added,) = watch.expect("ADDED")
    assert "mine" == added["metadata"]["name"]
    api.delete(f"/api/v1/namespaces/default/configmaps/{namespace}")


def test_a_list_as_a_watch_ends_in_a_bookmark(api: Client, maps: str) -> None:
    for name in ("a", "b"):
        api.post(maps, new_map(name))
    asked = {"sendInitialEvents": "true", "allowWatchBookmarks": "true", "resourceVersionMatch": "NotOlderThan"}
    with api.watch(maps, **asked) as watch:
        *added, mark = watch.expect("ADDED", "ADDED", "BOOKMARK")
        assert ["a", "b"] == sorted(obj["metadata"]["name"] for obj in added)
        assert {"k8s.io/initial-events-end": "true"} == mark["metadata"]["annotations"]
        assert "ConfigMap" == mark["kind"]
        assert version(mark) >= max(map(version, added))
        api.post(maps, new_map("c"))
        assert "c" == watch.expect("ADDED")[0]["metadata"]["name"]


def test_a_list_as_a_watch_needs_its_match(api: Client, maps: str) -> None:
    answer = api.ask("GET", maps, watch="true", sendInitialEvents="true", allowWatchBookmarks="true")
    assert (422, "Invalid") == (answer.code, answer.reason)


def test_a_watch_ends_in_time_and_a_bookmark_shows_its_progress(api: Client, maps: str) -> None:
    start = api.get(maps)["metadata"]["resourceVersion"]
    wanted = {"labelSelector": "none=of-them", "allowWatchBookmarks": "true", "timeoutSeconds": 4}
    with api.watch(maps, resourceVersion=start, **wanted) as watch:
        unseen = api.post(maps, new_map("a"))
        (mark,) = watch.expect("BOOKMARK")
        assert version(mark) >= version(unseen)
        while (event := watch.next()) is not None:
            assert "BOOKMARK" == event["type"]


def test_history_that_is_gone_is_an_error_event(api: Client, namespace: str, things: str) -> None:
    # The kind did not exist at version 1, so the server has no history from then.
    with api.watch(things, resourceVersion="1") as watch:
        event = watch.next()
        assert event is not None
        assert "ERROR" == event["type"]
        status = event["object"]
        assert (410, "Expired", "Failure") == (status["code"], status["reason"], status["status"])
        assert watch.next() is None


def test_a_version_that_is_not_a_number_is_refused(api: Client, maps: str) -> None:
    assert 500 == api.ask("GET", maps, watch="true", resourceVersion="abc").code


def test_writes_that_change_nothing_make_no_event(api: Client, maps: str) -> None:
    made = api.post(maps, new_map("a"))
    with api.watch(maps, resourceVersion=version(made)) as watch:
        same = api.put(f"{maps}/a", made)
        assert version(made) == version(same)
        api.delete(f"{maps}/a")
        watch.expect("DELETED")


def test_a_table_can_be_watched(api: Client, maps: str) -> None:
    api.post(maps, new_map("a"))
    # `kubectl get --watch` sends this header.
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}

    async def first() -> bytes:
        async with api.session.get(maps, params={"watch": "true"}, headers=accept) as response:
            return await response.content.readline()

    line = api.runner.run(first())
    assert b'"kind":"Table"' in line
    assert b'"cells":["a",1' in line
