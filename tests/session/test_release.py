"""Gangs that run in part and cannot be completed release their room, if a controller recreates their pods."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.confs import ALLOCATE

from maar.config.config import Config
from maar.decide import decide
from maar.model.outcome import carry_out
from maar.model.selectors import Requirement
from maar.model.snapshot import Budget, Cluster, Snapshot
from maar.model.tasks import Status
from maar.testing.builders import Gang, cluster, gang, node
from maar.testing.scenario import configured, cycles

CONFIG = configured(ALLOCATE)


def half(**task: Any) -> Any:
    """Two of the three pods of a gang run."""
    return gang("half", 3, gpu=4, on=["n1", "n1"], task={"controlled": True, **task})


def test_what_cannot_be_finished_is_released() -> None:
    (plan,), _ = cycles(cluster(node("n1", gpu=8), half()), CONFIG, 1)
    assert {"ns/half-0", "ns/half-1"} == {e.task for e in plan.evict}
    assert {"ns/half"} == {e.beneficiary for e in plan.evict}
    assert plan.evict[0].reason.startswith("released: the missing pods of gang `ns/half` no longer fit")


def test_what_can_be_finished_is_finished() -> None:
    (plan,), _ = cycles(cluster(node("n1", gpu=8), node("n2", gpu=8), half()), CONFIG, 1)
    assert () == plan.evict
    assert ["ns/half-2"] == [b.task for b in plan.bind]


@pytest.mark.parametrize(
    "task", [{"controlled": False}, {"preemptable": False}, {"critical": True}, {"budgets": ("ns/pdb",)}]
)
def test_pods_that_are_not_recreated_or_are_protected_stay(task: dict[str, Any]) -> None:
    (plan,), _ = cycles(cluster(node("n1", gpu=8), half(**task), Budget("ns/pdb", 1)), CONFIG, 1)
    assert () == plan.evict


def test_a_gang_whose_pods_are_being_recreated_keeps_its_room() -> None:
    scene = cluster(node("n1", gpu=8), gang("half", 2, minimum=3, gpu=4, on=["n1", "n1"], task={"controlled": True}))
    (plan,), _ = cycles(scene, CONFIG, 1)
    assert () == plan.evict


def test_gangs_under_one_budget_are_released_as_far_as_it_allows() -> None:
    task = {"controlled": True, "budgets": ("ns/pdb",)}
    gangs = [gang(name, 3, gpu=4, on=[on, on], task=task) for name, on in (("a", "n1"), ("b", "n2"))]
    (plan,), _ = cycles(cluster(node("n1", gpu=8), node("n2", gpu=8), gangs, Budget("ns/pdb", 2)), CONFIG, 1)
    assert ["ns/a-0", "ns/a-1"] == sorted(e.task for e in plan.evict)


# -- a pod of the gang failed

BROKEN = configured(ALLOCATE.replace("{name: gang}", "{name: gang, arguments: {gang.brokenGracePeriod: 2m}}"))


def broken(minimum: int = 3, task: dict[str, Any] | None = None, **job: Any) -> Cluster:
    """The third pod of a gang failed, and nobody creates it again."""
    made = gang("g", 3, minimum=minimum, gpu=1, on=["n1"] * 3, task=task, **job)
    failed = replace(made.tasks[2], status=Status.FAILED)
    return cluster(node("n1", gpu=8), Gang(made.job, (*made.tasks[:2], failed)))


def leaves(made: Cluster, config: Config = BROKEN, most: int = 4) -> float | None:
    """When its pods are evicted, decided only at the times that plans name; `None` if never."""
    now = 1000.0
    for _ in range(most):
        plan = decide(Snapshot(made), config, now)
        made = carry_out(made, plan, now)
        if plan.evict:
            assert {"ns/g-0", "ns/g-1"} == {e.task for e in plan.evict}
            assert "released: gang `ns/g` lacks part of its minimum because a pod failed" == plan.evict[0].reason
            return now
        if plan.wake_at is None:
            return None
        now = plan.wake_at
    raise AssertionError("woken again and again")


def test_a_gang_without_its_minimum_because_a_pod_failed_leaves_after_the_grace_period() -> None:
    assert 1120.0 == leaves(broken())
    assert None is leaves(broken(), CONFIG), "off by default"
    assert None is leaves(broken(minimum=2)), "it still has its minimum"


@pytest.mark.parametrize("status", [None, Status.SUCCEEDED, Status.PENDING])
def test_a_gang_whose_pod_did_not_fail_stays(status: Status | None) -> None:
    """It ended, or is gone, or waits again, but on no node that it may use."""
    made = broken()
    *others, failed = made.tasks
    waits = replace(failed.shape, node_selector=(Requirement("zone", "In", ("nowhere",)),))
    third = [] if status is None else [replace(failed, status=status, node="", shape=waits)]
    assert None is leaves(replace(made, tasks=(*others, *third)))


@pytest.mark.parametrize(("grace", "expected"), [(30.0, 1030.0), (0.0, 1000.0), (-1.0, None)])
def test_the_job_may_set_its_own_grace_period(grace: float, expected: float | None) -> None:
    assert expected == leaves(broken(broken_grace=grace))
    assert None is leaves(broken(broken_grace=grace), CONFIG), "the configuration decides whether there is one"


def test_a_broken_gang_with_a_protected_pod_stays() -> None:
    plan = decide(Snapshot(broken(task={"preemptable": False}, broken_grace=0.0)), BROKEN, 1000.0)
    assert () == plan.evict


def test_the_time_begins_again_when_the_gang_has_had_its_minimum() -> None:
    made, whole = broken(), gang("g", 3, gpu=1, on=["n1"] * 3)
    facts = decide(Snapshot(made), BROKEN, 1000.0).facts
    again = replace(made, tasks=whole.tasks, facts=facts)
    healed = decide(Snapshot(again), BROKEN, 1060.0)
    assert ((), None) == (healed.facts, healed.wake_at)
    later = decide(Snapshot(replace(made, facts=healed.facts)), BROKEN, 1090.0)
    assert ((), 1210.0) == (later.evict, later.wake_at)
