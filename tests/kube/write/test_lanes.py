"""Binds go first, statuses have their own slots, and namespaces take turns: on a server that answers when told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from tests.support.patience import until
from tests.support.sockets import answer, refusal, serving

from maar.kube.client.access import Access
from maar.kube.client.api import Api
from maar.kube.client.errors import Conflict
from maar.kube.wire.api_resources import PODS
from maar.kube.wire.base import Metadata
from maar.kube.wire.pods import Pod
from maar.kube.write.decided import DecidedVictim
from maar.kube.write.executor import (
    FEW,
    Bind,
    Done,
    Evict,
    Executor,
    Failed,
    Lane,
    Outcome,
    Patch,
    Patience,
)
from maar.kube.write.intents import Gate
from maar.kube.write.lines import SUPERSEDED
from maar.kube.write.turns import TenantTurns, tenant_of

QUICK = Patience(first=0.001, most=0.01, unanswered=20.0, disruption=20.0)


def bind(name: str, namespace: str = "ns") -> Bind:
    return Bind(Pod(Metadata(name=name, namespace=namespace, uid="u", resource_version="1")), "n1")


def status(name: str, namespace: str = "ns", text: str = "waits") -> Patch:
    return Patch(PODS.path(namespace, name, "status"), {"status": {"message": text}}, "strategic")


class Scene:
    """An executor, and a server whose answers to statuses can be held back."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        """`namespace/pod part`, in the order of arrival."""
        self.statuses = asyncio.Event()
        """Set: statuses are answered."""
        self.refuse: dict[str, int] = {}
        """How often a request is answered with 500."""
        self.outcomes: dict[str, Outcome] = {}
        self.now = self.most = 0
        """Statuses that are being answered now, and the most at once."""
        self.api: Api
        self.executor: Executor

    async def handle(self, request: web.Request) -> web.Response:
        _, _, _, _, namespace, _, name, *part = request.path.split("/")
        what = f"{namespace}/{name} {part[0] if part else 'pod'}"
        self.asked.append(what)
        if part == ["status"]:
            self.now += 1
            self.most = max(self.most, self.now)
            await self.statuses.wait()
            self.now -= 1
        if self.refuse.get(what):
            self.refuse[what] -= 1
            return refusal(500, "", "because")
        return answer({}, 200)

    def tell(self, *patches: Patch) -> None:
        for patch in patches:
            self.executor.submit(patch, lambda w, o, path=patch.path: self._end(path, o), Lane.STATUS)  # type: ignore[misc]

    def bind(self, name: str, namespace: str = "ns") -> None:
        self.executor.submit(bind(name, namespace), lambda w, o: self._end(f"bind {name}", o))

    def _end(self, what: str, outcome: Outcome) -> None:
        self.outcomes[what] = outcome

    def sent(self, part: str) -> list[str]:
        return [what.split()[0] for what in self.asked if what.endswith(f" {part}")]


@asynccontextmanager
async def scene(in_flight: int = 64, gate: Gate | None = None) -> AsyncIterator[Scene]:
    found = Scene()
    async with serving(found.handle) as address:
        api = await Api.open(Access(address))
        found.api = api
        found.executor = Executor(api, in_flight=in_flight, gate=gate, patience=QUICK)
        try:
            yield found
        finally:
            found.statuses.set()
            await found.executor.close()
            await api.close()


def test_binds_are_sent_while_thousands_of_statuses_wait_and_none_is_answered() -> None:
    async def main() -> None:
        async with scene() as it:
            it.tell(*(status(f"hopeless-{i}", "flood") for i in range(4000)))
            await until(lambda: len(it.asked) == 16)
            for i in range(100):
                it.bind(f"p{i}")
            await until(lambda: len(it.outcomes) == 100)
            assert [Done()] * 100 == list(it.outcomes.values())
            assert 16 == len(it.sent("status")), "no further status was sent meanwhile"
            assert 16 == it.most

    asyncio.run(main())


@pytest.mark.parametrize(("in_flight", "share"), [(64, 16), (8, 2), (1, 1)])
def test_statuses_have_a_bounded_share(in_flight: int, share: int) -> None:
    async def main() -> None:
        async with scene(in_flight) as it:
            it.tell(*(status(f"p{i}") for i in range(100)))
            await until(lambda: it.now == share)
            it.statuses.set()
            await until(lambda: it.executor.pending == 0)
            assert (share, 100) == (it.most, len(it.asked))

    asyncio.run(main())


class Closed:
    """A gate that announces nothing before it is opened."""

    epoch = 1
    lost = False

    def __init__(self) -> None:
        self.wanted: list[Callable[[], None]] = []

    def announce(self, path: str, fix: Callable[[], None], then: Callable[[], None]) -> None:
        fix()
        self.wanted.append(then)

    def decide(self, victims: Callable[[], list[DecidedVictim]], then: Callable[[], None]) -> None: ...

    def settled(self, path: str) -> None: ...


def test_few_statuses_are_sent_while_a_bind_is_not() -> None:
    """Neither its request nor the write of the Lease that announces it competes with many of them."""

    async def main() -> None:
        gate = Closed()
        async with scene(gate=gate) as it:
            it.statuses.set()
            it.bind("p")
            it.tell(*(status(f"p{i}") for i in range(100)))
            await until(lambda: len(it.asked) == 100)
            assert it.most <= FEW, "but these go on"
            it.statuses.clear()
            it.tell(*(status(f"q{i}") for i in range(100)))
            await until(lambda: it.now == FEW)
            for then in gate.wanted:
                then()
            await until(lambda: it.now == 16)
            assert ["ns/p"] == it.sent("binding")

    asyncio.run(main())


def test_namespaces_take_turns() -> None:
    async def main() -> None:
        async with scene(in_flight=1) as it:
            it.tell(*(status(f"p{i}", "flood") for i in range(1000)))
            await until(lambda: len(it.asked) == 1)
            it.tell(*(status(f"p{i}", namespace) for i in range(2) for namespace in ("a", "b")))
            it.statuses.set()
            await until(lambda: it.executor.pending == 0)
            first = ["flood/p0", "flood/p1", "a/p0", "b/p0", "flood/p2", "a/p1", "b/p1", "flood/p3"]
            assert first == it.sent("status")[:8]
            assert 1004 == len(it.asked)

    asyncio.run(main())


def test_a_bind_does_not_wait_for_a_queued_condition_of_its_pod() -> None:
    """The condition is not sent after it either: the pod does not wait any more."""

    async def main() -> None:
        async with scene(in_flight=4) as it:
            it.tell(status("slow"), status("mine"), status("other"))
            await until(lambda: it.asked == ["ns/slow status"])
            it.bind("mine")
            await until(lambda: "bind mine" in it.outcomes)
            assert ["ns/slow status", "ns/mine binding"] == it.asked
            dropped = it.outcomes[status("mine").path]
            assert isinstance(dropped, Failed)
            assert SUPERSEDED == dropped.error.reason
            it.statuses.set()
            await until(lambda: it.executor.pending == 0)
            assert ["ns/slow status", "ns/mine binding", "ns/other status"] == it.asked
            assert (3, 0, 1) == (
                it.executor.counts.done,
                it.executor.counts.failed,
                it.executor.counts.superseded,
            )

    asyncio.run(main())


def test_a_bind_waits_for_a_condition_in_flight_and_for_no_repetition_of_it() -> None:
    async def main() -> None:
        async with scene() as it:
            it.refuse["ns/mine status"] = 1000
            it.tell(status("mine"))
            await until(lambda: it.now == 1)
            it.bind("mine")
            await until(lambda: it.executor.pending == 2)
            assert ["ns/mine status"] == it.asked
            it.statuses.set()
            await until(lambda: it.executor.pending == 0)
            assert ["ns/mine status", "ns/mine binding"] == it.asked
            assert Done() == it.outcomes["bind mine"]

    asyncio.run(main())


def test_a_bind_does_not_wait_until_a_refused_condition_is_repeated() -> None:
    async def main() -> None:
        async with scene() as it:
            it.statuses.set()
            it.refuse["ns/mine status"] = 1
            it.executor = Executor(it.api, patience=Patience(first=3600.0, most=3600.0))
            it.tell(status("mine"))
            await until(lambda: it.executor.counts.retries == 1)
            it.bind("mine")
            await until(lambda: it.executor.pending == 0)
            assert ["ns/mine status", "ns/mine binding"] == it.asked

    asyncio.run(main())


def test_a_write_to_another_part_overtakes_a_status_and_does_not_replace_it() -> None:
    async def main() -> None:
        async with scene(in_flight=4) as it:
            it.tell(status("slow"), status("mine"))
            await until(lambda: it.now == 1)
            it.executor.submit(Patch(PODS.path("ns", "mine"), [], "json"))
            await until(lambda: it.executor.counts.done == 1)
            it.statuses.set()
            await until(lambda: it.executor.pending == 0)
            assert ["ns/slow status", "ns/mine pod", "ns/mine status"] == it.asked

    asyncio.run(main())


def test_a_promise_replaces_the_queued_condition_of_its_pod() -> None:
    async def main() -> None:
        async with scene(in_flight=4) as it:
            it.tell(status("slow"), status("mine"))
            await until(lambda: it.now == 1)
            it.executor.submit(status("mine", text="room is being freed for it"))
            await until(lambda: it.now == 2)
            it.statuses.set()
            await until(lambda: it.executor.pending == 0)
            assert ["ns/slow status", "ns/mine status"] == it.asked

    asyncio.run(main())


def test_statuses_of_one_object_keep_their_order() -> None:
    async def main() -> None:
        async with scene() as it:
            it.tell(status("a", text="1"), status("a", text="2"), status("b"))
            await until(lambda: it.now == 2)
            assert ["ns/a status", "ns/b status"] == it.asked
            it.statuses.set()
            await until(lambda: it.executor.pending == 0)
            assert ["ns/a status", "ns/b status", "ns/a status"] == it.asked

    asyncio.run(main())


def test_pending_statuses_delay_neither_a_cycle_nor_a_stop() -> None:
    async def main() -> None:
        async with scene(in_flight=4) as it:
            it.tell(*(status(f"p{i}") for i in range(1000)))
            await until(lambda: it.now == 1)
            async with asyncio.timeout(20):
                await it.executor.has_room(3600.0)
            draining = asyncio.create_task(it.executor.drain())
            it.bind("mine")
            await until(lambda: "bind mine" in it.outcomes)
            assert not draining.done(), "one status is in flight"
            it.statuses.set()
            assert await asyncio.wait_for(draining, 20)
            assert 2 == len(it.asked), "no other status was sent"

    asyncio.run(main())


def test_all_is_sent_when_every_write_but_statuses_has_had_its_request() -> None:
    async def main() -> None:
        async with scene(in_flight=4) as it:
            it.tell(*(status(f"p{i}") for i in range(100)))
            async with asyncio.timeout(20):
                await it.executor.all_sent(3600.0)
            it.tell(status("mine"))
            for i in range(10):
                it.executor.submit(status(f"promised-{i}"))
            await until(lambda: it.now == 5)
            await it.executor.all_sent(0.01)
            waiting = asyncio.create_task(it.executor.all_sent(3600.0))
            await until(lambda: it.now == 5)
            assert not waiting.done(), "four are in flight, and the others have no slot"
            it.statuses.set()
            await asyncio.wait_for(waiting, 20)
            await until(lambda: it.executor.pending == 0)

    asyncio.run(main())


def test_a_write_that_ends_without_a_request_is_not_waited_for() -> None:
    async def main() -> None:
        async with scene() as it:
            it.bind("mine")
            it.executor.withdraw_bind(bind("mine").key, Conflict("withdrawn"))
            async with asyncio.timeout(20):
                await it.executor.all_sent(3600.0)
            await until(lambda: it.executor.pending == 0)
            assert [] == it.asked

    asyncio.run(main())


def test_the_seconds_from_a_decision_to_its_request_are_told() -> None:
    async def main() -> None:
        told: list[tuple[object, float]] = []
        now = 100.0
        async with scene() as it:
            it.executor = Executor(it.api, clock=lambda: now)
            it.executor.on_sent.append(lambda work, seconds: told.append((work, seconds)))
            evict = Evict(bind("b").pod)
            it.statuses.set()
            it.executor.submit(status("a"), lane=Lane.STATUS)
            it.executor.submit(bind("a"), since=99.0)
            it.executor.submit(evict)
            now = 101.5
            await until(lambda: it.executor.pending == 0)
            assert [(bind("a"), 2.5), (evict, 1.5)] == told

    asyncio.run(main())


def test_turns() -> None:
    turns: TenantTurns[str] = TenantTurns()
    for item in ("a1", "a2", "a3", "b1", "a1"):
        turns.put(item[0], item)
    assert 4 == len(turns)
    assert ["a1", "b1", "a2"] == [turns.take() for _ in range(3)]
    turns.put("b", "b2")
    turns.discard("a", "a3")
    turns.discard("c", "c1")
    assert (1, "b2", 0) == (len(turns), turns.take(), len(turns))


def test_the_tenant_of_a_path_is_its_namespace() -> None:
    assert ["ns", "ns", ""] == [
        tenant_of(path) for path in (PODS.path("ns", "a"), "/apis/x/v1/namespaces/ns/jobs/b", "/api/v1/nodes/n1")
    ]
