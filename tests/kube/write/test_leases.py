"""Leader election, against a server with one Lease that can be made to fail."""

import asyncio
import json
import time
from typing import Any

import pytest
from aiohttp import web
from tests.support.patience import until
from tests.support.sockets import answer, cut, refusal, serving, stream

from maar.kube.client.access import Access
from maar.kube.client.api import Api
from maar.kube.wire.annotations import SPARE
from maar.kube.write.decided import DecidedVictim
from maar.kube.write.intents import Intents
from maar.kube.write.leases import LOST_INTENTS, LeaderElection, LeaseClaims, LeaseHeld, now_with_sleep

PATH = "/apis/coordination.k8s.io/v1/namespaces/maar/leases"


class Store:
    """One Lease, with optimistic locking."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.trouble: Any = None
        self.refused = 0
        self.reads = 0
        self.silent = False
        """If true, requests take effect but get no response."""
        self.unanswered = 0
        """How many of the next writes take effect and get no response, because the connection is cut."""
        self.holders: list[str] = []
        """All holders, in order."""
        self.watched: asyncio.Condition | None = None
        """Notified on each change; `None` forbids watches."""
        self.watches: list[str] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            return await self.watch(request)
        if self.trouble is cut:
            cut(request)
        if self.trouble == "hang":
            await asyncio.Event().wait()
        if self.trouble is not None:
            self.refused += 1
            return refusal(500, "", "because")
        if request.method == "GET":
            self.reads += 1
            return answer(self.lease) if self.lease else refusal(404, "NotFound", "no lease")
        document = json.loads(await request.read())
        if request.method == "POST":
            assert PATH == request.path
            if self.lease is not None:
                return refusal(409, "AlreadyExists", "there is one")
        elif self.lease is None:
            return refusal(404, "NotFound", "no lease")
        elif document["metadata"].get("resourceVersion") != self.lease["metadata"]["resourceVersion"]:
            return refusal(409, "Conflict", "the object has been modified")
        stored = self.put(document)
        if self.watched is not None:
            await self.tell()
        if self.unanswered:
            self.unanswered -= 1
            cut(request)
        if self.silent:
            await asyncio.Event().wait()
        return answer(stored)

    async def watch(self, request: web.Request) -> web.StreamResponse:
        """The lease and its changes, as an API server sends them for a watch without a version."""
        self.watches.append(request.query["fieldSelector"])
        if self.watched is None:
            return refusal(403, "Forbidden", "not for you")
        response = await stream(request)
        async with self.watched:
            while True:
                if self.lease is not None:
                    await response.write(json.dumps({"type": "MODIFIED", "object": self.lease}).encode() + b"\n")
                await self.watched.wait()

    async def tell(self) -> None:
        assert self.watched is not None
        async with self.watched:
            self.watched.notify_all()

    def put(self, document: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        document["metadata"]["resourceVersion"] = str(self.version)
        self.lease = document
        if (holder := document["spec"]["holderIdentity"]) not in self.holders[-1:]:
            self.holders.append(holder)
        return document

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        spec: dict[str, Any] = self.lease["spec"]
        return spec


class Stage:
    """Candidates for one Lease."""

    def __init__(self, api: Api, store: Store) -> None:
        self.api = api
        self.store = store
        self.now = 1000.0
        self.said: list[str] = []

    def candidate(self, identity: str, **options: Any) -> LeaderElection:
        times: dict[str, Any] = {
            "lease_seconds": 15.0,
            "renew_seconds": 10.0,
            "retry_seconds": 0.005,
            "clock": lambda: self.now,
        }
        return LeaderElection(self.api, "maar", "maar", identity, **times | options)

    def run(self, election: LeaderElection) -> asyncio.Task[None]:
        name = election.identity
        return asyncio.create_task(
            election.lead(lambda: self.said.append(f"{name} started"), lambda: self.said.append(f"{name} lost"))
        )


def play(scene: Any) -> Store:
    store = Store()

    async def main() -> None:
        async with serving(store.handle) as address:
            api = await Api.open(Access(address))
            try:
                await asyncio.wait_for(scene(Stage(api, store)), 30)
            finally:
                await api.close()

    asyncio.run(main())
    return store


async def stopped(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


def test_the_first_leads_and_gives_back_at_the_end() -> None:
    async def scene(stage: Stage) -> None:
        election = stage.candidate("a")
        task = stage.run(election)
        await until(lambda: election.leading)
        assert (True, "a") == (election.valid, election.holder)
        assert ("a", 15, 0) == tuple(
            stage.store.spec[key] for key in ("holderIdentity", "leaseDurationSeconds", "leaseTransitions")
        )
        acquired, version = stage.store.spec["acquireTime"], stage.store.version
        await until(lambda: stage.store.version > version + 2)
        assert acquired == stage.store.spec["acquireTime"]
        assert stage.store.spec["renewTime"].endswith("Z")
        await stopped(task)
        assert not election.leading
        assert ["a started"] == stage.said

    store = play(scene)
    assert ["a", ""] == store.holders


def test_a_standby_waits_for_a_clean_stop_and_then_leads() -> None:
    async def scene(stage: Stage) -> None:
        first, second = stage.candidate("a"), stage.candidate("b")
        leading = stage.run(first)
        await until(lambda: first.leading)
        standby = stage.run(second)
        await until(lambda: second.holder == "a")
        await stopped(leading)
        await until(lambda: second.leading)
        assert 1 == stage.store.spec["leaseTransitions"]
        await stopped(standby)

    assert ["a", "", "b", ""] == play(scene).holders


def test_a_dead_leader_is_succeeded_by_our_own_clock() -> None:
    """Its renewTime is far in the future and must not matter; only the time since the last observed change matters."""

    async def scene(stage: Stage) -> None:
        spec = {"holderIdentity": "dead", "leaseDurationSeconds": 15, "renewTime": "2999-01-01T00:00:00.000000Z"}
        stage.store.put({"metadata": {"name": "maar", "labels": {"kept": "yes"}}, "spec": spec})
        election = stage.candidate("b")
        task = stage.run(election)
        await until(lambda: election.holder == "dead")
        stage.now += 14.9
        before, reads = stage.store.version, stage.store.reads
        await until(lambda: stage.store.reads > reads + 3)  # the candidate has read the lease several times since
        assert (False, before) == (election.leading, stage.store.version)
        stage.now += 0.2
        await until(lambda: election.leading)
        assert stage.store.lease is not None
        assert {"kept": "yes"} == stage.store.lease["metadata"]["labels"]
        await stopped(task)

    assert ["dead", "b", ""] == play(scene).holders


SLOW = {"lease_seconds": 60.0, "renew_seconds": 59.0, "retry_seconds": 58.0}
"""Times with which a standby does not read the lease a second time during a test."""


def test_a_standby_that_watches_leads_as_soon_as_the_lease_is_given_back() -> None:
    async def scene(stage: Stage) -> None:
        stage.store.watched = asyncio.Condition()
        first, second = stage.candidate("a"), stage.candidate("b", **SLOW)
        leading = stage.run(first)
        await until(lambda: first.leading)
        standby = stage.run(second)
        await until(lambda: second.holder == "a" and len(stage.store.watches) == 2)
        await stopped(leading)
        await until(lambda: second.leading)
        await stopped(standby)

    store = play(scene)
    assert ["a", "", "b", ""] == store.holders
    assert {"metadata.name=maar"} == set(store.watches)


def test_a_standby_that_watches_leads_in_the_moment_in_which_the_last_renewal_expires() -> None:
    async def scene(stage: Stage) -> None:
        stage.store.watched = asyncio.Condition()
        loop = asyncio.get_running_loop()
        spec = {"holderIdentity": "dead", "leaseDurationSeconds": 1}
        stage.store.put({"metadata": {"name": "maar"}, "spec": spec})
        election = stage.candidate("b", **SLOW, clock=loop.time)
        task = stage.run(election)
        await until(lambda: election.holder == "dead" and bool(stage.store.watches))
        seen = loop.time()
        await until(lambda: loop.time() - seen > 0.7)
        stage.store.put({"metadata": {"name": "maar"}, "spec": {**spec, "renewTime": "2026-01-01T00:00:00.000000Z"}})
        renewed = loop.time()
        await stage.store.tell()
        await until(lambda: election.leading)
        assert 1.0 <= loop.time() - renewed < 20
        await stopped(task)

    assert ["dead", "b", ""] == play(scene).holders


def test_a_stop_in_the_middle_of_a_renewal_gives_back_what_the_server_has() -> None:
    """The renewal took effect but its response was lost, so the leader has an old version of the lease."""

    async def scene(stage: Stage) -> None:
        election = stage.candidate("a")
        task = stage.run(election)
        await until(lambda: election.leading)
        stage.store.silent = True
        version = stage.store.version
        await until(lambda: stage.store.version > version)
        stage.store.silent = False
        await stopped(task)

    assert ["a", ""] == play(scene).holders


def test_of_several_candidates_at_the_same_time_one_leads() -> None:
    async def scene(stage: Stage) -> None:
        elections = [stage.candidate(name) for name in "abcdef"]
        tasks = [stage.run(election) for election in elections]
        await until(lambda: any(election.leading for election in elections))
        leader = next(election for election in elections if election.leading)
        await until(lambda: all(election.holder == leader.identity for election in elections))
        assert [leader] == [election for election in elections if election.leading]
        # Stop the leader last: a standby would take a released lease at once.
        for _, task in sorted(zip(elections, tasks, strict=True), key=lambda pair: pair[0] is leader):
            await stopped(task)
        assert [f"{leader.identity} started"] == stage.said

    play(scene)


@pytest.mark.parametrize("trouble", [500, cut], ids=["500", "cut"])
def test_a_leader_that_cannot_renew_gives_up_before_its_lease_ends(trouble: Any) -> None:
    async def scene(stage: Stage) -> None:
        election = stage.candidate("a")
        task = stage.run(election)
        await until(lambda: election.leading)
        stage.store.trouble = trouble
        stage.now += 9.0
        assert election.valid
        stage.now += 1.5
        await asyncio.wait_for(task, 60)
        assert ["a started", "a lost"] == stage.said
        assert not election.leading

    assert ["a"] == play(scene).holders


def test_a_leader_does_not_wait_for_the_next_try_to_give_up() -> None:
    """The first renewal fails at 2 s, the next would be at 4 s, and the lease is valid for 2.2 s."""

    async def scene(stage: Stage) -> None:
        loop = asyncio.get_running_loop()
        election = stage.candidate("a", lease_seconds=9.0, renew_seconds=2.2, retry_seconds=2.0, clock=loop.time)
        begun = loop.time()
        task = stage.run(election)
        await until(lambda: election.leading)
        stage.store.trouble = 500
        await asyncio.wait_for(task, 60)
        assert 2.2 <= loop.time() - begun < 4.0
        assert ["a started", "a lost"] == stage.said

    play(scene)


def test_a_server_that_hangs_does_not_keep_a_leader() -> None:
    async def scene(stage: Stage) -> None:
        loop = asyncio.get_running_loop()
        election = stage.candidate("a", lease_seconds=0.3, renew_seconds=0.1, clock=loop.time)
        task = stage.run(election)
        await until(lambda: election.leading)
        stage.store.trouble = "hang"
        await asyncio.wait_for(task, 60)
        assert ["a started", "a lost"] == stage.said

    play(scene)


def test_a_leader_that_was_overtaken_stops() -> None:
    async def scene(stage: Stage) -> None:
        election = stage.candidate("a")
        task = stage.run(election)
        await until(lambda: election.leading)
        assert stage.store.lease is not None
        stage.store.put(
            json.loads(json.dumps(stage.store.lease)) | {"spec": stage.store.spec | {"holderIdentity": "x"}}
        )
        await asyncio.wait_for(task, 60)
        assert (["a started", "a lost"], "x") == (stage.said, election.holder)

    assert ["a", "x"] == play(scene).holders


def test_trouble_that_passes_changes_nothing_and_a_deleted_lease_is_made_anew() -> None:
    async def scene(stage: Stage) -> None:
        election = stage.candidate("a")
        task = stage.run(election)
        await until(lambda: election.leading)
        stage.store.trouble = 500
        stage.now += 5.0
        await until(lambda: stage.store.refused > 1)
        stage.store.trouble = None
        version = stage.store.version
        await until(lambda: stage.store.version > version)
        stage.store.lease = None
        await until(lambda: stage.store.lease is not None)
        assert election.leading
        await stopped(task)
        assert ["a started"] == stage.said

    play(scene)


def test_the_work_is_cancelled_when_the_lease_is_lost_and_ends_before_it_is_given_back() -> None:
    async def scene(stage: Stage) -> None:
        async def work() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                stage.said.append(f"work ended, held by {stage.store.spec['holderIdentity']}")

        election = stage.candidate("a")
        task = asyncio.create_task(election.lead(work, lambda: stage.said.append("lost")))
        await until(lambda: election.leading)
        await stopped(task)
        assert "" == stage.store.spec["holderIdentity"]
        again = asyncio.create_task(election.lead(work, lambda: stage.said.append("lost")))
        await until(lambda: election.leading)
        stage.store.trouble = 500
        stage.now += 11.0
        await asyncio.wait([again])
        assert ["work ended, held by a", "lost", "work ended, held by a"] == stage.said

    play(scene)


def test_work_that_ends_gives_the_lease_back_and_its_error_is_told() -> None:
    async def scene(stage: Stage) -> None:
        async def work() -> None:
            raise RuntimeError("a defect")

        with pytest.raises(RuntimeError, match="a defect"):
            await stage.candidate("a").lead(work, lambda: stage.said.append("lost"))
        assert [] == stage.said

    assert ["a", ""] == play(scene).holders


def test_times_that_make_no_sense_are_refused() -> None:
    async def scene(stage: Stage) -> None:
        with pytest.raises(ValueError, match="outlast"):
            stage.candidate("a", renew_seconds=20.0)

    play(scene)


def annotations(store: Store) -> dict[str, str]:
    assert store.lease is not None
    found: dict[str, str] = store.lease["metadata"].get("annotations", {})
    return found


def test_intents_are_written_at_once_and_dropped_when_they_are_settled() -> None:
    async def scene(stage: Stage) -> None:
        intents, sent = Intents(), list[str]()
        election = stage.candidate("a", intents=intents, retry_seconds=0.5)
        task = stage.run(election)
        await until(lambda: election.leading)
        intents.announce("/x/a", lambda: None, lambda: sent.append(annotations(stage.store)["maar.dev/intents"]))
        await until(lambda: bool(sent))
        assert (['{"/x":["a"]}'], "1") == (sent, annotations(stage.store)["maar.dev/epoch"])
        intents.settled("/x/a")
        await until(lambda: "maar.dev/intents" not in annotations(stage.store))
        await stopped(task)

    play(scene)


@pytest.mark.parametrize(("epoch", "following"), [("7", 8), ("9" * 5000, 1)], ids=["epoch", "digits"])
def test_a_successor_reads_the_intents_in_the_version_that_it_replaces_and_raises_the_epoch(
    epoch: str, following: int
) -> None:
    async def scene(stage: Stage) -> None:
        notes = {"maar.dev/intents": '{"/x":["a","b"]}', "maar.dev/epoch": epoch, "kept": "yes"}
        spec = {"holderIdentity": "dead", "leaseDurationSeconds": 15}
        stage.store.put({"metadata": {"name": "maar", "annotations": notes}, "spec": spec})
        intents = Intents()
        election = stage.candidate("b", intents=intents)
        task = stage.run(election)
        await until(lambda: election.holder == "dead")
        stage.now += 15.1
        await until(lambda: election.leading)
        assert (frozenset({"/x/a", "/x/b"}), following, True) == (intents.inherited, intents.epoch, intents.succeeds)
        version = stage.store.version
        await until(lambda: stage.store.version > version + 1)
        assert {**notes, "maar.dev/epoch": str(following)} == annotations(stage.store), (
            "they stay until they are fenced"
        )
        intents.fenced()
        await until(lambda: "maar.dev/intents" not in annotations(stage.store))
        await stopped(task)

    assert ["dead", "b", ""] == play(scene).holders


def test_annotations_that_somebody_has_changed_stop_nobody_and_are_passed_on_until_everything_is_fenced() -> None:
    async def scene(stage: Stage) -> None:
        notes = {"maar.dev/intents": '{"/x":["a",', "maar.dev/epoch": "9" * 5000}
        stage.store.put({"metadata": {"name": "maar", "annotations": notes}, "spec": {"holderIdentity": ""}})
        intents = Intents()
        election = stage.candidate("b", intents=intents)
        task = stage.run(election)
        await until(lambda: election.leading)
        assert (True, True, 1) == (intents.unreadable, intents.succeeds, intents.epoch)
        version = stage.store.version
        await until(lambda: stage.store.version > version + 1)
        assert {**notes, "maar.dev/epoch": "1"} == annotations(stage.store), (
            "the next leader must not trust them either"
        )
        intents.fenced()
        await until(lambda: "maar.dev/intents" not in annotations(stage.store))
        assert not intents.unreadable
        await stopped(task)

    play(scene)


@pytest.mark.parametrize("known", [0, 9], ids=["seen", "known"])
def test_a_deleted_lease_is_taken_with_a_higher_epoch_and_its_intents_are_not_trusted(known: int) -> None:
    """The epoch goes on from what the process has seen, or from what another object states if that is higher."""

    async def scene(stage: Stage) -> None:
        notes = {"maar.dev/intents": '{"/x":["a"]}', "maar.dev/epoch": "7"}
        spec = {"holderIdentity": "gone", "leaseDurationSeconds": 15}
        stage.store.put({"metadata": {"name": "maar", "annotations": notes}, "spec": spec})
        intents = Intents()
        election = stage.candidate("b", intents=intents, known_epoch=lambda: known)
        task = stage.run(election)
        await until(lambda: election.holder == "gone")
        stage.store.lease = None
        first = stage.store.version + 1
        await until(lambda: stage.store.lease is not None)
        following = str(max(known, 7) + 1)
        assert {"maar.dev/intents": LOST_INTENTS, "maar.dev/epoch": following} == annotations(stage.store)
        await until(lambda: election.leading and stage.store.version > first)
        assert (True, True, int(following)) == (intents.unreadable, intents.succeeds, intents.epoch)
        assert LOST_INTENTS == annotations(stage.store)["maar.dev/intents"], "until everything is fenced"
        intents.fenced()
        await until(lambda: "maar.dev/intents" not in annotations(stage.store))
        await stopped(task)

    assert ["gone", "b", ""] == play(scene).holders


def test_intents_that_are_not_settled_survive_a_clean_stop() -> None:
    async def scene(stage: Stage) -> None:
        intents, sent = Intents(), list[str]()
        election = stage.candidate("a", intents=intents)
        task = stage.run(election)
        await until(lambda: election.leading)
        for name in "ab":
            intents.announce(f"/x/{name}", lambda: None, lambda: sent.append(""))
        await until(lambda: len(sent) == 2)
        intents.settled("/x/a")
        await stopped(task)
        assert not election.lost, "it was given back"

    store = play(scene)
    assert '{"/x":["b"]}' == annotations(store)["maar.dev/intents"]


POD = "/api/v1/namespaces/ns/pods/a"
TEXT = '{"epoch":7,"evict":{"/api/v1/namespaces/ns/pods":{"a":["u1",30]}}}'


def test_decided_evictions_are_written_with_the_epoch_and_dropped_when_they_are_settled() -> None:
    async def scene(stage: Stage) -> None:
        intents, sent = Intents(), list[str]()
        election = stage.candidate("a", intents=intents, retry_seconds=0.5)
        task = stage.run(election)
        await until(lambda: election.leading)
        victims = [DecidedVictim(POD, "u1", 30)]
        intents.decide(lambda: victims, lambda: sent.append(annotations(stage.store)["maar.dev/evictions"]))
        await until(lambda: bool(sent))
        assert [TEXT.replace("7", "1", 1)] == sent
        assert '{"/api/v1/namespaces/ns/pods":["a"]}' == annotations(stage.store)["maar.dev/intents"], (
            "a Maar that does not know decided evictions fences the pod"
        )
        intents.settled(POD)
        await until(lambda: "maar.dev/evictions" not in annotations(stage.store))
        await stopped(task)

    play(scene)


def test_a_successor_reads_decided_evictions_and_states_them_in_its_own_epoch_until_they_are_carried_out() -> None:
    """From its first write of the Lease on: it may die right after that."""

    async def scene(stage: Stage) -> None:
        notes = {"maar.dev/evictions": TEXT, "maar.dev/epoch": "7"}
        stage.store.put({"metadata": {"name": "maar", "annotations": notes}, "spec": {"holderIdentity": ""}})
        first = stage.store.version + 1
        intents = Intents()
        election = stage.candidate("b", intents=intents, retry_seconds=0.5)
        task = stage.run(election)
        await until(lambda: election.leading)
        assert ({POD: DecidedVictim(POD, "u1", 30)}, first) == (intents.inherited_decided, stage.store.version)
        assert TEXT.replace("7", "8", 1) == annotations(stage.store)["maar.dev/evictions"]
        await until(lambda: stage.store.version > first)
        assert TEXT.replace("7", "8", 1) == annotations(stage.store)["maar.dev/evictions"]
        intents.fenced_one(POD)
        await until(lambda: "maar.dev/evictions" not in annotations(stage.store))
        await stopped(task)

    play(scene)


@pytest.mark.parametrize("text", [TEXT, '{"epoch":8,"evict":'], ids=["older epoch", "unreadable"])
def test_decided_evictions_that_a_maar_without_them_left_or_somebody_changed_are_dropped(text: str) -> None:
    """Somebody may have decided otherwise since."""

    async def scene(stage: Stage) -> None:
        notes = {"maar.dev/evictions": text, "maar.dev/epoch": "8"}
        stage.store.put({"metadata": {"name": "maar", "annotations": notes}, "spec": {"holderIdentity": ""}})
        intents = Intents()
        election = stage.candidate("b", intents=intents)
        task = stage.run(election)
        await until(lambda: election.leading)
        assert ({}, frozenset()) == (intents.inherited_decided, intents.inherited)
        assert {"maar.dev/epoch": "9"} == annotations(stage.store)
        await stopped(task)

    play(scene)


def test_decided_evictions_that_are_not_settled_survive_a_clean_stop() -> None:
    async def scene(stage: Stage) -> None:
        intents, sent = Intents(), list[str]()
        election = stage.candidate("a", intents=intents)
        task = stage.run(election)
        await until(lambda: election.leading)
        intents.decide(lambda: [DecidedVictim(POD, "u1", 30)], lambda: sent.append(""))
        await until(lambda: bool(sent))
        await stopped(task)

    assert TEXT.replace("7", "1", 1) == annotations(play(scene))["maar.dev/evictions"]


def test_a_leader_that_missed_a_whole_reign_has_lost() -> None:
    """While it was frozen, another process led and gave the lease back: the lease is free, but decisions were made."""

    async def scene(stage: Stage) -> None:
        intents, sent = Intents(), list[str]()
        election = stage.candidate("a", intents=intents)
        task = stage.run(election)
        await until(lambda: election.leading)
        lease = json.loads(json.dumps(stage.store.lease))
        lease["metadata"]["annotations"]["maar.dev/epoch"] = "2"
        stage.store.put(lease | {"spec": stage.store.spec | {"holderIdentity": ""}})
        intents.announce("/x/a", lambda: None, lambda: sent.append("a"))
        await asyncio.wait_for(task, 60)
        assert ([], True, ["a started", "a lost"]) == (sent, intents.lost, stage.said)

    assert ["a", ""] == play(scene).holders


def test_an_intent_whose_answer_was_lost_is_written_again() -> None:
    async def scene(stage: Stage) -> None:
        intents, sent = Intents(), list[str]()
        election = stage.candidate("a", intents=intents)
        task = stage.run(election)
        await until(lambda: election.leading)
        stage.store.unanswered = 2
        intents.announce("/x/a", lambda: None, lambda: sent.append("a"))
        await until(lambda: bool(sent))
        assert (0, ["a"], False) == (stage.store.unanswered, sent, intents.lost)
        await stopped(task)

    play(scene)


def test_a_frozen_leader_knows_before_it_asks() -> None:
    async def scene(stage: Stage) -> None:
        intents = Intents()
        election = stage.candidate("a", intents=intents, retry_seconds=5.0)
        task = stage.run(election)
        await until(lambda: election.leading)
        before = intents.lost
        stage.now += 15.0
        assert (False, True) == (before, intents.lost)
        await stopped(task)

    play(scene)


def test_the_clock_counts_while_the_machine_sleeps() -> None:
    assert abs(time.clock_gettime(time.CLOCK_BOOTTIME) - now_with_sleep()) < 10


def test_without_standing_by_a_lease_that_is_renewed_is_an_error_that_names_its_holder() -> None:
    async def scene(stage: Stage) -> None:
        first = stage.candidate("a")
        leading = stage.run(first)
        await until(lambda: first.leading)
        with pytest.raises(LeaseHeld, match="lease `maar/maar` is held by `a`, which renews it"):
            await stage.run(stage.candidate("b", stand_by=False))
        await stopped(leading)

    assert ["a", ""] == play(scene).holders


def test_without_standing_by_the_lease_of_a_dead_process_is_taken() -> None:
    async def scene(stage: Stage) -> None:
        for name, options in (("b", {"is_dead": lambda holder: holder == "dead"}), ("c", {})):
            stage.store.put({"metadata": {"name": "maar"}, "spec": {"holderIdentity": "dead"}})
            election = stage.candidate(name, stand_by=False, **options)
            task = stage.run(election)
            if not options:
                await until(lambda e=election: e.holder == "dead")  # type: ignore[misc]
                stage.now += 15.1
            await until(lambda e=election: e.leading)  # type: ignore[misc]
            await stopped(task)

    assert ["dead", "b", "", "dead", "c", ""] == play(scene).holders


class Refusing(LeaseClaims):
    """Counts refusals."""

    refused = 0

    def permit(self, candidate: LeaderElection, free_for: float) -> bool:
        permitted = super().permit(candidate, free_for)
        self.refused += not permitted
        return permitted

    async def refuse(self) -> None:
        """Wait until candidates were refused twice: the second time, they asked after this call."""
        enough = self.refused + 2
        await until(lambda: self.refused >= enough, "a candidate is refused")


def play_with_two(patience: float, scene: Any) -> None:
    """A scene with two leases, each on a server of its own, and one process that stands for both."""

    async def both(stage: Stage) -> None:
        claims = Refusing(patience)
        async with serving(Store().handle) as address:
            other = Stage(await Api.open(Access(address)), stage.store)
            elections = [place.candidate("a", claims=claims, clock=lambda: stage.now) for place in (stage, other)]
            tasks = [stage.run(elections[0])]
            await until(lambda: elections[0].leading)
            tasks.append(other.run(elections[1]))
            await scene(stage, elections[1], claims)
            for task in reversed(tasks):
                await stopped(task)
            await other.api.close()

    play(both)


def test_of_several_free_leases_a_process_takes_one_and_the_next_only_if_nobody_else_does() -> None:
    async def scene(stage: Stage, second: LeaderElection, claims: Refusing) -> None:
        claims.ended()
        await claims.refuse()
        assert not second.leading, "it leaves the lease to processes that have none"
        stage.now += 9.0
        await claims.refuse()
        assert not second.leading
        stage.now += 1.5
        await until(lambda: second.leading)

    play_with_two(10.0, scene)


def test_a_process_takes_over_one_lease_at_a_time() -> None:
    async def scene(stage: Stage, second: LeaderElection, claims: Refusing) -> None:
        await claims.refuse()
        assert not second.leading, "what came with the first lease is not fenced yet"
        claims.ended()
        await until(lambda: second.leading)

    play_with_two(0.0, scene)


def test_a_process_without_a_lease_can_ask_for_one_and_the_next_holder_is_not_asked() -> None:
    async def scene(stage: Stage) -> None:
        election = stage.candidate("a")
        task = stage.run(election)
        await until(lambda: election.leading)
        assert "" == election.spare
        assert stage.store.lease is not None
        metadata = stage.store.lease["metadata"]
        stage.store.put(
            stage.store.lease | {"metadata": metadata | {"annotations": metadata["annotations"] | {SPARE: "b"}}}
        )
        await until(lambda: election.spare == "b")
        assert election.leading
        await stopped(task)
        other = stage.candidate("b")
        taken = stage.run(other)
        await until(lambda: other.leading)
        assert "" == other.spare
        assert SPARE not in stage.store.lease["metadata"]["annotations"]
        await stopped(taken)

    play(scene)
