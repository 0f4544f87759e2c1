"""Writes in the background, against servers that cut connections, refuse and fail."""

import asyncio
import json
from collections import defaultdict
from typing import Any

import pytest
from aiohttp import web
from tests.support.sockets import answer, cut, refusal, serving, until

from maar.kube.client import errors
from maar.kube.client.access import Access
from maar.kube.client.api import Api
from maar.kube.write.executor import Bind, Create, Delete, Done, Evict, Executor, Failed, Outcome, Patch, Patience, Work

QUICK = Patience(first=0.001, most=0.01, unanswered=20.0, disruption=20.0)
BIND = Bind("ns", "a", "u1", "n1")
EVICT = Evict("ns", "a", "u1")
CAUSE = {"reason": "DisruptionBudget", "message": "The budget needs 1 pod"}


class Server:
    """Sends the responses that a test has set for each verb and path, in turn; the last one repeats."""

    def __init__(self, plays: dict[str, list[Any]]) -> None:
        self.plays = {
            f"{key.split()[0]} /api/v1/namespaces/ns/pods/{key.split()[1]}": play for key, play in plays.items()
        }
        self.asked: list[str] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
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


def pod(uid: str = "u1", node: str = "", deleted: bool = False) -> dict[str, Any]:
    times = {"deletionTimestamp": "2030-01-01T00:00:00Z"} if deleted else {}
    return {"metadata": {"uid": uid, **times}, "spec": {"nodeName": node}}


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


@pytest.mark.parametrize("trouble", [cut, 500, 503, 429], ids=["cut", "500", "503", "429"])
@pytest.mark.parametrize("work", [BIND, EVICT, Delete("ns", "a", "u1"), Patch("/api/v1/namespaces/ns/pods/a", {})])
def test_trouble_is_tried_again(work: Work, trouble: Any) -> None:
    plays = {key: [trouble, trouble, 201] for key in ("POST a/binding", "POST a/eviction", "DELETE a", "PATCH a")}
    ended, server, executor = outcome(work, plays)
    assert Done() == ended
    assert (3, 1) == (len(server.asked), executor.counts.done)
    assert 2 == executor.counts.retries


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
    ended, server, _ = outcome(BIND, {"POST a/binding": [cut, 409], "GET a": [pod(node="n1")]})
    assert Done() == ended
    assert ["POST", "POST", "GET"] == [ask.split()[0] for ask in server.asked]


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
    ended, _, _ = outcome(BIND, {"POST a/binding": [409, 201], "GET a": [pod()]})
    assert Done() == ended


@pytest.mark.parametrize("status", [400, 403, 404, 422])
def test_what_is_refused_is_not_tried_again(status: int) -> None:
    ended, server, _ = outcome(BIND, {"POST a/binding": [status]})
    assert isinstance(ended, Failed)
    assert (True, status, 1) == (ended.final, ended.error.status, len(server.asked))


@pytest.mark.parametrize("now", [404, pod(uid="u2"), pod(deleted=True)])
def test_a_pod_that_has_gone_needs_no_eviction(now: Any) -> None:
    assert Done() == outcome(EVICT, {"POST a/eviction": [409], "GET a": [now]})[0]
    assert Done() == outcome(EVICT, {"POST a/eviction": [404]})[0]
    assert Done() == outcome(Delete("ns", "a", "u1"), {"DELETE a": [409], "GET a": [now]})[0]


def test_a_budget_that_refuses_is_asked_again_for_a_while() -> None:
    refused = said(429, "TooManyRequests", causes=[CAUSE])
    ended, server, _ = outcome(EVICT, {"POST a/eviction": [refused, refused, 201]})
    assert (Done(), 3) == (ended, len(server.asked))
    ended, _, _ = outcome(EVICT, {"POST a/eviction": [refused]}, Patience(0.001, 0.01, 20.0, disruption=0.05))
    assert isinstance(ended, Failed)
    assert (True, errors.DisruptionRefused) == (ended.final, type(ended.error))


def test_a_server_that_stays_silent_leaves_it_open_what_happened() -> None:
    ended, _, _ = outcome(BIND, {"POST a/binding": [cut]}, Patience(0.001, 0.01, unanswered=0.05))
    assert isinstance(ended, Failed)
    assert (False, errors.Unreachable) == (ended.final, type(ended.error))


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
                executor.submit(Bind("ns", f"p{i}", "u", "n"), lambda w, o: outcomes.append(o))
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
                executor.submit(Bind("ns", f"p{i}", "u", "n"))
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
            executor.submit(Bind("ns", "b", "u", "n"), lambda w, o: order.append("b"))
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
                finished.append(work.name)
                if len(finished) < 5:
                    executor.submit(Bind("ns", f"p{len(finished)}", "u", "n"), again)
                raise RuntimeError("a defect")

            executor.submit(Bind("ns", "p0", "u", "n"), again)
            await until(lambda: len(finished) == 5)
            assert await executor.drain(20)
            await api.close()
            return finished

    assert ["p0", "p1", "p2", "p3", "p4"] == asyncio.run(main())
