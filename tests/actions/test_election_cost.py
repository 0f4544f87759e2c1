"""What an election costs other jobs: how long a job waits for it, which nodes are locked, and who is let in."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.confs import RESERVE

from maar.config.config import Config
from maar.model.lengths import Estimate
from maar.model.plan import Elect, Lock, Plan
from maar.model.snapshot import Cluster
from maar.testing.builders import Part, cluster, gang, node
from maar.testing.scenario import configured, cycles

CONFIG = configured(RESERVE)
HOUR = 3600.0


def with_arguments(**given: str) -> Config:
    arguments = ", ".join(f"reservation.{name}: {value}" for name, value in given.items())
    return configured(RESERVE.replace("{name: reservation}", f"{{name: reservation, arguments: {{{arguments}}}}}"))


def locked(plan: Plan) -> set[str]:
    return {lock.node for lock in plan.locks}


def elected(plan: Plan) -> str:
    return "" if plan.elect is None else plan.elect.job


def knows(scenery: Cluster, **estimates: tuple[float, float]) -> Cluster:
    """With estimates of some jobs: when half of jobs like them have ended, and nine in ten."""
    jobs = (
        replace(job, estimate=Estimate(*estimates[name], runs=10)) if (name := job.key[3:]) in estimates else job
        for job in scenery.jobs
    )
    return replace(scenery, jobs=tuple(jobs))


def locks(*nodes: str, since: float = 0.0) -> list[Part]:
    return [Elect("ns/wide", since), *(Lock(n, "ns/wide", since) for n in nodes)]


def full(count: int, gpu: int = 8) -> list[Part]:
    return [part for i in range(count) for part in (node(f"n{i}", gpu=8), gang(f"x{i}", 1, gpu=gpu, on=[f"n{i}"]))]


# -- how long a job waits for its election


def test_a_job_is_elected_after_a_wait_and_the_plan_says_when_it_is_due() -> None:
    config = with_arguments(after="1h")
    scenery = cluster(full(2, gpu=6), gang("wide", 2, gpu=8, created=100.0))
    (early,), _ = cycles(scenery, config, 1, now=HOUR)
    assert ("", HOUR + 100) == (elected(early), early.wake_at)
    (due,), _ = cycles(scenery, config, 1, now=HOUR + 100)
    assert ("ns/wide", 1) == (elected(due), len(due.locks))


@pytest.mark.parametrize(("size", "hours"), [(1, 1), (2, 1), (3, 1.5), (4, 2)])
def test_a_job_above_the_bound_waits_longer_in_proportion_and_has_its_turn_in_the_end(size: int, hours: float) -> None:
    config = with_arguments(after="1h", most="0.5")
    scenery = cluster(full(4, gpu=6), gang("wide", size, gpu=8, created=0.0))
    (early,), _ = cycles(scenery, config, 1, now=hours * HOUR - 1)
    assert "" == elected(early)
    plans, _ = cycles(scenery, config, 5, now=hours * HOUR)
    assert ("ns/wide", size) == (elected(plans[-1]), len(plans[-1].locks))


def test_an_election_that_stands_needs_no_further_wait() -> None:
    scenery = cluster(full(2, gpu=6), gang("wide", 2, gpu=8, created=0.0), locks("n0", "n1"))
    (plan,), _ = cycles(scenery, with_arguments(after="1h"), 1, now=10.0)
    assert ("ns/wide", {"n0", "n1"}) == (elected(plan), locked(plan))


# -- which nodes are locked


def test_only_the_nodes_that_the_job_will_use_are_locked() -> None:
    """`wide` starts when the jobs on n1 and n2 end. n0 has most idle room, and its job ends last."""
    scenery = cluster(
        [node(f"n{i}", gpu=8) for i in range(3)],
        gang("late", 1, gpu=2, on=["n0"], promise=5000.0),
        [gang(f"soon{i}", 1, gpu=7, on=[f"n{i}"], promise=500.0) for i in (1, 2)],
        gang("wide", 2, gpu=8),
    )
    plans, _ = cycles(scenery, CONFIG, 3)
    assert {"n1", "n2"} == locked(plans[-1])


def test_a_lock_that_is_not_useful_any_more_goes_before_others_are_placed() -> None:
    scenery = cluster(
        [node(f"n{i}", gpu=8) for i in range(2)],
        gang("late", 1, gpu=2, on=["n0"], promise=5000.0),
        gang("soon", 1, gpu=8, on=["n1"], promise=500.0),
        gang("wide", 1, gpu=8),
        gang("small", 1, gpu=1, created=5.0),
        locks("n0"),
    )
    (plan,), _ = cycles(scenery, CONFIG, 1, now=10.0)
    assert (["n0"], {"n1"}) == ([b.node for b in plan.bind], locked(plan))


def test_estimates_say_where_the_job_will_start_as_promises_do() -> None:
    scenery = cluster(full(3), gang("wide", 2, gpu=8))
    known = knows(scenery, x0=(9000.0, 20000.0), x1=(500.0, 900.0), x2=(500.0, 900.0))
    plans, _ = cycles(known, CONFIG, 3)
    assert {"n1", "n2"} == locked(plans[-1])


def test_if_nothing_says_when_it_starts_nodes_that_take_its_pods_now_are_kept() -> None:
    """Four pods of 1 GPU, and 3 GPUs idle on three nodes: the job gets what becomes free anywhere."""
    scenery = cluster(full(3, gpu=7), node("n3", gpu=8), gang("x3", 1, gpu=8, on=["n3"]), gang("wide", 4, gpu=1))
    plans, _ = cycles(scenery, CONFIG, 5)
    assert {"n0", "n1", "n2"} == locked(plans[-1])
    plans, _ = cycles(scenery, with_arguments(most="0.5"), 5)
    assert 2 == len(plans[-1].locks), "not more than half of the nodes"


# -- who is let in


def between(**small: Any) -> Cluster:
    """`wide` needs both nodes; `small` would fit beside what runs there."""
    jobs = gang("wide", 2, gpu=8), gang("small", 1, gpu=1, created=5.0, **small)
    return cluster(full(2, gpu=6), jobs, locks("n0", "n1"))


@pytest.mark.parametrize(("most", "passes"), [(890.0, True), (891.0, False)])
def test_a_job_that_very_likely_ends_in_time_is_let_in(most: float, passes: bool) -> None:
    """Half of jobs like x0 and x1 end within 900 s, so `wide` is expected to start at 900. It is 10 s now."""
    known = knows(between(), x0=(500.0, 2000.0), x1=(900.0, 2000.0), small=(20.0, most))
    (plan,), _ = cycles(known, CONFIG, 1, now=10.0)
    assert passes == bool(plan.bind)


def test_a_promise_and_an_estimate_each_let_a_job_in() -> None:
    runs = {"x0": (500.0, 900.0), "x1": (500.0, 900.0)}
    (promised,), _ = cycles(knows(between(promise=100.0), **runs), CONFIG, 1, now=10.0)
    (both,), _ = cycles(knows(between(promise=5000.0), **runs, small=(20.0, 100.0)), CONFIG, 1, now=10.0)
    (neither,), _ = cycles(knows(between(promise=5000.0), **runs, small=(20.0, 1000.0)), CONFIG, 1, now=10.0)
    assert [True, True, False] == [bool(plan.bind) for plan in (promised, both, neither)]


@pytest.mark.parametrize(
    ("now", "passes"), [(490.0, True), (491.0, False), (510.0, True), (910.0, True), (985.0, False)]
)
def test_work_past_half_of_its_kind_is_expected_at_nine_in_ten_and_then_a_tenth_later(now: float, passes: bool) -> None:
    """`small` takes 10 s. `wide` is expected at 500, from then on at 900, and then at 990."""
    known = knows(between(), x0=(500.0, 900.0), x1=(500.0, 900.0), small=(5.0, 10.0))
    (plan,), _ = cycles(known, CONFIG, 1, now=now)
    assert passes == bool(plan.bind)


def test_a_job_that_was_let_in_by_an_estimate_and_takes_longer_breaks_no_promise() -> None:
    """Its queue is believed: the estimate was Maar's. Without an estimate the same is a broken promise."""
    passed = gang("passed", 1, gpu=1, on=["n0"], task={"started": 100.0})
    scenery = cluster(
        [node(f"n{i}", gpu=8) for i in range(3)],
        [gang(f"x{i}", 1, gpu=6, on=[f"n{i}"], promise=5000.0, task={"started": 0.0}) for i in range(3)],
        passed, gang("wide", 2, gpu=8), gang("next", 1, gpu=1, created=160.0, promise=20.0),
        locks("n0", "n1", "n2"),
    )  # fmt: skip
    known = knows(scenery, passed=(20.0, 50.0))
    (plan,), _ = cycles(known, CONFIG, 1, now=200.0)
    assert ["ns/next-0"] == [b.task for b in plan.bind]


def test_the_elected_job_gets_its_nodes_as_soon_as_they_are_empty() -> None:
    """`small` has waited all the time, and would fit first."""
    scenery = knows(between(), x0=(500.0, 900.0), x1=(500.0, 900.0), small=(1.0, 1e9))
    (plan,), after = cycles(scenery, CONFIG, 1, now=10.0)
    assert () == plan.bind
    left = replace(after, tasks=tuple(t for t in after.tasks if t.job not in ("ns/x0", "ns/x1")))
    (plan,), _ = cycles(left, CONFIG, 1, now=20.0)
    assert {"ns/wide-0", "ns/wide-1"} == {b.task for b in plan.bind}
