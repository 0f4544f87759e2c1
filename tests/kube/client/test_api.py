"""Requests, lists and watches over a socket, against servers that misbehave."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import web
from tests.support.sockets import Handler, answer, cut, refusal, serving, stream, until

from maar.kube.client import errors
from maar.kube.client.access import Access
from maar.kube.client.api import Api
from maar.kube.client.credentials import Credentials
from maar.kube.client.reader import resource_in
from maar.kube.client.streams import Broken, WatchEvent
from maar.kube.kinds import KINDS
from maar.kube.wire.api_resources import NODES, PODS, PRIORITY_CLASSES, QUEUES
from maar.kube.wire.pods import Pod


@asynccontextmanager
async def api_to(handler: Handler) -> AsyncIterator[Api]:
    async with serving(handler) as server:
        api = await Api.open(Access(server))
        try:
            yield api
        finally:
            await api.close()


def asked(handler: Handler, question: Callable[[Api], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        async with api_to(handler) as api:
            return await question(api)

    return asyncio.run(main())


def refused(response: Callable[[], web.Response], kind: type[errors.ApiError]) -> errors.ApiError:
    async def handler(request: web.Request) -> web.Response:
        return response()

    with pytest.raises(errors.ApiError) as caught:
        asked(handler, lambda api: api.get("/api/v1/pods"))
    assert kind is type(caught.value)
    return caught.value


def pod(name: str, version: int = 1, **more: Any) -> dict[str, Any]:
    metadata = {"namespace": "ns", "name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {"nodeName": "", **more}}


async def watched(api: Api, version: str = "1", **options: Any) -> list[WatchEvent[Pod]]:
    async with aclosing(api.watch(PODS, version, **options)) as events:
        return [event async for event in events]


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (400, "BadRequest", errors.Invalid),
        (404, "NotFound", errors.NotFound),
        (409, "Conflict", errors.Conflict),
        (409, "AlreadyExists", errors.AlreadyExists),
        (410, "Expired", errors.Gone),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.TooManyRequests),
        (500, "InternalError", errors.ServerFault),
        (503, "ServiceUnavailable", errors.ServerFault),
    ],
)
def test_each_refusal_has_its_error(status: int, reason: str, kind: type[errors.ApiError]) -> None:
    error = refused(lambda: refusal(status, reason, "because"), kind)
    assert (status, reason, "GET", "/api/v1/pods") == (error.status, error.reason, error.verb, error.path)
    assert "GET /api/v1/pods: because" == str(error)


def test_a_refusal_need_not_be_json() -> None:
    error = refused(lambda: web.Response(status=502, text="<html>Bad Gateway</html>"), errors.ServerFault)
    assert "<html>Bad Gateway</html>" == error.message


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            'pods "a" is forbidden: User "system:serviceaccount:maar:maar" cannot create resource "pods/binding" '
            'in API group "" in the namespace "ns"',
            "forbidden: grant `create` on `pods/binding` in namespace `ns` to `system:serviceaccount:maar:maar`",
        ),
        (
            'queues.scheduling.volcano.sh is forbidden: User "bob" cannot list resource "queues" '
            'in API group "scheduling.volcano.sh" at the cluster scope',
            "forbidden: grant `list` on `queues.scheduling.volcano.sh` to `bob`",
        ),
        ('forbidden: User "bob" cannot get path "/apis"', "forbidden: grant `get` on the path `/apis` to `bob`"),
        ("exceeded quota: gpus", "forbidden: exceeded quota: gpus"),
    ],
)
def test_a_forbidden_call_names_the_right_to_grant(message: str, expected: str) -> None:
    assert expected == refused(lambda: refusal(403, "Forbidden", message), errors.Forbidden).message


def test_retry_after_is_read_from_the_header_and_from_the_status() -> None:
    header = refused(lambda: answer({"message": "slow down"}, 429, Retry_After="3"), errors.TooManyRequests)
    status = refused(lambda: refusal(429, message="slow down", retryAfterSeconds=7), errors.TooManyRequests)
    assert (3.0, 7.0) == (header.retry_after, status.retry_after)


def test_a_port_without_a_server_is_unreachable() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        server = f"http://127.0.0.1:{free.getsockname()[1]}"

        async def main() -> None:
            api = await Api.open(Access(server))
            try:
                await api.get("/api")
            finally:
                await api.close()

        with pytest.raises(errors.Unreachable, match=server):
            asyncio.run(main())


def test_a_cut_connection_is_unreachable() -> None:
    async def handler(request: web.Request) -> web.Response:
        cut(request)
        return web.Response()

    with pytest.raises(errors.Unreachable):
        asked(handler, lambda api: api.create("/api/v1/pods", {}))


def test_a_silent_server_is_unreachable() -> None:
    async def handler(request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(errors.Unreachable, match="in time"):
        asked(handler, lambda api: api.get("/api", timeout=0.05))


@pytest.mark.parametrize("waits_for", ["a free connection", "a new connection", "new credentials"])
def test_a_write_that_waits_is_not_sent_once_the_lease_is_lost(waits_for: str) -> None:
    """The lease was held when the request was made, and is lost before its first byte is sent."""
    arrived: list[str] = []
    go = asyncio.Event()
    lost = False

    async def main() -> None:
        nonlocal lost

        async def handler(request: web.Request) -> web.Response:
            nonlocal lost
            arrived.append(request.method)
            if request.method == "GET":
                await go.wait()
                return answer({})
            lost = True
            return refusal(401)

        async def load() -> Credentials:
            return Credentials(server, f"Bearer {len(arrived)}")

        async with serving(handler) as server:
            renews = load if waits_for == "new credentials" else None
            access = Access(server, load=renews, clock=iter(range(0, 10**6, 100)).__next__)
            api = await Api.open(access, connections=1)
            writer, reading = api.while_not(lambda: lost), list[asyncio.Task[bytes]]()
            if waits_for == "a free connection":
                reading.append(asyncio.create_task(api.get("/api")))
                await until(lambda: bool(arrived))
            writing = asyncio.create_task(writer.create("/api/v1/pods", {}))
            if waits_for != "new credentials":
                await asyncio.sleep(0)  # it has begun, and waits
                lost = True
            go.set()
            with pytest.raises(errors.NotLeading, match="the lease is lost"):
                await writing
            await asyncio.gather(*reading)
            assert b"{}" == await writer.get("/api"), "reads go on"
            await api.close()

    asyncio.run(main())
    assert arrived.count("POST") == (waits_for == "new credentials"), (
        "only the first attempt, before the lease was lost"
    )


def test_writes_carry_their_preconditions() -> None:
    seen: list[tuple[str, str, str, Any]] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append((request.method, request.path, request.content_type, json.loads(await request.read())))
        return answer({})

    async def writes(api: Api) -> None:
        await api.bind("ns", "a", "u1", "n1")
        await api.evict("ns", "a", "u1", grace=5)
        await api.delete_pod("ns", "a", "u1")
        await api.patch(PODS.path("ns", "a", "status"), [{"op": "remove", "path": "/x"}], "json")

    asked(handler, writes)
    bind, evict, delete, patch = seen
    assert ("POST", "/api/v1/namespaces/ns/pods/a/binding") == bind[:2]
    assert {"namespace": "ns", "name": "a", "uid": "u1"} == bind[3]["metadata"]
    assert {"apiVersion": "v1", "kind": "Node", "name": "n1"} == bind[3]["target"]
    assert ("POST", "/api/v1/namespaces/ns/pods/a/eviction") == evict[:2]
    assert ({"uid": "u1"}, 5) == tuple(evict[3]["deleteOptions"][k] for k in ("preconditions", "gracePeriodSeconds"))
    assert ("DELETE", "/api/v1/namespaces/ns/pods/a") == delete[:2]
    assert {"uid": "u1"} == delete[3]["preconditions"]
    assert "application/json-patch+json" == patch[2]


def test_an_eviction_that_a_budget_refuses_is_not_a_busy_server() -> None:
    cause = {"reason": "DisruptionBudget", "message": "The budget web needs 3 healthy pods and has 3"}

    def evicted(response: Callable[[], web.Response]) -> errors.ApiError:
        async def handler(request: web.Request) -> web.Response:
            return response()

        with pytest.raises(errors.TooManyRequests) as caught:
            asked(handler, lambda api: api.evict("ns", "a", "u1"))
        return caught.value

    refused = evicted(lambda: refusal(429, "TooManyRequests", "Cannot evict pod", causes=[cause]))
    busy = evicted(lambda: refusal(429, "TooManyRequests", "too many requests"))
    assert errors.DisruptionRefused is type(refused)
    assert "Cannot evict pod; The budget web needs 3 healthy pods and has 3" == refused.message
    assert errors.TooManyRequests is type(busy)


def test_lists_come_in_pages() -> None:
    asks: list[dict[str, str]] = []

    async def handler(request: web.Request) -> web.Response:
        asks.append(dict(request.query))
        begin = int(request.query.get("continue", "0"))
        following = str(begin + 2) if begin + 2 < 5 else ""
        items = [pod(f"p{i}") for i in range(begin, min(begin + 2, 5))]
        return answer({"metadata": {"resourceVersion": "7", "continue": following}, "items": items})

    listed = asked(handler, lambda api: api.list(PODS, limit=2, field_selector="c=d"))
    assert [f"p{i}" for i in range(5)] == [item.name for item in listed.items]
    assert "7" == listed.resource_version
    assert [
        {"limit": "2", "fieldSelector": "c=d"} | more for more in ({}, {"continue": "2"}, {"continue": "4"})
    ] == asks


def test_an_expired_page_restarts_the_list_without_pages() -> None:
    async def handler(request: web.Request) -> web.Response:
        if "continue" in request.query:
            return refusal(410, "Expired", "the provided continue parameter is too old")
        version, following = ("7", "x") if "limit" in request.query else ("9", "")
        return answer({"metadata": {"resourceVersion": version, "continue": following}, "items": [pod("a")]})

    listed = asked(handler, lambda api: api.list(PODS))
    assert (["a"], "9") == ([item.name for item in listed.items], listed.resource_version)


def test_an_object_that_cannot_be_decoded_never_stops_a_list() -> None:
    bad = pod("bad", priority="high")
    empty: Any = {"metadata": {"name": None, "resourceVersion": "3"}, "spec": []}

    async def handler(request: web.Request) -> web.Response:
        return answer(
            {"metadata": {"resourceVersion": "7"}, "items": [pod("a"), bad, None, empty, pod("b", nodeName=None)]}
        )

    a, *broken, b = asked(handler, lambda api: api.list(PODS)).items
    assert ("a", "b") == (a.name, b.name)
    expected = "spec.priority: expected a whole number, got `high`"
    assert Broken("Pod", "ns", "bad", "uid-bad", "1", expected) == msgspec.structs.replace(broken[0], item=None)
    assert "bad" == broken[0].item.name, "everything but the priority can be read"
    assert [("", ""), ("", "3")] == [(item.name, item.resource_version) for item in broken[1:]]


@pytest.mark.parametrize("deep", ["[" * 5000 + "]" * 5000, '{"a]\\"}":' * 5000 + "1" + "}" * 5000], ids=["list", "map"])
def test_an_object_that_is_nested_far_too_deeply_stops_neither_a_list_nor_a_watch(deep: str) -> None:
    """API servers accept up to 10,000 levels if a schema keeps unknown fields."""
    odd = json.dumps(pod("odd", 2, note="DEEP", nodeName="n1")).replace('"DEEP"', deep)

    async def handler(request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            line = f'{{"type": "ADDED", "object": {odd}}}\n'.encode()
            return await stream(request, line, {"type": "ADDED", "object": pod("b", 3)})
        items = f"{json.dumps(pod('a'))}, {odd}, {json.dumps(pod('b'))}"
        return web.Response(text=f'{{"metadata": {{"resourceVersion": "7"}}, "items": [{items}]}}')

    listed = asked(handler, lambda api: api.list(PODS))
    assert [("a", ""), ("odd", "n1"), ("b", "")] == [(p.name, p.spec.node_name) for p in listed.items]
    assert [("odd", "2"), ("b", "3")] == [(e.object.name, e.resource_version) for e in asked(handler, watched)]


def test_a_malformed_list_is_a_server_fault() -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(body=b'{"items": 5}' if request.query.get("limit") == "1" else b"<html>")

    with pytest.raises(errors.ServerFault, match="malformed list response for"):
        asked(handler, lambda api: api.list(PODS, limit=1))
    with pytest.raises(errors.ServerFault, match="not JSON"):
        asked(handler, lambda api: api.list(PODS, limit=2))


def test_a_watch_delivers_events_and_bookmarks() -> None:
    asks: list[dict[str, str]] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        asks.append(dict(request.query))
        return await stream(
            request,
            {"type": "ADDED", "object": pod("a", 2)},
            {"type": "DELETED", "object": pod("a", 3)},
            {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "9"}}},
        )

    events = asked(handler, lambda api: watched(api, "1", timeout_seconds=44.4))
    assert [("ADDED", "2"), ("DELETED", "3"), ("BOOKMARK", "9")] == [(e.type, e.resource_version) for e in events]
    assert ["a", "a", None] == [e.object and e.object.name for e in events]
    expected = {"watch": "true", "resourceVersion": "1", "allowWatchBookmarks": "true", "timeoutSeconds": "44"}
    assert [expected] == asks


def test_a_bookmark_need_not_look_like_an_object() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return await stream(request, {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}})

    async def question(api: Api) -> Any:
        return [event async for event in api.watch(PRIORITY_CLASSES, "1")]

    assert [WatchEvent("BOOKMARK", None, "9")] == asked(handler, question)


def test_lines_may_come_in_any_pieces_and_be_long() -> None:
    long = pod("long", 3, containers=[{"name": "x" * 700_000}])
    text = b"".join(
        json.dumps({"type": "ADDED", "object": item}).encode() + b"\n" for item in (pod("a", 2), long, pod("b", 4))
    )
    pieces = [text[i : i + 50_021] for i in range(0, len(text), 50_021)]

    async def handler(request: web.Request) -> web.StreamResponse:
        return await stream(request, *pieces, b"\n")

    assert ["a", "long", "b"] == [e.object.name for e in asked(handler, watched) if e.object]


def test_garbage_in_a_watch_is_delivered_as_broken() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        bad = {"type": "MODIFIED", "object": pod("bad", 3, priority=[])}
        return await stream(request, b"\x00\xffnonsense\n", bad, {"type": "ADDED", "object": pod("a", 4)})

    garbage, bad, good = asked(handler, watched)
    assert isinstance(garbage.object, Broken)
    assert ("", "") == (garbage.type, garbage.resource_version)
    assert isinstance(bad.object, Broken)
    assert ("MODIFIED", "3", "ns/bad") == (bad.type, bad.resource_version, bad.object.key)
    assert ("ADDED", "4") == (good.type, good.resource_version)


def test_an_error_in_a_watch_is_raised() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version: 1 (5)"}
        return await stream(request, {"type": "ERROR", "object": status})

    with pytest.raises(errors.Gone, match="too old resource version") as caught:
        asked(handler, watched)
    assert ("WATCH", "/api/v1/pods") == (caught.value.verb, caught.value.path)


def test_a_cut_watch_delivers_the_received_events_and_then_is_unreachable() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = await stream(request, {"type": "ADDED", "object": pod("a", 2)}, b'{"type":"ADD')
        await received.wait()
        cut(request)
        return response

    received = asyncio.Event()
    seen: list[str] = []

    async def question(api: Api) -> None:
        async for event in api.watch(PODS, "1"):
            seen.append(event.resource_version)
            received.set()

    with pytest.raises(errors.Unreachable):
        asked(handler, question)
    assert ["2"] == seen


def test_a_watch_that_stalls_counts_as_cut() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        await stream(request, {"type": "ADDED", "object": pod("a", 2)})
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(errors.Unreachable, match="in time"):
        asked(handler, lambda api: watched(api, stall_seconds=0.05))


def test_paths() -> None:
    assert "/api/v1/nodes/n1" == NODES.path(None, "n1") == NODES.path("ignored", "n1")
    assert "/api/v1/pods" == PODS.path()
    assert "/api/v1/namespaces/ns/pods/a/binding" == PODS.path("ns", "a", "binding")
    assert "/apis/scheduling.volcano.sh/v1beta1/queues/q/status" == QUEUES.path(None, "q", "status")
    assert ("queues.scheduling.volcano.sh", "scheduling.volcano.sh/v1beta1") == (str(QUEUES), QUEUES.api_version)
    with pytest.raises(ValueError, match="needs a namespace"):
        PODS.path(None, "a")
    resources = [r for kind in KINDS for r in (kind.resource, *kind.older)]
    assert len(resources) == len({(r.root, r.plural) for r in resources})


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("/api/v1/nodes/n0", "nodes"),
        ("/api/v1/namespaces/a/pods/p/binding", "pods/binding"),
        ("/apis/events.k8s.io/v1/namespaces/a/events", "events"),
        ("/apis/scheduling.volcano.sh/v1beta1/queues/q/status", "queues/status"),
        ("/api/v1/namespaces/a", "namespaces"),
    ],
)
def test_writes_are_counted_by_resource_and_never_by_name(path: str, resource: str) -> None:
    assert resource == resource_in(path)
