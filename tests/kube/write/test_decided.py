"""Decided evictions: pods whose owners change them all the time are evicted by uid alone, announced gang by gang."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from aiohttp import web
from tests.kube.write.test_executor import CAUSE, QUICK, Server, Shut, outcome, pod, run_all, said, seen
from tests.kube.write.test_intents import PODS, Desk, paths
from tests.support.patience import until
from tests.support.sockets import answer, refusal, serving

from maar.kube.client import errors
from maar.kube.client.access import Access
from maar.kube.client.api import Api
from maar.kube.write.decided import DecidedVictim, read_victims, write_victims
from maar.kube.write.executor import Delete, Done, Evict, Executor, Failed, Outcome, Patience, Work
from maar.kube.write.intents import LONGEST, Intents

BUDGET = said(429, "TooManyRequests", causes=[CAUSE])
EVICTIONS = [Evict(seen(), gang="g"), Delete(seen(), grace=0)]


def conditions(server: Server) -> list[dict[str, str]]:
    """The preconditions of all evictions and deletions."""
    return [b.get("deleteOptions", b)["preconditions"] for b in server.bodies if "status" not in b]


def asked(server: Server) -> list[str]:
    return [ask.replace("/api/v1/namespaces/ns/pods/", "") for ask in server.asked]


# -- an owner who changes her pod before every write


@pytest.mark.parametrize("work", EVICTIONS)
@pytest.mark.parametrize(
    "change",
    [
        {"annotations": {"example.com/number": "7"}},
        {"annotations": {"maar.dev/gang": "no", "volcano.sh/preemptable": "false"}},
        {"labels": {"other": "label"}},
        {"ownerReferences": []},
    ],
    ids=["any annotation", "annotations that Maar reads", "label", "owner"],
)
def test_no_change_of_a_running_pod_keeps_it(work: Work, change: dict[str, Any]) -> None:
    """The server refuses every version: whatever the owner writes, one refusal is all that she gets by it."""
    server = Server({"POST a/eviction": [409, 201], "DELETE a": [409, 201], "GET a": [pod(node="n1", **change)]})
    assert [Done()] == run_all(server, [work])
    assert [{"uid": "u1", "resourceVersion": "1"}, {"uid": "u1"}] == conditions(server)


def test_an_eviction_is_sent_by_uid_alone_only_after_it_was_announced_so() -> None:
    gate, announced = Shut(), list[int]()
    server = Server({"POST a/eviction": [409, 201], "GET a": [pod(node="n1")]})
    server.on_request = lambda: announced.append(len(gate.decided))
    assert [Done()] == run_all(server, [Evict(seen(), grace=7)], gate=gate)
    assert (["POST a/eviction", "GET a", "POST a/eviction"], [0, 0, 1]) == (asked(server), announced)
    assert [[DecidedVictim(f"{PODS.replace('default', 'ns')}/a", "u1", 7)]] == gate.decided
    assert [] == gate.standing, "it is settled"


@pytest.mark.parametrize("now", [404, pod(uid="u2"), pod(deleted=True)])
def test_a_decided_eviction_ends_when_the_pod_is_gone_or_going(now: Any) -> None:
    server = Server({"POST a/eviction": [409], "GET a": [pod(node="n1"), now]})
    assert [Done()] == run_all(server, [Evict(seen())])
    assert 2 == len(conditions(server))
    server = Server({"POST a/eviction": [409, 404], "GET a": [pod(node="n1")]})
    assert [Done()] == run_all(server, [Evict(seen())])


def test_a_pod_that_has_ended_by_itself_is_not_evicted() -> None:
    ended_pod = pod(node="n1") | {"status": {"phase": "Succeeded"}}
    for now in ([ended_pod], [pod(node="n1"), ended_pod]):
        ended, server, _ = outcome(Evict(seen()), {"POST a/eviction": [409], "GET a": now})
        assert isinstance(ended, Failed)
        assert (True, len(now)) == (ended.final, len(conditions(server)))


def test_a_pod_that_another_scheduler_bound_elsewhere_is_not_evicted() -> None:
    """The decision assumed a bind that no watch had shown."""
    for node, ends in (("n1", Done), ("n2", Failed)):
        server = Server({"POST a/eviction": [409, 201], "GET a": [pod(node=node)]})
        (ended,) = run_all(server, [Evict(seen(), node="n1")])
        assert ends is type(ended)


def test_a_server_that_adds_the_version_itself_is_asked_without_the_limit_of_five() -> None:
    """As it does for pending pods, and for unready pods under a budget."""
    ended, server, _ = outcome(Evict(seen()), {"POST a/eviction": [409] * 20 + [201], "GET a": [pod(node="n1")]})
    assert (Done(), 21) == (ended, len(conditions(server)))
    assert [{"uid": "u1"}] * 20 == conditions(server)[1:]


@pytest.mark.parametrize("trouble", [500, 503])
def test_a_decided_eviction_without_an_answer_is_repeated_and_not_fenced(trouble: int) -> None:
    """No fence stops a request without a version."""
    ended, server, _ = outcome(
        Evict(seen()), {"POST a/eviction": [409, trouble, trouble, 201], "GET a": [pod(node="n1")]}
    )
    assert Done() == ended
    assert ["POST a/eviction", "GET a", *["POST a/eviction"] * 3] == asked(server)


def test_a_decided_eviction_that_a_budget_refuses_is_given_up_after_a_while() -> None:
    """Every request was answered, so none can take effect any more."""
    gate = Shut()
    server = Server({"POST a/eviction": [409, BUDGET], "GET a": [pod(node="n1")]})
    (ended,) = run_all(server, [Evict(seen())], gate=gate, patience=Patience(0.001, 0.01, 60.0, disruption=0.05))
    assert isinstance(ended, Failed)
    assert (True, errors.DisruptionRefused, []) == (ended.final, type(ended.error), gate.standing)


def test_a_decided_eviction_is_not_given_up_while_a_request_without_an_answer_may_take_effect() -> None:
    """A budget refuses all later ones; the first one may still be on its way."""
    now, times = 0.0, list[float]()
    server = Server({"POST a/eviction": [409, 503, BUDGET], "GET a": [pod(node="n1")]})

    def passes() -> None:
        nonlocal now
        now += 5.0
        times.append(now)

    server.on_request = passes
    patience = Patience(0.001, 0.002, unanswered=60.0, disruption=30.0)
    (ended,) = run_all(server, [Evict(seen())], patience=patience, clock=lambda: now)
    assert isinstance(ended, Failed)
    assert ended.final
    lost = times[asked(server).index("POST a/eviction", 1)]
    assert lost + 60.0 <= times[-1] < lost + 70.0


def test_a_pod_with_two_budgets_which_the_server_never_evicts_is_given_up() -> None:
    patience = Patience(0.001, 0.01, unanswered=0.05)
    ended, _, _ = outcome(Evict(seen()), {"POST a/eviction": [409, 500], "GET a": [pod(node="n1")]}, patience)
    assert isinstance(ended, Failed)
    assert (True, 500) == (ended.final, ended.error.status)


# -- all victims of a gang together


class Slow(Shut):
    """A gate that announces what is decided when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[tuple[Callable[[], list[DecidedVictim]], Callable[[], None]]] = []

    def decide(self, victims: Callable[[], list[DecidedVictim]], then: Callable[[], None]) -> None:
        self.waiting.append((victims, then))

    def write(self) -> list[list[str]]:
        """Announce; returns the names of each announcement."""
        announced, self.waiting = self.waiting, []
        found = [[victim.name for victim in victims()] for victims, _ in announced]
        for _, then in announced:
            then()
        return found


def test_all_victims_of_a_gang_are_decided_in_one_announcement() -> None:
    """One of them is refused: the others, whatever became of their requests so far, are decided with it."""
    gate, ended, sent = Slow(), dict[str, Outcome](), list[tuple[str, bool]]()
    holding = asyncio.Event()

    async def handle(request: web.Request) -> web.StreamResponse:
        name = request.path.split("/")[6]
        if request.method == "GET":
            return answer(pod(node="n1") | {"metadata": {"name": name, "uid": "u1", "resourceVersion": "9"}})
        by_uid = "resourceVersion" not in json.loads(await request.read())["deleteOptions"]["preconditions"]
        sent.append((name, by_uid))
        if name == "late":
            await holding.wait()  # it is answered after the announcement
        refuses = not by_uid and name in ("a", "late")
        return refusal(409, "Conflict", "because") if refuses else answer({}, 201)

    async def main() -> None:
        async with serving(handle) as address:
            api = await Api.open(Access(address))
            executor = Executor(api, patience=QUICK, gate=gate)
            for name, gang in (("done", "g"), ("late", "g"), ("a", "g"), ("other", "h")):
                executor.submit(Evict(seen(name), gang=gang), lambda work, o: ended.update({work.key: o}))
            await until(lambda: len(ended) == 2 and bool(gate.waiting) and len(sent) == 4)
            assert [["late", "a"]] == gate.write(), "all of the gang that are not evicted yet, and nobody else"
            await until(lambda: ("a", True) in sent)
            holding.set()
            assert await executor.drain(20)
            await executor.close()
            await api.close()

    asyncio.run(main())
    assert {Done()} == set(ended.values())
    assert ("late", True) == sent[-1], "it needs no announcement of its own"
    assert [] == gate.waiting
    assert [] == gate.standing


def test_what_has_ended_meanwhile_is_not_announced() -> None:
    """Nobody would ever take it off the Lease again."""
    desk, victims = Desk(), [DecidedVictim(path, "u") for path in paths("a", "b")]
    desk.intents.decide(lambda: victims, partial(desk.said.append, "send"))
    victims.pop()
    assert paths("a") == desk.leases[0].write()
    assert (("a",), ["send"]) == (tuple(v.name for v in desk.intents.decided()), desk.said)


def test_a_gang_of_thousands_is_decided_in_parts_that_fit_on_the_lease() -> None:
    gate = Slow()

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            return answer(pod(node="n1"))
        return refusal(409, "Conflict", "because")

    async def main() -> None:
        async with serving(handle) as address:
            api = await Api.open(Access(address))
            executor = Executor(api, patience=QUICK, gate=gate)
            for number in range(1000):
                executor.submit(Evict(seen(f"{'x' * 240}{number}"), gang="g"))
            await until(lambda: bool(gate.waiting))
            await executor.close()
            await api.close()

    asyncio.run(main())
    parts = [victims() for victims, _ in gate.waiting]
    assert 1000 == len({victim.path for part in parts for victim in part})
    assert all(len(write_victims(part, 10**9)) <= LONGEST for part in parts)
    assert 4 >= len(parts)


# -- intents


def test_evictions_that_wait_to_be_decided_do_not_wait_for_other_intents() -> None:
    """All that stand are refused, and wait for just this: as many others have gathered before."""
    desk = Desk(few=1, most=2)
    desk.want(*"abcd")
    assert paths("a", "b") == desk.leases[0].write()
    desk.intents.decide(
        lambda: [DecidedVictim(path, "u") for path in paths("a", "b", "e")], partial(desk.said.append, "go")
    )
    rings = desk.leases[0].rings
    assert rings > 0
    assert paths("a", "b", "e") == desk.leases[0].write()
    assert "go" == desk.said[-1]
    desk.settle("a", "b", "e")
    assert () == desk.intents.decided()
    assert paths("c", "d") == desk.leases[0].write()


def test_decided_evictions_wait_for_room_on_the_lease() -> None:
    desk = Desk()
    first = [DecidedVictim(f"{PODS}/{'x' * 200}{i}", "u" * 36) for i in range(300)]
    more = [DecidedVictim(f"{PODS}/{'y' * 200}{i}", "u" * 36) for i in range(300)]
    for number, victims in enumerate((first, more)):
        desk.intents.decide(partial(list, victims), partial(desk.said.append, f"{number}"))
    desk.leases[0].write()
    assert (["0"], 300) == (desk.said, len(desk.intents.decided()))
    for victim in first:
        desk.intents.settled(victim.path)
    desk.leases[0].write()
    assert (["0", "1"], tuple(more)) == (desk.said, desk.intents.decided())


def test_what_is_inherited_as_decided_stays_until_it_is_carried_out() -> None:
    intents = Intents()
    victims = [DecidedVictim(path, "u", 3) for path in paths("a", "b")]
    intents.inherit_decided(victims)
    assert (frozenset(paths("a", "b")), tuple(victims)) == (intents.inherited, intents.decided())
    intents.fenced_one(paths("a")[0])
    assert (frozenset(paths("b")), (victims[1],)) == (intents.inherited, intents.decided())
    intents.fenced()
    assert (frozenset(), ()) == (intents.inherited, intents.decided())


# -- the text on the Lease


def test_the_text_names_each_pod_with_its_uid_and_its_grace() -> None:
    victims = [
        DecidedVictim(f"{PODS}/a", "u1", 30),
        DecidedVictim(f"{PODS}/b", "u2"),
        DecidedVictim(f"{PODS}/c", "u3", 0, deletes=True),
    ]
    text = write_victims(victims, 7)
    assert {
        "epoch": 7,
        "evict": {PODS: {"a": ["u1", 30], "b": ["u2", None]}},
        "delete": {PODS: {"c": ["u3", 0]}},
    } == json.loads(text)
    assert victims == read_victims(text, 7)
    assert ("", []) == (write_victims([], 7), read_victims("", 7))
    assert all(len(write_victims([victim], 7)) < victim.length + len(PODS) + 40 for victim in victims)


def test_a_text_of_another_epoch_is_of_a_maar_that_did_not_know_it() -> None:
    assert [] == read_victims(write_victims([DecidedVictim(f"{PODS}/a", "u1")], 7), 8)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"epoch": 7, "evict": {"/x": {"a": ["u", 1]}}}',
        f'{{"epoch": 7, "evict": {{"{PODS}": {{"a": []}}}}}}',
    ],
)
def test_a_text_that_is_none_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"Expected|malformed|truncated|not a pod"):
        read_victims(text, 7)
