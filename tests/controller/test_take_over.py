"""The fences and evictions of a take-over, against a server that fails and refuses."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest
from aiohttp import web
from tests.support.sockets import answer, cut, refusal, serving

from maar.controller.take_over import evict_all, fence_all
from maar.kube.client.access import Access
from maar.kube.client.api import Api
from maar.kube.write.decided import DecidedVictim

PODS = "/api/v1/namespaces/default/pods"


def fenced(plays: dict[str, list[Any]], patience: float = 60.0, **more: Any) -> Counter[str]:
    """Fence these objects; the server answers with each code in turn. Returns how often it was asked for each path."""
    asked: Counter[str] = Counter()

    async def handle(request: web.Request) -> web.StreamResponse:
        play = plays.get(request.path.removesuffix("/status").rpartition("/")[2], [200])
        path = request.path.removeprefix(f"{PODS}/")
        said = play[min(asked.total() if len(plays) == 1 else asked[path], len(play) - 1)]
        asked[path] += 1
        if said is cut:
            cut(request)
        return answer({}) if said == 200 else refusal(said, "", "because")

    async def main() -> None:
        async with serving(handle) as address:
            api = await Api.open(Access(address))
            await fence_all(api, [f"{PODS}/{name}" for name in plays], 7, patience, **more)
            await api.close()

    asyncio.run(main())
    return asked


@pytest.mark.parametrize("trouble", [409, 410, 429, 500, 503, cut])
def test_a_fence_without_an_answer_is_sent_until_it_has_one(trouble: Any) -> None:
    """A server answers 409 to a patch without a version too, if others change the object again and again."""
    assert {"a/status": 3} == fenced({"a": [trouble, trouble, 200]})


def test_each_object_is_told_when_it_is_fenced_and_not_before() -> None:
    told: list[str] = []
    asked = fenced({"a": [200], "b": [500, 200]}, done=told.append)
    assert [f"{PODS}/a", f"{PODS}/b"] == told
    assert {"a/status": 1, "b/status": 2} == asked


def test_what_is_gone_needs_no_fence() -> None:
    assert {"a/status": 1} == fenced({"a": [404]})


def test_a_fence_that_is_refused_in_one_form_is_written_in_another() -> None:
    assert {"a/status": 1, "a": 1} == fenced({"a": [403, 200]})
    assert {"a/status": 1, "a": 2} == fenced({"a": [403, 422, 200]})


def test_an_object_that_refuses_every_fence_is_tried_for_a_while(caplog: pytest.LogCaptureFixture) -> None:
    asked = fenced({"a": [403], "b": [200]}, patience=0.5)
    assert 1 < asked["a/status"] < 10
    assert 1 == asked["b/status"]
    assert ["cannot be fenced"] == [w for r in caplog.records if (w := "cannot be fenced") in r.getMessage()]


def test_an_object_whose_webhook_is_down_does_not_stop_a_take_over_for_ever() -> None:
    asked = fenced({"a": [500], "b": [200]}, patience=0.5)
    assert 1 < asked["a/status"] < 10
    assert 1 == asked["b/status"]


# -- decided evictions


def victims(*names: str, **more: Any) -> list[DecidedVictim]:
    return [DecidedVictim(f"{PODS}/{name}", f"u-{name}", 5, **more) for name in names]


def evicted(plays: dict[str, list[Any]], patience: float = 60.0, **more: Any) -> tuple[Counter[str], list[str]]:
    """Carry out these evictions. Returns how often the server was asked for each, and the pods that are gone."""
    asked: Counter[str] = Counter()
    gone: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        name = request.path.removeprefix(f"{PODS}/").partition("/")[0]
        asked[f"{request.method} {name}"] += 1
        if request.method == "GET":
            return answer(play) if isinstance(play := plays[f"GET {name}"][0], dict) else refusal(play)
        body = json.loads(await request.read())
        options = body.get("deleteOptions", body)
        assert ({"uid": f"u-{name}"}, 5) == (options["preconditions"], options["gracePeriodSeconds"])
        said = plays[name][min(asked[f"{request.method} {name}"], len(plays[name])) - 1]
        if said is cut:
            cut(request)
        if said == "budget":
            causes = [{"reason": "DisruptionBudget", "message": "one must stay"}]
            return refusal(429, "TooManyRequests", "because", causes=causes)
        return answer({}) if said == 200 else refusal(said, "", "because")

    async def main() -> None:
        async with serving(handle) as address:
            api = await Api.open(Access(address))
            names = [name for name in plays if not name.startswith("GET")]
            await evict_all(api, victims(*names, **more), patience, done=gone.append)
            await api.close()

    asyncio.run(main())
    return asked, [path.rpartition("/")[2] for path in gone]


def found(name: str = "a", uid: str = "u-a", phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    named = {"name": name, "namespace": "default", "uid": uid, "resourceVersion": "2", **metadata}
    return {"metadata": named, "spec": {"nodeName": "n"}, "status": {"phase": phase}}


@pytest.mark.parametrize("trouble", [401, 429, 500, 503, cut])
def test_a_decided_eviction_without_an_answer_is_sent_until_it_has_one(trouble: Any) -> None:
    asked, gone = evicted({"a": [trouble, trouble, 200]})
    assert 3 <= asked["POST a"]
    assert ["a"] == gone


def test_victims_that_are_to_be_deleted_are_deleted() -> None:
    assert ({"DELETE a": 1}, ["a"]) == evicted({"a": [200]}, deletes=True)


def test_a_pod_that_is_gone_or_going_or_another_one_is_settled() -> None:
    assert ["a"] == evicted({"a": [404]})[1]
    assert ["a"] == evicted({"a": [409], "GET a": [404]})[1]
    assert ["a"] == evicted({"a": [409], "GET a": [found(uid="another")]})[1]
    assert ["a"] == evicted({"a": [409], "GET a": [found(deletionTimestamp="2030-01-01T00:00:00Z")]})[1]


def test_a_pod_that_changes_all_the_time_is_evicted_when_the_server_adds_the_version_itself() -> None:
    asked, gone = evicted({"a": [409] * 4 + [200], "GET a": [found(phase="Pending")]})
    assert (5, ["a"]) == (asked["POST a"], gone)


@pytest.mark.parametrize(("said", "times"), [("budget", 1), (403, 1)])
def test_a_budget_or_a_missing_right_does_not_delay_a_take_over(
    said: Any, times: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A tenant can write budgets. The pod gets a fence then, as others."""
    asked, gone = evicted({"a": [said], "b": [200]})
    assert (times, ["b"]) == (asked["POST a"], gone)
    assert 1 == sum("a late request may still do so" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("said", [409, 500])
def test_a_pod_that_the_server_never_evicts_delays_a_take_over_for_a_while_only(said: int) -> None:
    asked, gone = evicted({"a": [said], "GET a": [found()], "b": [200]}, patience=0.5)
    assert 1 < asked["POST a"] < 10
    assert ["b"] == gone
