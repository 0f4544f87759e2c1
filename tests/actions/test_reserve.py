"""elect and reserve: nodes locked one by one for the job that has waited longest, and which jobs may still use them."""

from __future__ import annotations

import pytest
from tests.support.confs import PREEMPT, RESERVE
from tests.support.facts import lost_of

from maar.model.facts import Lost
from maar.model.jobs import Phase
from maar.model.plan import Elect, Lock, Plan
from maar.model.selectors import PodSelector, PodTerm, Requirement, Selector
from maar.model.snapshot import Cluster
from maar.testing.builders import Part, cluster, gang, node
from maar.testing.scenario import configured, cycles, scene

CONFIG = configured(RESERVE)


def locked(plan: Plan) -> set[str]:
    return {lock.node for lock in plan.locks}


def two_full_nodes(*more: object, **job: object) -> Cluster:
    """Two nodes with one job each, n2 with more idle room, and `wide`, which needs both nodes whole."""
    return cluster(
        node("n1", gpu=8),
        node("n2", gpu=8),
        gang("x", 1, gpu=6, on=["n1"]),
        gang("y", 1, gpu=4, on=["n2"]),
        gang("wide", 2, gpu=8, **job),  # type: ignore[arg-type]
        more,  # type: ignore[arg-type]
    )


def test_one_more_node_is_locked_each_second_the_idlest_first() -> None:
    plans, _ = cycles(two_full_nodes(), CONFIG, 4)
    assert [p.elect.job for p in plans if p.elect] == ["ns/wide"] * 4
    assert [locked(p) for p in plans] == [{"n2"}, {"n1", "n2"}, {"n1", "n2"}, {"n1", "n2"}]
    assert plans[0].wake_at == 1.0
    assert plans[3].wake_at is None


def test_the_interval_is_configurable() -> None:
    config = configured(
        RESERVE.replace("{name: reservation}", "{name: reservation, arguments: {reservation.lock-interval: 3s}}")
    )
    plans, _ = cycles(two_full_nodes(), config, 5)
    assert [len(p.locks) for p in plans] == [1, 1, 1, 2, 2]
    assert plans[1].wake_at == 3.0


def test_locking_ends_when_the_minimum_would_fit_once_what_runs_there_has_gone() -> None:
    scenery = cluster(
        [node(f"n{i}", gpu=8) for i in range(4)],
        [gang(f"x{i}", 1, gpu=6, on=[f"n{i}"]) for i in range(4)],
        gang("wide", 4, gpu=4),
    )
    plans, _ = cycles(scenery, CONFIG, 4)
    assert [len(p.locks) for p in plans] == [1, 2, 2, 2]


def test_others_may_not_use_locked_nodes_and_are_told() -> None:
    locks = [Elect("ns/wide", 0.0), Lock("n1", "ns/wide", 0.0), Lock("n2", "ns/wide", 0.0)]
    plans = scene(two_full_nodes(gang("small", 1, gpu=1, created=5.0), *locks), CONFIG, now=10.0)
    assert plans[0].bind == ()
    reasons = {w.job: w.reasons[0] for w in plans[0].waiting}
    assert reasons["ns/small"].message == "0/2 nodes fit: 2 locked for `ns/wide`"
    assert reasons["ns/small"].nodes == {"Locked": 2}


def test_the_target_may_use_every_node_and_the_locks_go_when_it_is_placed() -> None:
    locks: list[Part] = [Elect("ns/wide", 0.0), Lock("n1", "ns/wide", 0.0)]
    scenery = cluster(
        node("n1", gpu=8),
        node("n2", gpu=8),
        node("n3", gpu=8),
        gang("x", 1, gpu=6, on=["n1"]),
        gang("wide", 2, gpu=8),
        locks,
    )
    plans = scene(scenery, CONFIG, now=10.0)
    assert {b.node for b in plans[0].bind} == {"n2", "n3"}
    assert plans[0].elect is None
    assert plans[0].locks == ()


def test_locks_of_a_deleted_job_go() -> None:
    locks: list[Part] = [Elect("ns/gone", 0.0), Lock("n1", "ns/gone", 0.0)]
    plans = scene(cluster(node("n1", gpu=8), gang("small", 1, gpu=1), locks), CONFIG, now=10.0)
    assert plans[0].locks == ()
    assert [b.task for b in plans[0].bind] == ["ns/small-0"]


def test_without_elect_an_election_of_a_deleted_job_stops_no_decision() -> None:
    left: list[Part] = [Elect("ns/gone", 0.0), Lock("n1", "ns/gone", 0.0)]
    scenery = cluster(node("n1", gpu=8), node("n2", gpu=8), gang("short", 1, gpu=1, promise=10.0), left)
    (plan,), _ = cycles(scenery, configured(RESERVE.replace("elect, ", "")), 1, now=10.0)
    assert [b.node for b in plan.bind] == ["n2"]


def test_highest_priority_then_longest_wait_is_elected() -> None:
    jobs = [
        gang("young", 2, gpu=8, priority=5, created=50.0),
        gang("old", 2, gpu=8, priority=5, created=10.0),
        gang("oldest", 2, gpu=8, priority=1, created=0.0),
    ]
    scenery = cluster(node("n1", gpu=8), node("n2", gpu=8), gang("x", 1, gpu=1, on=["n1"], priority=9), jobs)
    demand = (("cpu", 2000), ("memory", 2 * 2**30), ("nvidia.com/gpu", 16), ("pods", 2))
    assert scene(scenery, CONFIG, now=100.0)[0].elect == Elect("ns/old", 100.0, demand=demand)


def test_a_job_that_no_empty_cluster_could_hold_is_not_elected() -> None:
    scenery = cluster(
        node("n1", gpu=8), gang("x", 1, gpu=1, on=["n1"]), gang("impossible", 2, gpu=8), gang("a", 1, gpu=8)
    )
    plans = scene(scenery, CONFIG)
    assert plans[0].elect is not None
    assert plans[0].elect.job == "ns/a"


def test_a_job_that_must_be_near_a_pod_that_is_nowhere_is_not_elected() -> None:
    """The nodes locked for it would be closed to that pod too: both would wait forever."""
    app = PodSelector(Selector((Requirement("app", "In", ("leader",)),)))
    near = {"affinity": (PodTerm(app, "host"),)}
    scenery: list[Part] = [node("n0", gpu=8, labels={"host": "n0"}), gang("follower", 1, gpu=8, constraints=near)]
    leader = gang("leader", 1, gpu=4, on=["n0"], constraints={"matches": (app,)})
    assert None is scene(cluster(*scenery), CONFIG)[-1].elect
    (elected,) = {p.elect for p in cycles(cluster(*scenery, leader), CONFIG, 1)[0]}
    assert elected is not None, "the pod it must be near runs, so empty nodes help"
    first = {**near, "matches": (app,)}
    itself = cluster(scenery[0], gang("x", 1, gpu=4, on=["n0"]), gang("pair", 1, gpu=8, constraints=first))
    (elected,) = {p.elect for p in cycles(itself, CONFIG, 1)[0]}
    assert elected is not None, "it may be the first pod itself"


def test_resident_pods_do_not_leave() -> None:
    daemon = gang("agent", 1, gpu=1, on=["n1"], task={"resident": True})
    assert scene(cluster(node("n1", gpu=8), daemon, gang("a", 1, gpu=8)), CONFIG)[0].elect is None


def test_a_group_without_pods_is_elected_by_its_min_resources() -> None:
    group = gang("a", 0, minimum=2, phase=Phase.PENDING, min_resources={"nvidia.com/gpu": 16})
    config = configured(RESERVE.replace('"elect', '"enqueue, elect'))
    scenery = cluster(
        node("n1", gpu=8), node("n2", gpu=8), gang("x", 1, gpu=6, on=["n1"]), gang("y", 1, gpu=6, on=["n2"]), group
    )
    plans, _ = cycles(scenery, config, 3)
    assert [len(p.locks) for p in plans] == [1, 2, 2]


@pytest.mark.parametrize(("runtime", "passes"), [(900.0, True), (901.0, False), (None, False)])
def test_short_work_may_use_locked_room_if_it_ends_before_the_target_could_start(
    runtime: float | None, passes: bool
) -> None:
    """n1's job promises to end at 900 + 100, n2's at 500: the target can start at 1000, which is in 900 seconds."""
    scenery = cluster(
        node("n1", gpu=8),
        node("n2", gpu=8),
        gang("x", 1, gpu=6, on=["n1"], promise=1000.0),
        gang("y", 1, gpu=4, on=["n2"], task={"promise": 500.0}),
        gang("wide", 2, gpu=8),
        gang("small", 1, gpu=1, created=50.0, promise=runtime),
        [Elect("ns/wide", 0.0), Lock("n1", "ns/wide", 0.0), Lock("n2", "ns/wide", 0.0)],
    )
    plans = scene(scenery, CONFIG, now=100.0)
    assert bool(plans[0].bind) is passes


def test_without_promises_of_running_jobs_no_other_job_uses_locked_nodes() -> None:
    locks = [Elect("ns/wide", 0.0), Lock("n1", "ns/wide", 0.0), Lock("n2", "ns/wide", 0.0)]
    plans = scene(two_full_nodes(gang("small", 1, gpu=1, promise=1.0), *locks), CONFIG, now=10.0)
    assert plans[0].bind == ()


def test_an_election_ends_after_the_timeout_and_another_has_its_turn() -> None:
    config = configured(
        RESERVE.replace("{name: reservation}", "{name: reservation, arguments: {reservation.timeout: 10s}}")
    )
    locks: list[Part] = [Elect("ns/wide", 0.0), Lock("n1", "ns/wide", 0.0)]
    scenery = two_full_nodes(gang("other", 1, gpu=8, created=5.0), *locks)
    plans, after = cycles(scenery, config, 3, now=8.0)
    assert [p.elect.job for p in plans if p.elect] == ["ns/wide", "ns/wide", "ns/other"]
    assert lost_of(plans[2]) == (Lost("ns/wide", 10.0),)
    assert plans[0].wake_at == 9.0
    assert plans[1].wake_at == 10.0
    later, _ = cycles(after, config, 1, now=20.0)
    assert later[0].elect is not None
    assert ("ns/wide", 20.0) == (later[0].elect.job, later[0].elect.since)


def elected(plans: list[Plan]) -> set[str]:
    return {"" if plan.elect is None else plan.elect.job for plan in plans}


LOCKS: list[Part] = [Elect("ns/wide", 0.0), Lock("n1", "ns/wide", 0.0), Lock("n2", "ns/wide", 0.0)]


@pytest.mark.parametrize(("priority", "passes"), [(1000, True), (11, True), (10, False), (9, False)])
def test_locks_hold_against_equal_and_lower_priority_only(priority: int, passes: bool) -> None:
    scenery = two_full_nodes(gang("small", 1, gpu=1, created=5.0, priority=priority), *LOCKS, priority=10)
    plans = scene(scenery, CONFIG, now=10.0)
    assert ["ns/small-0"] * passes == [b.task for b in plans[0].bind]
    assert all(locked(plan) == {"n1", "n2"} for plan in plans), "the target keeps its locks"
    assert {"ns/wide"} == elected(plans)


def test_a_job_of_higher_priority_makes_room_on_locked_nodes() -> None:
    text = PREEMPT.replace("allocate, preempt", "elect, allocate, preempt, reserve")
    config = configured(text.replace("- {name: priority}", "- {name: priority}\n  - {name: reservation}"))
    scenery = two_full_nodes(gang("high", 1, gpu=8, created=5.0, priority=1000), *LOCKS, priority=10)
    plans = scene(scenery, config, now=10.0)
    assert ["ns/y-0"] == [e.task for e in plans[0].evict]
    assert ["n2"] == [n.node for n in plans[0].nominate]
    equal = two_full_nodes(gang("high", 1, gpu=8, created=5.0, priority=10), *LOCKS, priority=10)
    assert {"ns/wide"} == {e.beneficiary for e in scene(equal, config, now=10.0)[0].evict}


def test_best_effort_pods_of_higher_priority_use_locked_nodes() -> None:
    config = configured(RESERVE.replace("allocate", "allocate, backfill"))
    for priority, nodes in ((11, 1), (10, 0)):
        small = gang("small", 1, created=5.0, priority=priority, cpu=0, memory=0)
        plans = scene(two_full_nodes(small, *LOCKS, priority=10), config, now=10.0)
        assert nodes == len(plans[0].bind)


def test_a_job_of_higher_priority_that_waits_takes_the_election() -> None:
    higher = gang("higher", 2, gpu=7, created=5.0, priority=11)
    plans = scene(two_full_nodes(higher, *LOCKS, priority=10), CONFIG, now=10.0)
    assert {"ns/higher"} == elected(plans)
    assert [1, 2] == [len(plan.locks) for plan in plans[:2]]
    assert {"ns/higher"} == {lock.job for plan in plans for lock in plan.locks}


@pytest.mark.parametrize("priority", [10, 9])
def test_a_job_of_the_same_or_a_lower_priority_does_not_take_the_election(priority: int) -> None:
    other = gang("other", 2, gpu=7, created=-5.0, priority=priority)
    plans = scene(two_full_nodes(other, *LOCKS, priority=10), CONFIG, now=10.0)
    assert {"ns/wide"} == elected(plans)


def test_a_job_of_higher_priority_that_empty_nodes_do_not_help_does_not_take_the_election() -> None:
    huge = gang("huge", 3, gpu=8, created=5.0, priority=1000)
    plans = scene(two_full_nodes(huge, *LOCKS, priority=10), CONFIG, now=10.0)
    assert {"ns/wide"} == elected(plans)


def test_a_job_that_passed_the_locks_by_its_priority_breaks_no_promise() -> None:
    """`above` runs on a locked node without an end, so nothing says when the target starts; its queue is not blamed."""
    scenery = cluster(
        [node(f"n{i}", gpu=8) for i in (1, 2, 3)],
        gang("x", 1, gpu=6, on=["n1"], promise=1000.0, task={"started": 0.0}),
        gang("above", 1, gpu=1, on=["n3"], priority=11, task={"started": 90.0}),
        gang("wide", 2, gpu=8, priority=10),
        gang("small", 1, gpu=1, created=50.0, promise=100.0, priority=1),
        [Elect("ns/wide", 0.0), *(Lock(f"n{i}", "ns/wide", 0.0) for i in (1, 2, 3))],
    )
    assert ["ns/small-0"] == [b.task for b in scene(scenery, CONFIG, now=100.0)[0].bind]
