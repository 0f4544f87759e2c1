"""preempt: whole gangs or surplus, as few as possible, never a part of a gang, and only if it helps."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.confs import HELM_PREEMPT, PREEMPT, SURPLUS_ONLY

from maar.model.jobs import Job
from maar.model.plan import Plan
from maar.model.queues import Queue
from maar.model.selectors import Requirement
from maar.model.snapshot import Budget
from maar.model.tasks import Status
from maar.testing.builders import Gang, cluster, gang, node, shape, tasks
from maar.testing.scenario import configured, cycles, scene

CONFIG = configured(PREEMPT)


def evicted(plan: Plan) -> set[str]:
    return {e.task for e in plan.evict}


def jobs_evicted(plan: Plan) -> set[str]:
    return {e.task.rsplit("-", 1)[0] for e in plan.evict}


def test_one_whole_gang_makes_room_and_the_preemptor_is_bound_when_it_has_gone() -> None:
    parts = (node("n1", gpu=8), gang("low", 2, gpu=4, on=["n1", "n1"], priority=1), gang("high", 2, gpu=4, priority=9))
    plans = scene(cluster(*parts), CONFIG)
    assert evicted(plans[0]) == {"ns/low-0", "ns/low-1"}
    assert {e.beneficiary for e in plans[0].evict} == {"ns/high"}
    assert plans[0].evict[0].reason == "preempted: gang of `ns/low` (priority 1) for `ns/high` (priority 9)"
    assert {(n.task, n.node) for n in plans[0].nominate} == {("ns/high-0", "n1"), ("ns/high-1", "n1")}
    assert {b.task for b in plans[1].bind} == {"ns/high-0", "ns/high-1"}


def test_equal_priority_takes_nothing() -> None:
    parts = (node("n1", gpu=8), gang("low", 2, gpu=4, on=["n1", "n1"], priority=9), gang("high", 2, gpu=4, priority=9))
    assert scene(cluster(*parts), CONFIG)[0].evict == ()


def test_other_queues_are_not_preempted() -> None:
    parts = (node("n1", gpu=8), gang("low", 1, gpu=8, on=["n1"], queue="root"), gang("high", 1, gpu=8, priority=9))
    assert scene(cluster(*parts), CONFIG)[0].evict == ()


def test_a_gang_that_would_still_not_fit_evicts_nothing_and_says_what_is_lacking() -> None:
    parts = (node("n1", gpu=8), gang("low", 2, gpu=4, on=["n1", "n1"]), gang("high", 3, gpu=4, priority=9))
    plans = scene(cluster(*parts), CONFIG)
    assert plans[0].evict == ()
    codes = {r.code: r.message for r in plans[0].waiting[0].reasons}
    assert codes["NotEnoughVictims"] == (
        "if all pods that may be preempted were gone, only 2 of its 3 missing pods would fit"
    )


def test_a_gang_with_a_member_that_must_stay_is_not_touched() -> None:
    low = gang("low", 2, gpu=4, on=["n1", "n2"])
    kept = Gang(low.job, (low.tasks[0], *gang("low", 2, gpu=4, on=["n1", "n2"], task={"preemptable": False}).tasks[1:]))
    parts = (node("n1", gpu=4), node("n2", gpu=4), kept, gang("high", 1, gpu=4, priority=9))
    assert scene(cluster(*parts), CONFIG)[0].evict == ()


def test_surplus_goes_before_a_whole_gang_even_of_lower_priority() -> None:
    parts = (
        node("n1", gpu=4),
        node("n2", gpu=4),
        gang("elastic", 2, minimum=1, gpu=2, on=["n1", "n1"], priority=5),
        gang("other", 1, gpu=2, on=["n2"], priority=5),
        gang("rigid", 1, gpu=2, on=["n2"], priority=1),
        gang("high", 1, gpu=2, priority=9),
    )
    plans = scene(cluster(*parts), CONFIG)
    assert evicted(plans[0]) == {"ns/elastic-1"}
    assert plans[0].evict[0].reason == "preempted: surplus pod of `ns/elastic` (priority 5) for `ns/high` (priority 9)"


def test_surplus_only_never_breaks_a_gang() -> None:
    config = configured(SURPLUS_ONLY)
    rigid = (node("n1", gpu=4), gang("low", 2, gpu=2, on=["n1", "n1"]), gang("high", 1, gpu=2, priority=9))
    assert scene(cluster(*rigid), config)[0].evict == ()
    elastic = (node("n1", gpu=4), gang("low", 2, minimum=1, gpu=2, on=["n1", "n1"]), gang("high", 1, gpu=2, priority=9))
    assert evicted(scene(cluster(*elastic), config)[0]) == {"ns/low-1"}


@pytest.mark.parametrize(
    ("flags", "whole"), [("", False), ("enablePreemptable: true", False), ("enablePreemptable: false", True)]
)
def test_without_the_argument_volcanos_flag_says_whether_whole_gangs_go(flags: str, whole: bool) -> None:
    config = configured(PREEMPT.replace("arguments: {gang.eviction: whole}", flags))
    parts = (node("n1", gpu=4), gang("low", 2, gpu=2, on=["n1", "n1"]), gang("high", 1, gpu=2, priority=9))
    assert bool(scene(cluster(*parts), config)[0].evict) is whole


def test_roles_minimums_hold_for_surplus() -> None:
    """Three pods run and two are needed, one of them a master: only a worker is surplus."""
    low = gang(
        "low", roles={"master": 1, "worker": 2}, minimum=2, gpu=2, on=["n1"] * 3, role_min={"master": 1, "worker": 1}
    )
    plans = scene(cluster(node("n1", gpu=6), low, gang("high", 1, gpu=2, priority=9)), configured(SURPLUS_ONLY))
    assert evicted(plans[0]) == {"ns/low-worker-1"}


def test_the_highest_index_of_surplus_goes_first() -> None:
    low = gang("low", 4, minimum=2, gpu=2, on=["n1"] * 4)
    plans = scene(cluster(node("n1", gpu=8), low, gang("high", 1, gpu=2, priority=9)), CONFIG)
    assert evicted(plans[0]) == {"ns/low-3"}


def test_lower_priority_goes_first() -> None:
    parts = (
        node("n1", gpu=4),
        node("n2", gpu=4),
        gang("middle", 1, gpu=4, on=["n1"], priority=5),
        gang("low", 1, gpu=4, on=["n2"], priority=1),
        gang("high", 1, gpu=4, priority=9),
    )
    assert jobs_evicted(scene(cluster(*parts), CONFIG)[0]) == {"ns/low"}


def test_what_lower_priority_cannot_give_is_given_back() -> None:
    """Evicting only `low` on n1 does not make room there, so it is spared, and `middle` on n2 is evicted."""
    parts = (
        node("n1", gpu=8),
        node("n2", gpu=8),
        gang("low", 1, gpu=4, on=["n1"], priority=1),
        gang("keeps", 1, gpu=4, on=["n1"], priority=20),
        gang("middle", 1, gpu=8, on=["n2"], priority=5),
        gang("high", 1, gpu=8, priority=9),
    )
    assert jobs_evicted(scene(cluster(*parts), CONFIG)[0]) == {"ns/middle"}


def test_the_fewest_gangs_are_broken() -> None:
    """One gang of eight GPUs is evicted, not two of four, although the two have lost less work."""
    parts = (
        node("n1", gpu=8),
        node("n2", gpu=8),
        gang("a", 1, gpu=4, on=["n1"], task={"started": 900.0}),
        gang("b", 1, gpu=4, on=["n1"], task={"started": 900.0}),
        gang("c", 1, gpu=8, on=["n2"], task={"started": 0.0}),
        gang("high", 1, gpu=8, priority=9),
    )
    assert jobs_evicted(scene(cluster(*parts), CONFIG, now=1000.0)[0]) == {"ns/c"}


def test_one_gang_across_two_nodes_rather_than_two_gangs() -> None:
    parts = (
        [node(f"n{i}", gpu=8) for i in range(1, 5)],
        gang("wide", 2, gpu=8, on=["n1", "n2"], task={"started": 0.0}),
        gang("x", 1, gpu=8, on=["n3"], task={"started": 900.0}),
        gang("y", 1, gpu=8, on=["n4"], task={"started": 900.0}),
        gang("high", 2, gpu=8, priority=9),
    )
    assert jobs_evicted(scene(cluster(*parts), CONFIG, now=1000.0)[0]) == {"ns/wide"}


def test_three_small_gangs_or_two_the_two_go() -> None:
    parts = (
        node("n1", gpu=6),
        node("n2", gpu=6),
        [gang(f"a{i}", 1, gpu=2, on=["n1"]) for i in range(3)],
        [gang(f"b{i}", 1, gpu=3, on=["n2"]) for i in range(2)],
        gang("high", 1, gpu=6, priority=9),
    )
    assert jobs_evicted(scene(cluster(*parts), CONFIG)[0]) == {"ns/b0", "ns/b1"}


def test_the_least_work_is_lost() -> None:
    parts = (
        node("n1", gpu=4),
        node("n2", gpu=4),
        gang("old", 1, gpu=4, on=["n1"], task={"started": 0.0}),
        gang("young", 1, gpu=4, on=["n2"], task={"started": 900.0}),
        gang("high", 1, gpu=4, priority=9),
    )
    assert jobs_evicted(scene(cluster(*parts), CONFIG, now=1000.0)[0]) == {"ns/young"}


def test_a_checkpoint_saves_work() -> None:
    parts = (
        node("n1", gpu=4),
        node("n2", gpu=4),
        gang("old", 1, gpu=4, on=["n1"], task={"started": 0.0, "checkpoint": 990.0}),
        gang("young", 1, gpu=4, on=["n2"], task={"started": 900.0}),
        gang("high", 1, gpu=4, priority=9),
    )
    assert jobs_evicted(scene(cluster(*parts), CONFIG, now=1000.0)[0]) == {"ns/old"}


def test_of_equals_the_first_key_goes() -> None:
    parts = (
        node("n1", gpu=4),
        node("n2", gpu=4),
        gang("b", 1, gpu=4, on=["n1"]),
        gang("a", 1, gpu=4, on=["n2"]),
        gang("high", 1, gpu=4, priority=9),
    )
    assert len(scene(cluster(*parts), CONFIG)[0].evict) == 1


def test_a_gang_under_a_budget_that_does_not_allow_all_of_it_stays() -> None:
    low = gang("low", 2, gpu=4, on=["n1", "n1"], task={"budgets": ("ns/pdb",)})
    high = gang("high", 2, gpu=4, priority=9)
    for allowed, goes in ((0, False), (1, False), (2, True)):
        plans = scene(cluster(node("n1", gpu=8), low, high, Budget("ns/pdb", allowed)), CONFIG)
        assert bool(plans[0].evict) is goes, allowed


def test_one_budget_over_two_gangs_counts_what_has_gone() -> None:
    lows = [gang(f"low{i}", 1, gpu=4, on=[f"n{i}"], task={"budgets": ("ns/pdb",)}) for i in (1, 2)]
    parts = (node("n1", gpu=4), node("n2", gpu=4), lows, Budget("ns/pdb", 1))
    assert scene(cluster(*parts, gang("high", 2, gpu=4, priority=9)), CONFIG)[0].evict == ()
    assert len(scene(cluster(*parts, gang("high", 1, gpu=4, priority=9)), CONFIG)[0].evict) == 1


def test_critical_pods_are_never_victims() -> None:
    low = gang("low", 1, gpu=4, on=["n1"], task={"critical": True})
    assert scene(cluster(node("n1", gpu=4), low, gang("high", 1, gpu=4, priority=9)), CONFIG)[0].evict == ()


def test_preemption_policy_never_takes_nothing() -> None:
    low, high = gang("low", 1, gpu=4, on=["n1"]), gang("high", 1, gpu=4, priority=9, preempts=False)
    assert scene(cluster(node("n1", gpu=4), low, high), CONFIG)[0].evict == ()


def test_nodes_that_the_preemptor_cannot_use_are_not_emptied() -> None:
    wants = {"node_selector": (Requirement("kind", "In", ("new",)),)}
    parts = (
        node("old", gpu=4),
        node("new", gpu=4, labels={"kind": "new"}),
        gang("a", 1, gpu=4, on=["old"]),
        gang("b", 1, gpu=4, on=["new"], priority=5),
        gang("high", 1, gpu=4, priority=9, constraints=wants),
    )
    assert jobs_evicted(scene(cluster(*parts), CONFIG)[0]) == {"ns/b"}


def test_idle_room_is_used_first_and_only_the_rest_is_taken() -> None:
    parts = (
        node("n1", gpu=8),
        node("n2", gpu=8),
        gang("a", 1, gpu=8, on=["n1"]),
        gang("high", 2, gpu=8, priority=9),
    )
    plans = scene(cluster(*parts), CONFIG)
    assert jobs_evicted(plans[0]) == {"ns/a"}
    assert plans[0].bind == ()
    assert {n.node for n in plans[0].nominate} == {"n1", "n2"}


def test_freed_room_is_kept_for_the_preemptor_in_later_cycles() -> None:
    """Its victims take a while to leave; a small job that would fit the freed room must not take it."""
    low = gang("low", 1, gpu=8, on=["n1"], task={"status": Status.RELEASING})
    high = gang("high", 1, gpu=8, priority=9, task={"status": Status.NOMINATED, "node": "n1"})
    small = gang("small", 1, gpu=2, priority=9, created=-1.0)
    plans = scene(cluster(node("n1", gpu=8), low, high, small), CONFIG)
    assert plans[0].bind == ()
    assert [b.task for b in plans[1].bind] == ["ns/high-0"]


def test_two_preemptors_do_not_count_on_the_same_room() -> None:
    parts = (
        node("n1", gpu=8),
        gang("low", 1, gpu=8, on=["n1"]),
        gang("first", 1, gpu=8, priority=9),
        gang("second", 1, gpu=8, priority=9, created=1.0),
    )
    plans = scene(cluster(*parts), CONFIG)
    assert [n.task for n in plans[0].nominate] == ["ns/first-0"]
    assert [b.task for p in plans for b in p.bind] == ["ns/first-0"]


def test_inside_a_job_surplus_tasks_make_room_for_more_important_ones() -> None:
    job = gang("a", 3, minimum=2, gpu=4, on=["n1", "n2", "n3"])
    chief = gang("a", roles={"chief": 1}, gpu=4, priority=7)
    whole = Gang(job.job, (*job.tasks, *chief.tasks))
    plans = scene(cluster([node(f"n{i}", gpu=4) for i in (1, 2, 3)], whole), CONFIG)
    assert evicted(plans[0]) == {"ns/a-2"}
    assert plans[0].evict[0].reason == "preempted: surplus pod of `ns/a` for its pod `ns/a-chief-0` (priority 7)"
    assert [b.task for b in plans[1].bind] == ["ns/a-chief-0"]


def test_inside_a_job_the_minimum_holds() -> None:
    job = gang("a", 2, minimum=2, gpu=4, on=["n1", "n2"])
    chief = gang("a", roles={"chief": 1}, gpu=4, priority=7)
    whole = Gang(job.job, (*job.tasks, *chief.tasks))
    assert scene(cluster([node(f"n{i}", gpu=4) for i in (1, 2)], whole), CONFIG)[0].evict == ()


def test_a_queue_at_its_limit_frees_quota_from_itself() -> None:
    config = configured(PREEMPT + "- plugins:\n  - {name: capacity}\n")
    parts = (
        node("n1", gpu=8),
        node("n2", gpu=8),
        Queue("q", capability={"nvidia.com/gpu": 8}),
        gang("low", 1, gpu=8, on=["n1"], queue="q"),
        gang("high", 1, gpu=8, queue="q", priority=9),
    )
    plans = scene(cluster(*parts), config)
    assert jobs_evicted(plans[0]) == {"ns/low"}
    assert [b.task for p in plans for b in p.bind] == ["ns/high-0"]


@pytest.mark.parametrize(
    "text",
    [
        SURPLUS_ONLY + "- plugins:\n  - {name: capacity}\n",
        HELM_PREEMPT.replace("proportion", "capacity"),
    ],
    ids=["surplus", "helm with capacity"],
)
def test_for_quota_too_surplus_pods_of_lower_priority_go_first(text: str) -> None:
    """Nodes have room. The more important pods would lose the least work."""
    low = gang("low", 4, minimum=1, gpu=2, on=["n1"] * 4, queue="q")
    ranked = [
        replace(t, priority=p, started=s) for t, p, s in zip(low.tasks, (3, 1, 2, 4), (95, 10, 20, 90), strict=True)
    ]
    parts = (
        node("n1", gpu=8),
        node("n2", gpu=8),
        Queue("q", capability={"nvidia.com/gpu": 8}),
        Gang(low.job, tuple(ranked)),
        gang("high", 2, gpu=2, queue="q", priority=9),
    )
    plans = scene(cluster(*parts), configured(text), now=100.0)
    assert {"ns/low-1", "ns/low-2"} == evicted(plans[0])
    assert {"ns/high-0", "ns/high-1"} == {b.task for p in plans for b in p.bind}


def test_a_plan_names_each_victim_once_and_only_needed_ones() -> None:
    parts = (
        [node(f"n{i}", gpu=8) for i in range(6)],
        [gang(f"low{i}", 4, gpu=2, on=[f"n{i}"] * 4) for i in range(6)],
        gang("high", 2, gpu=8, priority=9),
    )
    (plan,), _ = cycles(cluster(*parts), CONFIG, 1)
    assert len(jobs_evicted(plan)) == 2
    assert len(plan.evict) == 8


# -- pods that need only a pod slot


SLOTS = configured(PREEMPT.replace('"allocate, preempt"', '"allocate, preempt, backfill"'))


def free(name: str, count: int = 1, **fields: Any) -> Gang:
    """A gang of best-effort pods."""
    return gang(name, count, cpu=0, memory=0, **fields)


def test_a_best_effort_pod_takes_the_slot_of_a_best_effort_pod() -> None:
    parts = (
        node("n1", pods=2),
        gang("works", on=["n1"], priority=0),
        free("low", on=["n1"], priority=1),
        free("high", priority=9),
    )
    plans = scene(cluster(*parts), SLOTS)
    assert {"ns/low-0"} == evicted(plans[0])
    assert ["ns/high-0"] == [b.task for p in plans for b in p.bind]


def test_a_best_effort_pod_never_takes_the_slot_of_a_pod_with_requests() -> None:
    parts = (node("n1", pods=1), gang("works", on=["n1"]), free("high", priority=9))
    plans = scene(cluster(*parts), SLOTS)
    assert set() == evicted(plans[0])
    assert {"NoVictims"} <= {r.code for w in plans[0].waiting for r in w.reasons}


def test_a_gang_of_which_one_pod_has_requests_keeps_its_slots() -> None:
    mixed = gang("mixed", 2, on=["n1", "n1"])
    slotless = free("mixed", 2, on=["n1", "n1"])
    parts = (node("n1", pods=2), Gang(mixed.job, (mixed.tasks[0], slotless.tasks[1])), free("high", priority=9))
    assert set() == evicted(scene(cluster(*parts), SLOTS)[0])


def test_a_best_effort_pod_takes_a_free_slot_first() -> None:
    parts = (node("n1", pods=2), free("low", on=["n1"]), free("high", priority=9))
    plans = scene(cluster(*parts), SLOTS)
    assert set() == evicted(plans[0])
    assert ["ns/high-0"] == [b.task for b in plans[0].bind]


def test_best_effort_pods_of_equal_priority_keep_their_slots() -> None:
    parts = (node("n1", pods=1), free("low", on=["n1"], priority=9), free("high", priority=9))
    assert set() == evicted(scene(cluster(*parts), SLOTS)[0])


def test_a_large_job_that_cannot_fit_does_not_hide_nodes_from_a_small_one() -> None:
    """The search for the first is undone, and what it found out about nodes with it."""
    shapes = shape(gpu=1, cpu=1), shape(gpu=1, cpu=2)

    def two(name: str, counts: tuple[int, int], created: float) -> Gang:
        both = zip(("a", "b"), counts, shapes, strict=True)
        pods = [task for role, n, kind in both for task in tasks(f"ns/{name}", n, kind, role=role, priority=9)]
        return Gang(Job(f"ns/{name}", min_member=sum(counts), priority=9, created=created), tuple(pods))

    nodes = [node(f"n{i}", gpu=1) for i in range(4)]
    victims = [gang(f"low{i}", 1, gpu=1, on=[f"n{i}"], priority=1) for i in range(4)]
    plans = scene(cluster(*nodes, *victims, two("big", (4, 1), 1.0), two("small", (1, 1), 2.0)), CONFIG)
    assert 2 == len(plans[0].evict)
    assert {"ns/small"} == {
        bind.task.rpartition("-")[0].removesuffix("-a").removesuffix("-b") for bind in plans[1].bind
    }


def _with_never(name: str, count: int, minimum: int) -> Gang:
    """A gang of high priority whose first pod has preemptionPolicy Never."""
    made = gang(name, count, gpu=4, minimum=minimum, priority=9)
    return replace(made, tasks=(replace(made.tasks[0], preempts=False), *made.tasks[1:]))


@pytest.mark.parametrize("slow", [False, True])
def test_room_made_for_a_pod_does_not_go_to_its_sibling_that_may_not_preempt(slow: bool) -> None:
    """Also while the victim is still leaving."""
    low = gang("low", 1, gpu=4, on=["n1"], priority=1)
    parts = cluster(node("n1", gpu=4), low, _with_never("high", 2, 1))
    if slow:
        plans, after = cycles(parts, CONFIG, 1)
        leaving = replace(low.tasks[0], status=Status.RELEASING)
        plans, _ = cycles(replace(after, tasks=(*after.tasks, leaving)), CONFIG, 1)
        assert [("ns/high-1", "n1")] == [(n.task, n.node) for n in plans[0].nominate]
        return
    plans = scene(parts, CONFIG)
    assert [("ns/high-1", "n1")] == [(b.task, b.node) for plan in plans for b in plan.bind]


def test_sibling_that_may_not_preempt_takes_room_that_is_free() -> None:
    low = gang("low", 1, gpu=4, on=["n1"], priority=1)
    plans = scene(cluster(node("n1", gpu=4), node("n2", gpu=4), low, _with_never("high", 2, 1)), CONFIG)
    assert ["ns/high-0"] == [b.task for b in plans[0].bind]
