"""Writes in the background, against servers that cut connections, refuse and fail."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from tests.support.patience import until
from tests.support.sockets import answer, cut, refusal, serving

from maar.kube.client import errors
from maar.kube.client.access import Access
from maar.kube.client.api import Api
from maar.kube.wire.base import Metadata
from maar.kube.wire.pods import Pod
from maar.kube.write.decided import DecidedVictim
from maar.kube.write.executor import Bind, Create, Delete, Done, Evict, Executor, Failed, Outcome, Patch, Patience, Work


def seen(name: str = "a", version: str = "1", **metadata: Any) -> Pod:
    """A pod as a decision saw it."""
    return Pod(Metadata(name=name, namespace="ns", uid="u1", resource_version=version, **metadata))


QUICK = Patience(first=0.001, most=0.01, unanswered=20.0, disruption=20.0)
BIND = Bind(seen(), "n1")
EVICT = Evict(seen())
CAUSE = {"reason": "DisruptionBudget", "message": "The budget needs 1 pod"}


class Server:
    """Sends the responses that a test has set for each verb and path, in turn; the last one repeats."""

    def __init__(self, plays: dict[str, list[Any]]) -> None:
        self.plays = {
            f"{key.split()[0]} /api/v1/namespaces/ns/pods/{key.split()[1]}": play for key, play in plays.items()
        }
        self.asked: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        """The bodies of all writes."""
        self.on_request: Callable[[], None] = lambda: None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.on_request()
        if body := await request.read():
            self.bodies.append(json.loads(body))
        asked = f"{request.method} {request.path}"
        plays = self.plays[asked]
        play = plays[min(self.asked.count(asked), len(plays) - 1)]
        self.asked.append(asked)
        if play is cut:
            cut(request)
            return web.Response()
        if isinstance(play, int):
            return refusal(play, "", "because") if play >= 400 else answer({}, play)
        return answer(play) if "kind" not in play else answer(play, play["code"])


def said(code: int, reason: str, **details: Any) -> dict[str, Any]:
    return {"kind": "Status", "code": code, "reason": reason, "message": "because", "details": details}


def pod(uid: str = "u1", node: str = "", deleted: bool = False, version: str = "2", **metadata: Any) -> dict[str, Any]:
    """A pod as the server answers."""
    times = {"deletionTimestamp": "2030-01-01T00:00:00Z"} if deleted else {}
    names = {"name": "a", "namespace": "ns", "uid": uid, "resourceVersion": version}
    return {"metadata": {**names, **times, **metadata}, "spec": {"nodeName": node}}


def outcome(work: Work, plays: dict[str, list[Any]], patience: Patience = QUICK) -> tuple[Outcome, Server, Executor]:
    """The outcome of one piece of work, with its server and executor."""
    server = Server(plays)
    outcomes: list[Outcome] = []

    async def main() -> Executor:
        async with serving(server.handle) as address:
            api = await Api.open(Access(address))
            executor = Executor(api, patience=patience)
            executor.submit(work, lambda w, o: outcomes.append(o))
            assert 1 == executor.pending
            assert await executor.drain(20)
            await executor.close()
            await api.close()
            return executor

    executor = asyncio.run(main())
    assert 0 == executor.pending
    assert 1 == len(outcomes)
    return outcomes[0], server, executor


TROUBLE = pytest.mark.parametrize("trouble", [cut, 500, 503], ids=["cut", "500", "503"])


@TROUBLE
def test_trouble_is_tried_again(trouble: Any) -> None:
    work = Patch("/api/v1/namespaces/ns/pods/a", {})
    ended, server, executor = outcome(work, {"PATCH a": [trouble, trouble, 201]})
    assert (Done(), 3, 1, 2) == (ended, len(server.asked), executor.counts.done, executor.counts.retries)


@pytest.mark.parametrize("work", [BIND, EVICT, Delete(seen()), Patch("/api/v1/namespaces/ns/pods/a", {})])
def test_a_busy_server_is_asked_again(work: Work) -> None:
    plays = {key: [429, 429, 201] for key in ("POST a/binding", "POST a/eviction", "DELETE a", "PATCH a")}
    ended, server, executor = outcome(work, plays)
    assert (Done(), 3, 1, 2) == (ended, len(server.asked), executor.counts.done, executor.counts.retries)


@TROUBLE
@pytest.mark.parametrize("work", [BIND, EVICT, Delete(seen())])
def test_a_dangerous_write_without_an_answer_is_fenced_before_it_is_sent_again(work: Work, trouble: Any) -> None:
    """A GET that shows an unbound pod would prove nothing about the request that is still on its way."""
    writes = {key: [trouble, 201] for key in ("POST a/binding", "POST a/eviction", "DELETE a")}
    ended, server, executor = outcome(work, {**writes, "PATCH a/status": [trouble, pod(version="7")]})
    assert (Done(), 1, 2) == (ended, executor.counts.done, executor.counts.retries)
    sent = {"Bind": "POST", "Evict": "POST", "Delete": "DELETE"}[type(work).__name__]
    assert [sent, "PATCH", "PATCH", sent] == [ask.split()[0] for ask in server.asked]
    assert ["1", "7"] == versions(server)
    assert 2 == len({json.dumps(b["status"]) for b in server.bodies if "status" in b}), "every fence moves the version"


def versions(server: Server) -> list[str]:
    """The versions that binds, evictions and deletions carried."""
    found = []
    for body in server.bodies:
        options = body.get("deleteOptions", body)
        if "status" not in body:
            found.append(options.get("preconditions", body.get("metadata", {}))["resourceVersion"])
    return found


def test_the_server_says_how_long_to_wait() -> None:
    loop_times: list[float] = []

    async def main() -> None:
        async def handle(request: web.Request) -> web.Response:
            loop_times.append(asyncio.get_running_loop().time())
            return answer({}, 429, Retry_After="1") if len(loop_times) == 1 else answer({})

        async with serving(handle) as address:
            api = await Api.open(Access(address))
            executor = Executor(api, patience=QUICK)
            executor.submit(BIND)
            assert await executor.drain(20)
            await api.close()

    asyncio.run(main())
    assert loop_times[1] - loop_times[0] >= 1.0


def test_a_bind_whose_answer_was_lost_is_done() -> None:
    ended, server, _ = outcome(BIND, {"POST a/binding": [cut], "PATCH a/status": [pod(node="n1")]})
    assert Done() == ended
    assert ["POST", "PATCH"] == [ask.split()[0] for ask in server.asked]


@pytest.mark.parametrize(
    ("now", "kind", "why"),
    [
        (pod(node="n2"), errors.Conflict, "pod `a` is on another node already: `n2`"),
        (pod(uid="u2", node="n1"), errors.Conflict, "pod `a` is another one of the same name now: uid `u2`"),
        (pod(deleted=True), errors.Conflict, "because"),
        (404, errors.NotFound, "pod `a` has been deleted"),
    ],
)
def test_a_bind_that_cannot_be_has_failed_for_good(now: Any, kind: type[errors.ApiError], why: str) -> None:
    ended, _, executor = outcome(BIND, {"POST a/binding": [409], "GET a": [now]})
    assert isinstance(ended, Failed)
    assert (True, kind, why) == (ended.final, type(ended.error), ended.error.message)
    assert (0, 1) == (executor.counts.retries, executor.counts.failed)


def test_a_conflict_over_something_else_is_tried_again() -> None:
    ended, server, _ = outcome(BIND, {"POST a/binding": [409, 201], "GET a": [pod(version="1")]})
    assert (Done(), ["1", "1"]) == (ended, versions(server))


@pytest.mark.parametrize("notes", [{}, {"maar.dev/gang": "yes"}])
def test_a_pod_that_changed_in_nothing_that_matters_gets_a_bind_for_its_new_version(notes: dict[str, str]) -> None:
    now = [pod(version=v, annotations={**notes, "example.com/cost": "7"}) for v in ("2", "3")]
    work = Bind(seen(annotations=notes), "n1")
    ended, server, _ = outcome(work, {"POST a/binding": [409, 409, 201], "GET a": now})
    assert (Done(), ["1", "2", "3"]) == (ended, versions(server))


@pytest.mark.parametrize(
    "change", [{"annotations": {"maar.dev/gang": "yes"}}, {"labels": {"a": "b"}}, {"annotations": {"pod_group": "g"}}]
)
def test_a_pod_that_changed_in_something_that_matters_is_decided_again(change: dict[str, Any]) -> None:
    ended, server, _ = outcome(BIND, {"POST a/binding": [409], "GET a": [pod(**change)]})
    assert isinstance(ended, Failed)
    assert (True, "pod `a` has changed since the decision", 2) == (ended.final, ended.error.message, len(server.asked))


def test_a_pod_that_others_change_without_end_is_decided_again() -> None:
    now = [pod(version=str(v)) for v in range(2, 20)]
    ended, server, _ = outcome(BIND, {"POST a/binding": [409], "GET a": now})
    assert isinstance(ended, Failed)
    assert (True, ["1", "2", "3", "4", "5", "6"]) == (ended.final, versions(server))


def test_a_bind_carries_the_version_that_an_earlier_write_to_the_pod_got() -> None:
    """Our own condition moves the version, and no watch has shown it yet."""
    server = Server({"PATCH a/status": [pod(version="5")], "POST a/binding": [201]})
    outcomes = run_all(server, [Patch("/api/v1/namespaces/ns/pods/a/status", {}), BIND])
    assert ([Done(), Done()], ["5"]) == (outcomes, [b["metadata"]["resourceVersion"] for b in server.bodies if b])


@pytest.mark.parametrize(("shown", "sent"), [(seen(version="9"), "9"), (seen(version="9", labels={"a": "b"}), "1")])
def test_a_bind_carries_the_version_that_watches_have_shown_meanwhile(shown: Pod, sent: str) -> None:
    server = Server({"POST a/binding": [201]})
    assert [Done()] == run_all(server, [BIND], watched=lambda key: {"ns/a": shown}[key])
    assert [sent] == versions(server)


def run_all(server: Server, works: list[Work], **options: Any) -> list[Outcome]:
    """Submit all works at once, and return their outcomes."""
    outcomes: list[Outcome] = []

    async def main() -> None:
        async with serving(server.handle) as address:
            api = await Api.open(Access(address))
            executor = Executor(api, **{"patience": QUICK, **options})
            for work in works:
                executor.submit(work, lambda w, o: outcomes.append(o))
            assert await executor.drain(20)
            await executor.close()
            await api.close()

    asyncio.run(main())
    return outcomes


class Shut:
    """A gate that is open until the lease is lost."""

    epoch = 3

    def __init__(self) -> None:
        self.lost = False
        self.standing: list[str] = []
        self.decided: list[list[DecidedVictim]] = []
        """What was announced as decided, each time all at once."""

    def announce(self, path: str, fix: Callable[[], None], then: Callable[[], None]) -> None:
        self.standing.append(path)
        fix()
        then()

    def decide(self, victims: Callable[[], list[DecidedVictim]], then: Callable[[], None]) -> None:
        self.decided.append(victims())
        then()

    def settled(self, path: str) -> None:
        self.standing.remove(path)


def test_nothing_is_sent_after_the_lease_is_lost() -> None:
    """Neither a write that waits in a line, nor the repetition of one, nor a fence."""
    asked: list[str] = []
    gate = Shut()

    async def main() -> None:
        async def handle(request: web.Request) -> web.StreamResponse:
            asked.append(request.path.rpartition("/pods/")[2])
            gate.lost = True
            if request.path.endswith("binding"):
                cut(request)
            return answer(pod())

        async with serving(handle) as address:
            api = await Api.open(Access(address))
            executor = Executor(api, in_flight=1, patience=QUICK, gate=gate)
            executor.submit(BIND)
            executor.submit(Patch("/api/v1/namespaces/ns/pods/b/status", {}))
            executor.submit(EVICT)
            await until(lambda: bool(asked))
            assert not await executor.drain(0.5)
            executor.submit(EVICT)  # of a cycle that ends before the loop is stopped
            await executor.close()
            await api.close()

    asyncio.run(main())
    assert ["a/binding"] == asked
    assert [BIND.key] == gate.standing, "the successor must fence it"


def test_an_intent_stands_until_its_write_is_settled() -> None:
    gate, stood = Shut(), list[int]()
    server = Server({"POST a/binding": [cut, 201], "PATCH a/status": [500, pod(version="7")]})
    server.on_request = lambda: stood.append(len(gate.standing))
    assert [Done()] == run_all(server, [BIND], gate=gate)
    assert ([1, 1, 1, 2], [BIND.key]) == (stood, gate.standing), "the second bind had an intent of its own"


def test_a_fence_that_is_refused_in_one_form_is_written_in_another() -> None:
    """A policy may protect the status of a pod, and annotations may be full."""
    plays: dict[str, list[Any]] = {
        "POST a/binding": [cut, 201],
        "PATCH a/status": [403],
        "PATCH a": [422, pod(version="7")],
    }
    ended, server, _ = outcome(BIND, plays)
    assert Done() == ended
    forms = ["POST a/binding", "PATCH a/status", "PATCH a", "PATCH a", "POST a/binding"]
    assert forms == [asked.replace("/api/v1/namespaces/ns/pods/", "") for asked in server.asked]
    assert ["annotations", "labels"] == [key for b in server.bodies[2:4] for key in b["metadata"]]


def test_an_object_that_refuses_every_fence_blocks_nothing_for_ever() -> None:
    """It stays announced, so that a successor fences it: the request may still take effect."""
    gate = Shut()
    server = Server({"POST a/binding": [cut], "PATCH a/status": [403], "PATCH a": [422]})
    (ended,) = run_all(server, [BIND], gate=gate, patience=Patience(0.001, 0.01, unanswered=0.05))
    assert isinstance(ended, Failed)
    assert (False, 403, [BIND.key]) == (ended.final, ended.error.status, gate.standing)


def test_a_bind_is_withdrawn_also_after_it_was_refused() -> None:
    """Another pod of its gang cannot be bound any more: this one must not be, if it is not."""
    server = Server({"POST a/binding": [409, 201], "GET a": [pod(version="2")]})
    outcomes: list[Outcome] = []

    async def main() -> None:
        async with serving(server.handle) as address:
            api = await Api.open(Access(address))
            executor = Executor(api, patience=QUICK)
            server.on_request = lambda: executor.withdraw_bind(BIND.key, errors.Conflict("no longer"))
            executor.submit(BIND, lambda work, ended: outcomes.append(ended))
            assert await executor.drain(20)
            await executor.close()
            await api.close()

    asyncio.run(main())
    assert ["POST", "GET"] == [asked.split()[0] for asked in server.asked]
    assert ["no longer"] == [ended.error.message for ended in outcomes if isinstance(ended, Failed)]


@pytest.mark.parametrize("status", [400, 403, 404, 422])
def test_what_is_refused_is_not_tried_again(status: int) -> None:
    ended, server, _ = outcome(BIND, {"POST a/binding": [status]})
    assert isinstance(ended, Failed)
    assert (True, status, 1) == (ended.final, ended.error.status, len(server.asked))


@pytest.mark.parametrize("now", [404, pod(uid="u2"), pod(deleted=True)])
def test_a_pod_that_has_gone_needs_no_eviction(now: Any) -> None:
    assert Done() == outcome(EVICT, {"POST a/eviction": [409], "GET a": [now]})[0]
    assert Done() == outcome(EVICT, {"POST a/eviction": [404]})[0]
    assert Done() == outcome(Delete(seen()), {"DELETE a": [409], "GET a": [now]})[0]


def test_a_budget_that_refuses_is_asked_again_for_a_while() -> None:
    refused = said(429, "TooManyRequests", causes=[CAUSE])
    ended, server, _ = outcome(EVICT, {"POST a/eviction": [refused, refused, 201]})
    assert (Done(), 3) == (ended, len(server.asked))
    ended, _, _ = outcome(EVICT, {"POST a/eviction": [refused]}, Patience(0.001, 0.01, 20.0, disruption=0.05))
    assert isinstance(ended, Failed)
    assert (True, errors.DisruptionRefused) == (ended.final, type(ended.error))


def test_a_server_that_stays_silent_leaves_it_open_what_happened() -> None:
    work = Patch("/api/v1/namespaces/ns/pods/a", {})
    ended, _, _ = outcome(work, {"PATCH a": [cut]}, Patience(0.001, 0.01, unanswered=0.05))
    assert isinstance(ended, Failed)
    assert (False, errors.Unreachable) == (ended.final, type(ended.error))


def test_a_dangerous_write_is_given_up_only_after_it_is_settled() -> None:
    answers: list[Any] = [cut] * 20 + [pod(version=str(v)) for v in range(2, 99)]
    plays: dict[str, list[Any]] = {"POST a/binding": [cut], "PATCH a/status": answers}
    ended, server, _ = outcome(BIND, plays, Patience(0.001, 0.01, unanswered=0.05))
    assert isinstance(ended, Failed)
    assert (True, "PATCH") == (ended.final, server.asked[-1].split()[0])
    assert len(server.asked) > 20


def test_a_patch_that_conflicts_is_for_its_author_to_do_anew() -> None:
    ended, _, _ = outcome(Patch("/api/v1/namespaces/ns/pods/a/status", {}), {"PATCH a/status": [409]})
    assert isinstance(ended, Failed)
    assert ended.final


def test_a_creation_whose_answer_was_lost_is_done() -> None:
    create = Create("/api/v1/namespaces/ns/pods", "a", {"metadata": {"name": "a"}})

    async def main(first: Any) -> list[Outcome]:
        plays = iter([first, "exists"])

        async def handle(request: web.Request) -> web.StreamResponse:
            if next(plays) == "cut":
                cut(request)
            return refusal(409, "AlreadyExists", "because")

        async with serving(handle) as address:
            api = await Api.open(Access(address))
            executor, outcomes = Executor(api, patience=QUICK), list[Outcome]()
            executor.submit(create, lambda w, o: outcomes.append(o))
            assert await executor.drain(20)
            await api.close()
            return outcomes

    assert [Done()] == asyncio.run(main("cut"))
    assert isinstance(asyncio.run(main("exists"))[0], Failed)


def test_many_at_once_but_never_more_than_the_bound() -> None:
    async def main() -> tuple[int, int, list[Outcome]]:
        now = most = 0
        full = asyncio.Event()

        async def handle(request: web.Request) -> web.Response:
            nonlocal now, most
            now += 1
            most = max(most, now)
            if now == 8:
                full.set()
            await full.wait()
            now -= 1
            return answer({}, 201)

        async with serving(handle) as address:
            api = await Api.open(Access(address))
            executor, outcomes = Executor(api, in_flight=8), list[Outcome]()
            for i in range(200):
                executor.submit(Bind(seen(f"p{i}"), "n"), lambda w, o: outcomes.append(o))
            pending = executor.pending
            assert await executor.drain(20)
            await api.close()
            return most, pending, outcomes

    assert (8, 200, [Done()] * 200) == asyncio.run(main())


def test_there_is_room_once_all_that_is_pending_is_under_way() -> None:
    async def main() -> None:
        free = asyncio.Semaphore(0)

        async def handle(request: web.Request) -> web.Response:
            await free.acquire()
            return answer({}, 201)

        async with serving(handle) as address:
            api = await Api.open(Access(address))
            executor = Executor(api, in_flight=2)
            await executor.has_room(20)
            for i in range(5):
                executor.submit(Bind(seen(f"p{i}"), "n"))
            await executor.has_room(0.01)
            assert 5 == executor.pending, "`has_room` returns after its timeout"
            for _ in range(3):
                free.release()
            await executor.has_room(20)
            assert 2 == executor.pending
            for _ in range(2):
                free.release()
            assert await executor.drain(20)
            await executor.close()
            await api.close()

    asyncio.run(main())


def test_writes_to_one_object_go_in_order_and_do_not_hold_up_others() -> None:
    """Each write fails at first; later writes to the same object must not overtake it during the delay."""
    seen: dict[str, list[int]] = defaultdict(list)
    tries: dict[tuple[str, int], int] = defaultdict(int)

    async def handle(request: web.Request) -> web.Response:
        name = request.path.split("/")[6]
        number = json.loads(await request.read())["number"]
        tries[name, number] += 1
        if tries[name, number] <= number % 3:
            return refusal(500, "", "because")
        seen[name].append(number)
        return answer({})

    async def main() -> None:
        async with serving(handle) as address:
            api = await Api.open(Access(address))
            executor = Executor(api, in_flight=4, patience=QUICK)
            for number in range(9):
                for name in ("a", "b", "c"):
                    path = f"/api/v1/namespaces/ns/pods/{name}" + ("/status" if number % 2 else "")
                    executor.submit(Patch(path, {"number": number}))
            assert await executor.drain(20)
            await api.close()

    asyncio.run(main())
    assert {name: list(range(9)) for name in "abc"} == seen


def test_a_write_that_waits_takes_nobodys_place() -> None:
    async def main() -> list[str]:
        order: list[str] = []

        async def handle(request: web.Request) -> web.Response:
            if request.path.endswith("a/eviction") and "b" not in order:
                return answer(said(429, "TooManyRequests", causes=[CAUSE]), 429)
            return answer({}, 201)

        async with serving(handle) as address:
            api = await Api.open(Access(address))
            executor = Executor(api, in_flight=1, patience=QUICK)
            executor.submit(EVICT, lambda w, o: order.append("a"))
            executor.submit(Bind(seen("b"), "n"), lambda w, o: order.append("b"))
            assert await executor.drain(20)
            await api.close()
            return order

    assert ["b", "a"] == asyncio.run(main())


def test_drain_gives_up_and_close_stops() -> None:
    async def main() -> None:
        arrived = asyncio.Event()

        async def handle(request: web.Request) -> web.Response:
            arrived.set()
            await asyncio.Event().wait()
            raise AssertionError

        async with serving(handle) as address:
            api = await Api.open(Access(address))
            executor, outcomes = Executor(api), list[Outcome]()
            executor.submit(BIND, lambda w, o: outcomes.append(o))
            await asyncio.wait_for(arrived.wait(), 20)
            assert not await executor.drain(0.01)
            await executor.close()
            await api.close()
            assert ([], 1) == (outcomes, executor.pending)
            with pytest.raises(RuntimeError, match="closed"):
                executor.submit(BIND)

    asyncio.run(main())


@pytest.mark.parametrize("in_flight", [1, 64])
def test_what_comes_after_may_fail_and_may_submit_more(in_flight: int) -> None:
    async def main() -> list[str]:
        finished: list[str] = []

        async def handle(request: web.Request) -> web.Response:
            return answer({}, 201)

        async with serving(handle) as address:
            api = await Api.open(Access(address))
            executor = Executor(api, in_flight=in_flight)

            def again(work: Work, outcome: Outcome) -> None:
                assert isinstance(work, Bind)
                finished.append(work.pod.name)
                if len(finished) < 5:
                    executor.submit(Bind(seen(f"p{len(finished)}"), "n"), again)
                raise RuntimeError("a defect")

            executor.submit(Bind(seen("p0"), "n"), again)
            await until(lambda: len(finished) == 5)
            assert await executor.drain(20)
            await api.close()
            return finished

    assert ["p0", "p1", "p2", "p3", "p4"] == asyncio.run(main())
