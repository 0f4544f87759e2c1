"""Events are written, counted or dropped, and never delay anything else."""

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web
from tests.support.sockets import answer, refusal, serving, until

from maar.kube.client.access import Access
from maar.kube.client.api import Api
from maar.kube.wire.api_resources import PODS
from maar.kube.wire.base import Metadata
from maar.kube.wire.pods import Pod
from maar.kube.wire.references import Reference
from maar.kube.write.events import AT_ONCE, PER_OBJECT, PER_SECOND, REFILL, TEXTS, EventWriter

POD = Reference.to(PODS, Pod(Metadata("a", "ns", "u1")))
PATH = "/apis/events.k8s.io/v1/namespaces/ns/events"
NODE = Reference("v1", "Node", "", "n1")


class Scene:
    """An event writer and its server."""

    def __init__(self) -> None:
        self.writes: list[tuple[str, str, Any]] = []
        self.refuse = 0
        self.why = "because"
        self.hold: asyncio.Event | None = None
        self.now = 1_000_000.0
        self.writer: EventWriter

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.writes.append((request.method, request.path, json.loads(await request.read())))
        if self.hold is not None:
            await self.hold.wait()
        return refusal(self.refuse, "", self.why) if self.refuse else answer({}, 201)

    def emit(self, message: str = "why", regarding: Reference = POD, code: str = "") -> None:
        self.writer.emit(regarding, "Warning", "FailedScheduling", message, code=code)


def play(act: Any, **options: Any) -> Scene:
    scene = Scene()

    async def main() -> None:
        async with serving(scene.handle) as address:
            api = await Api.open(Access(address))
            scene.writer = EventWriter(api, "maar", clock=lambda: scene.now, **options)
            await act(scene)
            await scene.writer.close()
            await api.close()

    asyncio.run(main())
    return scene


def test_an_event_is_what_kubectl_shows() -> None:
    async def act(scene: Scene) -> None:
        scene.writer.emit(POD, "Normal", "Scheduled", "to n1")

    [(verb, path, event)] = play(act).writes
    assert ("POST", PATH) == (verb, path)
    assert event["metadata"].pop("name").startswith("a.")
    assert {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "ns"},
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "ns", "name": "a", "uid": "u1"},
        "type": "Normal",
        "reason": "Scheduled",
        "note": "to n1",
        "action": "Scheduling",
        "reportingController": "maar",
        "reportingInstance": "maar",
        "eventTime": "1970-01-12T13:46:40.000000Z",
    } == event


def test_objects_without_a_namespace_have_theirs_in_default() -> None:
    async def act(scene: Scene) -> None:
        scene.emit(regarding=NODE)

    assert PATH.replace("/ns/", "/default/") == play(act).writes[0][1]


def test_the_same_again_is_one_write_more_in_a_window() -> None:
    async def act(scene: Scene) -> None:
        for _ in range(5):
            scene.emit()
        await until(lambda: scene.writer.counts.written == 1)
        scene.now += 299.0
        scene.emit()
        scene.now += 2.0
        for _ in range(3):
            scene.emit()
        await until(lambda: scene.writer.counts.written == 2)
        scene.emit()

    scene = play(act)
    create, patch, last = scene.writes
    assert ("POST", "PATCH", "PATCH") == (create[0], patch[0], last[0])
    assert f"{PATH}/{create[2]['metadata']['name']}" == patch[1] == last[1]
    assert {"series": {"count": 9, "lastObservedTime": "1970-01-12T13:51:41.000000Z"}} == patch[2]
    assert (5, 10) == (create[2]["series"]["count"], last[2]["series"]["count"])
    assert 9 == scene.writer.counts.repeated


def test_other_objects_reasons_and_messages_are_other_events() -> None:
    async def act(scene: Scene) -> None:
        scene.emit("one")
        scene.emit("two")
        scene.emit("one", NODE)
        scene.writer.emit(POD, "Normal", "Scheduled", "one")

    names = [event["metadata"]["name"] for _, _, event in play(act).writes]
    assert 4 == len(set(names))


def test_an_event_that_the_server_has_forgotten_is_made_anew() -> None:
    async def act(scene: Scene) -> None:
        scene.emit()
        await until(lambda: scene.writer.counts.written == 1)
        scene.now += 4000.0
        scene.refuse = 404
        scene.emit()
        await until(lambda: len(scene.writes) == 3)

    scene = play(act)
    assert ["POST", "PATCH", "POST"] == [verb for verb, _, _ in scene.writes[:3]]
    assert 2 == scene.writes[2][2]["series"]["count"]


def test_too_many_are_dropped_and_counted() -> None:
    async def act(scene: Scene) -> None:
        scene.hold = asyncio.Event()
        scene.emit("first")
        await until(lambda: bool(scene.writes))
        for i in range(100):
            scene.emit(regarding=POD._replace(name=f"p{i}"))
        assert 90 == scene.writer.counts.dropped
        scene.hold.set()

    scene = play(act, most_waiting=10)
    assert (11, 11) == (len(scene.writes), scene.writer.counts.written)


def in_namespace(namespace: str, name: str) -> Reference:
    return POD._replace(namespace=namespace, name=name)


def test_namespaces_take_turns() -> None:
    async def act(scene: Scene) -> None:
        scene.hold = asyncio.Event()
        for i in range(100):
            scene.emit(regarding=in_namespace("flood", f"p{i}"))
        await until(lambda: bool(scene.writes))
        for i in range(2):
            for namespace in ("a", "b"):
                scene.emit(regarding=in_namespace(namespace, f"p{i}"))
        scene.hold.set()
        await until(lambda: scene.writer.counts.written == 104)

    order = [path.split("/")[-2] for _, path, _ in play(act).writes]
    assert ["flood", "flood", "a", "b", "flood", "a", "b", *["flood"] * 97] == order


def test_a_namespace_with_too_many_events_loses_its_own() -> None:
    async def act(scene: Scene) -> None:
        scene.hold = asyncio.Event()
        for i in range(100):
            scene.emit(regarding=in_namespace("flood", f"p{i}"))
        for i in range(3):
            scene.emit(regarding=in_namespace("a", f"p{i}"))
        assert 93 == scene.writer.counts.dropped
        scene.hold.set()
        await until(lambda: scene.writer.counts.written == 10)
        scene.emit(regarding=in_namespace("flood", "p99"))
        await until(lambda: scene.writer.counts.written == 11)

    names = [(path.split("/")[-2], body["regarding"]["name"]) for _, path, body in play(act, most_waiting=10).writes]
    first, last = names[:10], names[10:]
    assert {("flood", f"p{i}") for i in range(7)} | {("a", f"p{i}") for i in range(3)} == set(first)
    assert [("flood", "p99")] == last, "a dropped event is written if it occurs again"


def test_what_is_remembered_is_bounded() -> None:
    async def act(scene: Scene) -> None:
        for name in "abca":
            scene.emit(code=name)

    assert 4 == len(play(act, most_remembered=2).writes)


@pytest.mark.parametrize("status", [403, 404, 409, 429, 500])
def test_it_never_raises(status: int) -> None:
    async def act(scene: Scene) -> None:
        scene.refuse = status
        for i in range(3):
            scene.emit(f"message {i}")
        await until(lambda: scene.writer.counts.failed == 3)
        scene.refuse = 0
        scene.emit("at last", code="Last")
        await until(lambda: scene.writer.counts.written == 1)

    assert "at last" == play(act).writes[3][2]["note"]


def test_a_missing_right_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    async def act(scene: Scene) -> None:
        scene.refuse = 403
        what = 'resource "events" in API group "events.k8s.io" in the namespace "ns"'
        scene.why = f'events is forbidden: User "bob" cannot create {what}'
        for i in range(3):
            scene.emit(f"message {i}")
        await until(lambda: scene.writer.counts.failed == 3)
        scene.why = 'events "a.1" is forbidden: the namespace is being terminated'
        scene.emit("and then", code="Then")
        await until(lambda: scene.writer.counts.failed == 4)

    play(act)
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    (line,) = said
    assert line.startswith("events are not written: ")
    assert line.endswith("forbidden: grant `create` on `events.events.k8s.io` in namespace `ns` to `bob`")


def test_closing_does_not_wait_for_ever_and_then_all_is_dropped() -> None:
    async def act(scene: Scene) -> None:
        scene.hold = asyncio.Event()
        scene.emit("stuck")
        scene.emit("behind it")
        await until(lambda: bool(scene.writes))
        await scene.writer.close(timeout=0.01)
        scene.emit("too late")

    assert 3 == play(act).writer.counts.dropped


def test_long_messages_are_cut() -> None:
    async def act(scene: Scene) -> None:
        scene.emit("x" * 5000)

    message = play(act).writes[0][2]["note"]
    assert (1024, "x...") == (len(message), message[-4:])


def test_an_event_is_one_per_object_reason_and_code_whatever_its_text() -> None:
    async def act(scene: Scene) -> None:
        for text in ("short of 4", "short of 3"):
            scene.writer.emit(POD, "Warning", "FailedScheduling", text, code="NotEnoughResources")
        scene.writer.emit(POD, "Warning", "FailedScheduling", "no quota", code="OverCapability")

    writes = play(act).writes
    assert ["short of 4", "no quota"] == [event["note"] for _, _, event in writes[:2]]


def test_a_text_that_is_another_each_time_is_few_events_and_does_not_use_up_the_budget() -> None:
    async def act(scene: Scene) -> None:
        for i in range(100):
            scene.writer.emit(POD, "Warning", "FailedResize", f"request {i} was refused")
        scene.writer.emit(POD, "Normal", "Resized", "from 2 to 4 workers")
        scene.writer.emit(POD._replace(name="b"), "Warning", "FailedResize", "request 100 was refused")
        await until(lambda: scene.writer.counts.written == TEXTS + 2)
        assert (0, 100 - TEXTS) == (scene.writer.counts.dropped, scene.writer.counts.repeated)
        scene.now += REFILL
        for i in range(101, 103):
            scene.writer.emit(POD, "Warning", "FailedResize", f"request {i} was refused")

    created = [event for verb, _, event in play(act).writes if verb == "POST"]
    numbers = [event["note"].split()[1] for event in created if event["reason"] == "FailedResize"]
    assert ["0", "1", "2", "100", "101"] == numbers
    assert 1 + 100 - TEXTS == created[2]["series"]["count"], "the others count as repetitions of the latest"


def test_texts_that_alternate_are_no_new_events() -> None:
    async def act(scene: Scene) -> None:
        for _ in range(100):
            for text in ("one", "two"):
                scene.emit(text)
            scene.now += 1.0

    created = [event["note"] for verb, _, event in play(act).writes if verb == "POST"]
    assert ["one", "two"] == created


def test_an_object_has_a_budget_of_writes() -> None:
    async def act(scene: Scene) -> None:
        for i in range(100):
            scene.emit(code=f"code {i}")
        scene.emit("another object", NODE)
        assert 100 - PER_OBJECT == scene.writer.counts.dropped
        scene.now += REFILL
        scene.emit(code="later")
        scene.emit(code="and no more")
        assert 100 - PER_OBJECT + 1 == scene.writer.counts.dropped

    assert PER_OBJECT + 2 == len(play(act).writes)


def test_all_objects_together_have_a_rate() -> None:
    async def act(scene: Scene) -> None:
        for i in range(int(AT_ONCE) + 100):
            scene.emit(regarding=POD._replace(name=f"p{i}"))
        await until(lambda: scene.writer.counts.written == AT_ONCE)
        scene.now += 2.0
        await until(lambda: scene.writer.counts.written == AT_ONCE + 2 * PER_SECOND)
        assert 0 == scene.writer.counts.dropped, "the others wait"

    play(act)
