"""The fences of a take-over, against a server that fails and refuses."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from aiohttp import web
from tests.support.sockets import answer, cut, refusal, serving

from maar.controller.take_over import fence_all
from maar.kube.client.access import Access
from maar.kube.client.api import Api

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
