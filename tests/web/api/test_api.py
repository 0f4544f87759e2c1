"""The API of `maar web` on an embedded API server, over sockets: what it answers, and to whom."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from tests.support.live import GPU
from tests.support.patience import PATIENCE, until
from tests.support.web import ADMIN, MINE, THEIRS, USER, Web, webbing

Story = Callable[[Web], Awaitable[None]]


def told(tmp_path: Path, story: Story, **options: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE), webbing(tmp_path, **options) as web:
            await scene(web)
            await story(web)

    asyncio.run(main())


async def scene(web: Web) -> None:
    """Two nodes: one job of each namespace runs, and one of each waits."""
    await web.cluster.queue("red", weight=3)
    await web.gang(MINE, "runs", 2, gpu=4, on="n0", queue="red")
    await web.gang(THEIRS, "aq7runs", 1, gpu=8, on="n1")
    await web.gang(THEIRS, "aq7waits", 2, gpu=8, queue="red")
    await web.gang(MINE, "waits", 2, gpu=8, queue="red")
    await web.settled()
    while len(web.mirror.moment.tally.snapshot.tasks) < 7:  # type: ignore[union-attr]
        await web.settled()


def test_the_cluster_its_queues_and_its_nodes(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        client = await web.as_user(ADMIN)
        answer = await client.get("/cluster")
        assert {"ready": 2} == answer["cluster"]["nodes"]
        assert (16, 16) == (answer["cluster"]["allocatable"][GPU], answer["cluster"]["used"][GPU])
        assert 0 <= answer["age"] < 30
        assert answer["decidedAt"] <= answer["asOf"] + answer["age"] + 1
        queues = {queue["name"]: queue for queue in (await client.get("/queues"))["items"]}
        red = queues["red"]
        assert (3, 8, 32) == (red["weight"], red["allocated"][GPU], red["waiting"][GPU])
        nodes = await client.get("/nodes?limit=1")
        assert (["n0"], 2, 1) == ([node["name"] for node in nodes["items"]], nodes["total"], nodes["next"])
        assert [f"{MINE}/runs"] == [job["job"] for job in nodes["items"][0]["jobs"]]
        (second,) = (await client.get("/nodes?limit=1&offset=1"))["items"]
        assert [f"{THEIRS}/aq7runs"] == [job["job"] for job in second["jobs"]]
        assert [] == (await client.get("/nodes?state=cordoned"))["items"]
        assert ["n1", "n0"] == [node["name"] for node in (await client.get("/nodes?sort=-name"))["items"]]
        part = await client.get("/queues?sort=-weight&limit=1")
        assert (["red"], 3, 1) == ([queue["name"] for queue in part["items"]], part["total"], part["next"])
        part = await client.get("/queues?sort=-weight&offset=1&state=open")
        assert (["default", "root"], None) == ([queue["name"] for queue in part["items"]], part["next"])

    told(tmp_path, story)


def test_utilisation_is_kept_from_the_start(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        for name in (ADMIN, USER):
            answer = await (await web.as_user(name)).get("/utilisation")
            first = answer["items"][0]
            assert (1.0, 16, 0) == (answer["every"], first["total"], first["used"]), "before the scene"
            assert first["until"] is None

    told(tmp_path, story)


def test_jobs_are_filtered_sorted_and_paged(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        client = await web.as_user(ADMIN)

        async def names(query: str) -> list[str]:
            return [job["name"] for job in (await client.get(f"/jobs{query}"))["items"]]

        assert ["aq7runs", "aq7waits", "runs", "waits"] == await names("")
        assert ["waits", "runs", "aq7waits", "aq7runs"] == await names("?sort=-name")
        assert ["aq7waits", "waits"] == await names("?state=waiting")
        assert ["runs", "waits"] == await names(f"?namespace={MINE}")
        assert ["aq7runs"] == await names("?queue=default")
        assert ["waits"] == await names("?owner=PodGroup/waits")
        assert ["aq7runs", "aq7waits", "runs", "waits"] == await names("?owner=podgroup")
        assert ["aq7waits"] == await names("?limit=1&offset=1")
        answer = await client.get("/jobs?limit=3")
        assert (4, 3, {}) == (answer["total"], answer["next"], answer["others"])

    told(tmp_path, story)


def test_a_waiting_job_is_explained(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        client = await web.as_user(ADMIN)
        detail = (await client.get(f"/jobs/{MINE}/waits?budget=10"))["detail"]
        assert ("waits", "waiting", 2) == (detail["start"], detail["job"]["state"], len(detail["pods"]))
        assert [{"pods": 2, "requests": {GPU: "8", "cpu": "100m"}, "role": ""}] == detail["needs"]
        assert (2, 2) == (detail["place"]["number"], detail["place"]["waiting"])
        ((ahead),) = detail["place"]["ahead"]
        assert f"{THEIRS}/aq7waits" == ahead["name"]
        assert ahead["by"]
        assert detail["reasons"][0]["message"]
        changes = detail["unblock"]["changes"]
        assert changes
        assert all(change["words"] and change["start"] != "waits" for change in changes)
        assert "Created" == detail["story"][0]["what"]
        assert not detail["forecast"]["known"]
        quick = (await client.get(f"/jobs/{MINE}/waits?unblock=false"))["detail"]
        assert ([], False) == (quick["unblock"]["changes"], quick["unblock"]["complete"])
        running = (await client.get(f"/jobs/{MINE}/runs"))["detail"]
        assert ("runs", None) == (running["start"], running["place"])

    told(tmp_path, story)


def test_the_story_has_the_events_of_the_job(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        event = {
            "metadata": {"name": "e1"},
            "involvedObject": {"kind": "PodGroup", "name": "waits", "namespace": MINE},
            "reason": "Evicted",
            "message": f"made room for `{THEIRS}/aq7runs`",
            "lastTimestamp": "2100-11-01T10:00:00Z",
        }
        await web.cluster.api.create(f"/api/v1/namespaces/{MINE}/events", event)
        for name, words in ((ADMIN, f"made room for `{THEIRS}/aq7runs`"), (USER, "made room for another job")):
            client = await web.as_user(name)
            last = (await client.get(f"/jobs/{MINE}/waits?unblock=false"))["detail"]["story"][-1]
            assert ("Evicted", words, "event") == (last["what"], last["words"], last["source"])

    told(tmp_path, story)


def test_the_story_says_for_whom_a_job_was_evicted(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        words = f"preempted: gang of `{MINE}/waits` (priority 1) for `{THEIRS}/aq7runs` (priority 9)"
        for i, message in enumerate([words, words, f"preempted: gang of `{MINE}/other` (priority 1) for `x/y`"]):
            event = {
                "metadata": {"name": f"e{i}"},
                "involvedObject": {"kind": "Pod", "name": f"gone-{i}", "namespace": MINE},
                "reason": "Preempted",
                "message": message,
                "lastTimestamp": f"2100-11-01T10:00:0{i}Z",
            }
            await web.cluster.api.create(f"/api/v1/namespaces/{MINE}/events", event)
        for name, whom in ((ADMIN, f"`{THEIRS}/aq7runs`"), (USER, "another job")):
            entries = (await (await web.as_user(name)).get(f"/jobs/{MINE}/waits?unblock=false"))["detail"]["story"]
            (evicted,) = [entry for entry in entries if entry["what"] == "Evicted"]
            said = f"preempted: gang of `{MINE}/waits` (priority 1) for {whom} (priority 9): 2 pods"
            assert (said, datetime(2100, 11, 1, 10, tzinfo=UTC).timestamp()) == (evicted["words"], evicted["at"])

    told(tmp_path, story)


def test_decisions_are_those_of_the_shadow(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        client = await web.as_user(ADMIN)
        await web.cluster.nodes(2, gpu=8, first=2)
        for _ in range(100):
            await web.settled()
            items = (await client.get("/decisions"))["items"]
            if any(item["bind"] for item in items):
                break
        (bound,) = items[0]["bind"]
        assert (True, f"{THEIRS}/aq7waits") == (items[0]["shadow"], bound["job"])
        assert {"aq7waits-0", "aq7waits-1"} == bound["pods"].keys()
        assert 2 == items[0]["happened"]["waiting"], "the shadow binds nothing"
        assert items[0]["number"] > items[-1]["number"] or len(items) == 1
        part = (await (await web.as_user(USER)).get("/decisions"))["items"][0]
        assert ([], 2) == (part["bind"], part["others"]["bind"])
        assert [] == (await client.get(f"/decisions?job={MINE}/waits"))["items"]
        number = items[0]["number"]
        await web.settled()
        assert number == (await client.get("/decisions"))["items"][0]["number"], "the same decision is kept once"
        question = {"edits": [{"edit": "remove-nodes", "nodes": ["n2"]}], "decision": number}
        answer = (await client.post("/what-if", question))["whatIf"]
        assert [f"{THEIRS}/aq7waits"] == answer["stays"]
        await web.cluster.api.delete("/api/v1/nodes/n2")
        await web.settled()
        assert answer == (await client.post("/what-if", question))["whatIf"], "as the cluster was then"
        status, body = await client.ask("/api/v1/what-if", {**question, "decision": 10**9})
        assert (422, "decision") == (status, msgspec.json.decode(body)["field"])

    told(tmp_path, story)


def test_what_if_answers_and_writes_nothing(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        client = await web.as_user(USER)
        before = await web.cluster.versions()
        question = {"edits": [{"edit": "add-nodes-like", "like": "n0", "count": 4}]}
        answer = (await client.post("/what-if", question))["whatIf"]
        assert (["add 4 nodes like `n0`"], [f"{MINE}/waits"]) == (answer["edits"], answer["starts"])
        assert {"starts": 1} == answer["others"], "the other waiting job starts too"
        (bound,) = answer["plan"]["bind"]
        assert (f"{MINE}/waits", {"waits-0", "waits-1"}) == (bound["job"], set(bound["pods"]))
        assert all(name.startswith("n0-copy-") for name in bound["pods"].values())
        assert ({"admit": 1, "bind": 2}, [f"{MINE}/waits"]) == (answer["plan"]["others"], answer["plan"]["admit"])
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "new", "namespace": MINE},
            "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]},
        }
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "extra"}}
        node["status"] = {"allocatable": {"cpu": "8", "pods": "110", "memory": "8Gi"}}
        answer = (await client.post("/what-if", {"manifests": [pod, node]}))["whatIf"]
        assert [f"{MINE}/new"] == answer["starts"]
        text = "apiVersion: v1\nkind: Pod\nmetadata: {name: new, namespace: " + MINE + "}\nspec:\n"
        text += "  containers: [{name: c, resources: {limits: {cpu: 1}}}]\n"
        assert [f"{MINE}/new"] == (await client.post("/what-if", {"manifests": text}))["whatIf"]["starts"]
        assert before == await web.cluster.versions()

    told(tmp_path, story)


def test_bad_input_is_refused_with_the_path_of_the_field(tmp_path: Path) -> None:
    bomb = "a: &a [1]\nb: *a\n"
    edits: list[tuple[Any, str]] = [
        ({"edit": "set-weight", "queue": "red", "weight": "many"}, "edits[0].weight"),
        ({"edit": "set-weight", "queue": "red", "weight": 0}, "edits[0].weight"),
        ({"edit": "set-weight", "queue": "nored", "weight": 1}, "edits[0].queue"),
        ({"edit": "set-weight", "queue": "red", "wait": 1}, "edits[0]"),
        ({"edit": "explode"}, "edits[0].edit"),
        ({"edit": "cordon", "nodes": ["n0", "n9"]}, "edits[0].nodes[1]"),
        ({"edit": "end-jobs", "jobs": [f"{THEIRS}/aq7runs"]}, "edits[0].jobs[0]"),
        ({"edit": "end-jobs", "jobs": [f"{MINE}/nothing"]}, "edits[0].jobs[0]"),
        ({"edit": "end-reservation", "job": f"{MINE}/runs"}, "edits[0].job"),
        ({"edit": "set-quota", "quota": f"{THEIRS}/q", "hard": {"cpu": 1}}, "edits[0].quota"),
        ({"edit": "add-nodes-like", "like": "n0", "count": 10**9}, "edits[0].count"),
        ({"edit": "use-config", "text": "actions: nothing"}, "edits[0].text"),
        ({"edit": "use-config", "text": bomb}, "edits[0].text"),
    ]
    cases: list[tuple[Any, int, str]] = [({"edits": [edit]}, 422, field) for edit, field in edits]
    cases += [
        (b"{", 400, ""),
        (b"[]", 422, ""),
        ({}, 422, "edits"),
        ({"edits": {}}, 422, "edits"),
        ({"edit": []}, 422, ""),
        ({"manifests": bomb}, 422, "manifests"),
        ({"manifests": [{"kind": "Pod"}]}, 422, "manifests[0]"),
        ({"manifests": [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}}]}, 422, "manifests"),
        (
            {"manifests": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": THEIRS}}]},
            403,
            "manifests",
        ),
        (b"[" * 100_000, 422, ""),
        (b'{"edits":' + b"[" * 50_000, 422, "edits[0]"),
    ]
    queries = {
        "/jobs?limit=x": "query.limit",
        "/jobs?limit=0": "query.limit",
        "/jobs?limit=1&limit=2": "query.limit",
        "/jobs?sort=size": "query.sort",
        "/jobs?state=tired": "query.state",
        "/jobs?colour=red": "query.colour",
        "/nodes?state=on": "query.state",
        "/cluster?x=1": "query.x",
        f"/jobs/{MINE}/waits?unblock=perhaps": "query.unblock",
        f"/jobs/{MINE}/waits?budget=99": "query.budget",
        f"/jobs/{MINE}/%00": "path.name",
    }

    async def story(web: Web) -> None:
        client = await web.as_user(USER)
        for body, status, field in cases:
            got, text = await client.ask("/api/v1/what-if", body)
            answer = msgspec.json.decode(text)
            assert (status, field) == (got, answer.get("field", "")), (body, answer)
            assert THEIRS.encode() not in text
        for path, field in queries.items():
            got, text = await client.ask(f"/api/v1{path}")
            assert (400, field) == (got, msgspec.json.decode(text).get("field")), path

    told(tmp_path, story)


def test_what_if_adds_the_first_job_of_a_namespace(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE), webbing(tmp_path) as web:
            client = await web.as_user(USER)
            pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: new, namespace: %s}\nspec: {containers: [{name: c}]}\n"
            answer = (await client.post("/what-if", {"manifests": pod % MINE}))["whatIf"]
            assert [f"{MINE}/new"] == answer["starts"]
            status, body = await client.ask("/api/v1/what-if", {"manifests": pod % THEIRS})
            assert (403, False) == (status, THEIRS.encode() in body)

    asyncio.run(main())


def test_the_stream_tells_what_changes(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        user, admin = await web.as_user(USER), await web.as_user(ADMIN)
        async with user.stream() as mine, admin.stream() as all_events:
            assert (await anext(mine))["all"]
            assert (await anext(all_events))["all"]
            await web.gang(THEIRS, "aq7new", 1, gpu=1)
            await web.gang(MINE, "new", 1, gpu=1)
            seen: set[str] = set()
            async with asyncio.timeout(20):
                while f"{MINE}/new" not in seen:
                    event = await anext(mine)
                    seen |= {f"{job['namespace']}/{job['name']}" for job in event["jobs"]}
                    assert THEIRS not in str(event)
            await web.cluster.api.delete(f"/api/v1/namespaces/{MINE}/pods/runs-0")
            async with asyncio.timeout(20):
                while True:
                    event = await anext(all_events)
                    if "n0" in [node["name"] for node in event["nodes"]]:
                        break

    told(tmp_path, story)


def test_it_survives_a_restart_of_the_api_server(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        client = await web.as_user(ADMIN)
        await client.get("/cluster")
        await web.server.restart()
        await web.gang(MINE, "later", 1, gpu=1)

        async def shown() -> bool:
            return "later" in [job["name"] for job in (await client.get("/jobs"))["items"]]

        await until(shown, "the later job is shown")

    told(tmp_path, story)
