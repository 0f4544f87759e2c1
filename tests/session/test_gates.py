"""The gate of Volcano's queue admission: removed when the queue admits the pods, and never before."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from maar.config.config import Config
from maar.decide import decide
from maar.model.jobs import Phase
from maar.model.plan import Plan
from maar.model.queues import Queue
from maar.model.selectors import Requirement
from maar.model.snapshot import Snapshot
from maar.model.tasks import Gate, Status
from maar.testing.builders import Gang, cluster, elastic, gang, node
from maar.testing.scenario import configured, cycles, scene

CLOSED = {"status": Status.BLOCKED, "gate": Gate.CLOSED, "blocked": "scheduling gates: the queue's"}
TWO = Queue("q", capability={"cpu": 2000})
"""A queue that may have two CPUs."""


def config(actions: str = "enqueue, allocate, preempt, backfill", quota: str = "capacity") -> Config:
    return configured(f"""
actions: "{actions}"
tiers:
- plugins: [{{name: priority}}, {{name: gang, enablePreemptable: false}}]
- plugins: [{{name: predicates}}, {{name: {quota}}}]
""")


def gated(name: str, count: int = 1, **fields: Any) -> Gang:
    return gang(name, count, **{"queue": "q", "declared": False, "task": CLOSED, **fields})


def ungated(plan: Plan) -> list[str]:
    return [u.task.partition("/")[2] for u in plan.ungate]


def bound(plans: list[Plan]) -> list[str]:
    return [b.task.partition("/")[2] for plan in plans for b in plan.bind]


def reasons(plan: Plan, job: str) -> list[tuple[str, str]]:
    return [(r.code, r.message) for w in plan.waiting if w.job == f"ns/{job}" for r in w.reasons]


@pytest.mark.parametrize("quota", ["capacity", "proportion"])
def test_gate_is_removed_first_and_the_gang_placed_in_the_next_cycle(quota: str) -> None:
    plans = scene(cluster(node("n1"), TWO, gated("a", 2)), config(quota=quota))
    assert [["a-0", "a-1"], []] == [ungated(plan) for plan in plans[:2]]
    assert ((), 2) == (plans[0].bind, len(plans[1].bind))
    text = "2 pods gated by `scheduling.volcano.sh/queue-allocation-gate`, removed from 2 in this cycle"
    assert [("Gated", text)] == reasons(plans[0], "a")


@pytest.mark.parametrize("quota", ["capacity", "proportion"])
@pytest.mark.parametrize("actions", ["allocate", "enqueue, allocate"])
def test_gate_stays_while_the_queue_has_no_quota(actions: str, quota: str) -> None:
    scenery = cluster(node("n1"), TWO, gang("old", 1, queue="q", on=["n1"]), gated("a", 2))
    plans = scene(scenery, config(actions, quota))
    assert ([], []) == ([t for p in plans for t in ungated(p)], bound(plans))
    codes = [code for code, _ in reasons(plans[-1], "a")]
    assert (True, "Gated") == (codes[0] in ("OverCapability", "QueueOverused"), codes[-1])
    assert "until the queue admits them" in reasons(plans[-1], "a")[-1][1]


def test_gates_open_for_no_more_than_the_quota_in_the_order_of_jobs() -> None:
    jobs = [gated(name, created=i, priority=p) for i, (name, p) in enumerate([("a", 0), ("b", 5), ("c", 0)])]
    plans = scene(cluster(node("n1"), TWO, jobs), config())
    assert [["a-0", "b-0"], []] == [ungated(plan) for plan in plans[:2]]
    assert ["a-0", "b-0"] == bound(plans)


def test_pods_that_wait_without_their_gate_count() -> None:
    """No node has room: further gates would show an autoscaler more pods than the queue may have."""
    jobs = [gated(name, created=i) for i, name in enumerate("abc")]
    plans = scene(cluster(node("n1", cpu=4), TWO, gang("x", cpu=4, on=["n1"]), jobs), config())
    assert [["a-0", "b-0"]] == [ungated(plan) for plan in plans if plan.ungate]


def test_pods_without_the_gate_do_not_take_the_turn_of_more_important_pods() -> None:
    old = gang(
        "old", 2, queue="q", task={"gate": Gate.OPENED}, constraints={"node_selector": (Requirement("no", "Exists"),)}
    )
    new = gated("new", 2, priority=5)
    assert ["new-0", "new-1"] == bound(scene(cluster(node("n1"), TWO, old, new), config()))


def test_more_than_the_quota_without_a_gate_keeps_no_gate_closed() -> None:
    """Pods can ask for the gate without getting one: what the queue can never have is not counted."""
    large = gang("large", 1, cpu=50, queue="q", created=-1.0, task={"gate": Gate.OPENED})
    assert ["a-0"] == bound(scene(cluster(node("n1"), TWO, large, gated("a")), config()))


def test_gates_of_an_incomplete_gang_stay_until_its_pods_exist() -> None:
    part = gated("a", 2)
    one = replace(part, tasks=part.tasks[:1])
    plans = scene(cluster(node("n1"), TWO, one), config())
    assert [] == [t for p in plans for t in ungated(p)]
    assert ["a-0", "a-1"] == ungated(decide(Snapshot(cluster(node("n1"), TWO, part)), config(), 0.0))


def test_pod_with_another_gate_stays_gated_and_counts_for_the_minimum() -> None:
    two = gated("a", 2)
    other = replace(two.tasks[1], gate=Gate.NONE, blocked="scheduling gates: mine")
    plans = scene(cluster(node("n1"), TWO, replace(two, tasks=(two.tasks[0], other))), config())
    assert (["a-0"], []) == ([t for p in plans for t in ungated(p)], bound(plans))
    assert ("Blocked", "pod `ns/a-1` is held back: scheduling gates: mine") in reasons(plans[-1], "a")


def test_pods_above_the_minimum_need_quota_one_by_one() -> None:
    plans = scene(cluster(node("n1"), TWO, gated("a", 4, minimum=1)), config())
    assert ["a-0", "a-1"] == bound(plans)
    assert ["a-0", "a-1"] == [t for p in plans for t in ungated(p)]


def test_minimum_is_admitted_as_a_whole_also_beside_pods_without_a_gate() -> None:
    three = gated("a", 3, minimum=3)
    free = replace(three.tasks[0], status=Status.PENDING, gate=Gate.NONE, blocked="")
    mixed = replace(three, tasks=(free, *three.tasks[1:]))
    assert ["a-0", "a-1", "a-2"] == bound(scene(cluster(node("n1"), Queue("q"), mixed), config()))
    assert [] == bound(scene(cluster(node("n1"), Queue("q", capability={"cpu": 1000}), mixed), config()))


def test_role_minimums_come_first() -> None:
    job = gated("a", roles={"ps": 1, "worker": 3}, minimum=2, role_min={"worker": 2})
    plan = decide(Snapshot(cluster(node("n1"), TWO, job)), config(), 0.0)
    assert ["a-worker-0", "a-worker-1"] == ungated(plan)


def test_gates_stay_until_the_pods_of_each_role_exist() -> None:
    job = gated("a", roles={"worker": 3, "ps": 1}, minimum=2, role_min={"ps": 1})
    plan = decide(Snapshot(cluster(node("n1"), TWO, replace(job, tasks=job.tasks[:3]))), config(), 0.0)
    assert [] == ungated(plan), "its parameter server does not exist"
    assert ["a-ps-0", "a-worker-0"] == sorted(ungated(decide(Snapshot(cluster(node("n1"), TWO, job)), config(), 0.0)))


def test_group_keeps_its_gates_until_it_is_admitted() -> None:
    def group(name: str, **fields: Any) -> Gang:
        fields = {"phase": Phase.PENDING, "declared": True, "min_resources": {"cpu": 2000}, **fields}
        return gated(name, 2, **fields)

    plans = scene(cluster(node("n1"), TWO, group("a"), group("b", created=1.0)), config("enqueue, allocate"))
    assert (["ns/a"], ["a-0", "a-1"]) == ([a.job for a in plans[0].admit], ungated(plans[0]))
    assert ["a-0", "a-1"] == bound(plans)
    assert "b" not in {t[0] for p in plans for t in ungated(p)}


def test_group_that_is_admitted_to_preempt_loses_its_gates_and_preempts() -> None:
    low = gang("low", 2, queue="q", on=["n1", "n1"], priority=1)
    high = gated("high", 2, priority=9, declared=True, phase=Phase.PENDING, min_resources={"cpu": 2000})
    plans = scene(cluster(node("n1"), TWO, low, high), config())
    assert ["high-0", "high-1"] == bound(plans)


def test_workers_of_an_elastic_job_lose_their_gates() -> None:
    job = elastic("e", 1, 2, size=2, gpu=1, job={"queue": "q"})
    closed = tuple(replace(t, **CLOSED) for t in job.tasks)
    plan = decide(Snapshot(cluster(node("n1", gpu=2), TWO, replace(job, tasks=closed))), config(), 0.0)
    assert ["e-worker-0", "e-worker-1"] == ungated(plan)


def test_safety_no_gated_pod_is_placed() -> None:
    scenery = cluster(node("n1"), Queue("q"), [gated(f"j{i}", 2, created=i) for i in range(5)])
    plans, _ = cycles(scenery, config(), 1)
    assert (10, 0) == (len(plans[0].ungate), len(plans[0].bind))
