"""A standing election is checked in every cycle as a candidate is, and a lock belongs to the job that it names."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.confs import RESERVE
from tests.support.facts import facts, lost_of

from maar.actions.elect import asks_for_more
from maar.config.config import Config
from maar.decide import decide
from maar.model.facts import Lost
from maar.model.jobs import Closeness, Phase
from maar.model.nodes import Node
from maar.model.plan import Elect, Lock, Plan
from maar.model.queues import Queue
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status
from maar.testing.builders import GPU, Gang, Part, cluster, gang, node
from maar.testing.scenario import configured, cycles, scene

CONFIG = configured(RESERVE)
NOW = 100.0


def with_timeout(timeout: str) -> Config:
    arguments = f"{{name: reservation, arguments: {{reservation.timeout: {timeout}}}}}"
    return configured(RESERVE.replace("{name: reservation}", arguments))


def elected(
    name: str, *nodes: str, since: float = 0.0, uid: str = "", demand: dict[str, int] | None = None
) -> list[Part]:
    """An election and its locks."""
    states = tuple(sorted((demand or {}).items()))
    return [Elect(f"ns/{name}", since, uid, states), *(Lock(n, f"ns/{name}", since, uid) for n in nodes)]


def busy(*, cordoned: str = "", gone: str = "") -> list[Node]:
    nodes = [node(n, gpu=8, unschedulable=n == cordoned) for n in ("n1", "n2", "n3")]
    return [n for n in nodes if n.name != gone]


def wide(size: int = 3, **job: Any) -> Gang:
    return gang("wide", size, gpu=8, **job)


def locked(plan: Plan) -> set[str]:
    return {lock.node for lock in plan.locks}


@pytest.mark.parametrize("change", [{"cordoned": "n3"}, {"gone": "n3"}])
def test_a_gang_that_can_no_longer_start_loses_its_locks_at_once(change: dict[str, str]) -> None:
    """Without the check, all nodes stay empty for it until the time-out, which is never by default."""
    running = gang("long", 1, gpu=4, on=["n1"])
    small = gang("small", 1, gpu=4, created=5.0)
    scenery = cluster(busy(**change), running, wide(), small, elected("wide", "n1", "n2", "n3"))
    plans = scene(scenery, CONFIG, now=NOW)
    assert (None, ()) == (plans[0].elect, plans[0].locks)
    assert ["ns/small-0"] == [b.task for b in plans[0].bind]


def test_a_gang_that_can_still_start_keeps_its_election_and_other_nodes_are_locked() -> None:
    running = [gang(f"long-{n}", 1, gpu=4, on=[n]) for n in ("n1", "n2", "n3")]
    scenery = cluster(busy(cordoned="n2"), running, wide(2), elected("wide", "n1", "n2", since=90.0))
    plans = scene(scenery, CONFIG, now=NOW)
    assert ("ns/wide", 90.0) == (plans[-1].elect and (plans[-1].elect.job, plans[-1].elect.since))
    assert {"n1", "n3"} == locked(plans[-1]), "the cordoned node is not locked any more"


def test_a_target_whose_queue_may_not_have_that_much_any_more_loses_its_election() -> None:
    queues = [Queue("default"), Queue("team", capability={GPU: 4})]
    config = configured(RESERVE.replace("{name: gang}", "{name: gang}\n  - {name: proportion}"))
    running = [gang(f"long-{n}", 1, gpu=4, on=[n]) for n in ("n1", "n2", "n3")]
    scenery = cluster(queues, busy(), running, wide(1, queue="team"), elected("wide", "n2"))
    assert None is scene(scenery, config, now=NOW)[0].elect
    roomy = replace(scenery, queues=(queues[0], Queue("team", capability={GPU: 8})))
    assert None is not scene(roomy, config, now=NOW)[0].elect


def test_locks_move_to_a_domain_in_which_the_gang_can_start() -> None:
    """A node of the first domain is gone: its other node is released, and the second domain is locked."""
    config = configured(RESERVE.replace("{name: gang}", "{name: gang}\n  - {name: topology}"))
    rack = {"a1": "a", "b1": "b", "b2": "b"}
    nodes = [node(name, gpu=8, labels={"rack": r}) for name, r in rack.items()]
    running = [gang(f"long-{n}", 1, gpu=4, on=[n]) for n in rack]
    near = gang("wide", 2, gpu=8, closeness=Closeness(key="rack"))
    plans = scene(cluster(nodes, running, near, elected("wide", "a1")), config, now=NOW)
    assert {"b1", "b2"} == locked(plans[-1])


@pytest.mark.parametrize("since", [NOW, NOW + 3600.0])
def test_a_group_without_pods_is_not_elected_for_the_room_of_cordoned_nodes(since: float) -> None:
    group = gang("a", 0, minimum=2, phase=Phase.PENDING, min_resources={GPU: 24})
    config = configured(RESERVE.replace('"elect', '"enqueue, elect'))
    running = gang("long", 1, gpu=4, on=["n1"])
    scenery = cluster(busy(cordoned="n3"), running, group, elected("a", "n1", since=since))
    assert (None, ()) == ((plan := scene(scenery, config, now=NOW)[0]).elect, plan.locks)


def test_without_an_action_that_checks_it_an_election_ends() -> None:
    """The actions were removed from the configuration, and the plugin was left."""
    config = configured(RESERVE.replace("elect, ", "").replace(", reserve", ""))
    scenery = cluster(busy(cordoned="n3"), wide(), gang("small", 1, gpu=4, created=5.0), elected("wide", "n1", "n2"))
    plans = scene(scenery, config, now=NOW)
    assert (None, (), 1) == (plans[0].elect, plans[0].locks, len(plans[0].bind))


def test_after_a_lost_election_jobs_that_rest_are_candidates_too() -> None:
    """`low` has just come. `high` was skipped by this cycle only because nothing has changed for it."""
    high, low = gang("high", 2, gpu=8, priority=5, created=50.0), gang("low", 2, gpu=8, created=60.0)
    running = [gang(f"long-{n}", 1, gpu=4, on=[n], priority=9) for n in ("n1", "n2", "n3")]
    lost = elected("wide", "n2", "n3", since=90.0, demand=SMALL)
    snapshot = Snapshot(cluster(busy(), running, wide(3), high, low, lost))
    snapshot.resting = frozenset({snapshot.jobs.number["ns/high"]})
    plan = decide(snapshot, with_timeout("1h"), NOW)
    assert plan.elect is not None
    assert "ns/high" == plan.elect.job


# -- whose election it is


def test_a_new_job_of_the_same_name_inherits_neither_election_nor_locks() -> None:
    again = gang("wide", 3, gpu=8, uid="new", created=50.0)
    older = gang("older", 3, gpu=8, uid="older", created=10.0)
    scenery = cluster(busy(), gang("long", 1, gpu=4, on=["n1"]), again, older, elected("wide", "n1", uid="old"))
    plans = scene(scenery, CONFIG, now=NOW)
    assert plans[0].elect is not None
    assert ("ns/older", "older", NOW) == (plans[0].elect.job, plans[0].elect.uid, plans[0].elect.since)
    assert {("ns/older", "older")} == {(lock.job, lock.uid) for plan in plans for lock in plan.locks}


def test_a_target_does_not_inherit_the_locks_of_another_job() -> None:
    locks = [Lock(n, "ns/other", 0.0, "other") for n in ("n1", "n2", "n3")]
    scenery = cluster(
        busy(), gang("long", 1, gpu=4, on=["n1"]), wide(uid="w"), gang("other", 1, gpu=8, uid="other", created=5.0),
        elected("wide", uid="w", since=90.0), locks,
    )  # fmt: skip
    plans, _ = cycles(scenery, CONFIG, 1, now=NOW)
    assert {("ns/wide", NOW)} == {(lock.job, lock.since) for lock in plans[0].locks}


# -- what it asks for


SMALL = {"cpu": 2000, "memory": 2 * 2**30, GPU: 16, "pods": 2}
"""The demand of `wide` with two pods."""


def test_a_target_that_asks_for_more_than_at_its_election_loses_it_and_others_have_their_turn() -> None:
    other = gang("other", 2, gpu=8, created=5.0)
    scenery = cluster(
        busy(), gang("long", 1, gpu=4, on=["n1"]), gang("also", 1, gpu=4, on=["n2"]), wide(3), other,
        elected("wide", "n2", "n3", since=90.0, demand=SMALL),
    )  # fmt: skip
    plans = scene(scenery, with_timeout("1h"), now=NOW)
    assert (Lost("ns/wide", NOW),) == lost_of(plans[0])
    assert {"ns/other"} == {p.elect.job for p in plans if p.elect}
    assert {"ns/other"} == {lock.job for p in plans for lock in p.locks}
    later, _ = cycles(cluster(busy(), gang("long", 1, gpu=4, on=["n1"]), wide(3), facts=plans[0].facts), CONFIG, 1)
    assert later[0].elect is not None, "without a time-out it may be elected again in the next cycle"


@pytest.mark.parametrize("size", [1, 2])
def test_a_target_may_ask_for_the_same_or_less(size: int) -> None:
    running = [gang(f"long-{n}", 1, gpu=4, on=[n]) for n in ("n1", "n2", "n3")]
    scenery = cluster(busy(), running, wide(size), elected("wide", "n2", since=90.0, demand=SMALL))
    plans = scene(scenery, CONFIG, now=NOW)
    assert {("ns/wide", 90.0)} == {(p.elect.job, p.elect.since) for p in plans if p.elect}


def test_a_member_that_fails_raises_no_demand() -> None:
    """What the job has counts: a lost pod changes what is missing, not what was asked for."""
    running = [gang(f"long-{n}", 1, gpu=4, on=[n]) for n in ("n2", "n3")]
    half = gang("wide", 2, gpu=8, on=["n1"])
    lost = replace(half, tasks=tuple(replace(t, status=Status.PENDING, node="") for t in half.tasks))
    for job in (half, lost):
        scenery = cluster(busy(), running, job, elected("wide", "n2", since=90.0, demand=SMALL))
        (plan,), _ = cycles(scenery, CONFIG, 1, now=NOW)
        assert () == lost_of(plan)
        assert plan.elect is None or plan.elect.since == 90.0


def test_a_group_declares_some_resources_and_its_pods_all_of_them() -> None:
    """The pods of an elected group appear: resources that it left open count from then on."""
    declared = {GPU: 16}
    running = [gang(f"long-{n}", 1, gpu=4, on=[n]) for n in ("n1", "n2", "n3")]
    scenery = cluster(busy(), running, wide(2), elected("wide", "n2", since=90.0, demand=declared))
    plans = scene(scenery, CONFIG, now=NOW)
    assert plans[0].elect == Elect("ns/wide", 90.0, demand=tuple(sorted(SMALL.items())))
    larger = cluster(busy(), running, wide(3), elected("wide", "n2", since=90.0, demand=declared))
    assert () != lost_of(cycles(larger, with_timeout("1h"), 1, now=NOW)[0][0])


@pytest.mark.parametrize(
    ("before", "now", "more"),
    [
        ({"pods": 1, GPU: 8}, {"pods": 1, GPU: 8}, False),
        ({"pods": 1, GPU: 8}, {"pods": 1, GPU: 9}, True),
        ({"pods": 1, GPU: 8}, {"pods": 1, GPU: 8, "cpu": 1}, True),
        ({GPU: 8}, {"pods": 1, GPU: 8, "cpu": 1}, False),
        ({GPU: 8}, {GPU: 9}, True),
        ({GPU: 8}, {GPU: 8, "cpu": 1}, True),  # both are what the group declares
        ({}, {GPU: 9}, False),
    ],
)
def test_what_is_more(before: dict[str, int], now: dict[str, int], more: bool) -> None:
    assert more == asks_for_more(tuple(before.items()), tuple(now.items()))


# -- turns and clocks


def test_a_job_that_lost_its_election_may_be_elected_again_after_the_same_time() -> None:
    scenery = cluster(busy(), gang("long", 1, gpu=4, on=["n1"]), wide(), facts=facts(Lost("ns/wide", 50.0)))
    config = with_timeout("1m")
    plans, _ = cycles(scenery, config, 1, now=NOW)
    assert (None, 110.0) == (plans[0].elect, plans[0].wake_at)
    assert None is not cycles(scenery, config, 1, now=110.0)[0][0].elect


def test_the_next_election_of_a_job_lasts_twice_as_long() -> None:
    """So work that takes long ends in time for one of them. A job that got its nodes begins anew."""
    scenery, config = cluster(busy(), gang("long", 1, gpu=4, on=["n1"]), wide()), with_timeout("1m")
    now, lasted = NOW, []
    for _ in range(3):
        begun, standing = now, True
        while standing:
            plans, scenery = cycles(scenery, config, 1, now=now)
            standing = plans[0].elect is not None
            now = (plans[0].wake_at or now) if standing else now
        lasted.append(now - begun)
        plans, scenery = cycles(scenery, config, 1, now=now)
        assert plans[0].wake_at == now + 60.0
        now += 60.0
    assert [60.0, 120.0, 240.0] == lasted
    placed = replace(scenery, tasks=tuple(t for t in scenery.tasks if t.job == "ns/wide"))
    plans, _ = cycles(placed, config, 2, now=now)
    assert len(plans[0].bind) == 3
    assert () == lost_of(plans[1])


def test_a_clock_that_was_set_back_by_an_hour_keeps_nothing_longer() -> None:
    """Times in the future count as now, or not at all."""
    ahead = NOW + 3600.0
    running = [gang(f"long-{n}", 1, gpu=4, on=[n]) for n in ("n1", "n2", "n3")]
    scenery = cluster(busy(), running, wide(), elected("wide", "n1", since=ahead))
    plans, after = cycles(scenery, with_timeout("1m"), 3, now=NOW)
    assert [2, 3, 3] == [len(p.locks) for p in plans]
    assert NOW + 60.0 == plans[2].wake_at
    assert (Lost("ns/wide", NOW + 60.0),) == lost_of(cycles(after, with_timeout("1m"), 1, now=NOW + 60.0)[0][0])
    lost = cluster(busy(), running, wide(), facts=facts(Lost("ns/wide", ahead)))
    assert None is not cycles(lost, with_timeout("1m"), 1, now=NOW)[0][0].elect


# -- promises


def past_promise(queue: str, size: int = 1, **long: Any) -> Cluster:
    """`n1` is full of a job whose promise ended 10 s ago, `n2` has one that ends in 100 s; `short` ends in time."""
    late = gang("late", 1, gpu=8, on=["n1"], promise=90.0, queue=queue, **long)
    good = gang("good", 1, gpu=4, on=["n2"], promise=200.0)
    short = gang("short", 1, gpu=1, created=5.0, promise=50.0)
    return cluster(
        [Queue("default"), Queue("other")],
        [node("n1", gpu=8), node("n2", gpu=8)], late, good, wide(size), short, elected("wide", "n1", "n2"),
    )  # fmt: skip


def test_while_a_queue_has_a_job_past_its_promise_none_of_its_jobs_passes_locks() -> None:
    assert () == scene(past_promise("default"), CONFIG, now=NOW)[0].bind
    assert ["ns/short-0"] == [b.task for b in scene(past_promise("other"), CONFIG, now=NOW)[0].bind]
    leaving = past_promise("default", 2, task={"status": Status.RELEASING})
    assert () == cycles(leaving, CONFIG, 1, now=NOW)[0][0].bind, "it does not leave in time either"


def test_a_job_past_its_promise_does_not_count_as_gone() -> None:
    """`wide` needs both nodes. It cannot start at the end of `good`: `late` may never end, so nothing may pass."""
    scenery = past_promise("other")
    both = gang("wide", 2, gpu=8)
    others = [replace(t) for t in scenery.tasks if t.job != "ns/wide"]
    jobs = [j for j in scenery.jobs if j.key != "ns/wide"]
    scenery = replace(scenery, tasks=(*others, *both.tasks), jobs=(*jobs, both.job))
    assert () == scene(scenery, CONFIG, now=NOW)[0].bind


def test_a_promise_counts_from_the_start_not_from_the_creation() -> None:
    """`first` waited for an hour, was bound, and its kubelet has not started it yet: it has broken no promise."""
    first = gang("first", 1, gpu=2, on=["n1"], created=0.0, promise=100.0, task={"started": None})
    good = [gang(f"good-{n}", 1, gpu=7, on=[n], promise=8000.0) for n in ("n2", "n3")]
    following = gang("next", 1, gpu=2, created=160.0, promise=20.0)
    scenery = cluster(busy(), first, good, wide(2), following, elected("wide", "n1", "n2", "n3", since=50.0))
    (plan,), _ = cycles(scenery, CONFIG, 1, now=3600.0)
    assert ["ns/next-0"] == [b.task for b in plan.bind]


@pytest.mark.parametrize(
    ("promise", "started", "passes"),
    [
        (100.0, 150.0, True),  # as it was when it passed: it ends at 250, and the target can start at 300
        (500.0, 150.0, False),
        (500.0, 50.0, True),  # it started with the lock
    ],
)
def test_a_promise_that_is_changed_after_the_start_is_broken(
    promise: float | None, started: float, passes: bool
) -> None:
    """The nodes are locked since 50. Her first job uses a part of `n1`; the next one waits to pass too."""
    first = gang("first", 1, gpu=2, on=["n1"], queue="hers", task={"started": started, "promise": promise})
    good = [gang(f"good-{n}", 1, gpu=7, on=[n], promise=300.0) for n in ("n2", "n3")]
    following = gang("next", 1, gpu=2, queue="hers", created=160.0, promise=20.0)
    locks = elected("wide", "n1", "n2", "n3", since=50.0)
    scenery = cluster([Queue("default"), Queue("hers")], busy(), first, good, wide(), following, locks)
    (plan,), _ = cycles(scenery, CONFIG, 1, now=200.0)
    assert passes == ("ns/next-0" in {b.task for b in plan.bind})
